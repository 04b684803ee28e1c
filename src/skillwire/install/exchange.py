"""Exchanging two folders or links in one step, where the system supports it."""

from __future__ import annotations

import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CURRENT_DIRECTORY: Final = -100
_EXCHANGE: Final = 2
_UNKNOWN: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def exchange(one: Path, other: Path) -> bool:
    """Exchange what is at two paths in one step; false when the system cannot do that."""
    call = _system_call()
    if call is None:
        return False
    code = call(os.fsencode(one), os.fsencode(other))
    if code == 0:
        return True
    if code in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(other))


@cache
def _system_call() -> Callable[[bytes, bytes], int] | None:
    if sys.platform == "win32":
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        function = getattr(library, "renamex_np", None)
        if function is None:
            return None
        return lambda one, other: 0 if function(one, other, _EXCHANGE) == 0 else ctypes.get_errno()
    function = getattr(library, "renameat2", None)
    if function is None:
        return None
    at = _CURRENT_DIRECTORY
    return lambda one, other: 0 if function(at, one, at, other, _EXCHANGE) == 0 else ctypes.get_errno()
