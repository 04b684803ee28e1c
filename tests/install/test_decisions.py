"""Admission is asked about a skill before a question about it, and after the last wait."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from install.workspaces import Machine, write_skill
from skillwire.cli.install_setup import locked_source
from skillwire.errors import RefusedByPolicy, SourceError
from skillwire.install import Proposal
from skillwire.trust import NO_GRANTS, AdmissionRequest, Decision, Grants, Purpose, admit

pytestmark = pytest.mark.anyio


class Admissions:
    """The names of the skills that admission was asked about. Those in `refused` are denied."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: set[str] = set()

    def __call__(self, facts: AdmissionRequest, purpose: Purpose) -> Decision:
        name = str(facts.entry.frontmatter["name"])
        self.asked.append(name)
        if name in self.refused:
            return admit(
                AdmissionRequest(origin=facts.origin, entry=facts.entry, disabled=True), Purpose.LOAD
            )
        return admit(facts, purpose)


@pytest.fixture
def admissions(monkeypatch: pytest.MonkeyPatch) -> Admissions:
    counted = Admissions()
    monkeypatch.setattr(import_module("skillwire.install.decide"), "admit", counted)
    return counted


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine.make(tmp_path)
    write_skill(made.team, "notes")
    return made


async def grant_all(proposal: Proposal) -> dict[str, Grants]:
    return {candidate.name: NO_GRANTS for candidate in proposal.candidates}


async def test_a_skill_that_is_added_is_decided_about_before_and_after_the_question(
    machine: Machine, admissions: Admissions
) -> None:
    async def decide(proposal: Proposal) -> dict[str, Grants]:
        assert admissions.asked == ["notes"]
        return await grant_all(proposal)

    report = await machine.installer().add([str(machine.team)], decide)
    assert report.installed == ("notes",)
    assert admissions.asked == ["notes", "notes"]


async def test_a_skill_that_is_refused_is_not_asked_about(machine: Machine, admissions: Admissions) -> None:
    admissions.refused = {"notes"}
    report = await machine.installer().add([str(machine.team)], grant_all)
    assert [failure.what for failure in report.failures] == ["notes"]
    assert admissions.asked == ["notes"]


async def test_a_skill_that_is_revoked_while_the_user_is_asked_is_not_installed(
    machine: Machine, admissions: Admissions
) -> None:
    async def decide(proposal: Proposal) -> dict[str, Grants]:
        admissions.refused = {"notes"}
        return await grant_all(proposal)

    report = await machine.installer().add([str(machine.team)], decide)
    assert not report.installed
    assert [failure.what for failure in report.refused] == ["notes"]
    assert not machine.installed.exists()
    assert machine.workspace().read_lock() is None


async def test_a_pinned_skill_that_is_fetched_is_decided_about_before_and_after_that(
    machine: Machine, admissions: Admissions
) -> None:
    await machine.add("notes")
    other = Machine.make(machine.home.parent / "other", project=machine.project, team=machine.team)
    (machine.installed / "notes/SKILL.md").unlink()
    (machine.installed / "notes").rmdir()
    admissions.asked.clear()
    assert (await other.sync()).installed == ("notes",)
    assert admissions.asked == ["notes", "notes"]


async def test_an_error_of_the_user_about_one_skill_leaves_that_one_out(machine: Machine) -> None:
    write_skill(machine.team, "pdf")

    async def decide(proposal: Proposal) -> dict[str, Grants | RefusedByPolicy]:
        return {"notes": NO_GRANTS, "pdf": RefusedByPolicy("another signer")}

    report = await machine.installer().add([str(machine.team)], decide)
    assert report.installed == ("notes",)
    assert [(one.what, str(one.error)) for one in report.failures] == [("pdf", "another signer")]
    assert not report.refused


async def test_adding_what_is_installed_restores_folders_that_are_missing_and_names_those_that_differ(
    machine: Machine,
) -> None:
    write_skill(machine.team, "pdf")
    await machine.add("notes", "pdf")
    (machine.installed / "notes/SKILL.md").unlink()
    (machine.installed / "notes").rmdir()
    (machine.installed / "pdf/SKILL.md").write_text("edited")
    report = await machine.installer().add([str(machine.team)], grant_all)
    assert report.installed == ("notes",)
    assert report.differing == ("pdf",)
    assert (machine.installed / "pdf/SKILL.md").read_text() == "edited"


async def test_what_is_refused_is_not_served_from_a_lock_that_pins_it(
    machine: Machine, admissions: Admissions
) -> None:
    await machine.add("notes")
    (machine.installed / "notes/SKILL.md").unlink()
    (machine.installed / "notes").rmdir()
    source = locked_source(machine.project / "skillwire.lock", interval=0)
    await source.open()
    assert [entry.name for entry in source.snapshot.entries] == ["notes"]
    admissions.refused = {"notes"}
    refused = locked_source(machine.project / "skillwire.lock", interval=0)
    with pytest.raises(SourceError, match="notes cannot be fetched as pinned"):
        await refused.open()
