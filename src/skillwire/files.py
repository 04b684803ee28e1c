"""Writing a file so that readers see the old content or the new, never a part of it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

UNFINISHED: Final = ".unfinished"
"""The suffix of a file that is still being written. One that is left over after a crash may be deleted."""

_BUFFER_BYTES: Final = 64 * 1024


@contextmanager
def atomic_writer(path: Path, *, mode: int = 0o600) -> Generator[BinaryIO]:
    """A stream whose content replaces `path` when the block ends; after an error, `path` is as it was.

    The directory must exist. The new file gets `mode`, whatever the umask; by default only its owner can
    read it.
    """
    import tempfile  # Here: it takes long, and a server that only reads never needs it.

    descriptor, name = tempfile.mkstemp(prefix=".new-", suffix=UNFINISHED, dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb", _BUFFER_BYTES) as stream:
            yield stream
        if mode != 0o600:  # the mode that `mkstemp` gives
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of `path` with `data` in one step."""
    with atomic_writer(path, mode=mode) as stream:
        stream.write(data)
