"""The beginning of a connection of a 2025 revision over stdio: without the SDK, as the SDK would answer.

Each conversation goes to a server with the fast path and to one without, and the answers must be equal. The
test also says whether the SDK was needed, so that it cannot pass because the fast path was not used.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fast_path_calls import GREETED, PipeClient, folder, greeting, piped, plain
from skillwire.server import LegacyFeatures, ServerOptions, SkillServer
from skillwire.server.library import ALL_OFF
from trees import skill_md, write
from waiting import until_answered

__all__ = ["folder"]

pytestmark = pytest.mark.anyio

EXTENSION = {"extensions": {"io.modelcontextprotocol/skills": {}}}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list")

WITHOUT_SDK: dict[str, list[Any]] = {
    "initialize": [greeting()],
    "initialize of 2025-11-25": [greeting(protocolVersion="2025-11-25")],
    "initialize with an id of text": [{**greeting(), "id": "a-1"}],
    "every list": [greeting(), GREETED, *(plain(method, n) for n, method in enumerate(LISTS, 1))],
    "every list with no parameters": [
        greeting(),
        GREETED,
        *({**plain(method, n), "params": {}} for n, method in enumerate(LISTS, 1)),
    ],
    "a list with a token for progress": [
        greeting(),
        GREETED,
        plain("tools/list", _meta={"progressToken": 3}),
    ],
    "a list before the client is initialized": [greeting(), plain("tools/list")],
    "ping": [greeting(), GREETED, plain("ping")],
    "ping before the client is initialized": [greeting(), plain("ping")],
    "ping with a token for progress": [greeting(), GREETED, plain("ping", _meta={"progressToken": "x"})],
    "a client with the extension": [greeting(capabilities=EXTENSION), GREETED, plain("tools/list")],
    "a client with the extension of a draft": [
        greeting(capabilities={"experimental": EXTENSION["extensions"]}),
        GREETED,
        plain("tools/list"),
    ],
    "a client with much": [
        greeting(
            capabilities={
                "roots": {"listChanged": True},
                "sampling": {},
                "elicitation": {"form": {}, "url": {}},
                "extensions": {"example/ui": {"mimeTypes": ["text/html"]}},
            },
            clientInfo={"name": "a", "version": "1", "title": "A", "websiteUrl": "https://example.org"},
        ),
        GREETED,
        plain("tools/list"),
    ],
}
WITH_SDK: dict[str, list[Any]] = {
    "initialize of 2025-03-26": [greeting(protocolVersion="2025-03-26"), GREETED, plain("tools/list")],
    "initialize of 2024-11-05": [greeting(protocolVersion="2024-11-05"), GREETED, plain("prompts/list")],
    "initialize of an unknown revision": [
        greeting(protocolVersion="2099-01-01"),
        GREETED,
        plain("tools/list"),
    ],
    "initialize without a client": [greeting(clientInfo=...)],
    "initialize without capabilities": [greeting(capabilities=...)],
    "initialize of a number": [greeting(protocolVersion=2025)],
    "initialize with more": [greeting(extra=1)],
    "initialize with a null id": [{**greeting(), "id": None}],
    "capabilities of a list": [greeting(capabilities=[])],
    "roots of a number": [greeting(capabilities={"roots": 5})],
    "roots of text": [greeting(capabilities={"roots": {"listChanged": "yes"}})],
    "sampling of a number": [greeting(capabilities={"sampling": 5})],
    "an unknown capability": [greeting(capabilities={"unknown": {}}), GREETED, plain("tools/list")],
    "an extension of a number": [greeting(capabilities={"extensions": {"a/b": 5}})],
    "a client with an icon": [
        greeting(clientInfo={"name": "a", "version": "1", "icons": [{"src": "https://example.org/a.png"}]})
    ],
    "a client of numbers": [greeting(clientInfo={"name": 1, "version": 2})],
    "a second initialize": [greeting(), GREETED, {**greeting(), "id": 9}],
    "a list before initialize": [plain("tools/list")],
    "ping before initialize": [plain("ping")],
    "a bad cursor": [greeting(), GREETED, plain("resources/list", cursor="!!")],
    "a cursor of null": [greeting(), GREETED, plain("resources/list", cursor=None)],
    "a cursor of a number": [greeting(), GREETED, plain("resources/list", cursor=3)],
    "a cursor of tools": [greeting(), GREETED, plain("tools/list", cursor="x")],
    "a list with more": [greeting(), GREETED, plain("tools/list", page=2)],
    "a list with other metadata": [greeting(), GREETED, plain("tools/list", _meta={"example/a": 1})],
    "a token for progress of a list": [greeting(), GREETED, plain("tools/list", _meta={"progressToken": []})],
    "a list of parameters": [greeting(), GREETED, {**plain("tools/list"), "params": []}],
    "more at the top": [greeting(), GREETED, {**plain("tools/list"), "extra": 1}],
    "a fraction as id": [greeting(), GREETED, plain("tools/list", 1.5)],
    "jsonrpc 1.0": [greeting(), GREETED, {**plain("tools/list"), "jsonrpc": "1.0"}],
    "no JSON": [greeting(), GREETED, b"{"],
    "a call": [greeting(), GREETED, plain("tools/call", name="load_skill", arguments={"name": "one"})],
    "a call of nothing": [greeting(), GREETED, plain("tools/call", name="none", arguments={})],
    "a prompt": [greeting(), GREETED, plain("prompts/get", name="one")],
    "a prompt of nothing": [greeting(), GREETED, plain("prompts/get", name="none")],
    "a read": [greeting(), GREETED, plain("resources/read", uri="skill://one/SKILL.md")],
    "a subscription": [greeting(), GREETED, plain("resources/subscribe", uri="skill://one")],
    "an unknown method": [greeting(), GREETED, plain("none/such")],
    "a level for logs": [greeting(), GREETED, plain("logging/setLevel", level="debug")],
    "2026-07-28 after initialize": [
        greeting(),
        GREETED,
        plain("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
    ],
}


def _server(folder: Path, *, fast: bool, **options: Any) -> SkillServer:
    return SkillServer(folder, fast=fast, options=ServerOptions(page_size=2, **options))


async def _answers(client: PipeClient, messages: list[Any]) -> list[Any]:
    """What a client gets. Requests are sent one at a time: then the order of the answers is theirs."""
    answers: list[Any] = []
    for message in messages:
        client.send(message)
        if isinstance(message, bytes) or "id" in message:
            answers.append(await client.receive())
    return answers


async def _both(folder: Path, messages: list[Any], **options: Any) -> tuple[list[Any], bool]:
    """The answers, which are the same both ways, and whether the SDK was needed for them."""
    async with piped(_server(folder, fast=True, **options)) as client:
        fast = await _answers(client, messages)
        is_sdk_used = client.is_sdk_used
    async with piped(_server(folder, fast=False, **options)) as client:
        assert fast == await _answers(client, messages)
    return fast, is_sdk_used


@pytest.mark.parametrize("name", WITHOUT_SDK)
async def test_the_first_requests_are_answered_without_the_sdk_as_the_sdk_does(
    folder: Path, name: str
) -> None:
    answers, is_sdk_used = await _both(folder, WITHOUT_SDK[name])
    assert not is_sdk_used
    assert all("result" in answer for answer in answers)


@pytest.mark.parametrize("name", WITH_SDK)
async def test_everything_else_is_for_the_sdk_which_knows_the_client(folder: Path, name: str) -> None:
    _, is_sdk_used = await _both(folder, WITH_SDK[name])
    assert is_sdk_used


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize(
    "legacy_features", [LegacyFeatures(), ALL_OFF, LegacyFeatures(prompts=False, tools="always")]
)
async def test_a_server_greets_the_same_both_ways(
    folder: Path, legacy_features: LegacyFeatures, watch: bool
) -> None:
    messages = [greeting(capabilities=EXTENSION), GREETED, plain("resources/list"), plain("tools/list", 2)]
    await _both(folder, messages, legacy_features=legacy_features, watch=watch)


async def test_a_walk_over_the_pages_goes_on_when_the_sdk_takes_over(folder: Path) -> None:
    async def walk(client: PipeClient, method: str) -> list[Any]:
        await _answers(client, [greeting(), GREETED])
        pages = [await client.ask(plain(method))]
        await client.ask(plain("resources/read", 2, uri="skill://one/SKILL.md"))
        while cursor := pages[-1]["result"].get("nextCursor"):
            pages.append(await client.ask(plain(method, 3, cursor=cursor)))
        return pages

    for method in ("resources/list", "prompts/list", "skills/list"):
        async with piped(_server(folder, fast=True)) as client:
            fast = await walk(client, method)
        async with piped(_server(folder, fast=False)) as client:
            assert fast == await walk(client, method)
        assert len(fast) > 1


async def test_the_sdk_is_told_of_the_client_so_that_tools_stay_hidden_from_it(folder: Path) -> None:
    async with piped(_server(folder, fast=True)) as client:
        await _answers(client, [greeting(capabilities=EXTENSION), GREETED])
        assert (await client.ask(plain("tools/list")))["result"] == {"tools": []}
        await client.ask(plain("resources/read", 2, uri="skill://one/SKILL.md"))
        assert client.is_sdk_used
        assert (await client.ask(plain("tools/list", 3)))["result"] == {"tools": []}


async def test_a_change_after_a_list_is_notified_although_the_sdk_was_not_there(tmp_path: Path) -> None:
    write(tmp_path / "one/SKILL.md", skill_md("one"))
    async with piped(SkillServer(tmp_path)) as client:
        await _answers(client, [greeting(), GREETED])
        before = await client.ask(plain("tools/list"))
        assert not client.is_sdk_used
        write(tmp_path / "two/SKILL.md", skill_md("two"))
        methods = {(await client.receive())["method"] for _ in range(3)}
        assert methods == {f"notifications/{kind}/list_changed" for kind in ("resources", "tools", "prompts")}
        after = await client.ask(plain("tools/list", 2))
    assert "two" not in json.dumps(before)
    assert "two" in json.dumps(after)


async def test_a_client_that_has_seen_nothing_is_not_notified_of_a_change(tmp_path: Path) -> None:
    write(tmp_path / "one/SKILL.md", skill_md("one"))
    server = SkillServer(tmp_path)
    async with piped(server) as client:
        await _answers(client, [greeting(), GREETED])
        write(tmp_path / "two/SKILL.md", skill_md("two"))

        async def is_seen() -> bool:
            return len(await server.library.entries()) == 2

        await until_answered(is_seen)
        assert "two" in json.dumps(await client.ask(plain("tools/list")))
        assert not client.is_sdk_used
