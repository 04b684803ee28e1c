"""Installing from folders: what is written, what is pinned, and what is left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

from install.samples import apply, lock_folder, skill_md
from install.workspaces import Machine, tree_of, write_skill
from skillwire.errors import SkillNotFound, SourceError, VerificationError
from skillwire.install import FetchResult, LockedSkill, Proposal, SkillFetcher, StepKind
from skillwire.install.apply import STAGING, recover
from skillwire.install.workspace import export_skills
from skillwire.skill.files import portability_problems
from skillwire.trust import NO_GRANTS, Grants

pytestmark = pytest.mark.anyio


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine.make(tmp_path)
    write_skill(made.team, "pdf", {"scripts/run.sh": "#!/bin/sh\necho hi\n", "reference.md": "v1\n"})
    write_skill(made.team, "notes")
    return made


async def test_added_skills_are_on_disk_and_in_the_lock(machine: Machine) -> None:
    report = await machine.add()
    assert report.installed == ("notes", "pdf")
    assert report.is_whole
    assert tree_of(machine.installed) == tree_of(machine.team)
    lock = machine.lock()
    assert [skill.name for skill in lock.skills] == ["notes", "pdf"]
    pdf = lock.require("pdf")
    assert pdf.powers.scripts == ("scripts/run.sh",)
    assert pdf.pin.kind == "folder"
    assert (machine.workspace().lock_file.stat().st_mode & 0o777) == 0o644


async def test_a_program_adds_updates_and_rolls_back_what_its_user_decides(machine: Machine) -> None:
    shown: list[list[str]] = []

    async def decide(proposal: Proposal) -> dict[str, Grants]:
        shown.append([candidate.name for candidate in proposal.candidates])
        return {"notes": NO_GRANTS}

    installer = machine.installer()
    report = await installer.add([str(machine.team)], decide)
    assert (report.installed, [one.what for one in report.refused]) == (("notes",), ["pdf"])
    write_skill(machine.team, "notes", body="Another text.")
    assert (await installer.update(decide)).updated == ("notes",)
    assert shown == [["notes", "pdf"], ["notes"]]
    assert (await installer.rollback("notes")).updated == ("notes",)
    assert b"Another text." not in (machine.installed / "notes/SKILL.md").read_bytes()
    again = await installer.add([str(machine.team)], decide, names=["notes"], force=["notes"])
    assert again.is_whole
    assert installer.remove(["notes"]).removed == ("notes",)


async def test_what_is_installed_already_is_not_asked_about_again(machine: Machine) -> None:
    async def decide(proposal: Proposal) -> dict[str, Grants]:
        raise AssertionError(proposal)

    await machine.add()
    report = await machine.installer().add([str(machine.team)], decide)
    assert (report.is_whole, sorted(report.current)) == (True, ["notes", "pdf"])


async def test_a_second_add_changes_nothing(machine: Machine) -> None:
    await machine.add()
    text = machine.workspace().lock_file.read_bytes()
    proposal = await machine.installer().propose([str(machine.team)], targets=())
    assert proposal.candidates == ()
    assert {one.name for one in proposal.known} == {"notes", "pdf"}
    assert machine.workspace().lock_file.read_bytes() == text


async def test_scripts_that_are_not_granted_keep_the_skill_out_whole(machine: Machine) -> None:
    report = await machine.add(grants=NO_GRANTS)
    assert report.installed == ("notes",)
    [refusal] = report.refused
    assert "--allow-code" in str(refusal.error)
    assert not (machine.installed / "pdf").exists()
    assert machine.lock().get("pdf") is None


async def test_tools_that_are_not_granted_keep_the_skill_out_too(machine: Machine) -> None:
    text = "---\nname: tools\ndescription: x\nallowed-tools: Bash(rm:*)\n---\n"
    write_skill(machine.team, "tools", {"SKILL.md": text})
    report = await machine.add("tools", grants=Grants(execute_code=True))
    assert "Bash(rm:*)" in str(report.refused[0].error)
    assert (await machine.add("tools", grants=Grants(allowed_tools=True))).installed == ("tools",)


async def test_what_the_user_was_not_asked_about_is_not_installed(machine: Machine) -> None:
    installer = machine.installer()
    proposal = await installer.propose([str(machine.team)], targets=())
    report = await installer.install(proposal.candidates, {})
    assert not report.installed
    assert len(report.refused) == 2


async def test_only_what_was_shown_is_installed_whatever_the_source_has_by_then(machine: Machine) -> None:
    installer = machine.installer()
    proposal = await installer.propose([str(machine.team)], targets=(), names=["notes"])
    shown = tree_of(machine.team / "notes")
    write_skill(machine.team, "notes", {"later.sh": "#!/bin/sh\n"}, body="changed after it was shown")
    report = await installer.install(proposal.candidates, {"notes": NO_GRANTS})
    assert report.installed == ("notes",)
    assert tree_of(machine.installed / "notes") == shown
    assert machine.lock().require("notes").digest == proposal.candidates[0].skill.digest


async def test_a_lock_gives_the_same_trees_on_another_machine(machine: Machine, tmp_path: Path) -> None:
    await machine.add(targets=["claude-code", "goose"])
    os.umask(0o077)
    try:
        other = Machine.make(tmp_path / "other", team=machine.team)
        (other.project / "skillwire.lock").write_bytes(machine.workspace().lock_file.read_bytes())
        report = await other.sync()
    finally:
        os.umask(0o022)
    assert report.installed == ("notes", "pdf")
    for folder in (".agents", ".claude", ".goose"):
        assert tree_of(other.project / folder) == tree_of(machine.project / folder)
    assert (other.installed / "pdf/scripts/run.sh").stat().st_mode & 0o777 == 0o755


async def test_the_first_sync_of_a_lock_needs_a_yes_to_exactly_that_lock(
    machine: Machine, tmp_path: Path
) -> None:
    await machine.add("notes")
    other = Machine.make(tmp_path / "other", team=machine.team)
    (other.project / "skillwire.lock").write_bytes(machine.workspace().lock_file.read_bytes())
    installer = other.installer()
    refused = await installer.sync()
    assert [failure.what for failure in refused.refused] == ["notes"]
    assert not other.installed.exists()
    _, state, made = installer.compare()
    [shown] = installer.unaccepted(state, made)
    # The lock changes after it was shown.
    write_skill(machine.team, "notes", body="evil")
    updates = await machine.installer().propose_updates()
    await machine.installer().install(updates.candidates, {"notes": NO_GRANTS})
    (other.project / "skillwire.lock").write_bytes(machine.workspace().lock_file.read_bytes())
    assert [one.what for one in (await installer.sync(accept=[shown])).refused] == ["notes"]
    assert not other.installed.exists()


async def test_nothing_is_fetched_before_a_yes(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.add("notes")
    other = Machine.make(tmp_path / "other", project=machine.project, team=machine.team)
    (machine.installed / "notes/SKILL.md").unlink()
    (machine.installed / "notes").rmdir()

    async def fetch_pinned(self: SkillFetcher, skills: Sequence[LockedSkill]) -> FetchResult:
        raise AssertionError("a source was asked")

    monkeypatch.setattr(SkillFetcher, "fetch_pinned", fetch_pinned)
    report = await other.installer().sync()
    assert [failure.what for failure in report.refused] == ["notes"]
    assert not (machine.installed / "notes").exists()


async def test_a_yes_is_remembered(machine: Machine) -> None:
    await machine.add("notes")
    (machine.installed / "notes" / "SKILL.md").unlink()
    (machine.installed / "notes").rmdir()
    report = await machine.installer().sync()
    assert report.is_whole
    assert (machine.installed / "notes" / "SKILL.md").is_file()


async def test_agents_get_links_and_copies_where_links_are_disabled(machine: Machine) -> None:
    await machine.add("notes", targets=["claude-code"])
    link = machine.project / ".claude/skills/notes"
    assert link.is_symlink()
    assert str(link.readlink()) == "../../.agents/skills/notes"
    assert (link / "SKILL.md").read_bytes() == skill_md("notes")
    await machine.add("pdf", targets=["goose"], links=False)
    copy = machine.project / ".goose/skills/pdf"
    assert not copy.is_symlink()
    assert tree_of(copy) == tree_of(machine.installed / "pdf")
    assert (await machine.installer(links=False).sync()).is_whole


async def test_where_the_system_makes_no_links_a_copy_is_made(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    report = await machine.add("notes", targets=["claude-code"])
    copy = machine.project / ".claude/skills/notes"
    assert report.copies == (copy,)
    assert tree_of(copy) == tree_of(machine.installed / "notes")
    assert (await machine.sync()).is_whole


# What is left alone


async def test_an_edited_folder_is_not_overwritten(machine: Machine) -> None:
    await machine.add("notes")
    edited = machine.installed / "notes/SKILL.md"
    edited.write_bytes(skill_md("notes", "my own words"))
    write_skill(machine.team, "notes", body="v2")
    report = await machine.sync()
    [step] = report.stopped
    assert step.act is StepKind.EDITED
    assert [row.path for row in step.differences()] == ["SKILL.md"]
    updates = await machine.installer().propose_updates()
    refused = await machine.installer().install(updates.candidates, {"notes": NO_GRANTS})
    assert [one.name for one in refused.stopped] == ["notes"]
    assert edited.read_bytes() == skill_md("notes", "my own words")
    assert machine.lock().require("notes").digest != updates.candidates[0].skill.digest


async def test_an_edit_can_be_adopted(machine: Machine) -> None:
    await machine.add("notes")
    edited = machine.installed / "notes/SKILL.md"
    edited.write_bytes(skill_md("notes", "my own words"))
    installer = machine.installer()
    _, _, made = installer.compare()
    [candidate] = installer.adoptable(made.stopped)
    report = await installer.install([candidate], {"notes": NO_GRANTS})
    assert report.current == ("notes",)
    assert machine.lock().require("notes").pin.get("path") == "./.agents/skills/notes"
    assert machine.lock().require("notes").source == str(machine.team)
    assert (await machine.sync()).is_whole
    assert edited.read_bytes() == skill_md("notes", "my own words")


async def test_a_folder_that_could_not_be_put_back_is_kept_and_restored_by_the_next_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await machine.add("notes")
    folder = machine.installed / "notes"
    (folder / "SKILL.md").write_bytes(skill_md("notes", "my own words"))
    rename = Path.rename

    def fail_into_place(self: Path, target: Path) -> Path:
        if target == folder:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as broken:
        broken.setattr(import_module("skillwire.install.apply"), "exchange", lambda *_: False)
        broken.setattr(Path, "rename", fail_into_place)
        report = await machine.sync(force=["notes"])
        assert not report.is_whole
        [kept] = machine.installed.glob("*/old/SKILL.md")
        assert any(str(kept.parent) in str(one.error) for one in report.failures)
        await machine.sync()
        assert kept.read_bytes() == skill_md("notes", "my own words")
    await machine.sync()
    assert (folder / "SKILL.md").read_bytes() == skill_md("notes", "my own words")
    assert sorted(path.name for path in machine.installed.iterdir()) == ["notes"]


async def test_force_overwrites_an_edit_which_can_be_rolled_back_to(machine: Machine) -> None:
    await machine.add("notes")
    edited = machine.installed / "notes/SKILL.md"
    edited.write_bytes(skill_md("notes", "my own words"))
    report = await machine.sync(force=["notes"])
    assert report.updated == ("notes",)
    assert edited.read_bytes() == skill_md("notes")
    kept = machine.installer().versions("notes")
    edit = next(one for one in kept if one.digest != machine.lock().require("notes").digest)
    candidate = machine.installer().earlier("notes", edit.digest[7:19])
    await machine.installer().install([candidate], {"notes": NO_GRANTS}, going_back=True)
    assert edited.read_bytes() == skill_md("notes", "my own words")


async def test_a_folder_of_somebody_else_is_not_touched(machine: Machine) -> None:
    theirs = write_skill(machine.installed, "notes", body="theirs")
    before = tree_of(theirs)
    report = await machine.add("notes")
    [step] = report.stopped
    assert step.act is StepKind.FOREIGN
    assert tree_of(theirs) == before
    assert machine.lock().get("notes") is None


async def test_a_folder_that_is_the_same_is_adopted_without_a_write(machine: Machine) -> None:
    theirs = write_skill(machine.installed, "notes")
    inode = theirs.stat().st_ino
    report = await machine.add("notes")
    assert report.current == ("notes",)
    assert theirs.stat().st_ino == inode
    assert machine.lock().get("notes") is not None
    # From now on it is ours to replace.
    write_skill(machine.team, "notes", body="v2")
    updates = await machine.installer().propose_updates()
    await machine.installer().install(updates.candidates, {"notes": NO_GRANTS})
    assert (theirs / "SKILL.md").read_bytes() == skill_md("notes", "v2")


async def test_what_scripts_leave_behind_is_no_edit(machine: Machine) -> None:
    await machine.add("pdf")
    cache = machine.installed / "pdf/scripts/__pycache__"
    cache.mkdir()
    (cache / "run.cpython-311.pyc").write_bytes(b"x")
    assert (await machine.sync()).is_whole


async def test_no_link_is_made_to_a_folder_that_could_not_be_written(machine: Machine) -> None:
    await machine.add("pdf", targets=["claude-code"])
    shutil.rmtree(machine.installed)
    link = machine.project / ".claude/skills/pdf"
    link.unlink()
    for file in machine.workspace().versions.folder.glob("*/*"):
        file.write_bytes(b"z" * file.stat().st_size)
    [failure] = (await machine.sync()).failures
    assert "the stored copy of pdf" in str(failure.error)
    assert not link.is_symlink()
    assert (await machine.sync()).installed == ("pdf",)
    assert (link / "SKILL.md").exists()


@pytest.mark.parametrize("name", ["../theirs", "..\\theirs", "C:theirs", "\0", "a" * 300])
def test_a_leftover_whose_name_is_not_that_of_a_skill_is_left_alone(tmp_path: Path, name: str) -> None:
    """On Windows, a backslash or a drive would lead out of the folder."""
    staging = tmp_path / "skills" / f"{STAGING}x"
    write_skill(staging, "old")
    (staging / "name").write_bytes(name.encode())
    before = tree_of(tmp_path)
    recover([staging.parent])
    assert tree_of(tmp_path) == before


async def test_leftovers_that_came_with_a_repository_are_no_trap(machine: Machine, tmp_path: Path) -> None:
    """A clone can have folders that look like those of a killed command, with links in them."""
    outside = tmp_path / "outside"
    write_skill(outside, "theirs")
    before = tree_of(outside)
    for number, (name, target) in enumerate(
        [("name", "/dev/zero"), ("name", "/dev/tty"), ("old", str(outside)), ("new", str(outside))]
    ):
        staging = machine.installed / f"{STAGING}{number}"
        staging.mkdir(parents=True)
        (staging / name).symlink_to(target)
        if name != "name":
            (staging / "name").write_text("../outside")
    (machine.installed / f"{STAGING}link").symlink_to(outside)
    write_skill(machine.team, "notes")
    await machine.add("notes")
    assert tree_of(outside) == before
    assert "outside" not in {path.partition("/")[0] for path in tree_of(machine.installed.parent)}
    assert tree_of(machine.installed / "notes") == tree_of(machine.team / "notes")


@pytest.mark.parametrize("place", [".agents", ".agents/skills", ".claude", ".claude/skills"])
async def test_a_planted_link_to_outside_is_not_written_through(
    machine: Machine, tmp_path: Path, place: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = machine.project / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    with pytest.raises(SourceError, match="leads out of the project"):
        await machine.add("notes", targets=["claude-code"])
    assert tree_of(outside) == {}
    assert machine.workspace().read_lock() is None


async def test_a_planted_link_in_a_skills_place_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    outside = write_skill(tmp_path / "outside", "notes", body="precious")
    machine.installed.mkdir(parents=True)
    (machine.installed / "notes").symlink_to(outside)
    report = await machine.add("notes")
    assert [step.act for step in report.stopped] == [StepKind.FOREIGN]
    assert (outside / "SKILL.md").read_bytes() == skill_md("notes", "precious")


async def test_a_link_planted_inside_an_installed_skill_leads_nothing_away(
    machine: Machine, tmp_path: Path
) -> None:
    await machine.add("pdf")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "run.sh").write_text("precious")
    scripts = machine.installed / "pdf/scripts"
    (scripts / "run.sh").unlink()
    scripts.rmdir()
    scripts.symlink_to(outside)
    assert [step.act for step in (await machine.sync()).stopped] == [StepKind.EDITED]
    await machine.sync(force=["pdf"])
    assert (outside / "run.sh").read_text() == "precious"
    assert not scripts.is_symlink()


async def test_an_agents_folder_that_is_a_link_to_the_canonical_one_is_used_as_it_is(
    machine: Machine,
) -> None:
    machine.installed.mkdir(parents=True)
    (machine.project / ".claude").mkdir()
    (machine.project / ".claude/skills").symlink_to("../.agents/skills")
    report = await machine.add("notes", targets=["claude-code"])
    assert report.is_whole
    assert not (machine.installed / "notes").is_symlink()


@pytest.mark.parametrize("name", ["aux.md", "a:b.md", "docs/end.", "what?.md", "lpt1", "docs/NUL.txt"])
async def test_where_windows_refuses_a_name_that_skill_alone_is_not_installed(
    machine: Machine, name: str
) -> None:
    write_skill(machine.team, "odd", {name: "x"})
    lock = lock_folder(machine.team)
    work = machine.workspace()
    made = work.plan(lock, work.files.read(work.root))

    def content(skill: LockedSkill) -> dict[str, bytes]:
        return {file.path: (machine.team / skill.name / file.path).read_bytes() for file in skill.files}

    outcomes = {outcome.step.name: outcome for outcome in apply(made, content, windows=True)}
    assert "not possible on Windows" in outcomes["odd"].problem
    assert {path.name for path in machine.installed.iterdir()} == {"notes", "pdf"}
    # It is pointed out before anybody says yes, on every system.
    proposal = await machine.installer().propose([str(machine.team)], targets=(), names=["odd"])
    [candidate] = proposal.candidates
    assert portability_problems(file.path for file in candidate.skill.files)


# Updating, going back, removing


async def test_an_update_is_pinned_and_can_be_rolled_back_with_the_source_gone(machine: Machine) -> None:
    await machine.add("pdf")
    first = tree_of(machine.installed)
    write_skill(machine.team, "pdf", {"reference.md": "v2\n", "new.md": "new"})
    updates = await machine.installer().propose_updates(["pdf"])
    [candidate] = updates.candidates
    assert updates.before["pdf"].digest == machine.lock().require("pdf").digest
    report = await machine.installer().install([candidate], {"pdf": Grants(execute_code=True)})
    assert report.updated == ("pdf",)
    for path in sorted(machine.team.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    earlier = machine.installer().earlier("pdf")
    await machine.installer().install([earlier], {"pdf": Grants(execute_code=True)}, going_back=True)
    assert tree_of(machine.installed) == first
    with pytest.raises(SkillNotFound, match="no earlier version"):
        machine.installer().earlier("pdf")
    forward = machine.installer().earlier("pdf", candidate.skill.digest)
    assert forward.skill.digest == candidate.skill.digest


async def test_a_kept_version_is_verified_before_it_is_used(machine: Machine) -> None:
    await machine.add("notes")
    write_skill(machine.team, "notes", body="v2")
    updates = await machine.installer().propose_updates()
    await machine.installer().install(updates.candidates, {"notes": NO_GRANTS})
    for blob in machine.workspace().files.versions.glob("*/*"):
        blob.write_bytes(b"x" * blob.stat().st_size)
    with pytest.raises(VerificationError, match="is incomplete"):
        machine.installer().earlier("notes")


async def test_only_so_many_versions_are_kept_and_what_nobody_uses_is_pruned(
    machine: Machine, tmp_path: Path
) -> None:
    await machine.add("notes")
    other = Machine(machine.home, tmp_path / "other", machine.team)
    other.project.mkdir()
    await other.add("notes")
    shared = other.lock().require("notes").files[0].digest
    kept = machine.workspace().limits.kept_versions
    digests: list[str] = []
    for number in range(kept + 2):
        write_skill(machine.team, "notes", body=f"version {number}")
        updates = await machine.installer().propose_updates()
        for blob in machine.workspace().files.versions.glob("*/*"):
            os.utime(blob, (0, 0))  # As if that had been long ago.
        await machine.installer().install(updates.candidates, {"notes": NO_GRANTS})
        digests.append(machine.lock().require("notes").files[0].digest)
    assert len(machine.installer().versions("notes")) == kept
    stored = {path.parent.name + path.name for path in machine.workspace().files.versions.glob("*/*")}
    # What another project uses stays, and so does what was stored within the last hour.
    assert stored == {one.removeprefix("sha256:") for one in (shared, *digests[-kept:])}
    with pytest.raises(SkillNotFound, match="no stored version"):
        machine.installer().earlier("notes", digests[0])


async def test_nothing_is_pruned_while_the_state_of_a_project_cannot_be_read(machine: Machine) -> None:
    await machine.add("notes")
    work = machine.workspace()
    orphan = work.files.versions / "00" / ("0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"x")
    os.utime(orphan, (0, 0))
    damaged = work.files.folder / "roots" / "damaged.json"
    damaged.write_text("{")
    assert work.prune() == 0
    damaged.unlink()
    assert work.prune() == 1
    assert not orphan.exists()
    assert work.prune() == 0


async def test_a_removed_skill_is_gone_from_every_folder(machine: Machine) -> None:
    await machine.add(targets=["claude-code"])
    report = machine.installer().remove(["pdf"])
    assert report.removed == ("pdf",)
    assert sorted(path.name for path in machine.installed.iterdir()) == ["notes"]
    assert sorted(path.name for path in (machine.project / ".claude/skills").iterdir()) == ["notes"]
    assert machine.lock().get("pdf") is None
    with pytest.raises(SkillNotFound):
        machine.installer().remove(["pdf"])


async def test_an_edited_skill_is_removed_only_by_force(machine: Machine) -> None:
    await machine.add("notes")
    (machine.installed / "notes/mine.md").write_text("mine")
    report = machine.installer().remove(["notes"])
    assert [step.act for step in report.stopped] == [StepKind.EDITED]
    assert machine.lock().get("notes") is not None
    assert machine.installer().remove(["notes"], force=True).removed == ("notes",)
    assert not (machine.installed / "notes").exists()


async def test_a_skill_that_left_the_lock_is_removed_by_sync(machine: Machine) -> None:
    await machine.add()
    work = machine.workspace()
    work.write_lock(machine.lock().without(["pdf"]))
    write_skill(machine.installed, "other")
    assert (await machine.sync()).removed == ("pdf",)
    assert sorted(path.name for path in machine.installed.iterdir()) == ["notes", "other"]


async def test_a_name_is_taken_by_one_source(machine: Machine, tmp_path: Path) -> None:
    await machine.add("notes")
    other = tmp_path / "other-team"
    write_skill(other, "notes", body="other")
    proposal = await machine.installer().propose([str(other)], targets=())
    [failure] = proposal.failures
    assert "already" in str(failure.error)


# Exporting


async def test_an_export_is_the_same_every_time_and_can_be_added_again(
    machine: Machine, tmp_path: Path
) -> None:
    await machine.add()
    installer = machine.installer()
    one, two = tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"
    export_skills(installer.workspace, one)
    (machine.installed / "pdf").rename(machine.installed / "pdf2")
    export_skills(installer.workspace, two)
    assert one.read_bytes() == two.read_bytes()
    folder = tmp_path / "folder"
    export_skills(installer.workspace, folder)
    assert {path: row for path, row in tree_of(folder).items() if path != "skillwire.lock"} == tree_of(
        machine.team
    )
    with pytest.raises(SourceError, match="already exists"):
        export_skills(installer.workspace, folder)
    other = Machine.make(tmp_path / "other")
    proposal = await other.installer().propose([str(one)], targets=())
    assert {candidate.name for candidate in proposal.candidates} == {"notes", "pdf"}
    assert {c.skill.digest for c in proposal.candidates} == {s.digest for s in machine.lock().skills}


async def test_what_is_not_there_as_pinned_is_not_exported(machine: Machine, tmp_path: Path) -> None:
    await machine.add("notes")
    for blob in machine.workspace().files.versions.glob("*/*"):
        blob.unlink()
    export_skills(machine.installer().workspace, tmp_path / "good")
    (machine.installed / "notes/SKILL.md").write_bytes(b"edited")
    with pytest.raises(VerificationError, match="skillwire sync"):
        export_skills(machine.installer().workspace, tmp_path / "bad")
