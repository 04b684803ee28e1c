"""The fast lane beside the SDK: the same requests both ways, and the same answers.

Each odd request goes to a server with the lane and to one without. Status, media type and JSON must be equal.
It goes over a connection of its own, then again and again over one that stays open, whole and in two pieces: so
it comes by the application, by the doorway before it, and to an answer that was kept. Which ones the lane took
itself is known from the lane, so that a test of it cannot pass by its being idle.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skillwire.server.address import Address
from skillwire.server.app import SkillServer
from skillwire.server.http import HttpServer
from skillwire.server.lane import FastLane
from skillwire.server.surfaces import ALL_OFF, Surfaces
from trees import skill_md, write

pytestmark = pytest.mark.anyio

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

TAKEN: dict[str, Any] = {
    "list": LIST,
    "get": GET,
    "read": READ,
    "read binary": body("resources/read", uri=FILE),
    "read empty": body("resources/read", uri="skill://acme/refunds/data/empty.txt"),
    "read with BOM": body("resources/read", uri="skill://acme/refunds/data/bom.txt"),
    "read odd name": body("resources/read", uri="skill://acme/refunds/data/a%20b%25.md"),
    "read other spelling": body(
        "resources/read", uri="skill://acme/refunds/data/a%20b%25%2Emd".replace("%2E", "%2e")
    ),
    "directory": DIRECTORY,
    "prefix level": body("resources/directory/read", uri="skill://acme"),
    "empty directory": body("resources/directory/read", uri="skill://acme/refunds/void"),
    "discover": DISCOVER,
    "id 0": body("skills/list", id=0),
    "negative id": body("skills/list", id=-5),
    "id of text": body("skills/list", id="a-1"),
    "id with quotes": body("skills/list", id='say "hi" \\ ü'),
    "empty id": body("skills/list", id=""),
    "no client": body("skills/list", meta=meta(client=...)),
    "client with a title": body("skills/list", meta=meta(client={"name": "a", "version": "", "title": "A"})),
    "client with the extension": body(
        "skills/list", meta=meta(capabilities={"extensions": {"io.modelcontextprotocol/skills": {}}})
    ),
    "get of another skill": body("skills/get", uri="skill://acme/refunds/inner/SKILL.md"),
}
ODD: dict[str, Any] = {
    "get of nothing": body("skills/get", uri="skill://none/SKILL.md"),
    "get of a file": body("skills/get", uri=FILE),
    "get of no URI": body("skills/get", uri="refunds"),
    "get without uri": body("skills/get"),
    "get of null": body("skills/get", uri=None),
    "get of a number": body("skills/get", uri=5),
    "get with more": body("skills/get", uri=SKILL, extra=1),
    "read of nothing": body("resources/read", uri="skill://none"),
    "read of a directory": body("resources/read", uri="skill://acme/refunds"),
    "read of another scheme": body("resources/read", uri="test://x"),
    "read of a file: URI": body("resources/read", uri="file:///etc/passwd"),
    "read without uri": body("resources/read"),
    "read of the index": body("resources/read", uri="skill://index.json"),
    "read with more": body("resources/read", uri=SKILL, extra=True),
    "read beyond ASCII": body("resources/read", uri="skill://acme/ü"),
    "directory of a file": body("resources/directory/read", uri=FILE),
    "directory of nothing": body("resources/directory/read", uri="skill://none"),
    "directory with a bad cursor": body("resources/directory/read", uri="skill://acme", cursor="x"),
    "bad cursor": body("skills/list", cursor="!!"),
    "cursor of a number": body("skills/list", cursor=3),
    "cursor of null": body("skills/list", cursor=None),
    "cursor of nothing": body("skills/list", cursor=""),
    "list with more": body("skills/list", page=2),
    "null id": body("skills/list", id=None),
    "true id": body("skills/list", id=True),
    "fraction id": body("skills/list", id=1.5),
    "whole fraction id": body("skills/list", id=1.0),
    "object id": body("skills/list", id={}),
    "huge id": body("skills/list", id=2**70),
    "long id": body("skills/list", id="x" * 5000),
    "id with a line break": body("skills/list", id="a\nb"),
    "no id": {key: value for key, value in LIST.items() if key != "id"},
    "no jsonrpc": {key: value for key, value in LIST.items() if key != "jsonrpc"},
    "jsonrpc 1.0": {**LIST, "jsonrpc": "1.0"},
    "more at the top": {**LIST, "extra": 1},
    "no params": {key: value for key, value in LIST.items() if key != "params"},
    "null params": {**LIST, "params": None},
    "list of params": {**LIST, "params": []},
    "no envelope": {**LIST, "params": {}},
    "null envelope": body("skills/list", meta=None),
    "text envelope": body("skills/list", meta="x"),
    "no version": body("skills/list", meta=meta(version=...)),
    "old version": body("skills/list", meta=meta(version="2025-11-25")),
    "unknown version": body("skills/list", meta=meta(version="2099-01-01")),
    "number as version": body("skills/list", meta=meta(version=2026)),
    "no capabilities": body("skills/list", meta=meta(capabilities=...)),
    "null capabilities": body("skills/list", meta=meta(capabilities=None)),
    "list of capabilities": body("skills/list", meta=meta(capabilities=[])),
    "capabilities with roots": body("skills/list", meta=meta(capabilities={"roots": {"listChanged": True}})),
    "capabilities that are none": body("skills/list", meta=meta(capabilities={"roots": 5})),
    "extensions that are none": body("skills/list", meta=meta(capabilities={"extensions": 5})),
    "extension that is none": body("skills/list", meta=meta(capabilities={"extensions": {"a/b": 5}})),
    "null client": body("skills/list", meta=meta(client=None)),
    "client without version": body("skills/list", meta=meta(client={"name": "a"})),
    "client with more": body("skills/list", meta=meta(client={"name": "a", "version": "1", "icons": []})),
    "client of numbers": body("skills/list", meta=meta(client={"name": 1, "version": 2})),
    "progress token": body("skills/list", meta=meta(progressToken=1)),
    "progress token of a list": body("skills/list", meta=meta(progressToken=[])),
    "log level": body("skills/list", meta={**META, "io.modelcontextprotocol/logLevel": "debug"}),
    "unknown method": body("skills/none"),
    "method of a number": {**LIST, "method": 3},
    "resources list": body("resources/list"),
    "templates": body("resources/templates/list"),
    "tools": body("tools/list"),
    "prompts": body("prompts/list"),
    "ping": body("ping"),
    "initialize": body("initialize", protocolVersion="2025-11-25"),
    "discover with more": body("server/discover", extra=1),
    "batch": [LIST],
    "text": "hello",
    "number": 5,
    "raw: nothing": b"",
    "raw: no JSON": b"{",
    "raw: NaN": b'{"jsonrpc":"2.0","id":NaN,"method":"skills/list","params":{}}',
    "raw: not UTF-8": b'{"jsonrpc":"2.0","id":"\xff","method":"skills/list","params":{}}',
    "raw: deep": b"[" * 30_000,
    "raw: lone surrogate": json.dumps(body("skills/list", id="\ud800")).encode(),
    "raw: spaces": json.dumps(LIST, indent=4).encode(),
    "raw: escapes": json.dumps(body("skills/list", id="é")).encode(),
}
ODD_HEADERS: dict[str, dict[str, str | None]] = {
    "no accept": {"Accept": None},
    "any accept": {"Accept": "*/*"},
    "JSON alone": {"Accept": "application/json"},
    "other accept": {"Accept": "text/html"},
    "accept with quality": {"Accept": "application/json;q=0.5, text/event-stream"},
    "no content type": {"Content-Type": None},
    "charset": {"Content-Type": "application/json; charset=utf-8"},
    "other content type": {"Content-Type": "text/plain"},
    "no version header": {"MCP-Protocol-Version": None},
    "old version header": {"MCP-Protocol-Version": "2025-11-25"},
    "unknown version header": {"MCP-Protocol-Version": "2099-01-01"},
    "no method header": {"Mcp-Method": None},
    "other method header": {"Mcp-Method": "skills/get"},
    "method header in capitals": {"Mcp-Method": "SKILLS/LIST"},
    "name header": {"Mcp-Name": "anything"},
    "session header": {"Mcp-Session-Id": "abc"},
    "param header": {"Mcp-Param-X": "1"},
    "foreign host": {"Host": "evil.example:80"},
    "host without port": {"Host": "127.0.0.1"},
    "host with more": {"Host": "127.0.0.1:80:80"},
    "own origin": {"Origin": "http://localhost:3000"},
    "foreign origin": {"Origin": "http://evil.example"},
    "null origin": {"Origin": "null"},
    "user agent": {"User-Agent": "test"},
    "unknown header": {"X-Thing": "1"},
}


class CountingLane(FastLane):
    """The lane itself, and how often it gave an answer, and one that it had given before."""

    given = 0
    repeated = 0

    def again(self, body: bytes) -> Any:
        found = super().again(body)
        self.repeated += found is not None
        return found

    async def answer(self, request: Any) -> bytes | None:
        answer = await super().answer(request)
        self.given += answer is not None
        return answer


@asynccontextmanager
async def running(folder: Path, *, fast: bool, **options: Any) -> AsyncGenerator[tuple[int, SkillServer]]:
    server = SkillServer(folder, fast=fast, page_size=2, **options)
    if fast:
        server._lane.__class__ = CountingLane  # pyright: ignore
    http = HttpServer(server.http_app(), Address("127.0.0.1", 0))
    task = asyncio.ensure_future(http.serve())
    try:
        yield int(http.url.rpartition(":")[2].partition("/")[0]), server
    finally:
        http.stop()
        await task


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file looks as if it had been written ten seconds ago: one just written is never kept."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10_000_000_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lane")
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

    async def answer(self) -> Any:
        """Status, media type and body of the next answer; the body as JSON where it is that."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status, *fields = head.strip().split(b"\r\n")
        named = dict(field.split(b": ", 1) for field in fields)
        if b"content-length" in named:
            content = await self.reader.readexactly(int(named[b"content-length"]))
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


def cases() -> Iterator[tuple[str, Any, dict[str, str | None] | None, str]]:
    for name, message in {**TAKEN, **ODD}.items():
        yield name, message, None, ""
    for name, changes in ODD_HEADERS.items():
        yield f"list, {name}", LIST, changes, ""
        yield f"read, {name}", READ, changes, ""
    yield "read, other name", READ, {"Mcp-Name": "skill://other"}, ""
    yield "read, no name", READ, {"Mcp-Name": None}, ""
    yield "a header twice", LIST, None, "Mcp-Method: skills/list"
    yield "accept twice", LIST, None, "Accept: application/json"


async def test_with_the_lane_and_without_it_every_answer_is_the_same(folder: Path, aged: None) -> None:
    different: list[str] = []
    async with running(folder, fast=True) as (fast, server), running(folder, fast=False) as (plain, _):
        asked = list(cases())
        assert len(asked) > 120
        for name, message, changes, extra in asked:
            theirs = await send(plain, message, changes, extra=extra)
            raw = request(message, changes, extra=extra)
            talk = await Talk.open(fast)
            ours = {
                "alone": await send(fast, message, changes, extra=extra),
                "first": await talk.ask(raw),
                "again": await talk.ask(raw),
                "in pieces": await talk.ask_in_pieces(raw),
            }
            talk.close()
            different += [
                f"{name}, {how}: {got} instead of {theirs}" for how, got in ours.items() if got != theirs
            ]
        lane: Any = server._lane  # pyright: ignore[reportPrivateUsage]
    assert different == []
    assert lane.given >= len(TAKEN)
    assert lane.repeated >= len(TAKEN)


@pytest.mark.parametrize("name", TAKEN)
async def test_the_lane_takes_the_common_requests_itself(folder: Path, name: str) -> None:
    server = SkillServer(folder)
    lane = server._lane  # pyright: ignore[reportPrivateUsage]
    assert lane is not None
    request = lane.match(json.dumps(TAKEN[name]).encode())
    assert request is not None
    assert await lane.answer(request) is not None


@pytest.mark.parametrize("name", TAKEN)
async def test_a_request_that_was_seen_before_is_answered_under_its_own_id(folder: Path, name: str) -> None:
    lane = SkillServer(folder)._lane  # pyright: ignore[reportPrivateUsage]
    assert lane is not None

    async def ask(identity: object) -> Any:
        compact = json.dumps({**TAKEN[name], "id": identity}, separators=(",", ":")).encode()
        request = lane.match(compact)
        assert request is not None
        answer = await lane.answer(request)
        assert answer is not None
        return json.loads(answer)

    first, *others = [await ask(identity) for identity in (1, 2, 0, "a", 999_999)]
    assert [answer["id"] for answer in others] == [2, 0, "a", 999_999]
    assert all({**answer, "id": 1} == first for answer in others)


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"skills/list","params":{"_meta":%s},"id":8}',
        b'{"jsonrpc":"2.0","id":7,"method":"skills/list","params":{"_meta":%s},"id" :8}',
        b'{"jsonrpc":"2.0","id":7,"method":"skills/list","params":{"_meta":%s},"\\u0069d":8}',
        b'{"jsonrpc":"2.0","id":07,"method":"skills/list","params":{"_meta":%s}}',
    ],
)
def test_a_body_with_two_ids_is_never_taken_for_one_that_was_seen(folder: Path, body: bytes) -> None:
    lane = SkillServer(folder)._lane  # pyright: ignore[reportPrivateUsage]
    assert lane is not None
    sent = body % json.dumps(META, separators=(",", ":")).encode()
    first = lane.match(sent)
    again = lane.match(sent)
    assert first == again
    assert first is None or first.id_json == b"8"


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("surfaces", [Surfaces(), ALL_OFF, Surfaces(prompts=False, tools="always")])
async def test_the_server_says_the_same_of_itself_both_ways(
    folder: Path, surfaces: Surfaces, watch: bool
) -> None:
    options: dict[str, Any] = {"surfaces": surfaces, "watch": watch, "instructions": 'Read "me".'}
    async with running(folder, fast=True, **options) as (fast, server):
        async with running(folder, fast=False, **options) as (plain, _):
            assert await send(fast, DISCOVER) == await send(plain, DISCOVER)
        assert server._lane.given == 1  # pyright: ignore


async def test_a_walk_over_the_pages_is_the_same_both_ways(folder: Path) -> None:
    async with running(folder, fast=True) as (fast, server), running(folder, fast=False) as (plain, _):
        cursor: dict[str, str] = {}
        pages = 0
        while True:
            ours = await send(fast, body("skills/list", **cursor))
            assert ours == await send(plain, body("skills/list", **cursor))
            pages += 1
            result = ours[2]["result"]
            if "nextCursor" not in result:
                break
            cursor = {"cursor": result["nextCursor"]}
        assert pages == server._lane.given == 3  # pyright: ignore


async def test_an_edit_is_in_the_very_next_answer(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "note/SKILL.md", skill_md("note"))
    async with running(tmp_path, fast=True, watch=False) as (port, server):
        before = (await send(port, body("resources/read", uri="skill://note/SKILL.md")))[2]
        write(tmp_path / "note/SKILL.md", skill_md("note", "Another description."))
        after = (await send(port, body("resources/read", uri="skill://note/SKILL.md")))[2]
        entry = (await send(port, body("skills/get", uri="skill://note/SKILL.md")))[2]
        assert server._lane.given == 3  # pyright: ignore
    assert before != after
    assert "Another description." in after["result"]["contents"][0]["text"]
    assert entry["result"]["skill"]["frontmatter"]["description"] == "Another description."
