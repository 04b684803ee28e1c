"""Clients that know only tools or prompts can find, load and read skills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from fastmcp import FastMCP
from mcp import Client
from mcp.client.extension import advertise
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

from clients import ERAS, both_eras, call, connected, refusal
from folder_server import in_task
from skillwire import FunctionSource, LegacyFeatures, SkillServer, SkillsExtension, add_skills
from skillwire.server import ServerOptions
from skillwire.wire import EXTENSION_ID
from trees import skill_md, write, write_skill

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "code-review", {"refs/checklist.md": b"look twice\n", "logo.png": b"\xff\x00"})
    write_skill(tmp_path / "team/notes", description="Take notes in a meeting.")
    write_skill(tmp_path / "home/notes", description="Remember what to buy.")
    return tmp_path


def plain(target: Any, version: str) -> Client:
    """A client that has never heard of the extension."""
    mode: Any = ERAS[version]
    return Client(target, mode=mode)


async def tools_of(client: Client) -> dict[str, types.Tool]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def use(client: Client, tool: str, **arguments: str) -> tuple[bool, str]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, types.CallToolResult)
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return bool(result.is_error), content.text


@both_eras
async def test_a_client_that_knows_only_tools_loads_a_skill_and_reads_its_files(
    folder: Path, version: str
) -> None:
    async with plain(SkillServer(folder).low_level, version) as client:
        tools = await tools_of(client)
        assert list(tools) == ["load_skill", "read_skill_file"]
        description = tools["load_skill"].description or ""
        assert "- code-review: Does a thing." in description
        assert "- team/notes: Take notes in a meeting." in description
        is_error, text = await use(client, "load_skill", name="code-review")
        heading, _, rest = text.partition("\n\n")
        assert not is_error
        assert "skill://code-review/SKILL.md" in heading
        assert "refs/checklist.md" in heading
        assert rest == skill_md("code-review").decode()
        assert await use(client, "read_skill_file", name="code-review", path="refs/checklist.md") == (
            False,
            "look twice\n",
        )


@both_eras
async def test_a_binary_file_comes_as_a_resource(folder: Path, version: str) -> None:
    async with plain(SkillServer(folder).low_level, version) as client:
        result = await client.call_tool("read_skill_file", {"name": "code-review", "path": "logo.png"})
        assert isinstance(result, types.CallToolResult)
        [content] = result.content
        assert isinstance(content, types.EmbeddedResource)
        assert isinstance(content.resource, types.BlobResourceContents)
        assert (content.resource.mime_type, content.resource.blob) == ("image/png", "/wA=")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("load_skill", {"name": "code-reviews"}, "perhaps code-review"),
        ("load_skill", {"name": "nothing-like-it"}, "There is no skill called 'nothing-like-it'"),
        ("load_skill", {"name": "notes"}, "home/notes, team/notes"),
        ("load_skill", {}, "'name' is missing"),
        ("read_skill_file", {"name": "code-review", "path": "../team/notes/SKILL.md"}, "'..'"),
        ("read_skill_file", {"name": "code-review", "path": "/etc/passwd"}, "''"),
        ("read_skill_file", {"name": "code-review", "path": "none.md"}, "No resource is served at"),
        ("read_skill_file", {"name": "code-review", "path": "refs"}, "is a directory"),
    ],
)
async def test_what_goes_wrong_is_told_to_the_model(
    folder: Path, tool: str, arguments: dict[str, str], told: str
) -> None:
    async with plain(SkillServer(folder).low_level, "2026-07-28") as client:
        is_error, text = await use(client, tool, **arguments)
        assert is_error
        assert told in text


@pytest.mark.parametrize("name", ["team/notes", "skill://team/notes/SKILL.md", " team/notes/ "])
async def test_a_path_or_a_uri_names_a_skill_too(folder: Path, name: str) -> None:
    async with plain(SkillServer(folder).low_level, "2026-07-28") as client:
        assert "Take notes in a meeting." in (await use(client, "load_skill", name=name))[1]


@both_eras
async def test_an_unlisted_skill_is_loaded_by_name_and_not_mentioned(folder: Path, version: str) -> None:
    async with plain(
        SkillServer(folder, options=ServerOptions(unlisted=("code-*",))).low_level, version
    ) as client:
        assert "code-review" not in ((await tools_of(client))["load_skill"].description or "")
        assert not (await use(client, "load_skill", name="code-review"))[0]


@both_eras
async def test_tools_are_hidden_from_clients_that_know_the_extension_but_still_work(
    folder: Path, version: str
) -> None:
    server = SkillServer(folder)
    async with connected(server.low_level, version) as knowing, plain(server.low_level, version) as other:
        assert await tools_of(knowing) == {}
        assert len(await tools_of(other)) == 2
        assert not (await use(knowing, "load_skill", name="code-review"))[0]


async def test_a_list_that_depends_on_the_client_is_private(folder: Path) -> None:
    for mode, scope in (("auto", "private"), ("always", "public")):
        server = SkillServer(folder, options=ServerOptions(legacy_features=LegacyFeatures(tools=mode)))  # type: ignore[arg-type]
        async with connected(server.low_level, "2026-07-28") as client:
            answer = await call(client, "tools/list")
            assert (answer["cacheScope"], len(answer["tools"])) == (scope, 0 if mode == "auto" else 2)


@both_eras
async def test_over_http_each_client_sees_its_own_tools(folder: Path, version: str) -> None:
    async with in_task(SkillServer(folder).http_app()) as http:
        mode: Any = ERAS[version]
        async with (
            plain(http.url, version) as other,
            Client(http.url, mode=mode, extensions=[advertise(EXTENSION_ID)]) as own,
        ):
            assert (len(await tools_of(other)), len(await tools_of(own))) == (2, 0)
            assert not (await use(other, "load_skill", name="code-review"))[0]


@both_eras
async def test_never_means_never(folder: Path, version: str) -> None:
    async with plain(
        SkillServer(folder, options=ServerOptions(legacy_features=LegacyFeatures(tools="never"))).low_level,
        version,
    ) as client:
        assert client.server_capabilities.tools is None
        assert (await refusal(client, "tools/list")).code == types.METHOD_NOT_FOUND


async def test_a_large_catalog_is_searched_instead(tmp_path: Path) -> None:
    for number in range(150):
        write_skill(tmp_path / f"skill-{number}", description=f"Cooks dish number {number}. " * 4)
    write_skill(tmp_path / "invoices", description="Checks bills and pays them.")
    async with plain(SkillServer(tmp_path).low_level, "2026-07-28") as client:
        tools = await tools_of(client)
        assert list(tools) == ["load_skill", "read_skill_file", "search_skills"]
        assert "skill-149" in (tools["load_skill"].description or "")
        assert "Cooks" not in (tools["load_skill"].description or "")
        found = (await use(client, "search_skills", query="paying a bill"))[1].splitlines()
        assert found[0] == "- invoices: Checks bills and pays them."
        assert "No skill seems to fit" in (await use(client, "search_skills", query="zzz"))[1]
        assert len((await use(client, "search_skills", query="dish"))[1].splitlines()) == 21


async def test_a_huge_catalog_is_not_named_at_all(tmp_path: Path) -> None:
    for number in range(300):
        write_skill(tmp_path / f"{number}-{'x' * 40}")
    async with plain(SkillServer(tmp_path).low_level, "2026-07-28") as client:
        description = (await tools_of(client))["load_skill"].description or ""
        assert "There are 300" in description
        assert len(description) < 310


async def test_without_skills_there_are_no_tools(tmp_path: Path) -> None:
    async with plain(SkillServer(tmp_path).low_level, "2026-07-28") as client:
        assert await tools_of(client) == {}


@both_eras
async def test_each_skill_is_a_prompt(folder: Path, version: str) -> None:
    async with plain(SkillServer(folder, options=ServerOptions(page_size=2)).low_level, version) as client:
        first = await client.list_prompts()
        second = await client.list_prompts(cursor=first.next_cursor)
        prompts = [*first.prompts, *second.prompts]
        assert [prompt.name for prompt in prompts] == ["code-review", "home/notes", "team/notes"]
        assert prompts[1].description == "Remember what to buy."
        assert second.next_cursor is None
        got = await client.get_prompt("code-review", {"task": "Look at this."})
        assert isinstance(got, types.GetPromptResult)
        [message] = got.messages
        assert isinstance(message.content, types.TextContent)
        assert skill_md("code-review").decode().rstrip() in message.content.text
        assert message.content.text.endswith("task:\nLook at this.\n")
        for name, told in (("none", "There is no skill"), ("notes", "home/notes")):
            error = await refusal(client, "prompts/get", name=name)
            assert error.code == types.INVALID_PARAMS
            assert told in error.message
        assert (await refusal(client, "prompts/list", cursor="bad")).code == types.INVALID_PARAMS


def mcp_server(folder: Path) -> Any:
    server = MCPServer("shop")
    furnish(server)
    add_skills(server, folder)
    return server


def with_extension(folder: Path) -> Any:
    skills = SkillsExtension(folder)
    server = MCPServer("shop", extensions=[skills], middleware=[skills])
    furnish(server)
    return server


def fast_mcp(folder: Path) -> Any:
    server: Any = FastMCP("shop")
    furnish(server)
    add_skills(server, folder)
    return server._mcp_server


def low_level(folder: Path) -> Any:
    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        names = {None: ["add"], "2": ["load_skill"]}[params.cursor]
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in names]
        return types.ListToolsResult(tools=tools, next_cursor="2" if params.cursor is None else None)

    async def call_tool(ctx: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=f"own {params.name}")])

    async def list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="code-review")])

    async def get_prompt(ctx: Any, params: Any) -> types.GetPromptResult:
        content = types.TextContent(text=f"own {params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    server = Server(
        "shop",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    add_skills(server, folder)
    return server


def furnish(server: Any) -> None:
    def add() -> str:
        return "own add"

    def load_skill() -> str:
        return "own load_skill"

    def prompt() -> str:
        return "own code-review"

    server.tool()(add)
    server.tool()(load_skill)
    server.prompt("code-review")(prompt)


@both_eras
@pytest.mark.parametrize("build", [low_level, mcp_server, with_extension, fast_mcp])
async def test_tools_and_prompts_that_the_server_has_stay_its_own(
    folder: Path, version: str, build: Any
) -> None:
    async with plain(build(folder), version) as client:
        tools: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += [tool.name for tool in page.tools]
            if (cursor := page.next_cursor) is None:
                break
        assert tools == ["add", "load_skill", "read_skill_file"]
        assert (await use(client, "add"))[1] == "own add"
        assert (await use(client, "load_skill"))[1] == "own load_skill"
        assert (await use(client, "read_skill_file", name="code-review", path="refs/checklist.md"))[1] == (
            "look twice\n"
        )
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        assert names == ["code-review", "home/notes", "team/notes"]
        for name, told in (("code-review", "own code-review"), ("team/notes", "Take notes in a meeting.")):
            got = await client.get_prompt(name)
            assert isinstance(got, types.GetPromptResult)
            [message] = got.messages
            assert isinstance(message.content, types.TextContent)
            assert told in message.content.text


@both_eras
async def test_a_skill_that_a_function_makes_is_loaded_as_it_is_now(version: str) -> None:
    made = FunctionSource()
    count = iter(range(100))

    @made.dynamic("counter")
    def counter() -> str:
        return skill_md("counter").decode() + f"{next(count)}\n"

    async with plain(SkillServer(made).low_level, version) as client:
        first, second = [(await use(client, "load_skill", name="counter"))[1] for _ in range(2)]
        assert first != second
        assert first.startswith("Skill counter (skill://counter/SKILL.md).\n\n")


async def test_an_edit_is_in_what_is_loaded_next(folder: Path) -> None:
    async with plain(SkillServer(folder).low_level, "2026-07-28") as client:
        write(folder / "code-review/SKILL.md", skill_md("code-review", "New words."))
        assert "New words." in (await use(client, "load_skill", name="code-review"))[1]
