"""C1 to C8: skills as Codex treats them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator import Simulator, agree, make_host, opened
from skillwire.host import EventKind, ServerConfig
from skillwire.host.styles.codex import STYLE, mention
from skillwire.limits import DEFAULT_LIMITS
from style_gallery import DEMO, EVIL, HOSTILE_DESCRIPTION, PROJECT, context, entry, gallery, names, registry
from trees import write_skill

pytestmark = pytest.mark.anyio


CODEX = {"style": "codex", "ask": agree}


async def test_c1_a_servers_skills_are_used_unless_disabled(tmp_path: Path) -> None:
    assert ServerConfig(command=("x",)).skills is True
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, host_options=CODEX, config={"skills": False}, demo=sim) as host:
        assert host.skills() == ()
    assert sim.requests == []


async def test_c2_a_read_has_ten_seconds_and_no_more_than_configured(tmp_path: Path) -> None:
    assert (STYLE.seconds(30), STYLE.seconds(3)) == (10, 3)
    sim = Simulator()
    async with opened(tmp_path, host_options=CODEX, demo=sim) as host:
        (server,) = host.places.connected.values()  # pyright: ignore[reportPrivateUsage]
        assert server.config.call_seconds == 10


@pytest.mark.parametrize(
    ("uri", "cap"),
    [
        ("skill://" + "a/" * 1030 + "refunds/SKILL.md", "uri_bytes"),
        ("skill://a%0Ab/refunds/SKILL.md", "plain_uris"),
        ("skill://a%C2%85/refunds/SKILL.md", "plain_uris"),
        ("skill://a/refunds/SKILL.md", ""),
    ],
)
def test_c2_long_uris_and_control_characters_are_refused_by_name(uri: str, cap: str) -> None:
    refusal = STYLE.refusal(entry(uri), STYLE.limits(DEFAULT_LIMITS))
    assert (cap in refusal) if cap else refusal == ""


async def test_c2_what_is_refused_is_reported(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", path="p/" * 1100 + "refunds")
    async with opened(tmp_path, host_options=CODEX, demo=sim) as host:
        assert host.skills() == ()
        assert any("uri_bytes" in event.message for event in host.log.events_so_far())


@pytest.mark.requirement("VER-2")
async def test_c3_the_file_decides_and_the_index_is_advisory(tmp_path: Path) -> None:
    sim = Simulator(declare=None)
    listed = {
        "type": "skill-md",
        "name": "refunds",
        "description": "Listed.",
        "url": "skill://refunds/SKILL.md",
    }
    sim.resources["skill://index.json"] = json.dumps({"skills": [listed]}).encode()
    sim.resources["skill://refunds/SKILL.md"] = b"---\nname: refunds\ndescription: In the file.\n---\nBody.\n"
    async with opened(tmp_path, host_options=CODEX, demo=sim) as host:
        assert [skill.entry.description for skill in host.skills()] == ["In the file."]
        text = (await host.load("refunds")).text
    assert "name: refunds\ndescription: In the file.\n" in text


@pytest.mark.requirement("VER-5")
async def test_c3_where_a_dialect_has_no_metadata_the_file_is_peeked_at(tmp_path: Path) -> None:
    from skillwire.skill import digest_of

    data = b"---\nname: refunds\ndescription: In the file.\n---\nBody.\n"
    sim = Simulator(declare=None)
    files = [{"path": "SKILL.md", "size": len(data), "hash": digest_of(data)}]
    sim.resources["skill://refunds/SKILL.md"] = data
    sim.resources["skill://refunds/_manifest"] = json.dumps({"skill": "refunds", "files": files}).encode()
    async with opened(tmp_path, host_options=CODEX, demo=sim) as host:
        assert "refunds: In the file. (uri:" in host.catalog()
        assert host.active() == ()
        assert [*host.cache.files()] == []


@pytest.mark.parametrize(
    "where", [{"metadata": {"short-description": "Pays (short)."}}, {"short-description": "Pays (short)."}]
)
def test_c3_a_short_description_is_shown_in_the_list(where: dict[str, Any]) -> None:
    made = registry(STYLE, {DEMO: [entry(**where)]}).skills()
    assert "- refunds: Pays [short]. (uri:" in STYLE.catalog(made, context(STYLE)).text


def test_c4_the_block_names_files_and_uris() -> None:
    text = STYLE.catalog(gallery(STYLE), context(STYLE)).text
    assert text.startswith("## Skills\n")
    assert "- refunds: My own (local) way. (file: /home/me/skills/refunds/SKILL.md)\n" in text
    assert "(uri: skill://acme/reports/SKILL.md, server: demo)" in text


async def test_c4_without_a_servers_skill_the_text_is_the_same_to_the_byte(tmp_path: Path) -> None:
    write_skill(tmp_path / "own/refunds")
    sim = Simulator()
    own = {**CODEX, "directories": [tmp_path / "own"]}
    async with make_host(tmp_path, **own) as host:
        alone = host.catalog()
    async with opened(tmp_path, host_options=own, demo=sim) as host:
        assert host.catalog() == alone
        assert "MCP" not in alone
        sim.skill("reports")
        await host.refresh()
        assert "call read_mcp_resource with its server and its uri" in host.catalog()
        assert str(tmp_path / "own/refunds/SKILL.md") in host.catalog()


@pytest.mark.requirement("SEC-1")
def test_c4_a_servers_words_cannot_name_a_file() -> None:
    made = registry(STYLE, {EVIL: [entry(description=HOSTILE_DESCRIPTION)]}).skills()
    (line,) = [row for row in STYLE.catalog(made, context(STYLE)).text.splitlines() if row.startswith("- ")]
    assert "(file:" not in line
    assert line.count("(") == 1
    assert line.endswith("(uri: skill://acme/refunds/SKILL.md, server: evil)")


@pytest.mark.requirement("ENT-5")
async def test_c5_local_wins_and_the_masked_one_is_reported_and_loadable(tmp_path: Path) -> None:
    write_skill(tmp_path / "own/refunds")
    sim = Simulator()
    sim.skill("refunds")
    own = {**CODEX, "directories": [tmp_path / "own"]}
    async with opened(tmp_path, host_options=own, demo=sim) as host:
        assert {skill.origin.label: skill.handle for skill in host.skills()} == {
            "own": "refunds",
            "demo": "demo/refunds",
        }
        (told,) = [event for event in host.log.events_so_far() if event.kind is EventKind.COLLISION]
        assert "masked by the one from local directory own" in told.message
        assert 'server="demo"' in (await host.load("demo/refunds")).text
    two = {DEMO: [entry()], EVIL: [entry()]}
    assert names(STYLE, two) == {"demo": "demo/refunds", "evil": "evil/refunds"}


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Use $reports, please", ["reports"]),
        ("$reports. And ($demo/refunds)!", ["reports", "demo/refunds"]),
        ("$reports $reports", ["reports"]),
        ("costs $5, $HOME, \\$reports, $$reports, a$reports", []),
        ("$REPORTS", ["reports"]),
        ("nothing", []),
    ],
)
def test_c6_a_mention_becomes_the_exact_call(message: str, found: list[str]) -> None:
    skills = STYLE.mentioned(message, gallery(STYLE))
    assert [skill.handle for skill in skills] == found
    if "reports" in found:
        call = 'call read_mcp_resource(server="demo", uri="skill://acme/reports/SKILL.md")'
        assert call in map(mention, skills)


@pytest.mark.requirement("SEC-5")
async def test_c6_a_local_skill_comes_with_its_text_and_a_servers_with_its_call(tmp_path: Path) -> None:
    write_skill(tmp_path / "own/notes")
    write_skill(tmp_path / "own/quiet", description="Hush.\nuser-invocable: false")
    sim = Simulator()
    sim.skill("refunds")
    own = {**CODEX, "directories": [tmp_path / "own"]}
    async with opened(tmp_path, host_options=own, demo=sim) as host:
        text = await host.mentions("Do $notes, then $refunds and $quiet.")
        assert "<local_skill_" in text
        assert "# notes" in text
        assert '- refunds: call read_mcp_resource(server="demo", uri="skill://refunds/SKILL.md")' in text
        assert "quiet" not in text
        assert [held.entry.name for held in host.active()] == ["notes"]
        assert await host.mentions("nothing") == ""
    assert sim.read_uris() == []


@pytest.mark.requirement("VER-7")
async def test_c6_the_call_loads_the_skill_with_approval_and_verification(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"More."})
    async with opened(tmp_path, host_options={"style": "codex"}, demo=sim) as host:
        (read,) = host.tools()
        call = {"server": "demo", "uri": "skill://refunds/SKILL.md"}
        assert (await read.handler(call)).is_error
        assert sim.read_uris() == []
        await host.decide.approve(await host.find("refunds"))
        assert "<untrusted_skill_" in (await read.handler(call)).text
        assert "More." in (await read.handler({"server": "demo", "uri": "skill://refunds/a.md"})).text
        assert (await read.handler({"server": "demo", "uri": "file:///etc/passwd"})).is_error


async def test_c7_one_connection_serves_discovery_and_use(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, host_options=CODEX, demo=sim) as host:
        await host.load("refunds")
        await host.refresh()
    opening = [request for request in sim.requests if request.method in ("initialize", "server/discover")]
    assert len(opening) == 1


async def test_c8_an_unknown_type_is_reported_and_skipped(tmp_path: Path) -> None:
    sim = Simulator(declare=None)
    entries = [
        {"type": "hologram", "name": "x", "description": "x", "url": "skill://x/SKILL.md"},
        {"type": "skill-md", "name": "y", "description": "y", "url": "custom://y/SKILL.md"},
    ]
    sim.resources["skill://index.json"] = json.dumps({"skills": entries}).encode()
    async with opened(tmp_path, host_options=CODEX, demo=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["y"]
        assert any("hologram" in event.message for event in host.log.events_so_far())


def test_the_project_is_no_server() -> None:
    (local,) = registry(STYLE, {PROJECT: [entry()]}).skills()
    assert STYLE.tag(local) == ""
