"""An event loop whose clock jumps: where nothing is left but to wait, the time has passed at once.

    @without_waiting
    async def test_silence_ends_with_the_deadline() -> None: ...

It is for tests in which everything happens in one event loop. What waits for a thread, a socket or a process
would see its deadlines pass while the other side still works.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

import pytest


class _Selector(selectors.DefaultSelector):
    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(timeout if timeout is None else 0)
        if timeout and not ready:
            self.skipped += timeout
        return ready


class TimelessLoop(asyncio.SelectorEventLoop):
    """An event loop that waits for no timer."""

    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return super().time() + self._skipping.skipped


without_waiting = pytest.mark.parametrize(
    "anyio_backend", [pytest.param(("asyncio", {"loop_factory": TimelessLoop}), id="timeless")]
)
"""Runs a test on this loop."""
