"""A server searches the text of its skills: by its tool, off the loop, within a limit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import advertise

from clients import ERAS, both_eras, call, refusal
from sample_entries import skill_md
from skillwire import LegacyFeatures, SkillServer
from skillwire.limits import Limits
from skillwire.server import ServerOptions, SkillLibrary
from skillwire.server.fastpath import discovery
from skillwire.server.search import LibrarySearch
from skillwire.sources import DirectorySource, FunctionSource
from skillwire.wire.v1 import EXTENSION_ID, QUERY_ID
from trees import write

pytestmark = pytest.mark.anyio


def put(folder: Path, description: str, body: str) -> None:
    write(folder / "SKILL.md", skill_md(folder.name, description, body))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "deploy", "Ships a service.", "Call kubectl apply.\n")
    put(tmp_path / "refunds", "Pays money back.", "Ask for the receipt.\n")
    return tmp_path


async def names(search: LibrarySearch, query: str, limit: int = 5) -> list[str]:
    return [entry.name for entry in await search.search(query, limit)]


async def test_the_text_of_a_skill_is_searched_and_follows_what_changes(folder: Path) -> None:
    library = SkillLibrary([folder])
    search = LibrarySearch(library, Limits())
    async with library.opened():
        assert await names(search, "kubectl") == ["deploy"]
        assert await names(search, "receipt") == ["refunds"]
        assert await names(search, "") == await names(search, "receipt", 0) == []
        put(folder / "refunds", "Pays money back.", "Call kubectl too.\n")
        put(folder / "weather", "Forecasts.", "A barometer.\n")
        [source] = library.sources
        assert isinstance(source, DirectorySource)
        await source.rescan()
        assert await names(search, "kubectl") == ["deploy", "refunds"]
        assert await names(search, "receipt") == []
        assert await names(search, "barometer") == ["weather"]
        (folder / "deploy/SKILL.md").unlink()
        await source.rescan()
        assert await names(search, "kubectl") == ["refunds"]


async def test_a_search_reads_nothing_that_a_program_generates() -> None:
    made: list[str] = []
    functions = FunctionSource()

    @functions.static("report")
    def report() -> dict[str, str]:
        made.append("report")
        return {"SKILL.md": "---\nname: report\ndescription: Writes a report.\n---\nUse a barometer.\n"}

    library = SkillLibrary([functions])
    search = LibrarySearch(library, Limits())
    async with library.opened():
        assert await names(search, "write report") == ["report"]
        count = len(made)
        assert await names(search, "barometer") == []
    assert len(made) == count


async def test_the_text_beyond_the_limit_is_not_searched_and_that_is_logged(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder / "alpha", "First.", "kubectl " + "x" * 500)
    search = LibrarySearch(SkillLibrary([folder]), Limits(search_text_bytes=600))
    with caplog.at_level(logging.WARNING):
        assert await names(search, "kubectl") == ["alpha"]
        assert await names(search, "ships service") == ["deploy"]
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("the text of 2 skills is not searched, only their names and descriptions")


async def test_the_tool_says_that_no_skill_seems_to_fit(tmp_path: Path) -> None:
    for number in range(30):
        put(tmp_path / f"dish-{number}", f"Cooks dish number {number}.", "Boil water.\n")
    options = ServerOptions(legacy_features=LegacyFeatures(every_tool=True))
    async with Client(SkillServer(tmp_path, options=options).low_level) as client:

        async def tool(query: str) -> str:
            result = await client.call_tool("search_skills", {"query": query})
            assert isinstance(result, types.CallToolResult)
            return getattr(result.content[0], "text", "")

        assert "dish-0: Cooks" in await tool("boiling")
        assert await tool("who painted the water lilies in the museum of paris") == (
            "No skill seems to fit 'who painted the water lilies in the museum of paris'. "
            "Try other words, or work without a skill."
        )


def entry_names(result: dict[str, Any]) -> list[str]:
    return [skill["frontmatter"]["name"] for skill in result["skills"]]


@both_eras
async def test_a_listing_takes_a_query_if_both_sides_declare_it(folder: Path, version: str) -> None:
    mode: Any = ERAS[version]
    asking = [advertise(EXTENSION_ID), advertise(QUERY_ID)]
    server = SkillServer(folder, options=ServerOptions(query=True))
    async with Client(server.low_level, mode=mode, extensions=asking) as client:
        found = await call(client, "skills/list", query="kubectl", limit=1)
        assert entry_names(found) == ["deploy"]
        assert "nextCursor" not in found
        assert entry_names(await call(client, "skills/list", query="barometer")) == []
        assert entry_names(await call(client, "skills/list")) == ["deploy", "refunds"]
        for limit in (0, 101):
            assert (await refusal(client, "skills/list", query="x", limit=limit)).code == -32602
    for options, extensions in (
        (ServerOptions(query=True), asking[:1]),
        (ServerOptions(), asking),
    ):
        server = SkillServer(folder, options=options)
        async with Client(server.low_level, mode=mode, extensions=extensions) as client:
            both = await call(client, "skills/list", query="kubectl", limit=1)
            assert entry_names(both) == ["deploy", "refunds"]


async def test_the_capability_is_declared_only_if_it_is_on(folder: Path) -> None:
    for is_on in (True, False):
        options = ServerOptions(query=is_on)
        assert (QUERY_ID in discovery("", options)["capabilities"]["extensions"]) == is_on  # type: ignore[index,operator]
        async with Client(SkillServer(folder, options=options).low_level) as client:
            declared = client.server_capabilities.model_dump(by_alias=True)["extensions"]
        assert (QUERY_ID in declared) == is_on
