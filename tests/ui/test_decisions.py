"""Deciding on the review page: with forms alone, and for exactly what was shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simulator import Simulator
from skillwire.errors import ApprovalRequired
from skillwire.host.approvals.status import State
from ui.visitor import Visitor, visiting

pytestmark = pytest.mark.anyio
REFUNDS = "/skill?on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md"


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"scripts/pay.py": b"print(1)\n"}, fields={"allowed-tools": "Bash(pay:*)"})
    sim.skill("returns")
    return sim


async def state(visitor: Visitor, name: str = "refunds") -> State:
    return visitor.host.admin.status(await visitor.host.find(name)).state


async def test_the_inbox_has_what_waits_and_an_approval_empties_it(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        page = await visitor.page("/")
        assert "2 skills wait" in page
        assert "Bash(pay:*)" in page
        assert "1 script" in page
        answer = await visitor.post("/approve", await visitor.form("/", about="refunds"))
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        page = await visitor.page("/")
        assert "refunds is approved." in page
        assert "1 skill waits" in page
        assert await state(visitor) is State.APPROVED
        assert (await visitor.host.load("refunds")).grants.allowed_tools is False
        assert "refunds is approved." not in await visitor.page("/")


async def test_powers_are_granted_one_by_one(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form(REFUNDS)
        await visitor.post("/approve", {**form, "allow_tools": "1"})
        grants = (await visitor.host.load("refunds")).grants
        assert (grants.allowed_tools, grants.execute_code) == (True, False)


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize("path", ["/approve", "/decline"])
async def test_what_changed_since_it_was_shown_is_not_decided(tmp_path: Path, path: str) -> None:
    sim = shop()
    async with visiting(tmp_path, shop=sim) as visitor:
        form = await visitor.form(REFUNDS)
        sim.skill("refunds").change_body("Something else.\n")
        await visitor.host.refresh()
        await visitor.post(path, form)
        assert await state(visitor) is State.NEW
        assert "is not what was shown" in await visitor.page("/")


async def test_an_approval_needs_the_digest_that_was_shown(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        form = await visitor.form(REFUNDS)
        for digest in ("", "sha256:" + "0" * 64, "nonsense"):
            await visitor.post("/approve", {**form, "digest": digest})
            assert await state(visitor) is State.NEW


async def test_what_was_declined_is_not_loaded_and_not_asked_about_until_it_changes(tmp_path: Path) -> None:
    sim = shop()
    asked: list[str] = []

    async def ask(request: object) -> bool:
        asked.append("")
        return True

    async with visiting(tmp_path, shop=sim, host_options={"ask": ask}) as visitor:
        await visitor.post("/decline", await visitor.form("/", about="refunds"))
        assert await state(visitor) is State.DECLINED
        assert "1 skill waits" in await visitor.page("/")
        with pytest.raises(ApprovalRequired, match="was declined by you"):
            await visitor.host.load("refunds")
        assert asked == []
        sim.skill("refunds").change_body("Something else.\n")
        await visitor.host.refresh()
        assert await state(visitor) is State.NEW
        assert "2 skills wait" in await visitor.page("/")


async def test_a_decision_can_be_undone(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        await visitor.post("/decline", await visitor.form("/", about="refunds"))
        await visitor.post("/revoke", await visitor.form("/", action="/revoke"))
        assert await state(visitor) is State.NEW
        await visitor.post("/approve", await visitor.form("/", about="refunds"))
        await visitor.post("/revoke", await visitor.form("/", action="/revoke"))
        assert await state(visitor) is State.NEW


async def test_the_page_of_a_skill_tells_what_was_decided_when_and_how(tmp_path: Path) -> None:
    sim = shop()
    async with visiting(tmp_path, shop=sim) as visitor:
        assert "No decision yet." in await visitor.page(REFUNDS)
        await visitor.post("/approve", await visitor.form(REFUNDS))
        sim.skill("refunds").change_body("Something else.\n")
        await visitor.host.refresh()
        await visitor.host.admin.approvals.flush()
        await visitor.post("/decline", await visitor.form(REFUNDS))
        page = await visitor.page(REFUNDS)
        history = page[page.index("History") :]
        order = [history.index(f"<strong>{word}</strong>") for word in ("declined", "changed", "approved")]
        assert order == sorted(order)
        assert "approved on the review page" in history


async def test_what_another_process_decides_is_seen(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        assert "2 skills wait" in await visitor.page("/")
        other_host = visitor.host.admin.approvals
        from skillwire.host.approvals.store import ApprovalStore

        assert other_host.path is not None
        other = ApprovalStore(other_host.path, identify=other_host._identify)
        await other.open()
        skill = await visitor.host.find("refunds")
        await other.decline(skill.origin, skill.uri, visitor.host.admin.review(skill).digest or "")
        assert await visitor.host.admin.approvals.refresh() is True
        assert await visitor.host.admin.approvals.refresh() is False
        assert "1 skill waits" in await visitor.page("/")


async def test_files_are_a_tree_of_folders_that_needs_no_script(tmp_path: Path) -> None:
    sim = Simulator()
    few = {"references/eu/vat.md": b"1\n", "references/limits.md": b"2\n", "a&b/<i>.txt": b"3\n"}
    sim.skill("few", files=few)
    sim.skill("many", files={f"part-{n // 50}/{n:03}.md": b"x\n" for n in range(300)})
    sim.skill("deep", files={"/".join(["d"] * 30) + "/end.md": b"x\n"})
    async with visiting(tmp_path, shop=sim) as visitor:

        def address(name: str, file: str = "") -> str:
            return f"/skill?on=shop&uri=skill%3A%2F%2F{name}%2FSKILL.md&file={file}"

        page = await visitor.page(address("few", "references/eu/vat.md"))
        assert re.findall(r'<summary><span class="path">(.*?)</span>', page) == [
            "a%26b/",
            "references/",
            "eu/",
        ]
        assert page.count("<details open>") == 3
        assert "<i>" not in page
        assert re.search(r'aria-current="page"><span class="path">vat.md</span>', page)
        # Of many files only the folder of the one that is shown is open; its count is of all pages.
        page = await visitor.page(address("many", "part-1/060.md"))
        assert page.count("<details open>") == 1
        assert page.count("<details>") == 3
        assert page.count('<span class="size">50 files</span>') == 4
        page = await visitor.page(address("deep"))
        assert page.count("<details open>") == 8
        assert f'<span class="path">{"d/" * 22}end.md</span>' in page


async def test_what_a_skill_says_of_itself_is_escaped_and_cleaned(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("odd", description="Use for <b onclick=x>\u202etxt.", fields={"license": "<i>\u200bMIT"})
    async with visiting(tmp_path, shop=sim) as visitor:
        for path in ("/", "/skills", REFUNDS.replace("refunds", "odd")):
            page = await visitor.page(path)
            assert "&lt;b onclick=x&gt;" in page
            assert "<b onclick" not in page
            assert "<i>" not in page
            assert not {"\u202e", "\u200b"} & set(page)
