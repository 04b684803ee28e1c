"""Our own servers, on every transport and framework, have no findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

import skillwire
from interop.processes import SKILLWIRE
from served import serving_http
from skillwire import FunctionSource, SkillServer, SkillsExtension, add_skills

pytestmark = pytest.mark.anyio

SKILLS = Path(__file__).parents[2] / "examples/skills"
CHECKED = [(5, 8), (5, 8)]


def checked(report: skillwire.Report) -> list[tuple[int, int]]:
    return [(revision.checked, revision.files) for revision in report.revisions]


@pytest.mark.process
@pytest.mark.requirement("CAP-1", "CAP-2", "CAP-4", "ENT-3", "LST-1", "LST-2", "GET-1", "DIR-1", "RD-2")
async def test_skillwire_serve_has_no_finding_over_stdio() -> None:
    """With pages and an unlisted skill, which change what is asked."""
    options = ("--page-size", "2", "--unlisted", "incident-report/*")
    report = await skillwire.verify([*SKILLWIRE, "serve", str(SKILLS), *options])
    assert report.findings == ()
    assert checked(report) == CHECKED


@pytest.mark.process
@pytest.mark.requirement("CAP-4", "RD-1", "DIR-2", "DIR-3", "FMT-7")
async def test_skillwire_serve_has_no_finding_over_http_with_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open-sesame")
    with serving_http(SKILLS, "--token-file", tmp_path / "token") as (url, _):
        report = await skillwire.verify(url, token="open-sesame")
        assert report.findings == ()
        assert checked(report) == CHECKED
        with pytest.raises(skillwire.SourceError, match="HTTP 401"):
            await skillwire.verify(url, token="guess")


def stateless() -> object:
    return SkillServer(SKILLS).http_app(stateless=True)


def low_level() -> object:
    server = Server[Any]("shop")
    add_skills(server, SKILLS)
    return server


def mcp_server() -> object:
    skills = SkillsExtension(SKILLS)
    return MCPServer("shop", extensions=[skills], middleware=[skills])


def fast_mcp() -> object:
    server = FastMCP("shop")
    add_skills(server, SKILLS)
    return server


@pytest.mark.parametrize("make", [lambda: SkillServer(SKILLS), stateless, low_level, mcp_server, fast_mcp])
async def test_a_server_object_is_verified_in_this_process(make: Any) -> None:
    report = await skillwire.verify(make())
    assert report.findings == ()
    assert checked(report) == CHECKED


async def test_skills_that_functions_make_have_no_finding() -> None:
    made = FunctionSource()
    head = "---\nname: {}\ndescription: What the kitchen offers. Use when somebody asks for it.\n---\n"

    @made.dynamic("house/menu")
    def menu() -> str:
        menu.calls = getattr(menu, "calls", 0) + 1  # type: ignore[attr-defined]
        return head.format("menu") + f"Soup number {menu.calls}.\n"  # type: ignore[attr-defined]

    @made.static("house/wine")
    def wine() -> dict[str, str]:
        return {"SKILL.md": head.format("wine") + "See [the list](list.txt).\n", "list.txt": "red\nwhite\n"}

    report = await skillwire.verify(SkillServer(made))
    assert report.findings == ()
    assert [revision.checked for revision in report.revisions] == [2, 2]
