"""Things that happen at once: the user is asked once, nothing half done stays, nothing hangs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import TaskGroup

from simulator import Simulator, agree, make_host, opened
from skillwire.consent import ApprovalRequest
from skillwire.errors import ApprovalRequired, SkillNotFound, SourceError
from skillwire.host import ConnectionStatus, ServerConfig, SkillHost
from skillwire.skill import SkillEntry
from skillwire.trust import Origin

pytestmark = pytest.mark.anyio


class Gate:
    """A request that waits until it is let through."""

    def __init__(self, sim: Simulator, method: str) -> None:
        self.reached = anyio.Event()
        self.open = anyio.Event()
        honest = {"resources/read": sim._read, "skills/list": sim._list, "skills/get": sim._get}[method]

        async def wait(params: Any) -> Any:
            self.reached.set()
            await self.open.wait()
            return honest(params)

        sim._answers[method] = wait


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"text"})
    return sim


@asynccontextmanager
async def loading(host: SkillHost, gate: Gate) -> AsyncGenerator[TaskGroup]:
    """A load that waits at the gate."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.load, "refunds")
        await gate.reached.wait()
        yield tasks


@pytest.mark.requirement("SEC-6")
async def test_two_loads_at_once_ask_the_user_once(tmp_path: Path) -> None:
    questions = 0

    async def slow_yes(request: ApprovalRequest) -> bool:
        nonlocal questions
        questions += 1
        await anyio.lowlevel.checkpoint()
        return True

    sim = shop()
    async with opened(tmp_path, shop=sim, host_options={"ask": slow_yes}) as host:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(host.load, "refunds")
        assert len(host.active()) == 1
    assert questions == 1
    assert len(sim.read_uris()) == 1


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_closing_during_a_load_ends_it_with_an_error(tmp_path: Path, era: str) -> None:
    sim = shop()
    gate = Gate(sim, "resources/read")
    errors: list[Exception] = []
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        async with opened(tmp_path, shop=sim, config={"era": era}, host_options={"ask": agree}) as host:

            async def load() -> None:
                try:
                    await host.load("refunds")
                except SourceError as error:
                    errors.append(error)
                ended.set()

            tasks.start_soon(load)
            await gate.reached.wait()
        with anyio.fail_after(30):
            await ended.wait()
    assert "went away" in str(errors[0])


async def test_a_host_that_is_canceled_before_it_wrote_everything_closes_its_connections(
    tmp_path: Path,
) -> None:
    host = make_host(tmp_path, servers={"shop": ServerConfig(instance=shop().server)}, ask=agree)
    with anyio.CancelScope() as everything:
        async with host:
            skill = (await host.load("refunds")).skill
            approvals = host.consent
            approvals.end(approvals.key(skill.origin, skill.uri))  # Written when the host is closed.
            everything.cancel()
            await anyio.lowlevel.checkpoint()
    assert everything.cancelled_caught
    assert [server.status for server in host.places.servers()] == [ConnectionStatus.CLOSED]


async def test_a_canceled_load_leaves_nothing_half_done(tmp_path: Path) -> None:
    sim = shop()
    gate = Gate(sim, "resources/read")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        async with loading(host, gate) as tasks:
            tasks.cancel_scope.cancel()
        assert host.active() == ()
        assert list(host.cache.files()) == []
        sim.behave("resources/read")
        assert "with care" in (await host.load("refunds")).text


async def test_a_refresh_during_a_load_does_not_change_what_is_loaded(tmp_path: Path) -> None:
    sim = shop()
    gate = Gate(sim, "resources/read")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        async with loading(host, gate):
            sim.skill("other")
            await host.refresh()
            gate.open.set()
        (held,) = host.active()
        assert held.entry.name == "refunds"


@pytest.mark.requirement("SEC-6", "VER-6")
async def test_a_skill_that_changes_while_the_user_thinks_is_asked_about_again(tmp_path: Path) -> None:
    sim = shop()
    reasons: list[str] = []

    async def change_then_agree(request: ApprovalRequest) -> bool:
        reasons.append(request.reason)
        if len(reasons) == 1:
            sim.skill("refunds").change_body("Changed under the question.\n")
        return True

    async with opened(tmp_path, shop=sim, host_options={"ask": change_then_agree}) as host:
        loaded = await host.load("refunds")
    assert reasons == ["new", "changed"]
    assert "Changed under the question." in loaded.text


@pytest.mark.requirement("SEC-6")
async def test_an_approval_that_is_revoked_during_a_load_ends_it(tmp_path: Path) -> None:
    sim = shop()
    errors: list[ApprovalRequired] = []
    async with opened(tmp_path, shop=sim) as host:
        await host.decide.approve(await host.find("refunds"))
        await host.cache.forget_server(Origin.mcp("shop"))
        gate = Gate(sim, "resources/read")

        async def load() -> None:
            try:
                await host.load("refunds")
            except ApprovalRequired as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load)
            await gate.reached.wait()
            await host.decide.revoke("refunds")
            gate.open.set()
        assert [error.reason for error in errors] == ["new"]
        assert host.active() == ()


async def test_a_skill_that_is_released_during_a_read_gives_nothing_more(tmp_path: Path) -> None:
    sim = shop()
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        gate = Gate(sim, "resources/read")
        errors: list[SkillNotFound] = []

        async def read() -> None:
            try:
                await host.read("refunds", "a.md")
            except SkillNotFound as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await gate.reached.wait()
            host.release("refunds")
            gate.open.set()
        assert len(errors) == 1


async def test_an_error_in_the_users_code_comes_out_as_it_is(tmp_path: Path) -> None:
    async def broken(request: ApprovalRequest) -> bool:
        raise ZeroDivisionError

    async with opened(tmp_path, shop=shop(), host_options={"ask": broken}) as host:
        with pytest.raises(ZeroDivisionError):
            await host.load("refunds")
    with pytest.raises(KeyError):
        async with opened(tmp_path, shop=shop()):
            raise KeyError("mine")


async def test_opening_can_be_canceled(tmp_path: Path) -> None:
    sim = shop()
    gate = Gate(sim, "skills/list")
    host = make_host(tmp_path, servers={"shop": sim.server})

    async def use() -> None:
        async with host:
            raise AssertionError("it was never open")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    assert host.skills() == ()


@pytest.mark.parametrize("listing", ["cached", "on its way"])
async def test_a_listing_from_before_a_change_does_not_bring_the_earlier_version_back(
    tmp_path: Path, listing: str
) -> None:
    sim = shop()
    asked, may_arrive, current = anyio.Event(), anyio.Event(), list[SkillEntry]()

    async def answer_late(params: Any) -> Any:
        before = sim._list(params)
        asked.set()
        await may_arrive.wait()
        return before

    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        async with anyio.create_task_group() as tasks:
            if listing == "on its way":
                sim._answers["skills/list"] = answer_late
                tasks.start_soon(host.refresh)
                await asked.wait()
            sim.skills["skill://refunds/SKILL.md"].change_body("Another version.\n")
            assert "Another version." in (await host.load("refunds")).text
            current.append(host.skills()[0].entry)
            if listing == "cached":
                await host.refresh(expired_only=True)
            may_arrive.set()
        assert [skill.entry for skill in host.skills()] == current
