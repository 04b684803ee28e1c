"""Servers, installed skills and the audit log on the review page, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from install.workspaces import write_skill
from scanning import clean_machine, write_policy
from simulator import Simulator
from skillwire.clients import BaseDirectories, Scope
from skillwire.install import Installer, SkillFetcher, StateFiles, Workspace
from skillwire.trust import ALL_GRANTS
from ui.visitor import visiting

pytestmark = pytest.mark.anyio


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"a.md": b"one\ntwo\n"})
    return sim


def project(folder: Path, name: str = "project") -> Installer:
    places = BaseDirectories(project=folder / name, home=folder / "home", environment={})
    places.project.mkdir(parents=True, exist_ok=True)
    return Installer(
        Workspace.open(Scope.PROJECT, places=places, files=StateFiles(folder / f"state of {name}")),
        SkillFetcher(places.project),
    )


async def installed(folder: Path) -> dict[str, Any]:
    """A project with one installed skill, as options of the page."""
    write_skill(folder / "source", "notes", {"scripts/run.sh": "#!/bin/sh\n"})
    tool = project(folder)
    proposal = await tool.propose([str(folder / "source")], targets=())
    await tool.install(proposal.candidates, {"notes": ALL_GRANTS})
    return {"installers": {"project": lambda: project(folder)}}


async def test_somebody_without_skills_is_told_how_to_get_some(tmp_path: Path) -> None:
    async with visiting(tmp_path) as visitor:
        for path in ("/", "/skills", "/servers"):
            assert "skillwire servers add NAME URL" in await visitor.page(path)
        assert "All decided" not in await visitor.page("/")
    async with visiting(tmp_path, shop=shop()) as visitor:
        await visitor.post("/approve", await visitor.form("/"))
        assert "All decided" in await visitor.page("/")


async def test_a_server_that_fails_is_shown_with_its_reason_and_asked_again(tmp_path: Path) -> None:
    sim = shop()
    async with visiting(tmp_path, shop=sim) as visitor:
        page = await visitor.page("/servers")
        assert "ready" in page
        assert "1 waiting" in page
        asked = len(sim.asked("skills/list"))
        form = await visitor.form("/servers", action="/servers/reconnect")
        assert (await visitor.post("/servers/reconnect", form)).status_code == 303
        assert len(sim.asked("skills/list")) > asked
        await visitor.post("/servers/reconnect", {**form, "label": "nobody"})
        assert "no server is called nobody" in await visitor.page("/servers")


async def test_a_lost_server_is_connected_again_on_request(tmp_path: Path) -> None:
    async with visiting(tmp_path, gone="http://127.0.0.1:9/mcp") as visitor:
        page = await visitor.page("/servers")
        assert "failed" in page
        assert "Connect again" in page
        form = await visitor.form("/servers", action="/servers/reconnect")
        assert (await visitor.post("/servers/reconnect", form)).status_code == 303


async def test_a_change_is_compared_with_what_was_approved(tmp_path: Path) -> None:
    sim = shop()
    async with visiting(tmp_path, shop=sim) as visitor:
        await visitor.post("/approve", await visitor.form("/"))
        sim.skill("refunds").change_file("a.md", b"one\n<b>three</b>\n")
        sim.skill("refunds").change_file("new.md", b"added\n")
        await visitor.host.refresh()
        where = "on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md"
        page = await visitor.page(f"/diff?{where}")
        assert "2 files differ from what you approved" in page
        assert "<del>two</del>" in page
        assert "<ins>&lt;b&gt;three&lt;/b&gt;</ins>" in page
        assert '<td class="add">added</td>' in await visitor.page(f"/diff?{where}&view=unified")
        assert (await visitor.get(f"/diff?{where}&with=sha256:0")).status_code == 404


async def test_a_skill_that_was_never_approved_has_nothing_to_compare_with(tmp_path: Path) -> None:
    async with visiting(tmp_path, shop=shop()) as visitor:
        answer = await visitor.get("/diff?on=shop&uri=skill%3A%2F%2Frefunds%2FSKILL.md")
        assert answer.status_code == 404
        assert "never approved" in answer.text


async def test_an_update_installs_exactly_the_version_that_was_shown(tmp_path: Path) -> None:
    options = await installed(tmp_path)
    async with visiting(tmp_path, shop=shop(), app_options=options) as visitor:
        assert "not checked" in await visitor.page("/installed")
        await visitor.post("/installed/check", await visitor.form("/installed", action="/installed/check"))
        assert "Everything is up to date." in await visitor.page("/installed")
        write_skill(tmp_path / "source", "notes", {"scripts/run.sh": "#!/bin/sh\necho\n"})
        address = "/installed/update?scope=project&name=notes"
        form = await visitor.form(address, action="/installed/update")
        write_skill(tmp_path / "source", "notes", {"scripts/run.sh": "#!/bin/sh\nrm\n"})
        await visitor.post("/installed/update", form)
        assert "is not what was shown" in await visitor.page("/installed")
        script = tmp_path / "project/.agents/skills/notes/scripts/run.sh"
        assert script.read_text() == "#!/bin/sh\n"
        form = await visitor.form(address, action="/installed/update")
        await visitor.post("/installed/update", form)
        assert "Updated: notes." in await visitor.page("/installed")
        assert script.read_text() == "#!/bin/sh\nrm\n"
        back = await visitor.form("/installed", action="/installed/rollback")
        versions = project(tmp_path).versions("notes")
        await visitor.post("/installed/rollback", {**back, "to": versions[0].digest})
        assert script.read_text() == "#!/bin/sh\n"


async def test_new_powers_of_an_update_are_granted_separately(tmp_path: Path) -> None:
    options = await installed(tmp_path)
    async with visiting(tmp_path, app_options=options) as visitor:
        write_skill(tmp_path / "source", "notes", {"scripts/more.sh": "#!/bin/sh\n"})
        address = "/installed/update?scope=project&name=notes"
        page = await visitor.page(address)
        assert "Let agents run its scripts" in page
        form = await visitor.form(address, action="/installed/update")
        await visitor.post("/installed/update", form)
        assert "that were not granted" in await visitor.page("/installed")
        await visitor.post("/installed/update", {**form, "allow_code": "1"})
        assert (tmp_path / "project/.agents/skills/notes/scripts/more.sh").exists()


async def test_folders_are_synced_with_what_was_shown_and_nothing_else(tmp_path: Path) -> None:
    await installed(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/skillwire.lock").write_bytes((tmp_path / "project/skillwire.lock").read_bytes())
    options = {"installers": {"project": lambda: project(tmp_path, "other")}}
    async with visiting(tmp_path, app_options=options) as visitor:
        page = await visitor.page("/installed")
        assert "Approve and sync" in page
        assert "scripts/run.sh" in page
        form = await visitor.form("/installed", action="/installed/sync")
        await visitor.post("/installed/sync", {**form, "accepted": ""})
        assert "was not approved as it is pinned now" in await visitor.page("/installed")
        await visitor.post("/installed/sync", form)
        assert "Installed: notes." in await visitor.page("/installed")
        assert (tmp_path / "other/.agents/skills/notes/SKILL.md").exists()


async def test_the_audit_log_is_shown_the_latest_first_and_searched(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    entries = [
        {"time": f"2026-01-01T00:00:0{n}Z", "act": "load", "caller": f"caller-{n}", "extra": "<b>"}
        for n in range(3)
    ]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + "not json\n[1]\n")
    async with visiting(tmp_path, app_options={"audit_log": log}) as visitor:
        page = await visitor.page("/audit")
        assert page.index("caller-2") < page.index("caller-1") < page.index("caller-0")
        assert "3 entries" in page
        assert "extra: &lt;b&gt;" in page
        assert "1 entry" in await visitor.page("/audit?q=CALLER-1")
        log.unlink()
        assert "Nothing yet" in await visitor.page("/audit")


async def test_an_installed_skill_that_is_revoked_is_shown_with_the_reason_and_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean_machine(tmp_path, monkeypatch)
    options = await installed(tmp_path)
    [skill] = project(tmp_path).workspace.require_lock().skills
    write_policy(tmp_path, f'[revoked]\n"{skill.digest}" = "leaks <keys>"\n')
    async with visiting(tmp_path, app_options=options) as visitor:
        page = await visitor.page("/installed")
        assert "the policy acme refuses it by revoked" in page
        assert "leaks &lt;keys&gt;" in page
        assert "skillwire remove notes" in page
