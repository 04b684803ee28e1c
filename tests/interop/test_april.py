"""Servers of the April draft: they declare the extension and serve an index, and have no `skills/list`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from folder_server import in_thread
from interop import april_server, april_skills
from interop.peers import Peers
from interop.processes import listening
from simulator import agree, make_host
from skillwire import ServerConfig, SkillHost
from skillwire.errors import SkillNotFound
from skillwire.skill import Dialect

pytestmark = pytest.mark.anyio

STYLES = ["spec", "codex", "goose", "gemini", "wayland"]
REVISIONS = ["auto", "legacy"]
PYTHON = [sys.executable, april_server.__file__]


def python_server(*options: str) -> dict[str, Any]:
    """A server with these options in this process."""
    return {"instance": april_server.make_server(april_server.parse([*options]))}


@pytest.fixture(scope="module")
def typescript(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    data = tmp_path_factory.mktemp("april") / "skills.json"
    data.write_text(april_skills.as_json(), "utf-8")
    return [peers.node, str(peers.root / "april_server.mjs"), str(data)]


@pytest.fixture(scope="module")
def python_url() -> Iterator[str]:
    app = april_server.make_server(april_server.parse([])).streamable_http_app()
    with in_thread(app) as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def typescript_url(typescript: list[str]) -> Iterator[str]:
    with listening([*typescript, "--http"]) as url:
        yield url


@pytest.fixture(
    params=[
        pytest.param("python stdio", marks=pytest.mark.process),
        "python http",
        pytest.param("typescript stdio", marks=pytest.mark.peer),
        pytest.param("typescript http", marks=pytest.mark.peer),
    ]
)
def server(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where an April server with a full index is."""
    match request.param.split():
        case ["python", "stdio"]:
            return {"command": tuple(PYTHON)}
        case ["typescript", "stdio"]:
            return {"command": tuple(request.getfixturevalue("typescript"))}
        case words:
            return {"url": request.getfixturevalue(f"{words[0]}_url")}


def host_with(tmp_path: Path, place: dict[str, Any], *, revision: Any = "auto", **options: Any) -> SkillHost:
    config = ServerConfig(**place, era=revision, connect_seconds=60, call_seconds=60)
    return make_host(tmp_path, servers={"april": config}, ask=agree, **options)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_its_index_is_read_and_its_skills_load(
    tmp_path: Path, server: dict[str, Any], revision: str
) -> None:
    async with host_with(tmp_path, server, revision=revision) as host:
        (skill,) = host.skills()
        assert (skill.entry.name, skill.entry.dialect) == ("refunds", Dialect.INDEX)
        loaded = await host.load(skill.handle)
        assert "Read [the limits](references/limits.md) first." in loaded.text
        assert (
            await host.read_bytes(skill.handle, "references/limits.md")
        ).data == april_skills.LIMITS.encode()
        view = await host.list_directory(skill.handle, "")
        assert {child.name for child in view.children} == {"SKILL.md", "references", "scripts"}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("slot", ["extensions", "experimental", "none"])
async def test_every_style_reads_it_wherever_it_declares_the_extension(
    tmp_path: Path, style: str, slot: str
) -> None:
    async with host_with(tmp_path, python_server("--declare", slot), style=style) as host:
        assert "refunds" in {skill.entry.name for skill in host.skills()}


async def test_a_skill_that_no_index_names_loads_by_its_uri(tmp_path: Path, server: dict[str, Any]) -> None:
    async with host_with(tmp_path, server) as host:
        loaded = await host.load("skill://hidden/SKILL.md", server="april")
        assert "Hidden text." in loaded.text
        assert not loaded.skill.entry.draft or not loaded.skill.entry.draft.confirmed
        with pytest.raises(SkillNotFound):
            await host.load("skill://nowhere/SKILL.md", server="april")


@pytest.mark.parametrize("style", STYLES)
async def test_an_entry_without_metadata_is_used_where_the_style_reads_it_and_named_elsewhere(
    tmp_path: Path, style: str
) -> None:
    async with host_with(tmp_path, python_server("--index", "minimal"), style=style) as host:
        names = {skill.entry.uri for skill in host.skills()}
        if style in ("codex", "wayland"):
            assert {"skill://refunds/SKILL.md", "skill://bare/SKILL.md"} <= names
        else:
            assert names == set()
            assert any("has no description" in line for line in problems(host))
            assert "Refunds" in (await host.load("skill://refunds/SKILL.md", server="april")).text


async def test_a_bad_entry_affects_only_itself_with_one_line_that_names_it(tmp_path: Path) -> None:
    async with host_with(tmp_path, python_server("--index", "malformed")) as host:
        assert {skill.uri for skill in host.skills()} == {
            "skill://refunds/SKILL.md",
            "skill://other/refunds/SKILL.md",
        }
        lines = problems(host)
        for number, words in {
            2: "not an object",
            3: "no url",
            4: "hologram",
            5: "'..'",
            6: "file: URI",
        }.items():
            assert any(f"skills[{number}]" in line and words in line and "april" in line for line in lines), (
                words
            )


@pytest.mark.parametrize(("kind", "words"), [("not-json", "is not JSON"), ("huge", "passed over")])
async def test_an_index_that_cannot_be_read_whole_is_named(tmp_path: Path, kind: str, words: str) -> None:
    async with host_with(tmp_path, python_server("--index", kind)) as host:
        assert any(words in line and "april" in line for line in problems(host))


async def test_resources_that_only_look_like_skills_are_named_or_used_by_wayland(tmp_path: Path) -> None:
    async with host_with(tmp_path / "a", python_server()) as host:
        assert any("skill://bare" in line and "bare_scan" in line for line in problems(host))
    async with host_with(tmp_path / "b", python_server(), style="wayland") as host:
        assert "skill://bare/SKILL.md" in {skill.uri for skill in host.skills()}


@pytest.mark.parametrize("style", ["codex", "goose"])
async def test_a_server_without_resources_is_asked_for_its_index_by_codex_and_goose(
    tmp_path: Path, style: str
) -> None:
    place = python_server("--declare", "none", "--no-resources")
    async with host_with(tmp_path / "a", place, style=style) as host:
        assert [skill.entry.name for skill in host.skills()] == ["refunds"]
    async with host_with(tmp_path / "b", place) as host:
        assert host.skills() == ()


def problems(host: SkillHost) -> list[str]:
    """What the host says about what it left out."""
    return [str(line) for line in (*host.log.failures(), *host.log.left_out())]


def test_the_data_for_both_servers_is_the_same() -> None:
    assert json.loads(april_skills.as_json())["products"] == list(april_skills.PRODUCTS)
