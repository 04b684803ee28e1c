"""The review page of a gateway: a caller decides about the one skill that they asked for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from simulator import Simulator
from skillwire.consent import State
from skillwire.ui.app import CombinedApp
from ui.visitor import Visitor, visiting

pytestmark = pytest.mark.anyio
REFUNDS = "skill://refunds/SKILL.md"


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds")
    sim.skill("returns")
    return sim


@asynccontextmanager
async def caller_of(visitor: Visitor, name: str = "ann") -> AsyncGenerator[Visitor]:
    """Somebody who follows the link of a question."""
    caller = Visitor(visitor.app, visitor.host)
    async with caller.client:
        await caller.enter(visitor.app.ask(name, "shop", REFUNDS))
        yield caller


PAGE = "/skill?on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md"


async def test_a_caller_approves_for_themselves_alone(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        async with caller_of(visitor) as caller:
            answer = await caller.post("/approve", await caller.form(PAGE))
            assert answer.headers["location"] == caller.root + PAGE
            assert "refunds is approved." in await caller.page(PAGE)
        skill = await visitor.host.find("refunds")
        approvals = visitor.host.consent
        assert approvals.record(approvals.key(skill.origin, skill.uri, "ann")).is_approved
        assert not approvals.record(approvals.key(skill.origin, skill.uri)).is_approved
        assert not approvals.record(approvals.key(skill.origin, skill.uri, "bob")).is_approved
        assert visitor.host.decide.status(skill).state is State.NOT_APPROVED


async def test_a_caller_declines_for_themselves_alone(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        async with caller_of(visitor) as caller:
            await caller.post("/decline", await caller.form(PAGE))
            assert "declined" in await caller.page(PAGE)
        skill = await visitor.host.find("refunds")
        admin = visitor.host.decide
        assert admin.review(skill, caller="ann").status.state is State.DECLINED
        assert admin.status(skill).state is State.NOT_APPROVED


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/skills",
        "/servers",
        "/installed",
        "/audit",
        PAGE.replace("refunds", "returns"),
        "/skill?on=shop",
    ],
)
async def test_a_caller_sees_nothing_else(tmp_path: Path, path: str) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor, caller_of(visitor) as caller:
        answer = await caller.get(path)
        assert answer.status_code == 403
        assert "returns" not in answer.text
        page = await caller.page(PAGE)
        assert '/skills"' not in page


async def test_a_caller_decides_about_nothing_else(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        other = await visitor.form("/", about="returns")
        async with caller_of(visitor, "") as caller:
            form = await caller.form(PAGE)
            for action in ("/approve", "/decline", "/revoke", "/servers/reconnect"):
                posted = await caller.post(
                    action, {**other, "form_token": form["form_token"], "label": "shop"}
                )
                assert posted.status_code == 403
        assert visitor.host.decide.status(await visitor.host.find("returns")).state is State.NOT_APPROVED


async def test_what_callers_asked_for_comes_first_in_the_inbox(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        visitor.app.ask("ann", "shop", "skill://returns/SKILL.md")
        page = await visitor.page("/")
        assert "requested by ann" in page
        assert page.index("returns") < page.index("refunds")


async def test_the_page_beside_a_gateway_is_prepared_before_the_first_request(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        steps: list[str] = []
        visitor.app.prepare = lambda: steps.append("prepared")

        async def gateway(scope: Any, receive: Any, send: Any) -> None:
            steps.append("host open")
            await send({"type": "lifespan.startup.complete"})

        async def send(message: Any) -> None:
            steps.append(message["type"])

        async def receive() -> Any:
            return {"type": "lifespan.startup"}

        await CombinedApp(gateway, visitor.app, ["/mcp"])({"type": "lifespan"}, receive, send)
        assert steps == ["host open", "prepared", "lifespan.startup.complete"]
