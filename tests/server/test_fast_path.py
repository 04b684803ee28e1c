"""The fast path and the SDK: the same requests both ways, and the same answers.

Each odd request goes to a server with the fast path and to one without. Status, media type and JSON must be
equal. It goes over a connection of its own, then several times over one that stays open, whole and in two
pieces, so that it is also answered from the cache. The fast path counts the requests that it answered, so
that a test cannot pass because the fast path was not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from fast_path_calls import (
    DIRECTORY,
    DISCOVER,
    FILE,
    GET,
    LIST,
    META,
    READ,
    SKILL,
    Talk,
    aged,
    body,
    folder,
    meta,
    request,
    running,
    send,
)
from skillwire.errors import SourceError
from skillwire.server import LegacyFeatures, ServerOptions, SkillServer
from skillwire.server.library import ALL_OFF
from skillwire.skill import SkillUri
from skillwire.sources import DirectorySource, Read
from trees import skill_md, write

__all__ = ["aged", "folder"]

pytestmark = pytest.mark.anyio

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
    "resources list": body("resources/list"),
    "templates": body("resources/templates/list"),
    "tools": body("tools/list"),
    "tools for a client with the extension": body(
        "tools/list", meta=meta(capabilities={"extensions": {"io.modelcontextprotocol/skills": {}}})
    ),
    "prompts": body("prompts/list"),
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
    "ping": body("ping"),
    "initialize": body("initialize", protocolVersion="2025-11-25"),
    "discover with more": body("server/discover", extra=1),
    "tools with a cursor": body("tools/list", cursor="x"),
    "prompts with a bad cursor": body("prompts/list", cursor="x"),
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


@pytest.mark.slow
async def test_with_and_without_the_fast_path_every_answer_is_the_same(folder: Path, aged: None) -> None:
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
        fast_path: Any = server._fast_path  # pyright: ignore[reportPrivateUsage]
    assert different == []
    assert fast_path.given >= len(TAKEN)
    assert fast_path.repeated >= len(TAKEN)


@pytest.mark.parametrize("name", TAKEN)
async def test_the_fast_path_answers_the_common_requests(folder: Path, name: str) -> None:
    server = SkillServer(folder)
    fast_path = server._fast_path  # pyright: ignore[reportPrivateUsage]
    assert fast_path is not None
    request = fast_path.parse(json.dumps(TAKEN[name]).encode())
    assert request is not None
    assert await fast_path.respond(request) is not None


@pytest.mark.parametrize("name", TAKEN)
async def test_a_request_that_was_seen_before_is_answered_under_its_own_id(folder: Path, name: str) -> None:
    fast_path = SkillServer(folder)._fast_path  # pyright: ignore[reportPrivateUsage]
    assert fast_path is not None

    async def ask(identity: object) -> Any:
        compact = json.dumps({**TAKEN[name], "id": identity}, separators=(",", ":")).encode()
        request = fast_path.parse(compact)
        assert request is not None
        answer = await fast_path.respond(request)
        assert answer is not None
        return json.loads(answer)

    first, *others = [await ask(identity) for identity in (1, 2, 0, "a", 999_999)]
    assert [answer["id"] for answer in others] == [2, 0, "a", 999_999]
    assert all({**answer, "id": 1} == first for answer in others)


@pytest.mark.parametrize("method", ["skills/get", "resources/read"])
async def test_a_cached_response_is_found_however_a_request_is_written(
    folder: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file that was written this instant is not cached yet.
    monkeypatch.setattr("skillwire.sources.directory.files._COARSEST_NS", -(10**12))
    server = SkillServer(folder)
    fast_path = server._fast_path  # pyright: ignore[reportPrivateUsage]
    assert fast_path is not None
    seen: list[bool] = []
    fast_path._observe = lambda _method, _uri, cached: seen.append(cached)  # pyright: ignore[reportPrivateUsage]
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {"uri": "skill://acme/refunds/SKILL.md", "_meta": META},
    }
    spellings = [
        json.dumps(request),
        json.dumps(request, separators=(",", ":")),
        json.dumps(request, indent=2),
        json.dumps(dict(reversed(request.items()))),
        json.dumps(request).replace("skill:", "\\u0073kill:"),
    ]
    async with server.open():
        for text in spellings * 2:
            found = fast_path.cached(text.encode())
            if found is None:
                parsed = fast_path.parse(text.encode())
                assert parsed is not None
                assert await fast_path.respond(parsed) is not None
    assert seen == [False] + [True] * 9


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
    fast_path = SkillServer(folder)._fast_path  # pyright: ignore[reportPrivateUsage]
    assert fast_path is not None
    sent = body % json.dumps(META, separators=(",", ":")).encode()
    first = fast_path.parse(sent)
    again = fast_path.parse(sent)
    assert first == again
    assert first is None or first.id_json == b"8"


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize(
    "legacy_features", [LegacyFeatures(), ALL_OFF, LegacyFeatures(prompts=False, tools="always")]
)
async def test_the_server_says_the_same_of_itself_both_ways(
    folder: Path, legacy_features: LegacyFeatures, watch: bool
) -> None:
    options: dict[str, Any] = {
        "legacy_features": legacy_features,
        "watch": watch,
        "instructions": 'Read "me".',
    }
    async with running(folder, fast=True, **options) as (fast, server):
        async with running(folder, fast=False, **options) as (plain, _):
            assert await send(fast, DISCOVER) == await send(plain, DISCOVER)
        assert server._fast_path.given == 1  # pyright: ignore


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
        assert pages == server._fast_path.given == 3  # pyright: ignore


class Away(DirectorySource):
    """Skills whose files cannot be read at the moment, which takes a while to find out."""

    asked = 0

    async def read(self, uri: SkillUri) -> Read:
        self.asked += 1
        raise SourceError("the database does not answer")


async def test_what_is_unavailable_is_waited_for_once_and_refused_in_the_same_words(folder: Path) -> None:
    source = Away([folder])
    async with running(source, fast=True) as (fast, _), running(Away([folder]), fast=False) as (plain, _):
        ours = await send(fast, READ)
        assert ours == await send(plain, READ)
    assert ours[2]["error"]["code"] == -32603
    assert source.asked == 1


async def test_an_edit_is_in_the_very_next_answer(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "note/SKILL.md", skill_md("note"))
    async with running(tmp_path, fast=True, watch=False) as (port, server):
        before = (await send(port, body("resources/read", uri="skill://note/SKILL.md")))[2]
        write(tmp_path / "note/SKILL.md", skill_md("note", "Another description."))
        after = (await send(port, body("resources/read", uri="skill://note/SKILL.md")))[2]
        entry = (await send(port, body("skills/get", uri="skill://note/SKILL.md")))[2]
        assert server._fast_path.given == 3  # pyright: ignore
    assert before != after
    assert "Another description." in after["result"]["contents"][0]["text"]
    assert entry["result"]["skill"]["frontmatter"]["description"] == "Another description."


async def test_the_next_page_is_prepared_while_the_client_reads_this_one(folder: Path) -> None:
    fast_path = SkillServer(folder, options=ServerOptions(page_size=2))._fast_path  # pyright: ignore[reportPrivateUsage]
    assert fast_path is not None
    request = fast_path.parse(json.dumps(body("skills/list")).encode())
    assert request is not None
    await fast_path.respond(request)
    await anyio.lowlevel.checkpoint()
    assert len(fast_path._entries._made) == 4  # pyright: ignore[reportPrivateUsage]
