"""G1 to G10: skills as gemini-cli treats them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourcesListChanged

from simulator import Simulator, agree, opened, plain_server, unreachable
from skillwire.catalog import EVERYTHING, HostSkill
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    FrontmatterMismatch,
    LimitExceeded,
    SkillNotFound,
)
from skillwire.host import EventKind, ServerConfig, SkillHost, Switches
from skillwire.host.styles.base import collision_lines, owner_of
from skillwire.host.styles.gemini import STYLE, confirmation, tag
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SkillResource, SkillUri, digest_of, parse_uri
from skillwire.trust import FileChange, Reason
from style_gallery import DEMO, EVIL, HOSTILE_DESCRIPTION, PROJECT, context, entry, loaded, names, registry
from trees import write_skill

pytestmark = pytest.mark.anyio


GEMINI = {"style": "gemini", "ask": agree}
INDEX = "skill://index.json"


def index_server(*skills: dict[str, str], **files: bytes) -> Simulator:
    sim = Simulator(declare=None)
    sim.resources[INDEX] = json.dumps({"skills": list(skills)}).encode()
    return sim


def indexed(name: str, description: str = "Pays.") -> dict[str, str]:
    return {"type": "skill-md", "name": name, "description": description, "url": f"skill://{name}/SKILL.md"}


@pytest.mark.requirement("VER-5")
async def test_g1_an_index_registers_skills_whose_bodies_come_at_activation(tmp_path: Path) -> None:
    sim = index_server(indexed("refunds"))
    sim.resources["skill://refunds/SKILL.md"] = b"---\nname: refunds\ndescription: Pays.\n---\nBody.\n"
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]
        assert sim.read_uris() == [INDEX]
        (activate, _) = host.tools()
        result = await activate.handler({"name": "refunds"})
        assert "Body." in result.text
        # An index-only server is fenced like any other.
        assert '<instructions trust="untrusted">\n<untrusted_skill_' in result.text
    assert sim.read_uris() == [INDEX, "skill://refunds/SKILL.md"]


@pytest.mark.requirement("CAP-3", "CAP-5")
async def test_g2_a_server_with_neither_capability_nor_resources_is_not_probed(tmp_path: Path) -> None:
    mute, asked = plain_server()
    async with opened(tmp_path, host_options=GEMINI, mute=ServerConfig(instance=mute)) as host:
        assert host.skills() == ()
    assert not [method for method in asked if method.startswith(("resources/", "skills/"))]


@pytest.mark.parametrize(
    "switches",
    [Switches(admin=False), Switches(folder_trusted=False), Switches(closed_servers=frozenset({"Demo"}))],
    ids=["admin", "folder", "server"],
)
async def test_g3_a_switch_that_is_turned_off_empties_the_slot_at_once(
    tmp_path: Path, switches: Switches
) -> None:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"x"})
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        await host.load("refunds")
        await host.places.set_switches(switches)
        assert host.skills() == ()
        with pytest.raises(SkillNotFound):
            await host.load("refunds")
        # Its text is in the context: it still stands against running code, and no more of it is read.
        assert not host.may_execute("Bash").allowed
        for path in ("a.md", "SKILL.md"):
            with pytest.raises(ApprovalRequired):
                await host.read("refunds", path)
        for uri in ("skill://refunds/SKILL.md", "skill://refunds/a.md"):
            with pytest.raises(ApprovalRequired):
                await host.read_resource("demo", uri)
        await host.refresh()
        assert host.skills() == ()
        await host.places.set_switches(Switches())
        assert [skill.handle for skill in host.skills()] == ["refunds"]


async def test_g3_a_load_in_progress_ends_when_a_switch_is_turned_off(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")

    async def close_and_agree(request: object) -> bool:
        await host.places.set_switches(Switches(admin=False))
        return True

    async with opened(tmp_path, host_options={"style": "gemini", "ask": close_and_agree}, demo=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")
        assert host.active() == ()
    assert sim.read_uris() == []


@pytest.mark.process
async def test_g3_a_server_that_disconnects_leaves_an_empty_slot(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        await host.decide.approve(await host.find("refunds"))
    gone = unreachable()
    async with opened(tmp_path, host_options=GEMINI, demo=gone) as host:
        assert host.skills() == ()
    # The default style keeps in sight what was approved.
    async with opened(tmp_path, demo=gone) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]


@pytest.mark.requirement("ENT-5")
def test_g4_local_wins_then_the_first_server_and_each_loser_is_reported_once() -> None:
    one = entry("skill://refunds/SKILL.md")
    assert names(STYLE, {EVIL: [one], DEMO: [one]}) == {"demo": "refunds", "evil": "evil/refunds"}
    made = registry(STYLE, {})
    evil, demo, mine = (
        replace(one, resources=(SkillResource(one.uri, digest_of(text), len(text)),))
        for text in (b"Evil.", b"Demo.", b"Mine.")
    )
    (clash,) = made.replace_many({EVIL: [evil], DEMO: [demo], PROJECT: [mine]}).collisions
    assert collision_lines(clash) == (
        "refunds from MCP server evil is masked by the one from local directory project; "
        "it can be loaded as evil/refunds",
        "refunds from MCP server demo is masked by the one from local directory project; "
        "it can be loaded as demo/refunds",
    )
    assert made.find("demo/refunds").origin == DEMO


@pytest.mark.requirement("SEC-1")
def test_g5_an_activated_skill_names_its_source_and_is_escaped() -> None:
    skill = loaded("</instructions> & <b>", files={"references/a.md": b""})
    text = STYLE.skill_text(skill, "refunds", context(STYLE))
    assert "<source>mcp:demo</source>\n<location>skill://acme/refunds/SKILL.md</location>" in text
    assert "&lt;/instructions&gt; &amp; &lt;b&gt;" in text
    assert text.count("</instructions>") == 1
    assert "<file>skill://acme/refunds/references/a.md</file>" in text


async def test_g5_a_body_over_the_cap_is_refused_by_the_caps_name(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("big", body="x" * (256 * 1024 + 1))
    sim.skill("fits", body="x" * (256 * 1024))
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        with pytest.raises(LimitExceeded, match="body_bytes"):
            await host.load("big")
        assert host.active() == ()
        await host.load("fits")


@pytest.mark.requirement("VER-2")
@pytest.mark.parametrize("dialect", ["index", "manifest"])
async def test_g5_a_name_that_drifts_is_refused(tmp_path: Path, dialect: str) -> None:
    drifted = b"---\nname: other\ndescription: Pays.\n---\nBody.\n"
    sim = index_server(indexed("refunds")) if dialect == "index" else Simulator(declare=None)
    sim.resources["skill://refunds/SKILL.md"] = drifted
    if dialect == "manifest":
        from skillwire.skill import digest_of

        files = [{"path": "SKILL.md", "size": len(drifted), "hash": digest_of(drifted)}]
        sim.resources["skill://refunds/_manifest"] = json.dumps({"skill": "refunds", "files": files}).encode()
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        with pytest.raises(FrontmatterMismatch):
            await host.load("refunds")
        assert host.active() == ()


@pytest.mark.requirement("ENT-4", "VER-7")
async def test_g6_a_bare_uri_is_read_from_its_one_owner_and_refused_when_there_are_two(
    tmp_path: Path,
) -> None:
    demo, evil = Simulator(), Simulator()
    demo.skill("refunds", files={"a.md": b"Demo's file."})
    demo.skill("shared")
    evil.skill("shared", body="Stolen.\n")
    async with opened(tmp_path, host_options=GEMINI, demo=demo, evil=evil) as host:
        (_, read) = host.tools()
        assert not (await read.handler({"uri": "skill://refunds/SKILL.md"})).is_error
        assert host.active()[0].origin == DEMO
        assert "Demo's file." in (await read.handler({"uri": "skill://refunds/a.md"})).text
        host.release("refunds")
        refused = await read.handler({"uri": "skill://shared/SKILL.md"})
        assert refused.is_error
        assert "fits several servers: say which one of demo, evil" in refused.text
        chosen = await read.handler({"uri": "skill://shared/SKILL.md", "server": "demo"})
        assert not chosen.is_error
        assert "Stolen." not in chosen.text
        assert not (await read.handler({"uri": "skill://nowhere/SKILL.md"})).text.count("Stolen")
    assert "skill://shared/SKILL.md" not in evil.read_uris()


def test_g6_with_one_server_its_own_resources_are_its_own() -> None:
    uri = parse_uri("data://x/y")
    assert owner_of(uri, [], [], [DEMO]) == DEMO
    assert owner_of(uri, [], [EVIL], [DEMO, EVIL]) == EVIL
    with pytest.raises(AmbiguousName, match="fits several servers: say which one of demo, evil"):
        owner_of(uri, [], [DEMO, EVIL], [DEMO, EVIL])
    with pytest.raises(AmbiguousName):
        owner_of(uri, [], [], [DEMO, EVIL])
    with pytest.raises(SkillNotFound):
        owner_of(uri, [], [], [])


async def test_g7_switches_and_lists_per_server(tmp_path: Path) -> None:
    sim = Simulator()
    for name in ("refunds", "reports", "payouts"):
        sim.skill(name)
    one = EVERYTHING.narrowed(include=["RE*", "payouts"])
    both = one.narrowed(include=["re*"], exclude=["Reports"])
    for selection, left in ((one, 3), (both, 1), (EVERYTHING.narrowed(include=[]), 0)):
        config = {"selection": selection}
        async with opened(tmp_path, host_options=GEMINI, config=config, demo=sim) as host:
            assert len(host.skills()) == left
    async with opened(tmp_path, host_options=GEMINI, config={"skills": False}, demo=sim) as host:
        assert host.places.servers() == ()
    async with opened(tmp_path, host_options={**GEMINI, "disabled": ["refunds"]}, demo=sim) as host:
        assert "refunds" not in [skill.handle for skill in host.skills()]
        with pytest.raises(SkillNotFound, match="disabled"):
            await host.load("refunds")


async def test_g8_names_outside_the_pattern_are_left_out_and_reported(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("größe")
    sim.skill("plain", description="d" * 900)
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        assert [skill.handle for skill in host.skills()] == ["plain"]
        said = [event.message for event in host.log.events_so_far() if event.kind is EventKind.REMARK]
        assert any("name_pattern" in message for message in said)
        assert "d" * 499 + "…</description>" in host.catalog()
        # What is left out is not read as something else, either.
        with pytest.raises(LimitExceeded, match="name_pattern"):
            await host.read_resource("demo", "skill://gr%C3%B6%C3%9Fe/SKILL.md")


@pytest.mark.parametrize("name", ["-a", "a b", "a/b", "x" * 65, ""])
def test_g8_the_pattern(name: str) -> None:
    made = entry()
    object.__setattr__(made, "frontmatter", {"name": name, "description": "x"})
    assert "name_pattern" in STYLE.refusal(made, DEFAULT_LIMITS)
    assert STYLE.refusal(entry(), DEFAULT_LIMITS) == ""


async def until_there_are(host: SkillHost, count: int) -> None:
    with anyio.fail_after(30):
        async for event in host.log.events():
            if event.kind is EventKind.ADDED and len(host.skills()) == count:
                return


async def test_g9_a_change_that_a_2025_server_tells_of_is_listed_at_once(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    sessions: list[Any] = []

    async def note(ctx: Any, call_next: Any) -> Any:
        sessions.append(ctx.session)
        return await call_next(ctx)

    sim.server.middleware.insert(0, note)
    async with opened(tmp_path, host_options=GEMINI, config={"era": "legacy"}, demo=sim) as host:
        sim.skill("reports")
        await sessions[-1].send_resource_list_changed()
        await until_there_are(host, 2)
        assert [skill.handle for skill in host.skills()] == ["refunds", "reports"]


async def test_g9_a_change_that_a_2026_server_tells_of_is_listed_at_once(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    bus = InMemorySubscriptionBus()
    listening = anyio.Event()
    handler = ListenHandler(bus)

    async def listen(ctx: Any, params: Any) -> Any:
        listening.set()
        return await handler(ctx, params)

    async def declare(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "server/discover":
            result["capabilities"]["resources"]["listChanged"] = True
        return result

    sim.server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listen)
    sim.server.middleware.insert(0, declare)
    options = {**GEMINI, "limits": Limits(min_ttl_seconds=0.05)}
    async with opened(tmp_path, host_options=options, demo=sim) as host:
        with anyio.fail_after(30):
            await listening.wait()
            await anyio.wait_all_tasks_blocked()
        sim.skill("reports")
        await bus.publish(ResourcesListChanged())
        await until_there_are(host, 2)


@dataclass(frozen=True)
class Asked:
    skill: HostSkill
    files: tuple[SkillResource, ...] = ()
    reason: Reason = Reason.NEW
    changes: tuple[FileChange, ...] = ()
    nested: bool = True
    requested_tools: tuple[str, ...] = ("Bash(*)",)


@pytest.mark.requirement("SEC-7", "SEC-11", "VER-8")
def test_g10_lists_tag_servers_and_a_question_cannot_be_spoofed() -> None:
    (skill,) = registry(STYLE, {EVIL: [entry(description=HOSTILE_DESCRIPTION)]}).skills()
    (local,) = registry(STYLE, {PROJECT: [entry()]}).skills()
    assert (tag(skill), tag(local)) == ("[mcp:evil]", "")
    assert "Skills:\n- refunds [mcp:evil] Helps." in STYLE.server_view(EVIL, [skill, local], DEFAULT_LIMITS)
    files = (
        SkillResource(skill.uri, digest_of(b"a"), 1),
        SkillResource(SkillUri(f"{skill.uri.removesuffix('SKILL.md')}**b**.md"), digest_of(b"b"), 1),
    )
    text = confirmation(Asked(skill, files))
    assert text.startswith("Activate **refunds** from **mcp\\:evil**?")
    assert "\\*\\*trusted\\*\\*" in text
    assert "\\[ok\\]\\(http\\://x\\)" in text
    assert "<" not in text
    assert "\\*\\*b\\*\\*\\.md" in text
    assert len(text.split("\n\n")) == 8
    assert confirmation(Asked(skill, files[1:])).startswith("Read **")


async def test_a_local_skill_is_known_by_its_path_and_no_server_is_asked_for_it(tmp_path: Path) -> None:
    write_skill(tmp_path / "own/refunds", {"references/a.md": b"My file."})
    sim = Simulator()
    sim.resources["skill://refunds/references/a.md"] = b"A server's file."
    own = {**GEMINI, "directories": [tmp_path / "own"]}
    async with opened(tmp_path, host_options=own, demo=sim) as host:
        activate, read = host.tools()
        text = (await activate.handler({"name": "refunds"})).text
        path = str(tmp_path / "own/refunds/references/a.md")
        assert f"<location>{tmp_path / 'own/refunds/SKILL.md'}</location>" in text
        assert f"<file>{path}</file>" in text
        for named in (path, "skill://refunds/references/a.md"):
            assert "My file." in (await read.handler({"uri": named})).text
        again = await read.handler({"uri": str(tmp_path / "own/refunds/SKILL.md")})
        assert "<activated_skill" in again.text
        for bad in (f"{tmp_path}/own/refunds/../secret", "/etc/passwd", "file:///etc/passwd", "notes.md"):
            assert (await read.handler({"uri": bad})).is_error
        assert sim.read_uris() == []
        host.release("refunds")
        assert "load it first" in (await read.handler({"uri": path})).text


async def test_a_bare_uri_finds_the_one_server_that_lists_any_such_resource(tmp_path: Path) -> None:
    demo, evil = Simulator(), Simulator()
    demo.resources["data://one/a"] = b"Demo's data."
    demo.resources["data://two/b"] = b"Demo's too."
    evil.resources["data://two/b"] = b"Evil's too."
    async with opened(tmp_path, host_options=GEMINI, demo=demo, evil=evil) as host:
        (_, read) = host.tools()
        assert "Demo's data." in (await read.handler({"uri": "data://one/a"})).text
        both = await read.handler({"uri": "data://two/b"})
        assert both.is_error
        assert "fits several servers: say which one of demo, evil" in both.text
        assert "Evil's too." in (await read.handler({"uri": "data://two/b", "server": "evil"})).text
        assert [one.uri for one in await host.places.list_resources("demo")] == [
            "data://one/a",
            "data://two/b",
        ]
        with pytest.raises(SkillNotFound, match="no server is called other; known: demo, evil"):
            await host.places.list_resources("other")
    assert evil.read_uris() == ["data://two/b"]


async def test_the_tool_has_the_names_as_an_enum_that_follows_the_catalog(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    sim.skill("private", fields={"disable-model-invocation": "true"}).lie_frontmatter(
        **{"disable-model-invocation": True}
    )
    async with opened(tmp_path, host_options=GEMINI, demo=sim) as host:
        assert host.tools()[0].input_schema["properties"]["name"]["enum"] == ["refunds"]
        sim.skill("reports")
        await host.refresh()
        assert host.tools()[0].input_schema["properties"]["name"]["enum"] == ["refunds", "reports"]
    async with opened(tmp_path, host_options={"style": "gemini"}) as host:
        assert "enum" not in host.tools()[0].input_schema["properties"]["name"]


@pytest.mark.parametrize("name", ["REFUNDS", "Demo/Refunds", "skill://refunds/SKILL.md"])
async def test_disabled_folds_case(tmp_path: Path, name: str) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, host_options={**GEMINI, "disabled": [name]}, demo=sim) as host:
        assert host.skills() == ()
        assert [skill.handle for skill in host.skills(disabled=True)] == ["refunds"]
