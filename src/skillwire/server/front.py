"""HttpFront: the fast lane over HTTP, in front of the SDK's application.

A request goes through the lane when everything about it is as the SDK would have it: path, method, headers
and body. Anything else, an odd header, a session, a stream, an origin, is passed on untouched, body and all.
Authentication stands before this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from skillwire.server.lane import ERA, METHOD_READ, FastLane, LaneRequest
from skillwire.server.late import LateApp, Message, Receive, Scope, Send

_MOST_BODY: Final = 65_536
_ACCEPTED: Final = frozenset(
    {
        b"application/json, text/event-stream",
        b"application/json,text/event-stream",
        b"text/event-stream, application/json",
        b"text/event-stream,application/json",
    }
)
# Headers that say nothing about the request itself. With any other one the request is the SDK's.
_HARMLESS: Final = frozenset(
    {
        b"accept-encoding",
        b"accept-language",
        b"authorization",
        b"cache-control",
        b"connection",
        b"pragma",
        b"user-agent",
    }
    | {b"sec-fetch-mode", b"traceparent", b"tracestate"}
)
_CHECKED: Final = frozenset(
    {
        b"accept",
        b"content-length",
        b"content-type",
        b"host",
        b"mcp-method",
        b"mcp-name",
        b"mcp-protocol-version",
    }
)
_UNDERSTOOD: Final = _HARMLESS | _CHECKED


class HttpFront:
    """Answers what the lane can, gives the rest to the application behind, and says that it is well."""

    def __init__(
        self, lane: FastLane | None, behind: LateApp, *, path: str, health: str, hosts: Iterable[str]
    ) -> None:
        self._lane = lane
        self._behind = behind
        self._path = path
        self._health = health
        self._hosts = frozenset(host.encode("ascii") for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await _lifespan(self._behind, receive, send)
            case "http" if scope["path"] == self._health:
                await _say_well(scope, send)
            case "http" if self._lane is not None and scope["path"] == self._path:
                await self._answer(self._lane, scope, receive, send)
            case _:
                await self._behind(scope, receive, send)

    async def _answer(self, lane: FastLane, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self._headers(scope)
        if headers is None:
            await self._behind(scope, receive, send)
            return
        length = int(headers[b"content-length"])
        messages: list[Message] = []
        body = b""
        while True:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                break
            body += message.get("body", b"")
            if not message.get("more_body", False) or len(body) > length:
                break
        whole = messages[-1]["type"] == "http.request" and len(body) == length
        request = lane.match(body) if whole else None
        answer = await lane.answer(request) if request is not None and _agrees(request, headers) else None
        if answer is None:
            await self._behind(scope, _again(messages, receive), send)
            return
        start = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": start})
        await send({"type": "http.response.body", "body": answer})

    def _headers(self, scope: Scope) -> dict[bytes, bytes] | None:
        """The headers of a request that the lane may take, or `None`."""
        if scope["method"] != "POST" or scope.get("query_string"):
            return None
        raw: list[tuple[bytes, bytes]] = scope["headers"]
        headers = dict(raw)
        if len(headers) != len(raw) or not _UNDERSTOOD.issuperset(headers):
            return None
        get = headers.get
        length = get(b"content-length", b"")
        if (
            get(b"content-type") != b"application/json"
            or get(b"accept") not in _ACCEPTED
            or get(b"mcp-protocol-version") != ERA.encode("ascii")
            or not length.isdigit()
            or len(length) > 6
            or int(length) > _MOST_BODY
            or get(b"host", b"").rpartition(b":")[0] not in self._hosts
        ):
            return None
        return headers


def _agrees(request: LaneRequest, headers: dict[bytes, bytes]) -> bool:
    """Whether the headers name the method and the resource that the body names."""
    if headers.get(b"mcp-method") != request.method.encode("ascii"):
        return False
    if request.method != METHOD_READ:
        return True
    uri = request.uri or ""
    return uri.isascii() and uri.isprintable() and headers.get(b"mcp-name") == uri.encode("ascii")


def _again(messages: list[Message], receive: Receive) -> Receive:
    """The messages that were taken already, then those that follow."""
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay


async def _say_well(scope: Scope, send: Send) -> None:
    is_asked = scope["method"] in ("GET", "HEAD")
    body = b"ok\n" if is_asked else b"Method Not Allowed"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    if not is_asked:
        headers.append((b"allow", b"GET, HEAD"))
    await send({"type": "http.response.start", "status": 200 if is_asked else 405, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def _lifespan(behind: LateApp, receive: Receive, send: Send) -> None:
    """Keep the application behind alive between start-up and shutdown."""
    stopping = asyncio.Event()
    await receive()
    living = asyncio.ensure_future(behind.live(stopping))
    await asyncio.sleep(0)  # Let it stand before the first request comes.
    await send({"type": "lifespan.startup.complete"})
    await receive()
    stopping.set()
    await living
    await send({"type": "lifespan.shutdown.complete"})
