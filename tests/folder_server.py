"""Skills of folders over HTTP, from a thread of this process: a test of a client starts no server of its own.

A folder is read again for every request. So an edit counts from the next one, and no test waits for a watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import anyio
from anyio.from_thread import start_blocking_portal

from skillwire import SkillServer
from skillwire.server import Address, Asgi, HttpServer, Message, Receive, Scope, Send, ServerOptions

_MCP = "/mcp"


class FolderServer:
    """The URL of any folder. `url` is where the server listens."""

    def __init__(self, url: str) -> None:
        self._url = url

    def at(self, folder: str | Path, *, ttl_ms: int = 0) -> str:
        """The URL of the skills in a folder, which must be there when a request comes."""
        return f"{self._url}/{ttl_ms}{quote(str(Path(folder).absolute()))}{_MCP}"


@contextmanager
def folder_server() -> Generator[FolderServer]:
    """A server of folders until the end of the block."""
    with in_thread(_respond) as url:
        yield FolderServer(url)


@contextmanager
def in_thread(app: Asgi) -> Generator[str]:
    """Where an application is served until the end of the block, without a path."""
    with start_blocking_portal() as portal:
        server = HttpServer(app, Address("127.0.0.1", 0), path="")
        serving = portal.start_task_soon(server.serve)
        try:
            yield server.url
        finally:
            portal.call(server.stop)
            serving.result(30)


@asynccontextmanager
async def in_task(app: Asgi, **options: Any) -> AsyncGenerator[HttpServer]:
    """An application that is served by the event loop of the test until the end of the block."""
    server = HttpServer(app, Address("127.0.0.1", 0), **options)
    serving = asyncio.ensure_future(server.serve())
    try:
        yield server
    finally:
        server.stop()
        await serving


def port_of(server: HttpServer) -> int:
    return urlsplit(server.url).port or 0


async def acknowledge(receive: Receive, send: Send) -> None:
    """The lifespan of an application that has nothing to start and nothing to end."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def _respond(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await acknowledge(receive, send)
        return
    ttl, _, folder = unquote(scope["path"]).removesuffix(_MCP).lstrip("/").partition("/")
    options = ServerOptions(ttl_ms=int(ttl), watch=False)
    async with _started(SkillServer(f"/{folder}", options=options).http_app(stateless=True)) as app:
        await app({**scope, "path": _MCP, "raw_path": _MCP.encode()}, receive, send)


@asynccontextmanager
async def _started(app: Asgi) -> AsyncGenerator[Asgi]:
    """An application between the start and the end of its lifespan."""
    ready, ended = anyio.Event(), anyio.Event()
    received = iter(({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}))

    async def receive() -> Message:
        message = next(received)
        if message["type"] == "lifespan.shutdown":
            await ended.wait()
        return message

    async def send(message: Message) -> None:
        assert not message["type"].endswith("failed"), message
        ready.set()

    async def live() -> None:
        await app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live)
        await ready.wait()
        yield app
        ended.set()
