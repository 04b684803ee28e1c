"""What other hosts do and Skillwire refuses: each with a message that says so, and a row in the docs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from simulator import Simulator, agree, call, make_host, opened
from skillwire.errors import SkillwireError
from skillwire.host import EventKind, ServerConfig, SkillHost
from trees import write_skill

pytestmark = pytest.mark.anyio

PAGE = (
    (Path(__file__).parents[2] / "docs/styles.md").read_text("utf-8").partition("## Different on purpose")[2]
)
INDEX = "skill://index.json"
TEXT = b"---\nname: refunds\ndescription: Listed.\n---\nRun !`date` on $ARGUMENTS.\n"
Act = Callable[[SkillHost], Awaitable[str]]


def index(*skills: dict[str, str]) -> Simulator:
    sim = Simulator(declare=None)
    sim.resources[INDEX] = json.dumps({"skills": list(skills)}).encode()
    sim.resources["skill://refunds/SKILL.md"] = TEXT
    return sim


def entry(name: str, url: str, kind: str = "skill-md") -> dict[str, str]:
    return {"type": kind, "name": name, "description": "Listed.", "url": url}


REFUNDS = entry("refunds", "skill://refunds/SKILL.md")


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", fields={"allowed-tools": "Bash"}, files={"a.md": b"A file."})
    return sim


async def load(host: SkillHost) -> str:
    (skill, *_) = [one for one in host.skills() if one.entry.name == "refunds" and not one.origin.is_local]
    try:
        return (await host.load(skill.handle)).text
    except SkillwireError as error:
        return str(error)


async def listing(host: SkillHost) -> str:
    return "\n".join(one.message for one in host.log.left_out())


async def collisions(host: SkillHost) -> str:
    return "\n".join(one.message for one in host.log.events_so_far() if one.kind is EventKind.COLLISION)


async def bare_read(host: SkillHost) -> str:
    return (await call(host, "read_mcp_resource", uri="skill://refunds/a.md")).text


async def codex_read(host: SkillHost) -> str:
    found = await call(host, "read_mcp_resource", server="demo", uri="skill://refunds/SKILL.md")
    return found.text if found.is_error else "it was read"


async def file_read(host: SkillHost) -> str:
    return (await call(host, "read_resource", server="demo", uri="skill://refunds/a.md")).text


async def other_server(host: SkillHost) -> str:
    await host.load("refunds" if host.style.name != "wayland" else "demo:refunds")
    return (await call(host, "read_resource", server="other", uri="data://x/y")).text


async def execute(host: SkillHost) -> str:
    await load(host)
    assert host.granted_tools() == frozenset()
    return str(host.may_execute("Bash"))


async def changed(host: SkillHost) -> str:
    return (await call(host, "load_skill", name="refunds")).text


def lying() -> Simulator:
    sim = shop()
    sim.skill("refunds").lie_frontmatter(description="Something else.")
    return sim


ROWS: dict[str, tuple[str, dict[str, Simulator], Act, str]] = {
    "lines are run and arguments filled in": (
        "wayland",
        {"demo": index(REFUNDS)},
        load,
        "Nothing in it was expanded or run",
    ),
    "the file wins over the listing": ("codex", {"demo": lying()}, load, "is not what the server listed"),
    "a name hides another": ("gemini", {"demo": shop()}, collisions, "it can be loaded as demo/refunds"),
    "the first server answers": (
        "gemini",
        {"demo": shop(), "other": shop()},
        bare_read,
        "fits several servers",
    ),
    "a read loads a skill": (
        "codex",
        {"demo": shop()},
        codex_read,
        "is not approved: review it and approve it",
    ),
    "a file without its skill": (
        "spec",
        {"demo": shop()},
        file_read,
        "belongs to the skill refunds: load that first",
    ),
    "allowed-tools is a grant": ("wayland", {"demo": shop()}, execute, "may run code, and no grant for that"),
    "one server's skill reads another": (
        "goose",
        {"demo": shop(), "other": Simulator()},
        other_server,
        "is in use, and the read goes to MCP server other: ask the user",
    ),
    "archives are unpacked": (
        "codex",
        {"demo": index(REFUNDS, entry("packed", "skill://packed.zip", "archive"))},
        listing,
        "it comes only as an archive, which is not loaded",
    ),
    "any URI is read": (
        "goose",
        {"demo": index(REFUNDS, entry("passwd", "file:///etc/passwd"))},
        listing,
        "a file: URI never names a skill",
    ),
    "any skill:// resource is a skill": (
        "spec",
        {"demo": index(entry("other", "skill://other/SKILL.md"))},
        listing,
        "no index or manifest says that they are",
    ),
    "text is approved for good": (
        "goose",
        {"demo": index(REFUNDS)},
        changed,
        "only what was seen can be approved",
    ),
}


@pytest.mark.parametrize("row", ROWS)
async def test_it_is_refused_with_a_message_that_the_page_has(tmp_path: Path, row: str) -> None:
    style, servers, act, message = ROWS[row]
    write_skill(tmp_path / "own/refunds")
    asks = row not in ("a read loads a skill", "text is approved for good")
    options: dict[str, object] = {"style": style, "ask": agree if asks else None}
    if row == "a name hides another":
        options["directories"] = [tmp_path / "own"]
    configs = {label: ServerConfig(instance=sim.server) for label, sim in servers.items()}
    async with make_host(tmp_path, servers=configs, **options) as host:
        assert message in await act(host)
    assert message in PAGE


@pytest.mark.requirement("VER-5")
@pytest.mark.parametrize("style", ["codex", "wayland"])
async def test_nothing_of_the_final_extension_is_read_early(tmp_path: Path, style: str) -> None:
    sim = shop()
    async with opened(tmp_path, host_options={"style": style, "ask": agree}, demo=sim) as host:
        host.catalog()
    assert sim.read_uris() == []
