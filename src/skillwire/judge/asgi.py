"""An ASGI application of this process, started for as long as it is judged."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

import anyio

from skillwire.errors import SourceError
from skillwire.issues import shown

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
_BUILDERS = ("http_app", "streamable_http_app")


def app_of(server: object) -> App | None:
    """The application of a server object, or the object itself when it is one, or `None`."""
    for name in _BUILDERS:
        build = getattr(server, name, None)
        if callable(build):
            return cast("App", build())
    return cast("App", server) if callable(server) else None


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[None]:
    """Tell an application to start, and to stop on the way out. One that knows no lifespan just runs."""
    started, stopping, ended = anyio.Event(), anyio.Event(), anyio.Event()
    orders: list[Message] = [{"type": "lifespan.startup"}]
    failure: list[str] = []

    async def receive() -> Message:
        if orders:
            return orders.pop()
        await stopping.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: Message) -> None:
        if message["type"] == "lifespan.startup.failed":
            failure.append(str(message.get("message", "")))
        started.set()

    async def run() -> None:
        try:
            await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
        except Exception:
            if started.is_set():
                raise
        finally:
            started.set()
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await started.wait()
        if failure:
            raise SourceError(f"the application did not start: {shown(failure[0])}")
        try:
            yield
        finally:
            stopping.set()
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await ended.wait()
            tasks.cancel_scope.cancel()
