"""One line gives any MCP server its skills, and leaves it what it had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from fastmcp import FastMCP
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

from clients import both_eras, call, connected, refusal
from skillwire import FunctionSource, SkillsExtension, add_skills
from skillwire.server import ServerOptions
from skillwire.server.library import ALL_OFF
from trees import skill_md, write_skill

pytestmark = pytest.mark.anyio

OWN = "data://own"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        write_skill(tmp_path / name)
    return tmp_path


def low_level(folder: Path) -> Any:
    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=OWN, name="own")])

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="add", input_schema={"type": "object"})])

    async def read(ctx: Any, params: Any) -> types.ReadResourceResult:
        if str(params.uri) != OWN:
            raise types_not_found(str(params.uri))
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=OWN, text="own")])

    server = Server("shop", on_list_resources=list_resources, on_read_resource=read, on_list_tools=list_tools)
    add_skills(server, folder, options=ServerOptions(page_size=2, legacy_features=ALL_OFF))
    return server


def types_not_found(uri: str) -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(types.INVALID_PARAMS, f"no {uri}")


def mcp_server(folder: Path) -> Any:
    server = MCPServer("shop")
    furnish(server)
    add_skills(server, folder, options=ServerOptions(page_size=2, legacy_features=ALL_OFF))
    return server


def with_extension(folder: Path) -> Any:
    skills = SkillsExtension(folder, options=ServerOptions(page_size=2, legacy_features=ALL_OFF))
    server = MCPServer("shop", extensions=[skills], middleware=[skills])
    furnish(server)
    return server


KEPT: list[FastMCP] = []


def fast_mcp(folder: Path) -> Any:
    server = FastMCP("shop")
    furnish(server)
    add_skills(server, folder, options=ServerOptions(page_size=2, legacy_features=ALL_OFF))
    KEPT.append(server)  # Its low-level server holds it by a weak reference only.
    return server._mcp_server  # pyright: ignore[reportPrivateUsage]


def furnish(server: Any) -> None:
    @server.resource(OWN)
    def own() -> str:
        return "own"

    @server.resource("data://item/{number}")
    def item(number: str) -> str:
        return number

    @server.tool()
    def add(x: int) -> int:
        return x + 1


every_way = pytest.mark.parametrize("build", [low_level, mcp_server, with_extension, fast_mcp])


@pytest.mark.requirement("CAP-1", "CAP-2", "CAP-4")
@both_eras
@every_way
async def test_skills_are_declared_listed_got_and_read(
    folder: Path, version: str, build: Callable[[Path], Any]
) -> None:
    async with connected(build(folder), version) as client:
        extensions = client.server_capabilities.extensions or {}
        assert extensions["io.modelcontextprotocol/skills"] == {"directoryRead": True}
        assert client.server_capabilities.resources is not None
        first = await call(client, "skills/list")
        second = await call(client, "skills/list", cursor=first["nextCursor"])
        assert [e["frontmatter"]["name"] for page in (first, second) for e in page["skills"]] == [
            "a",
            "b",
            "c",
        ]
        assert ("ttlMs" in first) == (version == "2026-07-28")
        entry = await call(client, "skills/get", uri="skill://a/SKILL.md")
        assert entry["skill"] == first["skills"][0]
        read = await client.read_resource("skill://a/SKILL.md")
        assert isinstance(read.contents[0], types.TextResourceContents)
        assert read.contents[0].text.encode() == skill_md("a")
        children = await call(client, "resources/directory/read", uri="skill://a")
        assert [child["name"] for child in children["resources"]] == ["a"]


@both_eras
@every_way
async def test_what_the_server_had_is_still_there(
    folder: Path, version: str, build: Callable[[Path], Any]
) -> None:
    async with connected(build(folder), version) as client:
        uris: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            uris += [str(resource.uri) for resource in page.resources]
            if (cursor := page.next_cursor) is None:
                break
        assert uris == [OWN, *(f"skill://{name}/SKILL.md" for name in "abc")]
        read = await client.read_resource(OWN)
        assert isinstance(read.contents[0], types.TextResourceContents)
        assert read.contents[0].text == "own"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        templates = await client.list_resource_templates()
        assert [t.uri_template for t in templates.resource_templates][-1] == "skill://{+path}"
        for uri in ("data://none", "skill://none/x"):
            error = await refusal(client, "resources/read", uri=uri)
            assert (error.code, error.data) == (types.INVALID_PARAMS, {"uri": uri})


@every_way
async def test_a_listing_that_the_server_keeps_private_stays_private(
    folder: Path, build: Callable[[Path], Any]
) -> None:
    async with connected(build(folder), "2026-07-28") as client:
        listing = await call(client, "resources/list")
        assert (listing["ttlMs"], listing["cacheScope"]) == (0, "private")
        skills = await call(client, "skills/list")
        assert (skills["ttlMs"], skills["cacheScope"]) == (60_000, "public")


@both_eras
async def test_pages_of_the_server_come_before_ours(folder: Path, version: str) -> None:
    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        number = int(params.cursor or 0)
        following = str(number + 1) if number < 2 else None
        resource = types.Resource(uri=f"data://{number}", name=str(number))
        return types.ListResourcesResult(
            resources=[resource], next_cursor=following, ttl_ms=5, cache_scope="public"
        )

    async def list_templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
        number = int(params.cursor or 0)
        template = types.ResourceTemplate(uri_template=f"data://{number}/{{x}}", name=str(number))
        return types.ListResourceTemplatesResult(
            resource_templates=[template], next_cursor="1" if number == 0 else None
        )

    server: Server[Any] = Server(
        "shop", on_list_resources=list_resources, on_list_resource_templates=list_templates
    )
    add_skills(server, folder, options=ServerOptions(page_size=2, legacy_features=ALL_OFF))
    async with connected(server, version) as client:
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            names += [resource.name for resource in page.resources]
            if (cursor := page.next_cursor) is None:
                break
        assert names == ["0", "1", "2", "a", "b", "c"]
        first = await client.list_resource_templates()
        second = await client.list_resource_templates(cursor=first.next_cursor)
        assert [t.name for t in first.resource_templates] == ["0"]
        assert [t.name for t in second.resource_templates] == ["1", "skill-file"]
        if version == "2026-07-28":
            last = await call(client, "resources/list", cursor="2")
            assert (last["ttlMs"], last["cacheScope"]) == (5, "public")


async def test_an_error_of_the_server_itself_is_passed_on(folder: Path) -> None:
    from mcp.shared.exceptions import MCPError

    async def read(ctx: Any, params: Any) -> types.ReadResourceResult:
        raise MCPError(-32001, "ask me later")

    server: Server[Any] = Server("shop", on_read_resource=read)
    add_skills(server, folder)
    async with connected(server, "2026-07-28") as client:
        assert (await refusal(client, "resources/read", uri="data://x")).code == -32001


async def test_an_error_inside_a_skill_is_not_taken_for_a_file_of_the_server(folder: Path) -> None:
    source = FunctionSource()

    @source.static("broken")
    def broken() -> str:
        raise RuntimeError

    server = MCPServer("shop")
    add_skills(server, source)
    async with connected(server, "2026-07-28") as client:
        error = await refusal(client, "resources/read", uri="skill://broken/SKILL.md")
        assert error.code == types.INTERNAL_ERROR


@both_eras
async def test_an_extension_without_its_middleware_says_what_is_missing(folder: Path, version: str) -> None:
    server = MCPServer("shop", extensions=[SkillsExtension(folder)])
    async with connected(server, version) as client:
        for method, params in {"skills/list": {}, "skills/get": {"uri": "skill://a/SKILL.md"}}.items():
            error = await refusal(client, method, **params)
            assert error.code == types.INTERNAL_ERROR
            assert "middleware=[skills]" in error.message


@both_eras
async def test_the_middleware_refuses_what_is_malformed(folder: Path, version: str) -> None:
    async with connected(with_extension(folder), version) as client:
        assert (await refusal(client, "resources/read", uri=5)).code == types.INVALID_PARAMS
        assert (await refusal(client, "resources/list", cursor=5)).code == types.INVALID_PARAMS


def test_skills_are_added_once(folder: Path) -> None:
    server = MCPServer("shop")
    add_skills(server, folder)
    with pytest.raises(ValueError, match="pass all sources to one add_skills call"):
        add_skills(server, folder)


def test_what_is_no_server_is_refused(folder: Path) -> None:
    with pytest.raises(TypeError, match="dict is not an MCP server"):
        add_skills({}, folder)


async def test_directories_and_sources_are_served_together(folder: Path) -> None:
    source = FunctionSource()
    source.static("made")(lambda: skill_md("made").decode())
    server: Server[Any] = Server("shop")
    library = add_skills(server, source, f"acme={folder}", folder / "a")
    assert [entry.uri for entry in await library.entries()] == [
        "skill://a/SKILL.md",
        *(f"skill://acme/{name}/SKILL.md" for name in "abc"),
        "skill://made/SKILL.md",
    ]
