"""ASGI types, small responses, and an application that is created on first use."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from skillwire.access import Caller
from skillwire.documents import JsonValue, check_json, is_object, read_json
from skillwire.errors import LimitExceeded
from skillwire.limits import Limits
from skillwire.text import shown

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

TEXT: Final = b"text/plain; charset=utf-8"
JSON: Final = b"application/json"
CALLER: Final = "skillwire.caller"
"""Where a request's scope has its caller."""
_EVENT_STREAM: Final = b"text/event-stream"


async def respond(
    scope: Scope, send: Send, status: int, body: str, *, media: bytes = TEXT, headers: Headers | None = None
) -> None:
    """Send a whole response."""
    data = body.encode("utf-8")
    lines = [(b"content-type", media), (b"content-length", b"%d" % len(data)), *(headers or ())]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else data})


async def respond_json(scope: Scope, send: Send, status: int, value: object) -> None:
    """Send a JSON value as a whole response."""
    await respond(scope, send, status, json.dumps(value, ensure_ascii=False) + "\n", media=JSON)


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

    def __init__(self, headers: Headers, caller: Caller | None) -> None:
        self.headers = headers
        self.caller = caller
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
        request = OpenRequest(scope["headers"], scope.get(CALLER))
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


@dataclass(frozen=True, slots=True)
class PeekedBody:
    """The beginning of a request, for somebody who looks at it before it is served."""

    data: bytes
    """The whole body, or nothing of one that is too long."""
    receive: Receive
    """Receives the messages of the request from the first one on."""

    @classmethod
    async def read(cls, receive: Receive, limits: Limits) -> PeekedBody:
        """Read a body up to the limit."""
        messages: list[Message] = []
        data = bytearray()
        while True:
            message = await receive()
            messages.append(message)
            data += message.get("body", b"")
            if len(data) > limits.http_body_bytes:
                return cls(b"", replay(messages, receive))
            if message["type"] != "http.request" or not message.get("more_body", False):
                return cls(bytes(data), replay(messages, receive))


async def parse_json(data: bytes | str, limits: Limits, *, what: str = "the request") -> JsonValue:
    """The value of a JSON text of a client, within the limits of documents.

    One over `http_loop_bytes` is parsed in a thread, so that nobody else waits for it.
    """
    if len(data) > limits.http_loop_bytes:
        return await asyncio.to_thread(read_json, data, what=what, limits=limits)
    return read_json(data, what=what, limits=limits)


class BodyGate:
    """Passes on requests whose body is not too long and has not too many values.

    A body over `http_loop_bytes`, which no client needs, is counted in a thread, and few of them are read at
    once. What passes costs the SDK's parser, which runs on the event loop, a few milliseconds at most: see
    docs/decisions/requests-are-counted-before-they-are-parsed.md.
    """

    def __init__(self, app: Asgi, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._large = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        limits = self._limits
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit() or len(length) > 18 or int(length) > limits.http_body_bytes:
            await self._refuse(scope, send)
            return
        chunks: list[Message] = []
        size, is_large = 0, False
        try:
            while True:
                message = await receive()
                chunks.append(message)
                size += len(message.get("body", b""))
                if size > limits.http_body_bytes:
                    await self._refuse(scope, send)
                    return
                if size > limits.http_loop_bytes and not is_large:
                    if self._large >= limits.http_large_bodies:
                        text = (
                            f"Too many requests of over {limits.http_loop_bytes:,} bytes; try again later.\n"
                        )
                        await respond(scope, send, 503, text, headers=[(b"retry-after", b"1")])
                        return
                    is_large = True
                    self._large += 1
                if message["type"] != "http.request" or not message.get("more_body", False):
                    break
            body = b"".join(chunk.get("body", b"") for chunk in chunks)
            try:
                if is_large:
                    await asyncio.to_thread(check_json, body)
                else:
                    check_json(body)
            except LimitExceeded:
                await respond(scope, send, 413, "The body of the request has too many values.\n")
                return
        finally:
            self._large -= is_large
        await self._app(scope, replay(chunks, receive), send)

    async def _refuse(self, scope: Scope, send: Send) -> None:
        text = f"The body of a request has at most {self._limits.http_body_bytes:,} bytes.\n"
        await respond(scope, send, 413, text)


def replay(messages: list[Message], receive: Receive) -> Receive:
    """The messages already received, then those that follow."""
    waiting = iter(messages)

    async def replaying() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replaying


METRICS_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
# The methods that have their own label. All others share one, so that clients cannot create labels.
_METHODS: Final = frozenset(
    {
        "initialize",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    }
)
_MOST_BODY: Final = 16_384
"""The method of a longer body is not looked for."""
_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

access_log = logging.getLogger("skillwire.access")


class Request:
    """One request in progress. `user` is the name of its caller."""

    __slots__ = ("_body", "_header", "_receive", "bytes", "send", "started", "status", "user")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._header = dict(scope["headers"]).get(b"mcp-method", b"").decode("latin-1")
        self._receive = receive
        self._body = bytearray()
        self.send = send
        self.started = time.perf_counter()
        self.status = 0
        self.bytes = 0
        self.user = ""

    @property
    def receive(self) -> Receive:
        """Receives the messages of the request. Without an `Mcp-Method` header, the body is remembered."""
        return self._receive if self._header else self._remember

    @property
    def method(self) -> str:
        """The MCP method: that of the header, or in requests of 2025 that of the body; empty if unknown."""
        if self._header or not self._body or len(self._body) > _MOST_BODY:
            return self._header
        try:
            message: object = json.loads(self._body)
        except (ValueError, RecursionError):
            return ""
        method = message.get("method") if is_object(message) else None
        return method if isinstance(method, str) else ""

    async def _remember(self) -> Message:
        message = await self._receive()
        if len(self._body) <= _MOST_BODY:
            self._body += message.get("body", b"")[: _MOST_BODY + 1]
        return message

    def observe(self, message: Message) -> Awaitable[None]:
        """Send a message of the response and record its status and size."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.bytes += len(message.get("body", b""))
        return self.send(message)


class Telemetry:
    """Counts requests, and logs them if the logger `skillwire.access` is enabled."""

    def __init__(self) -> None:
        self.started = time.time()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0
        self._warned: dict[str, tuple[float, int]] = {}

    def finish(self, scope: Scope, request: Request) -> None:
        """Count and log a completed request."""
        seconds = time.perf_counter() - request.started
        method = request.method
        self._requests[method if method in _METHODS else "other", request.status] += 1
        self._buckets[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds += seconds
        if access_log.isEnabledFor(logging.INFO):
            fields = {
                "client": (scope.get("client") or ("-",))[0],
                "user": request.user or "-",
                "method": scope["method"],
                "path": shown(scope["path"], 200),
                "mcp_method": shown(method, 100) or "-",
                "status": request.status,
                "bytes": request.bytes,
                "ms": round(seconds * 1000, 2),
            }
            access_log.info("%s %s %s %s %s %s %s bytes %s ms", *fields.values(), extra={"fields": fields})

    def warn(self, log: logging.Logger, kind: str, text: str) -> None:
        """Log a warning, but only one of a kind per second, so that nobody can fill the disk."""
        now = time.monotonic()
        last, held = self._warned.get(kind, (-1.0, 0))
        if now - last < 1:
            self._warned[kind] = (last, held + 1)
            return
        self._warned[kind] = (now, 0)
        log.warning("%s%s", text, f" ({held} more like it)" if held else "")

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """The metrics in the Prometheus text format. `gauges` are further values, with their help texts."""
        lines: list[str] = []
        for name, (help_text, value) in gauges.items():
            lines += [f"# HELP skillwire_{name} {help_text}", f"# TYPE skillwire_{name} gauge"]
            lines.append(f"skillwire_{name} {value:g}" if value < 1e6 else f"skillwire_{name} {value:.0f}")
        lines += [
            "# HELP skillwire_http_requests_total HTTP requests by MCP method and status.",
            "# TYPE skillwire_http_requests_total counter",
        ]
        for (method, status), count in sorted(self._requests.items()):
            lines.append(f'skillwire_http_requests_total{{method="{method}",status="{status}"}} {count}')
        lines += [
            "# HELP skillwire_http_request_seconds Time from a request's head to the end of its response.",
            "# TYPE skillwire_http_request_seconds histogram",
        ]
        total = 0
        for bound, count in zip((*_BUCKETS, "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'skillwire_http_request_seconds_bucket{{le="{bound}"}} {total}')
        lines.append(f"skillwire_http_request_seconds_sum {self._seconds:.6f}")
        lines.append(f"skillwire_http_request_seconds_count {total}")
        return "\n".join([*lines, ""])
