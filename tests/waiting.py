"""Waiting without losing time: until something is so, and by a clock that the test sets forward."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

PATIENCE = 120
"""Seconds until a test fails that would otherwise wait for ever."""
_SKIPS = 5
"""How often the clock is set forward. After that, what is late is waited for."""


async def until(condition: Callable[[], object], *, every: float = 0) -> None:
    """Wait for something that there is no event for.

    If it is found by looking `every` few seconds, the clock is set forward for the first looks.
    """
    waited = 0
    with anyio.fail_after(PATIENCE + _SKIPS * every):
        while not condition():
            if every and waited < _SKIPS:
                _skip(every)
            waited += 1
            await anyio.sleep(0.02)


def eventually(condition: Callable[[], object], *, patience: float = PATIENCE) -> None:
    """Return once something is so that another process or thread brings about without telling us."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.02)


async def pass_time(seconds: float, *, once: Callable[[], object] = lambda: True) -> None:
    """Set the clock of this test's event loop forward, once something is so.

    What became due is done when this returns, except for what waits for a thread or another process.
    """
    await until(once)
    _skip(seconds)
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()


def _skip(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


async def until_answered(ask: Callable[[], Awaitable[object]]) -> None:
    """Ask again and again until the answer is true."""
    with anyio.fail_after(PATIENCE):
        while not await ask():  # noqa: ASYNC110
            await anyio.sleep(0.02)
