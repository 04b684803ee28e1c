"""One state of a skill: the commands, the page, the gateway, JSON and adapters all say the same."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clients import refusal
from gateways import joined, make_gateway, text_of
from host.test_index_skills import april
from host.test_publishers import ACME, KEY, signed_by
from publishers import new_key
from simulator import SimulatedSkill, Simulator, agree, call, opened
from skillwire.adapters.calls import CallQuestion, ask_or_call
from skillwire.chat import ChatSession, SessionCommands
from skillwire.chat.demo import demo_model
from skillwire.cli.approvals import _selected
from skillwire.cli.output import Screen
from skillwire.cli.skill_view import SkillRow, show_list, show_skill, skill_json
from skillwire.errors import SkillNotFound
from skillwire.host import LocalDirectory, ServerConfig, SkillHost
from skillwire.limits import Limits
from skillwire.trust import SIGNATURE_FILE, ApprovalMode, Origin
from trees import write_skill
from ui.visitor import visiting

pytestmark = pytest.mark.anyio

URI = "skill://shop/refunds/SKILL.md"
PAGE = "/skill?on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md"


def plain() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"text"})
    return sim


Step = Callable[[SkillHost, Simulator], Awaitable[None]]


async def nothing(host: SkillHost, sim: Simulator) -> None: ...


async def approve(host: SkillHost, sim: Simulator) -> None:
    await host.decide.approve(await host.find("refunds"))


async def revoke(host: SkillHost, sim: Simulator) -> None:
    await approve(host, sim)
    await host.decide.revoke("refunds")


async def decline(host: SkillHost, sim: Simulator) -> None:
    await host.decide.decline(await host.find("refunds"))


async def change_body(host: SkillHost, sim: Simulator) -> None:
    await approve(host, sim)
    skill_of(sim).change_body("Other text.")
    await host.refresh()


async def change_frontmatter(host: SkillHost, sim: Simulator) -> None:
    await approve(host, sim)
    changed = Simulator().skill("refunds", fields={"license": "MIT"}).files["SKILL.md"]
    skill_of(sim).change_file("SKILL.md", changed)
    await host.refresh()


async def add_file(host: SkillHost, sim: Simulator) -> None:
    await approve(host, sim)
    skill_of(sim).change_file("b.md", b"more")
    await host.refresh()


async def sign_with_another_key(host: SkillHost, sim: Simulator) -> None:
    await approve(host, sim)
    other = skill_of(signed_by(new_key())).files[SIGNATURE_FILE]
    skill_of(sim).change_file(SIGNATURE_FILE, other)
    await host.refresh()


@dataclass(frozen=True)
class Situation:
    step: Step
    words: str
    waits: bool
    sim: Callable[[], Simulator] = plain
    config: dict[str, Any] = field(default_factory=dict[str, Any])


REQUIRE = {"require": ("acme",)}
SITUATIONS = {
    "new": Situation(nothing, "not approved", True),
    "approved": Situation(approve, "approved", False),
    "revoked": Situation(revoke, "not approved", True),
    "declined": Situation(decline, "declined", False),
    "changed body": Situation(change_body, "changed (1 file)", True),
    "changed frontmatter": Situation(change_frontmatter, "changed (1 file)", True),
    "added file": Situation(add_file, "changed (1 file)", True),
    "mode always": Situation(nothing, "allowed", False, config={"approval": ApprovalMode.ALWAYS}),
    "mode pinned": Situation(nothing, "not approved", True, config={"approval": ApprovalMode.PINNED}),
    "signed, required": Situation(nothing, "not approved", True, lambda: signed_by(KEY), REQUIRE),
    "signed, required, approved": Situation(approve, "approved", False, lambda: signed_by(KEY), REQUIRE),
    "not signed, required": Situation(nothing, "refused (not signed by acme)", False, config=REQUIRE),
    "signed by others": Situation(
        nothing, "refused (not signed by acme)", False, lambda: signed_by(new_key()), REQUIRE
    ),
    "signer changed": Situation(
        sign_with_another_key, "changed (1 file and signer)", True, lambda: signed_by(KEY)
    ),
    "draft dialect": Situation(nothing, "not approved (no digests)", True, april),
}


async def rows_of(host: SkillHost) -> list[SkillRow]:
    """As `list` makes them, which determines once what holds for several skills."""
    await host.signatures.check_all()
    skills = host.skills(disabled=True)
    statuses = host.decide.statuses((*skills, *skills))
    assert statuses == [host.decide.status(skill) for skill in (*skills, *skills)]
    return [SkillRow(skill, status) for skill, status in zip(skills, statuses, strict=False)]


def skill_of(sim: Simulator) -> SimulatedSkill:
    return next(iter(sim.skills.values()))


async def test_skills_of_one_listing_each_have_their_own_state(tmp_path: Path) -> None:
    sim = Simulator()
    for name in ("alpha", "beta", "gamma", "large", "not/named"):
        sim.skill(name, files={"a.md": b"x" * 2_000} if name == "large" else {})
    limits = Limits(bytes_per_skill=1_000)
    async with opened(tmp_path, shop=sim, host_options={"limits": limits}) as host:
        await host.decide.approve(await host.find("beta"))
        await host.decide.decline(await host.find("gamma"))
        states = {row.skill.entry.name: row.status.words for row in await rows_of(host)}
    assert states == {
        "alpha": "not approved",
        "beta": "approved",
        "gamma": "declined",
        "large": "refused (too large)",
        "not/named": "refused (broken)",
    }


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS.keys())
async def test_everything_that_shows_a_state_says_the_same(
    tmp_path: Path, situation: Situation, capsys: pytest.CaptureFixture[str]
) -> None:
    sim, words = situation.sim(), situation.words
    options = {"config": situation.config, "host_options": {"publishers": [ACME]}}
    async with visiting(tmp_path, shop=sim, **options) as visitor:
        host = visitor.host
        await situation.step(host, sim)
        inbox = await visitor.page("/")
        page = await visitor.page(PAGE)
        [row] = await rows_of(host)
        show_list(Screen(), [row], ())
        listed = capsys.readouterr().out
        show_skill(Screen(), row, "")
        shown = capsys.readouterr().out
        document = skill_json(row)["approval"]
        try:
            selected = [skill.handle for skill in await _selected(host, (), "shop", dynamic=True)]
        except SkillNotFound:
            selected = []
        told = await call(host, "load_skill", name="refunds")
        # What every adapter calls: it asks just where an approval would help.
        load = next(tool for tool in host.tools() if tool.name == "load_skill")
        adapted = await ask_or_call(host, load, {"name": "refunds"})
        session = "\n".join(await SessionCommands(ChatSession(host, demo_model())).run("skills", ""))
    assert row.status.words == words
    assert f"  {words}" in listed
    assert f" {words}" in shown
    assert isinstance(document, dict)
    state, _, reason = words.partition(" (")
    assert (document["state"], document["reason"]) == (state, reason.removesuffix(")") or None)
    assert words in page
    assert ("refunds" in inbox.partition("<main")[2]) == situation.waits
    assert selected == (["refunds"] if situation.waits else [])
    assert f"; {words})" in session
    asks = situation.config.get("approval") is not ApprovalMode.PINNED
    assert isinstance(adapted, CallQuestion) == (situation.waits and asks)
    if state in ("approved", "allowed"):
        assert not told.is_error
        assert adapted == told
    else:
        assert told.is_error
        assert state in told.text
        assert isinstance(adapted, CallQuestion) or (adapted.is_error and state in adapted.text)
    gateway = make_gateway(
        tmp_path,
        host_options={"publishers": [ACME]},
        shop=ServerConfig(instance=sim.server, **situation.config),
    )
    async with gateway, joined(gateway) as client:
        if state in ("approved", "allowed"):
            assert "refunds" in text_of(await client.read_resource(URI))
        else:
            error = await refusal(client, "resources/read", uri=URI)
            assert words in error.message


async def test_before_a_signature_was_fetched_nothing_better_is_said(tmp_path: Path) -> None:
    async with opened(
        tmp_path, shop=signed_by(KEY), config=REQUIRE, host_options={"publishers": [ACME]}
    ) as host:
        skill = await host.find("refunds")
        assert host.decide.status(skill).words == "not approved (signature not checked yet)"
        assert not host.decide.review(skill).waits
        await host.signatures.check_all()
        assert host.decide.status(skill).words == "not approved"
        assert host.decide.review(skill).waits


async def test_a_disabled_skill_keeps_its_state_and_says_so_beside_it(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=plain()) as visitor:
        visitor.host.decide.set_enabled("refunds", False)
        [row] = await rows_of(visitor.host)
        assert row.remarks.startswith("not approved, disabled")
        assert skill_json(row)["enabled"] is False
        page = await visitor.page("/skills")
        assert "not approved</span>" in page
        assert ">disabled</span>" in page
        assert "refunds" not in (await visitor.page("/")).partition("<main")[2]
        with pytest.raises(SkillNotFound):
            await _selected(visitor.host, (), "shop")


async def test_a_skill_that_is_there_twice_has_a_state_for_each_place(tmp_path: Path) -> None:
    write_skill(tmp_path / "project" / "refunds")
    directory = LocalDirectory(Origin.project("project"), tmp_path / "project")
    async with opened(tmp_path, shop=plain(), host_options={"directories": [directory]}) as host:
        for skill in host.skills():
            await host.decide.approve(skill)
        assert {row.status.words for row in await rows_of(host)} == {"approved"}
        await host.decide.revoke("skill://refunds/SKILL.md", server="shop")
        states = {row.skill.origin.label: row.status.words for row in await rows_of(host)}
        assert states == {"shop": "not approved", "project": "approved"}


def test_only_admission_compares_an_approval_with_files() -> None:
    source = Path(__file__).parents[2] / "src/skillwire"
    calls = [
        file.relative_to(source).as_posix()
        for file in source.rglob("*.py")
        if "coverage(" in (text := file.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "coverage"
    ]
    assert set(calls) == {"trust/admission.py"}


async def test_a_load_computes_its_key_and_its_facts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, shop=plain(), host_options={"ask": agree}) as host:
        await host.load("refunds")
        host.release("refunds")
        counts = {"key": 0, "facts": 0}
        store, approver = host.consent, host.decide
        key, facts = store.key, approver.facts

        def counted_key(*given: Any) -> Any:
            counts["key"] += 1
            return key(*given)

        def counted_facts(skill: Any) -> Any:
            counts["facts"] += 1
            return facts(skill)

        monkeypatch.setattr(store, "key", counted_key)
        monkeypatch.setattr(approver, "facts", counted_facts)
        await host.load("refunds")
        assert counts == {"key": 1, "facts": 1}
