"""Live: tells open pages that something changed, by server-sent events.

A page receives a number, and loads itself again. What other processes approve is noticed by checking the
approvals once a second.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from skillwire.errors import SkillwireError

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost

_LOOK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.15
"""How long changes are collected before the pages are notified: a listing brings hundreds at once."""
_KEEP_ALIVE_SECONDS: Final = 15.0
MOST_STREAMS: Final = 32


class Live:
    """The number of the last change, and those waiting for the next one."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._event = anyio.Event()
        self._closed = False
        self.revision = 1
        self.streams = 0

    def changed(self) -> None:
        """Record that something that a page shows has changed."""
        self.revision += 1
        self._wake()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    async def run(self) -> None:
        """Follow the host until canceled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_host)
            tasks.start_soon(self._follow_approvals)

    async def next_change(self) -> None:
        """Wait until something changes, and for the changes that come with it."""
        await self._event.wait()
        await anyio.sleep(_PAUSE_SECONDS)

    async def stream(self, after: int) -> AsyncGenerator[bytes]:
        """The events of one page, from the first that it has not seen."""
        self.streams += 1
        try:
            yield b"retry: 2000\n\n"
            while not self._closed:
                if after != self.revision:
                    await anyio.sleep(_PAUSE_SECONDS)
                    after = self.revision
                    yield f"id: {after}\nevent: change\ndata: {after}\n\n".encode()
                    continue
                waiting = self._event
                with anyio.move_on_after(_KEEP_ALIVE_SECONDS) as scope:
                    await waiting.wait()
                if scope.cancelled_caught:
                    yield b": still here\n\n"
        finally:
            self.streams -= 1

    async def _follow_host(self) -> None:
        async for _ in self._host.log.events():
            self.changed()

    async def _follow_approvals(self) -> None:
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            # A store that cannot be read approves nothing; the page says so when it is used.
            with suppress(SkillwireError):
                if await self._host.admin.approvals.refresh():
                    self.changed()

    def _wake(self) -> None:
        event, self._event = self._event, anyio.Event()
        event.set()
