"""A model is offered what it may load: not what the user declined, nor what a policy never loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator import Simulator, agree, call, make_host, opened
from skillwire import ApprovalRequired, Limits, ServerConfig
from skillwire.consent import State
from skillwire.trust import ApprovalMode, shown_digest

pytestmark = pytest.mark.anyio

STYLES = ["spec", "claude", "codex", "gemini", "goose", "wayland"]


def shop() -> Simulator:
    sim = Simulator()
    for name in ("refunds", "returns"):
        sim.skill(name, description=f"How {name} are handled.")
    return sim


async def found(host: Any) -> str:
    """What the search tool finds for a word that both skills have."""
    tool = next(tool for tool in host.tools(search=True) if tool.name == "search_skills")
    return (await tool.handler({"query": "handled"})).text


@pytest.mark.parametrize("style", STYLES)
async def test_a_declined_skill_is_not_offered_to_a_model_in_any_style(tmp_path: Path, style: str) -> None:
    async with opened(tmp_path, shop=shop(), host_options={"ask": agree, "style": style}) as host:
        assert "refunds" in host.catalog()
        skill = next(one for one in host.skills() if one.entry.name == "refunds")
        await host.decide.decline(skill)
        catalog = host.catalog()
        assert ("refunds" in catalog, "returns" in catalog) == (False, True)
        assert all("refunds" not in str(tool.input_schema) for tool in host.tools())
        results = await found(host)
        assert ("refunds" in results, "returns" in results) == (False, True)


async def test_people_still_see_what_they_declined_and_how_to_change_it(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop(), host_options={"ask": agree}) as host:
        await host.decide.decline(await host.find("refunds"))
        assert [one.handle for one in host.skills()] == ["refunds", "returns"]
        assert [one.handle for one in host.skills(for_models=True)] == ["returns"]
        assert {one.skill.handle for one in await host.search("handled")} == {"refunds", "returns"}
        assert "/refunds" in [command.name for command in host.commands()]
        assert host.decide.status(await host.find("refunds")).state is State.DECLINED
        refused = await call(host, "load_skill", name="refunds")
        assert (refused.is_error, "was declined by you: approve it" in refused.text) == (True, True)


@pytest.mark.parametrize("undo", ["approve", "revoke", "change"])
async def test_it_is_offered_again_when_the_decision_is_over(tmp_path: Path, undo: str) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        skill = await host.find("refunds")
        await host.decide.decline(skill)
        assert "refunds" not in host.catalog()
        if undo == "approve":
            await host.decide.approve(skill)
        elif undo == "revoke":
            await host.decide.revoke("refunds")
        else:
            sim.skill("refunds").change_body("# How\nAnother text.\n")
            await host.refresh()
        assert "refunds" in host.catalog()
        assert "refunds" in await found(host)


async def test_what_another_process_declined_is_refused_without_asking_and_then_not_offered(
    tmp_path: Path,
) -> None:
    sim, asked = shop(), list[str]()

    async def ask(request: Any) -> bool:
        asked.append(request.skill.handle)
        return True

    config = {"shop": ServerConfig(instance=sim.server)}
    async with (
        make_host(tmp_path, servers=config, ask=ask) as host,
        make_host(tmp_path, servers=config) as other,
    ):
        assert "refunds" in host.catalog()
        await other.decide.decline(await other.find("refunds"))
        with pytest.raises(ApprovalRequired, match="was declined by you"):
            await host.load("refunds")
        assert (asked, "refunds" in host.catalog()) == ([], False)
        await other.decide.revoke("refunds")
        await host.load("refunds")
        assert (asked, "refunds" in host.catalog()) == (["refunds"], True)


async def test_a_server_that_nothing_is_loaded_from_is_not_offered(tmp_path: Path) -> None:
    async with opened(tmp_path, shop=shop(), config={"approval": ApprovalMode.NEVER}) as host:
        assert [one.handle for one in host.skills()] == ["refunds", "returns"]
        assert "refunds" not in host.catalog()
        assert "refunds" not in await found(host)


async def test_declined_skills_take_no_place_among_the_results_of_a_search(tmp_path: Path) -> None:
    sim = Simulator()
    for number in range(4):
        sim.skill(f"refunds-{number}", description="How refunds are handled.")
    async with opened(tmp_path, shop=sim, host_options={"limits": Limits(search_results=2)}) as host:
        assert "refunds-3" not in await found(host)
        for number in range(3):
            skill = await host.find(f"refunds-{number}")
            await host.decide.decline(f"refunds-{number}", digest=shown_digest(skill.entry))
        assert "refunds-3" in await found(host)
