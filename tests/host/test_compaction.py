"""Which skills are active in a host, and what it restores after a conversation was shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator import Simulator, agree, opened
from skillwire import Limits
from skillwire.consent import Once
from skillwire.trust import shown_digest

pytestmark = pytest.mark.anyio


def shop(*names: str) -> Simulator:
    sim = Simulator()
    for name in names:
        sim.skill(name, body=f"# How\nThe word is {name}-word.\n")
    return sim


async def test_active_skills_are_listed_with_their_digests_newest_first(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop("one", "two"), host_options={"ask": agree}) as host:
        assert host.active() == ()
        await host.load("one")
        await host.load("two")
        await host.load("one")
        digest = shown_digest((await host.find("one")).entry)
        assert [skill.handle for skill in host.active()] == ["one", "two"]
        assert host.active()[0].digest == digest
        assert host.active()[0].line == f"one from MCP server shop, {digest}"
        host.release("one")
        assert [skill.handle for skill in host.active()] == ["two"]


async def test_the_text_is_given_back_fenced_newest_first(tmp_path: Path) -> None:
    sim = shop("one", "two")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        first = await host.load("one")
        second = await host.load("two")
        fetched = len(sim.read_uris())
        made = await host.after_compaction(100_000)
        assert made.replayed == ("two", "one")
        assert made.text.index(second.text) < made.text.index(first.text)
        assert made.text.count("one-word") == 1
        assert str(made) == made.text
        assert len(sim.read_uris()) == fetched


async def test_a_skill_that_changed_is_named_and_not_repeated(tmp_path: Path) -> None:
    sim = shop("one", "two")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("one")
        await host.load("two")
        sim.skill("one").change_body("# How\nThe word is other.\n")
        await host.refresh()
        made = await host.after_compaction(100_000)
    assert made.replayed == ("two",)
    assert "- one has changed since it was loaded" in made.text
    assert "one-word" not in made.text
    assert "other" not in made.text


async def test_a_skill_whose_approval_another_program_revoked_is_not_repeated(tmp_path: Path) -> None:
    sim = shop("one", "two")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("one")
        await host.load("two")
        async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as other:
            assert await other.decide.revoke("two")
        made = await host.after_compaction(100_000)
    assert made.replayed == ("one",)
    assert "- two is no longer approved" in made.text
    assert "two-word" not in made.text


async def test_a_skill_that_is_gone_is_not_repeated(tmp_path: Path) -> None:
    sim = shop("one", "two")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("one")
        del sim.skills["skill://one/SKILL.md"]
        await host.refresh()
        made = await host.after_compaction(100_000)
    assert made.named == ("one",)
    assert "- one is no longer served" in made.text


async def test_a_yes_for_one_load_covers_repeating_it(tmp_path: Path) -> None:
    async def once(request: object) -> Once:
        return Once()

    async with opened(tmp_path, shop=shop("one"), host_options={"ask": once}) as host:
        await host.load("one")
        assert (await host.after_compaction(100_000)).replayed == ("one",)


async def test_a_dynamic_skill_is_repeated_as_it_was_seen(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("made", dynamic=True, body="# How\nThe word is made-word.\n")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("made")
        assert host.active()[0].digest is None
        assert "made-word" in (await host.after_compaction(100_000)).text


async def test_the_budget_is_not_exceeded(tmp_path: Path) -> None:
    sim = shop("one", "two")
    sim.skill("long", body="x" * 5000)
    options = {"ask": agree, "limits": Limits()}
    async with opened(tmp_path, shop=sim, host_options=options) as host:
        for name in ("one", "long", "two"):
            await host.load(name)
        made = await host.after_compaction(3000)
        assert len(made.text) <= 3000
        assert made.replayed == ("two", "one")
        assert made.named == ("long",)
        assert (await host.after_compaction(10)).text == ""
