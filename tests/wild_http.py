"""An HTTP server on loopback that sends whatever bytes a test wants."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc

from wild_stdio import CACHED, CAPABILITIES, ENTRY, SKILL, URI

RESULTS: dict[str, dict[str, Any]] = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **CACHED},
    "skills/list": {"skills": [ENTRY], **CACHED},
    "skills/get": {"skill": ENTRY, **CACHED},
    "resources/read": {"contents": [{"uri": URI, "text": SKILL.decode()}], **CACHED},
}


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request as it came, and the way to answer it."""

    verb: str
    headers: dict[str, str]
    message: dict[str, Any]
    stream: anyio.abc.ByteStream

    @property
    def method(self) -> str:
        return self.message.get("method", "")

    def result(self) -> bytes:
        """The honest answer as JSON."""
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": self.message.get("id")}
        if self.method in RESULTS:
            reply["result"] = RESULTS[self.method]
        else:
            reply["error"] = {"code": -32601, "message": "no such method"}
        return json.dumps(reply).encode()

    async def send(self, status: str, body: bytes = b"", **headers: str) -> None:
        """A whole answer. Underscores in header names are hyphens."""
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.stream.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def behave(self) -> None:
        """Answer honestly."""
        if "id" not in self.message:
            await self.send("202 Accepted")
        else:
            await self.send("200 OK", self.result(), content_type="application/json")


Respond = Callable[[Call], Awaitable[None]]


def at(method: str) -> Callable[[Respond], Respond]:
    """A decorator: answer this method so, and every other honestly."""

    def decorate(respond: Respond) -> Respond:
        async def choose(call: Call) -> None:
            await (respond(call) if call.method == method else call.behave())

        return choose

    return decorate


@asynccontextmanager
async def wild_http(respond: Respond) -> AsyncGenerator[tuple[str, list[Call]]]:
    """The URL of a server that answers each request with `respond`, and the requests so far."""
    calls: list[Call] = []

    async def handle(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
            async with stream:
                call = await _read(stream)
                calls.append(call)
                await respond(call)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"http://127.0.0.1:{port}/mcp", calls
        tasks.cancel_scope.cancel()


async def _read(stream: anyio.abc.ByteReceiveStream) -> Call:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    return Call(first.split(" ")[0], headers, json.loads(body) if body else {}, stream)  # type: ignore[arg-type]
