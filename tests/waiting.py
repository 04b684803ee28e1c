"""Waiting without losing time: until something is so, and by a clock that the test sets forward."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
import anyio.lowlevel

PATIENCE = 120
"""Seconds until a test fails that would otherwise wait for ever."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that there is no event for."""
    with anyio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def pass_time(seconds: float, *, once: Callable[[], object] = lambda: True) -> None:
    """Set the clock of this test's event loop forward, once something is so. What became due is done when this
    returns, except for what waits for a thread or another process."""
    await until(once)
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()
