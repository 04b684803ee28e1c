"""Approvals through the host: policies, callbacks, what is kept and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator import Simulator, agree, make_host, opened
from skillwire.errors import ApprovalRequired
from skillwire.host.approvals.approver import ApprovalRequest
from skillwire.host.config.server import ServerConfig
from skillwire.trust.approval import Grants, Policy

pytestmark = pytest.mark.anyio


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"text"})
    return sim


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("policy", "approved", "asks", "loads"),
    [
        (Policy.PROMPT, False, True, True),
        (Policy.PROMPT, True, False, True),
        (Policy.PINNED, False, False, False),
        (Policy.PINNED, True, False, True),
        (Policy.ALWAYS, False, False, True),
        (Policy.NEVER, False, False, False),
        (Policy.NEVER, True, False, False),
    ],
)
async def test_each_policy_does_what_it_says(
    tmp_path: Path, policy: Policy, approved: bool, asks: bool, loads: bool
) -> None:
    sim = shop()
    asked: list[str] = []

    async def note(request: ApprovalRequest) -> bool:
        asked.append(request.reason)
        return True

    async with opened(tmp_path, shop=sim, config={"approval": policy}, host_options={"ask": note}) as host:
        if approved:
            await host.approve("refunds")
        if loads:
            await host.load("refunds")
        else:
            with pytest.raises(ApprovalRequired, match=f"the policy of its server is {policy}"):
                await host.load("refunds")
    assert bool(asked) == asks
    assert (sim.read_uris() != []) == loads


@pytest.mark.requirement("SEC-6")
async def test_without_anybody_to_ask_loading_raises_with_what_to_do(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired, match="is not approved: review it and approve it") as caught:
            await host.load("refunds")
    assert (caught.value.reason, caught.value.origin, caught.value.uri) == (
        "new",
        "shop",
        "skill://refunds/SKILL.md",
    )
    assert sim.read_uris() == []


@pytest.mark.requirement("SEC-6", "SEC-4")
@pytest.mark.parametrize("answer", [True, Grants(allowed_tools=True), Grants(execute_code=True)])
async def test_a_yes_is_kept_with_its_grants_for_the_next_session(tmp_path: Path, answer: Any) -> None:
    sim = shop()

    async def say(request: ApprovalRequest) -> Any:
        return answer

    async with opened(tmp_path, shop=sim, host_options={"ask": say}) as host:
        first = await host.load("refunds")
    async with opened(tmp_path, shop=sim) as host:
        assert (await host.load("refunds")).grants == first.grants
    assert first.grants == (Grants() if answer is True else answer)


async def test_a_revoked_approval_is_gone_for_every_session(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host:
        await host.approve("refunds")
        await host.load("refunds")
        assert await host.revoke("refunds")
        assert host.held() == ()
        assert not await host.revoke("refunds")
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")


@pytest.mark.requirement("SEC-6")
async def test_a_dynamic_skill_is_approved_only_while_it_is_seen(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("weather", dynamic=True)
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        with pytest.raises(ApprovalRequired, match="made on request"):
            await host.approve("weather")
        await host.load("weather")
        assert host.approvals.all() == []
        assert list(host.cache.files()) == []
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired) as caught:
            await host.load("weather")
    assert caught.value.reason == "unbindable"


@pytest.mark.requirement("SEC-6")
async def test_revoking_a_dynamic_skill_ends_what_was_agreed_to(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("weather", dynamic=True)
    answers = [True]

    async def say(request: ApprovalRequest) -> bool:
        return answers[-1]

    async with opened(tmp_path, shop=sim, host_options={"ask": say}) as host:
        await host.load("weather")
        assert await host.revoke("weather")
        answers.append(False)
        with pytest.raises(ApprovalRequired) as caught:
            await host.load("weather")
    assert caught.value.reason == "denied"


async def test_a_damaged_file_of_approvals_is_set_aside_and_the_user_is_told(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as host:
        await host.approve("refunds")
    (tmp_path / "approvals.sqlite").write_bytes(b"this is no database, and much longer than a header")
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")
        assert any("set aside" in event.message for event in host.events_so_far())
    assert (tmp_path / "approvals.sqlite.damaged").read_bytes().startswith(b"this is no database")


async def test_an_approval_that_another_host_gives_counts_at_once(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim) as agent, opened(tmp_path, shop=sim) as terminal:
        with pytest.raises(ApprovalRequired):
            await agent.load("refunds")
        await terminal.approve("refunds")
        await agent.load("refunds")
        await terminal.revoke("refunds")
        with pytest.raises(ApprovalRequired):
            await agent.load("refunds")


async def test_each_server_has_a_policy_of_its_own(tmp_path: Path) -> None:
    servers = {
        "open": ServerConfig(instance=shop().server, approval=Policy.ALWAYS),
        "shut": ServerConfig(instance=shop().server, approval=Policy.NEVER),
    }
    async with make_host(tmp_path, servers=servers, ask=agree) as host:
        await host.load("open/refunds")
        with pytest.raises(ApprovalRequired):
            await host.load("shut/refunds")
