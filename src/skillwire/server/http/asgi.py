"""ASGI types, small responses, and an application that is created on first use."""

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
Headers: TypeAlias = list[tuple[bytes, bytes]]

TEXT = b"text/plain; charset=utf-8"
_EVENT_STREAM = b"text/event-stream"


async def respond(
    scope: Scope, send: Send, status: int, body: str, *, media: bytes = TEXT, headers: Headers | None = None
) -> None:
    """Send a whole response."""
    data = body.encode("utf-8")
    lines = [(b"content-type", media), (b"content-length", b"%d" % len(data)), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else data})


async def refuse_method(scope: Scope, send: Send) -> bool:
    """Respond to a method other than GET and HEAD. Returns whether it was one."""
    if scope["method"] in ("GET", "HEAD"):
        return False
    await respond(scope, send, 405, "Method Not Allowed\n", headers=[(b"allow", b"GET, HEAD")])
    return True


class StoppableApp:
    """An application that knows how many connections its server has, and that can end its event streams."""

    def __init__(self) -> None:
        self.connections: Callable[[], int] = lambda: 0

    def end_streams(self) -> None:
        """End the event streams that clients keep open."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError


class LifespanApp(Protocol):
    """An application with a lifespan."""

    def lifespan(self) -> AbstractAsyncContextManager[object]: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class LazyApp:
    """An application that `load` creates in a thread for the first request.

    Importing the SDK takes longer than reading a hundred skills, and most requests never need it. `around` is
    open while this application runs.
    """

    def __init__(
        self, load: Callable[[], LifespanApp], around: Callable[[], AbstractAsyncContextManager[object]]
    ) -> None:
        self._load = load
        self._around = around
        self._needed = asyncio.Event()
        self._ready: asyncio.Future[LifespanApp] | None = None

    async def run_lifespan(self, receive: Receive, send: Send) -> None:
        """The ASGI lifespan protocol."""
        stopping, started = asyncio.Event(), asyncio.Event()
        await receive()
        running = asyncio.ensure_future(self.run(stopping, started))
        starting = asyncio.ensure_future(started.wait())
        await asyncio.wait({running, starting}, return_when=asyncio.FIRST_COMPLETED)
        starting.cancel()
        if running.done():
            await running  # Raises the error of `around`.
        await send({"type": "lifespan.startup.complete"})
        await receive()
        stopping.set()
        await running
        await send({"type": "lifespan.shutdown.complete"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._ready is None:
            raise RuntimeError("the application is not running; use an ASGI server that supports lifespans")
        self._needed.set()
        app = await asyncio.shield(self._ready)
        await app(scope, receive, send)

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        """Run until `stopping` is set. `started` is set once requests are accepted."""
        async with self._around():
            ready = self._ready = asyncio.get_running_loop().create_future()
            started.set()
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


class OpenRequest:
    """A request that is not over, and that may have become an event stream."""

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.ending = asyncio.Event()
        self.streaming = asyncio.Event()

    def end(self) -> None:
        """Let the application see its client as disconnected, as soon as the response is a stream."""
        self.ending.set()

    async def ended(self) -> None:
        """Wait until this response is a stream and must end."""
        await self.ending.wait()
        await self.streaming.wait()


class EventStreams:
    """Passes every request on. After `end`, event streams see their client as disconnected.

    Otherwise a server that stops would wait for clients with open streams, and then disconnect them.
    """

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._is_ending = False
        self.requests: set[OpenRequest] = set()
        """Those that are not over."""

    def end(self) -> None:
        self._is_ending = True
        for request in self.requests:
            request.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = is_read = False
        request = OpenRequest(scope["headers"])
        streaming = request.streaming

        async def observe(message: Message) -> None:
            nonlocal is_open
            if message["type"] == "http.response.start":
                for name, value in message["headers"]:
                    if name.lower() == b"content-type" and value.startswith(_EVENT_STREAM):
                        streaming.set()
            is_open = streaming.is_set() and message.get("more_body", True)
            await send(message)

        async def receive_or_end() -> Message:
            nonlocal is_read
            if not is_read and scope["method"] != "GET":
                message = await receive()
                is_read = not message.get("more_body", False)
                return message
            # The request is complete, so the next message is a disconnect. A stream may begin later.
            incoming = asyncio.ensure_future(receive())
            ended = asyncio.ensure_future(request.ended())
            try:
                await asyncio.wait({incoming, ended}, return_when=asyncio.FIRST_COMPLETED)
                return incoming.result() if incoming.done() else {"type": "http.disconnect"}
            finally:
                incoming.cancel()
                ended.cancel()

        if self._is_ending:
            request.end()
        self.requests.add(request)
        try:
            await self._app(scope, receive_or_end, observe)
        finally:
            self.requests.remove(request)
        if is_open and request.ending.is_set():
            # The client is still connected: end its stream properly.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
