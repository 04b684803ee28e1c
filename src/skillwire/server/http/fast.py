"""FastPathMiddleware: tries the fast path before the SDK's application.

A request is eligible if its method, headers and body are exactly what the SDK expects. Any other request, for
example with an unknown header, a session or an origin, is passed on unchanged. Authentication and the check
of `Host` come before this.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from skillwire.server.fastpath.answer import FastPath
from skillwire.server.fastpath.parse import ERA
from skillwire.server.http.asgi import Asgi, Headers, Message, Receive, Scope, Send

_MOST_BODY: Final = 65_536
_ACCEPTED: Final = frozenset(
    {
        b"application/json, text/event-stream",
        b"application/json,text/event-stream",
        b"text/event-stream, application/json",
        b"text/event-stream,application/json",
    }
)
# Headers that do not change the meaning of a request. With any other header, the request is for the SDK.
_HARMLESS: Final = frozenset(
    {
        b"accept-encoding",
        b"accept-language",
        b"authorization",
        b"cache-control",
        b"connection",
        b"pragma",
        b"sec-fetch-mode",
        b"traceparent",
        b"tracestate",
        b"user-agent",
    }
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
_KNOWN: Final = _HARMLESS | _CHECKED
_VERSION: Final = ERA.encode("ascii")


class RequestHead(NamedTuple):
    """What the headers of an eligible request require of its body."""

    length: int
    method: bytes
    name: bytes

    def matches(self, method: bytes, name: bytes | None) -> bool:
        """Whether the headers match the body. A `name` of `None` is not compared."""
        return self.method == method and (name is None or self.name == name)


class FastPathMiddleware:
    """Responds through the fast path if possible, and passes everything else on."""

    def __init__(self, fast_path: FastPath, app: Asgi) -> None:
        self._fast_path = fast_path
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_eligible = scope["method"] == "POST" and not scope["query_string"]
        head = check_headers(scope["headers"]) if is_eligible else None
        if head is None:
            await self._app(scope, receive, send)
            return
        message = await receive()
        body: bytes = message.get("body", b"")
        messages = [message]
        while message.get("more_body", False) and len(body) <= head.length:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
        is_whole = message["type"] == "http.request" and len(body) == head.length
        response = await self._respond(head, body) if is_whole else None
        if response is None:
            await self._app(scope, _replay(messages, receive), send)
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(response))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": response})

    async def _respond(self, head: RequestHead, body: bytes) -> bytes | None:
        found = self._fast_path.cached(body)
        if found is not None:
            id_json, cached = found
            return cached.to(id_json) if head.matches(cached.method, cached.name) else None
        request = self._fast_path.parse(body)
        if request is None or not head.matches(request.method.encode("ascii"), request.name):
            return None
        return await self._fast_path.respond(request)


def check_headers(headers: Headers) -> RequestHead | None:
    """The requirements of an eligible request; `None` for a request that is for the SDK."""
    known = dict(headers)
    if len(known) != len(headers) or not _KNOWN.issuperset(known):
        return None
    get = known.get
    length = get(b"content-length", b"")
    if (
        get(b"content-type") != b"application/json"
        or get(b"accept") not in _ACCEPTED
        or get(b"mcp-protocol-version") != _VERSION
        or not length.isdigit()
        or len(length) > 6
        or int(length) > _MOST_BODY
    ):
        return None
    return RequestHead(int(length), get(b"mcp-method", b""), get(b"mcp-name", b""))


def _replay(messages: list[Message], receive: Receive) -> Receive:
    """The messages already received, then those that follow."""
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
