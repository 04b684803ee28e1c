"""FastPathMiddleware: the fast lane over HTTP, in front of the SDK's application.

A request goes through the lane when everything about it is as the SDK would have it: path, method, headers
and body. Anything else, an odd header, a session, a stream, an origin, is passed on untouched, body and all.
Authentication stands before this.
"""

from __future__ import annotations

import asyncio

from skillwire.server.fastpath.parse import FastPath
from skillwire.server.heads import HeadRules, RequestHead
from skillwire.server.http.lazy import LazyApp, Message, Receive, Scope, Send


class FastPathMiddleware:
    """Answers what the lane can, gives the rest to the application behind, and says that it is well."""

    def __init__(self, lane: FastPath | None, behind: LazyApp, *, rules: HeadRules, health: str) -> None:
        self._lane = lane
        self._behind = behind
        self._rules = rules
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await _lifespan(self._behind, receive, send)
            case "http" if scope["path"] == self._health:
                await _say_well(scope, send)
            case "http" if self._lane is not None and scope["path"] == self._rules.path:
                await self._answer(self._lane, scope, receive, send)
            case _:
                await self._behind(scope, receive, send)

    async def _answer(self, lane: FastPath, scope: Scope, receive: Receive, send: Send) -> None:
        is_plain = scope["method"] == "POST" and not scope.get("query_string")
        head = self._rules.check(scope["headers"]) if is_plain else None
        if head is None:
            await self._behind(scope, receive, send)
            return
        messages: list[Message] = []
        body = b""
        while True:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                break
            body += message.get("body", b"")
            if not message.get("more_body", False) or len(body) > head.length:
                break
        is_whole = messages[-1]["type"] == "http.request" and len(body) == head.length
        answer = await _answer(lane, head, body) if is_whole else None
        if answer is None:
            await self._behind(scope, _again(messages, receive), send)
            return
        start = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": start})
        await send({"type": "http.response.body", "body": answer})


async def _answer(lane: FastPath, head: RequestHead, body: bytes) -> bytes | None:
    """The answer from the lane, when it has one and the head says of the body what is in it."""
    again = lane.again(body)
    if again is not None:
        id_json, kept = again
        return kept.to(id_json) if head.fits(kept.method, kept.name) else None
    request = lane.match(body)
    if request is None or not head.fits(request.method.encode("ascii"), request.name):
        return None
    return await lane.answer(request)


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


async def _lifespan(behind: LazyApp, receive: Receive, send: Send) -> None:
    """Keep the application behind alive between start-up and shutdown."""
    stopping, started = asyncio.Event(), asyncio.Event()
    await receive()
    living = asyncio.ensure_future(behind.live(stopping, started))
    starting = asyncio.ensure_future(started.wait())
    await asyncio.wait({living, starting}, return_when=asyncio.FIRST_COMPLETED)
    starting.cancel()
    if living.done():
        await living  # Raises what kept it from opening.
    await send({"type": "lifespan.startup.complete"})
    await receive()
    stopping.set()
    await living
    await send({"type": "lifespan.shutdown.complete"})
