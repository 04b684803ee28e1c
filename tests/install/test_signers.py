"""Signers of installed skills: pinned, checked again on every sync, and never replaced in silence."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Run, new_user
from install.workspaces import Machine, write_skill
from publishers import new_key
from skillwire.install import Installer, SkillFetcher
from skillwire.skill import digest_of
from skillwire.sources.directory.authoring import new_key_pair
from skillwire.trust import ALL_GRANTS, SIGNATURE_FILE, Publisher, sign_files

KEY = new_key()
ACME = Publisher("acme", keys=[KEY.public_key()])


def sign(folder: Path, key: object = KEY) -> None:
    files = {
        path.relative_to(folder).as_posix(): digest_of(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and path.name != SIGNATURE_FILE
    }
    (folder / SIGNATURE_FILE).write_bytes(sign_files(files, name=folder.name, key=key))  # type: ignore[arg-type]


def signing(
    machine: Machine, *publishers: Publisher, required: tuple[tuple[str, str], ...] = ()
) -> Installer:
    return Installer(
        machine.workspace(), SkillFetcher(machine.project, publishers=publishers, required=required)
    )


async def add(machine: Machine, installer: Installer) -> None:
    proposal = await installer.propose([str(machine.team)], targets=())
    assert not proposal.failures, proposal.failures
    report = await installer.install(
        proposal.candidates, {one.name: ALL_GRANTS for one in proposal.candidates}
    )
    assert report.is_whole


@pytest.mark.anyio
async def test_the_lock_pins_the_signer(tmp_path: Path) -> None:
    machine = Machine.make(tmp_path)
    sign(write_skill(machine.team, "pdf"))
    write_skill(machine.team, "notes")
    await add(machine, signing(machine, ACME))
    assert machine.lock().require("pdf").signer.startswith("acme key:")
    assert machine.lock().require("notes").signer == "unsigned"
    assert 'signer = "acme key:' in (machine.project / "skillwire.lock").read_text("utf-8")


@pytest.mark.anyio
@pytest.mark.parametrize("lie", ["acme key:" + "0" * 64, "acme cert:" + "0" * 64])
async def test_a_lock_that_names_another_signer_than_the_files_have_is_not_installed(
    tmp_path: Path, lie: str
) -> None:
    machine = Machine.make(tmp_path / "one")
    sign(write_skill(machine.team, "pdf"))
    write_skill(machine.team, "notes")
    await add(machine, signing(machine, ACME))
    lock = machine.lock()
    workspace = machine.workspace()
    workspace.write_lock(lock.put(*(replace(skill, signer=lie) for skill in lock.skills)))
    other = Machine.make(tmp_path / "two", project=machine.project, team=machine.team)
    for folder in machine.installed.iterdir():
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    installer = signing(other, ACME)
    _, state, made = installer.compare()
    report = await installer.sync(accept=installer.unaccepted(state, made))
    assert {failure.what for failure in report.failures} == {"notes", "pdf"}
    assert "skillwire.lock says that it is signed by acme" in str(report.failures[0].error)
    assert "and it is not signed" in " ".join(str(failure.error) for failure in report.failures)
    assert list(machine.installed.iterdir()) == []


@pytest.mark.anyio
async def test_a_stored_skill_of_another_signer_than_the_lock_names_is_not_installed(tmp_path: Path) -> None:
    machine = Machine.make(tmp_path)
    sign(write_skill(machine.team, "pdf"))
    await add(machine, signing(machine, ACME))
    [skill] = machine.lock().skills
    changed = replace(skill, signer="acme key:" + "0" * 64)
    machine.workspace().write_lock(machine.lock().put(changed))
    shutil.rmtree(machine.installed)
    report = await signing(machine, ACME).sync(accept=[changed])
    assert [failure.what for failure in report.failures] == ["pdf"]
    assert "skillwire.lock says that it is signed by acme" in str(report.failures[0].error)
    assert not (machine.installed / "pdf").exists()


@pytest.mark.anyio
async def test_a_signature_that_no_longer_covers_the_files_is_another_signer(tmp_path: Path) -> None:
    machine = Machine.make(tmp_path)
    folder = write_skill(machine.team, "pdf")
    sign(folder)
    await add(machine, signing(machine, ACME))
    (folder / "more.md").write_text("Slipped in.\n")
    [candidate] = (await signing(machine, ACME).propose_updates()).candidates
    assert str(candidate.signature) == "signed by acme, but 1 file differs"
    assert candidate.skill.signer == "invalid signature"


@pytest.mark.anyio
async def test_the_same_files_can_lose_their_signer(tmp_path: Path) -> None:
    machine = Machine.make(tmp_path)
    sign(write_skill(machine.team, "pdf"))
    await add(machine, signing(machine, ACME))
    assert (await signing(machine, ACME).propose_updates()).candidates == ()
    [candidate] = (await signing(machine).propose_updates()).candidates
    assert candidate.skill.signer.startswith("unknown publisher key:")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("key", "reason"),
    [(None, "the skill is not signed"), (new_key(), "signature of an unknown publisher")],
)
async def test_what_the_publisher_of_a_source_did_not_sign_is_refused(
    tmp_path: Path, key: object, reason: str
) -> None:
    machine = Machine.make(tmp_path)
    folder = write_skill(machine.team, "pdf")
    if key is not None:
        sign(folder, key)
    required = ((f"{machine.team}*", "acme"),)
    proposal = await signing(machine, ACME, required=required).propose([str(machine.team)], targets=())
    assert proposal.candidates == ()
    [failure] = proposal.failures
    assert "the publisher acme is required" in str(failure.error)
    assert reason in str(failure.error)
    assert failure.error.exit_code == 12
    sign(folder)
    (folder / "more.md").write_text("Slipped in.\n")
    changed = await signing(machine, ACME, required=required).propose([str(machine.team)], targets=())
    assert "signed by acme, but 1 file differs" in str(changed.failures[0].error)
    sign(folder)
    assert (
        await signing(machine, ACME, required=required).propose([str(machine.team)], targets=())
    ).candidates


@pytest.mark.anyio
@pytest.mark.parametrize("is_stored", [True, False])
async def test_sync_neither_stores_nor_installs_what_the_publisher_of_a_source_did_not_sign(
    tmp_path: Path, is_stored: bool
) -> None:
    """The files may have been stored from elsewhere: a lock that names them must not get around the rule."""
    machine = Machine.make(tmp_path)
    sign(write_skill(machine.team, "notes"))
    write_skill(machine.team, "pdf")
    await add(machine, signing(machine, ACME))
    shutil.rmtree(machine.installed)
    other = Machine.make(tmp_path / "other", project=machine.project, team=machine.team)
    tool = signing(machine if is_stored else other, ACME, required=((f"{machine.team}*", "acme"),))
    report = await tool.sync(accept=machine.lock().skills)
    assert report.installed == ("notes",)
    [failure] = report.failures
    assert (failure.what, failure.error.exit_code) == ("pdf", 12)
    assert "the publisher acme is required" in str(failure.error)
    assert not (machine.installed / "pdf").exists()
    assert tool.workspace.versions.has(machine.lock().require("pdf")) is is_stored


@pytest.mark.anyio
async def test_a_rollback_keeps_the_signer_of_the_version(tmp_path: Path) -> None:
    machine = Machine.make(tmp_path)
    folder = write_skill(machine.team, "pdf")
    sign(folder)
    await add(machine, signing(machine, ACME))
    before = machine.lock().require("pdf")
    (folder / "more.md").write_text("More.\n")
    sign(folder)
    installer = signing(machine, ACME)
    await installer.install((await installer.propose_updates()).candidates, {"pdf": ALL_GRANTS})
    assert signing(machine).earlier("pdf").skill.signer == before.signer


# The commands


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = new_user(tmp_path, monkeypatch)
    config = tmp_path / "xdg_config_home/skillwire"
    config.mkdir(parents=True)
    new_key_pair(config / "acme.pem")
    (config / "skillwire.toml").write_text('[publishers.acme]\nkey = "acme.pub"\n')
    return directory


@pytest.fixture
def run(work: Path, run: Run) -> Run:
    """Commands in that directory."""
    return run


def test_a_missing_signer_is_reported_and_not_accepted_by_yes(run: Run, tmp_path: Path) -> None:
    folder = write_skill(Path("team"), "pdf")
    key = tmp_path / "xdg_config_home/skillwire/acme.pem"
    assert run("sign", folder, "--key", key).code == 0
    added = run("add", "./team", "--yes")
    assert added.code == 0, added.err
    assert "signed by acme over exactly these files" in added.err
    why = run("show", "pdf")
    assert "signed by acme over exactly these files" in why.out
    assert run("show", "pdf", "--json").document["installed"]["signature"]["publisher"] == "acme"

    (folder / SIGNATURE_FILE).unlink()
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "More.\n")
    diff = run("update", "--diff", "pdf")
    assert "signer changed: it was signed by acme" in diff.out
    assert "signature    not signed" in diff.out
    [document] = run("update", "--diff", "pdf", "--json").document["skills"]
    assert "is not signed now" in document["signer_change"]
    assert document["signature"]["state"] == "unsigned"
    refused = run("update", "pdf", "--yes")
    assert (refused.code, "add --allow-signer" in refused.err) == (12, True)
    assert "More." not in Path(".agents/skills/pdf/SKILL.md").read_text()
    assert run("update", "pdf", "--yes", "--allow-signer").code == 0
    assert "More." in Path(".agents/skills/pdf/SKILL.md").read_text()
    assert 'signer = "unsigned"' in Path("skillwire.lock").read_text()


def test_a_source_that_requires_a_publisher_is_refused_by_add(run: Run, tmp_path: Path) -> None:
    folder = write_skill(Path("team"), "pdf")
    config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
    config.write_text(config.read_text() + '[sources."./team*"]\nrequire = "acme"\n')
    ended = run("add", "./team", "--yes")
    assert (ended.code, "the publisher acme is required, and the skill is not signed" in ended.err) == (
        12,
        True,
    )
    run("sign", folder, "--key", config.parent / "acme.pem")
    assert run("add", "./team", "--yes").code == 0


@pytest.mark.parametrize(
    ("pattern", "source", "option"),
    [
        ("~/project/team", "./team", ()),
        ("~/project/team", "../project/team", ()),
        ("~/project/team", "ROOT/team/pdf", ()),
        ("~/project/team", "./link", ()),
        ("ROOT/te*", "./team/pdf", ()),
        ("./team", "ROOT/team", ()),
        ("team", "./team", ("--user",)),
        ("./team", "~/project/team", ("--user",)),
        ("~/project/link", "./team", ()),
    ],
)
def test_every_spelling_of_a_folder_that_requires_a_publisher_is_refused(
    pattern: str,
    source: str,
    option: tuple[str, ...],
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd().parent))
    monkeypatch.setenv("USERPROFILE", str(Path.cwd().parent))
    pattern, source = (
        text.replace("ROOT", str(Path.cwd())).replace("project", Path.cwd().name)
        for text in (pattern, source)
    )
    write_skill(Path("team"), "pdf")
    Path("link").symlink_to("team")
    config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
    config.write_text(config.read_text() + f'[sources."{pattern}"]\nrequire = "acme"\n')
    ended = run("add", source, "--yes", *option)
    assert (ended.code, "the publisher acme is required" in ended.err) == (12, True)
