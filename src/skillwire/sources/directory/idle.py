"""Lull: a moment in which this process has next to nothing to do. What can wait, waits for one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

_SECONDS: Final = 0.1
_SHARE: Final = 0.2
_AWAITED: Final = 30


async def wait_until_idle(sleep: Callable[[float], Awaitable[object]]) -> None:
    """Wait until so little processor time was used for a while that nobody can be waiting; not for ever.

    `sleep` is that of the event loop in use.
    """
    for _ in range(_AWAITED):
        before = time.process_time()
        await sleep(_SECONDS)
        if time.process_time() - before < _SHARE * _SECONDS:
            return
