"""Requests of both eras, and servers to send them to, with the fast path and without.

Those of 2026-07-28 go as raw HTTP, those of the 2025 revisions over pipes.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from folder_server import in_task, port_of
from skillwire.server import ServerOptions, SkillServer
from skillwire.server.fastpath import FastPath
from skillwire.server.stdio import serve_lines
from skillwire.sources import Source
from trees import skill_md, write

VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META: dict[str, Any] = {VERSION: "2026-07-28", CLIENT: {"name": "t", "version": "1"}, CAPABILITIES: {}}
SKILL = "skill://acme/refunds/SKILL.md"
FILE = "skill://acme/refunds/data/raw.bin"
HEADERS = {
    "Host": "127.0.0.1:80",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2026-07-28",
}


def body(method: str, *, meta: Any = META, id: Any = 7, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta, **params}}


def meta(**changes: Any) -> dict[str, Any]:
    names = {"version": VERSION, "client": CLIENT, "capabilities": CAPABILITIES}
    changed = {**META, **{names.get(key, key): value for key, value in changes.items()}}
    return {key: value for key, value in changed.items() if value is not ...}


LIST, GET, READ = body("skills/list"), body("skills/get", uri=SKILL), body("resources/read", uri=SKILL)
DIRECTORY = body("resources/directory/read", uri="skill://acme/refunds")
DISCOVER = body("server/discover")


class CountingFastPath(FastPath):
    """The fast path, counting its responses and those from its cache."""

    given = 0
    repeated = 0

    def cached(self, body: bytes) -> Any:
        found = super().cached(body)
        self.repeated += found is not None
        return found

    async def respond(self, request: Any) -> bytes | None:
        answer = await super().respond(request)
        self.given += answer is not None
        return answer


@asynccontextmanager
async def running(
    folder: Path | Source, *, fast: bool, **options: Any
) -> AsyncGenerator[tuple[int, SkillServer]]:
    named = {key: options.pop(key) for key in ("name", "instructions") if key in options}
    server = SkillServer(folder, fast=fast, options=ServerOptions(page_size=2, **options), **named)
    if fast:
        server._fast_path.__class__ = CountingFastPath  # pyright: ignore
    async with in_task(server.http_app()) as http:
        yield port_of(http), server


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file looks as if it had been written ten seconds ago: one just written is never kept."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10_000_000_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fast_path")
    refunds = folder / "acme/refunds"
    described = json.dumps('Pays "money" back: ü, \u2028 and <b>.', ensure_ascii=False)
    write(refunds / "SKILL.md", skill_md("refunds", described))
    write(refunds / "inner/SKILL.md", skill_md("inner"))
    write(refunds / "data/raw.bin", bytes(range(256)))
    write(refunds / "data/empty.txt", b"")
    write(refunds / "data/bom.txt", b"\xef\xbb\xbfa\r\nb\x00")
    write(refunds / "data/a b%.md", b"# odd")
    (refunds / "void").mkdir()
    for name in ("one", "two", "three"):
        write(folder / name / "SKILL.md", skill_md(name))
    return folder


def request(message: Any, changes: dict[str, str | None] | None = None, *, extra: str = "") -> bytes:
    """A request as it goes over the wire. `changes` are headers put in place of the usual ones."""
    data = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
    given = message if isinstance(message, dict) else {}
    method, params = given.get("method"), given.get("params")
    uri = params.get("uri") if isinstance(params, dict) else None
    headers: dict[str, str | None] = {**HEADERS}
    if isinstance(method, str):
        headers["Mcp-Method"] = method
    if isinstance(uri, str) and method == "resources/read" and uri.isascii():
        headers["Mcp-Name"] = uri
    headers.update(changes or {})
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    head = ["POST /mcp HTTP/1.1", *lines, *([extra] if extra else []), f"Content-Length: {len(data)}"]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data


class Talk:
    """A connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Talk:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, raw: bytes) -> Any:
        self.writer.write(raw)
        return await self.answer()

    async def ask_in_pieces(self, raw: bytes) -> Any:
        """Send the head, wait until it is out, then the rest."""
        head, _, data = raw.partition(b"\r\n\r\n")
        self.writer.write(head + b"\r\n\r\n")
        await self.writer.drain()
        await asyncio.sleep(0)
        self.writer.write(data)
        return await self.answer()

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""
            finally:
                self.close()

    async def answer(self) -> Any:
        """Status, media type and body of the next answer; the body as JSON where it is that."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status, *fields = head.strip().split(b"\r\n")
        named = dict(field.split(b": ", 1) for field in fields)
        if b"content-length" in named:
            content = await self.reader.readexactly(int(named[b"content-length"]))
        elif b"transfer-encoding" not in named:
            content = await self.reader.read()
        else:
            content = b""
            while (size := int(await self.reader.readline(), 16)) > 0:
                content += await self.reader.readexactly(size)
                await self.reader.readline()
            await self.reader.readline()
        media = named.get(b"content-type")
        try:
            return status, media, json.loads(content)
        except ValueError:
            return status, media, content

    def close(self) -> None:
        self.writer.close()


async def send(
    port: int, message: Any, changes: dict[str, str | None] | None = None, *, extra: str = ""
) -> Any:
    """The answer to one request over a connection of its own."""
    talk = await Talk.open(port)
    try:
        return await talk.ask(request(message, {"Connection": "close", **(changes or {})}, extra=extra))
    finally:
        talk.close()


GREETING: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "t", "version": "1"},
}


def plain(method: str, identity: Any = 1, **params: Any) -> dict[str, Any]:
    """A request of a 2025 revision."""
    return {"jsonrpc": "2.0", "id": identity, "method": method, **({"params": params} if params else {})}


def greeting(**changes: Any) -> dict[str, Any]:
    """A request to `initialize`; `...` leaves a parameter out."""
    params = {key: value for key, value in {**GREETING, **changes}.items() if value is not ...}
    return plain("initialize", 0, **params)


GREETED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class PipeClient:
    """A client over pipes. `is_sdk_used` says whether the server needed the SDK for it so far."""

    def __init__(self, reader: asyncio.StreamReader, descriptor: int, server: SkillServer) -> None:
        self._reader, self._descriptor, self._server = reader, descriptor, server

    @property
    def is_sdk_used(self) -> bool:
        return "low_level" in self._server.__dict__

    def send(self, *messages: Any) -> None:
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
        os.write(self._descriptor, b"".join(line + b"\n" for line in lines))

    async def receive(self) -> Any:
        return json.loads(await asyncio.wait_for(self._reader.readline(), 30))

    async def ask(self, message: Any) -> Any:
        self.send(message)
        return await self.receive()


@asynccontextmanager
async def piped(server: SkillServer) -> AsyncGenerator[PipeClient]:
    """A client of a server in this process, over pipes as over standard input and output."""
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_client, "rb", 0)
    )

    async def serve() -> None:
        async with server._running():  # pyright: ignore[reportPrivateUsage]
            await serve_lines(
                to_server,
                from_server,
                server._fast_path,  # pyright: ignore[reportPrivateUsage]
                server._sdk_session,  # pyright: ignore[reportPrivateUsage]
                server._on_connect,  # pyright: ignore[reportPrivateUsage]
            )

    task = asyncio.ensure_future(serve())
    try:
        yield PipeClient(reader, from_client, server)
    finally:
        os.close(from_client)
        await task
        for descriptor in (to_server, from_server):
            os.close(descriptor)
        transport.close()
