"""LazyApp: an ASGI application that is made when it is first needed.

Importing the SDK takes longer than reading a hundred skills. Most requests never need it, so the socket is
open and answering before it is there; the first request that does need it waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class LifespanApp(Protocol):
    """An application with something to open and close around it."""

    def lifespan(self) -> AbstractAsyncContextManager[object]: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class LazyApp:
    """Stands for an application that `load` makes in a thread, once. `live` keeps it open meanwhile."""

    def __init__(
        self, load: Callable[[], LifespanApp], around: Callable[[], AbstractAsyncContextManager[object]]
    ) -> None:
        self._load = load
        self._around = around
        self._needed = asyncio.Event()
        self._ready: asyncio.Future[LifespanApp] | None = None

    async def live(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        """Wait until the application is needed, open it, and close it when the server stops."""
        async with self._around():
            self._ready = asyncio.get_running_loop().create_future()
            started.set()
            await self._live(self._ready, stopping)

    async def _live(self, ready: asyncio.Future[LifespanApp], stopping: asyncio.Event) -> None:
        needed = asyncio.ensure_future(self._needed.wait())
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({needed, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not self._needed.is_set():
                return
            try:
                app = await asyncio.to_thread(self._load)
                async with app.lifespan():
                    ready.set_result(app)
                    await stopped
            except Exception as error:
                if not ready.done():
                    ready.set_exception(error)
                raise
        finally:
            needed.cancel()
            stopped.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ready is None:
            raise RuntimeError("the application is not open; run it under a server that starts lifespans")
        self._needed.set()
        app = await asyncio.shield(self._ready)
        await app(scope, receive, send)
