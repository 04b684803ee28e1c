"""The commands that install: what they ask, print and exit with, for people, for scripts and for CI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import Run, as_person, person
from folder_server import FolderServer, in_thread
from install.samples import skill_md
from install.workspaces import tree_of, write_skill
from skillwire import SkillServer
from skillwire.cli import install_setup
from skillwire.errors import SourceError
from skillwire.install import StateFiles
from skillwire.install.foreign import ForeignSkill
from skillwire.net import ArchiveFile, write_tar_gz
from skillwire.skill import parse_set_digest
from skillwire.sources import SourceReference
from terminals import Terminal

TEAM = Path("../team")
INSTALLED = Path(".agents/skills")
LOCK = Path("skillwire.lock")


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a home and a project, beside a folder of skills of the team."""
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    become(tmp_path, "me", monkeypatch)
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    write_skill(TEAM, "notes", {"reference.md": "one\n"})
    return directory


def become(tmp_path: Path, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / user / name.lower()))


def with_powers() -> None:
    """A skill of the team that asks for tools and has a script."""
    text = "---\nname: release\ndescription: Releases.\nallowed-tools: Bash(git:*)\n---\n# Release\n"
    write_skill(TEAM, "release", {"SKILL.md": text, "scripts/tag.sh": "#!/bin/sh\n"})


# Without a terminal


def test_add_shows_what_it_would_install_and_installs_nothing_without_a_yes(run: Run) -> None:
    ended = run("add", TEAM)
    assert ended.code == 7
    assert "notes from ../team" in ended.err
    assert "Does notes." in ended.err
    assert "not signed" in ended.err
    assert "does not mark its text as untrusted" in ended.err
    assert "--yes" in ended.err
    assert not INSTALLED.exists()
    assert not LOCK.exists()


def test_yes_installs_what_was_shown_and_a_summary_says_so(run: Run) -> None:
    ended = run("add", TEAM, "--yes")
    assert (ended.code, ended.out) == (0, "Installed 1 skill: notes\n")
    assert tree_of(INSTALLED) == tree_of(TEAM)
    again = run("sync")
    assert (again.code, again.out) == (0, "1 skill matches skillwire.lock.\n")


def test_sync_removes_what_a_killed_command_left_behind(run: Run) -> None:
    run("add", TEAM, "--yes")
    left = INSTALLED / ".skillwire-tmp-abc"
    (left / "new/notes").mkdir(parents=True)
    (left / "name").write_text("notes")
    assert run("sync", "--check").code == 0
    assert left.exists()
    assert (run("sync").code, left.exists()) == (0, False)


def test_adding_again_what_is_pinned_and_no_longer_there_installs_it_again(run: Run) -> None:
    run("add", TEAM, "--yes")
    assert run("add", TEAM, "--yes").out == "1 skill up to date.\n"
    shutil.rmtree(INSTALLED / "notes")
    ended = run("add", TEAM, "--yes")
    assert (ended.code, ended.out) == (0, "Installed 1 skill: notes\n")
    assert tree_of(INSTALLED) == tree_of(TEAM)


def test_adding_again_with_copy_replaces_a_link_by_a_copy(run: Run) -> None:
    run("add", TEAM, "--agent", "claude-code", "--yes")
    assert Path(".claude/skills/notes").is_symlink()
    assert run("add", TEAM, "--agent", "claude-code", "--yes", "--copy").code == 0
    assert not Path(".claude/skills/notes").is_symlink()
    assert tree_of(Path(".claude/skills")) == tree_of(TEAM)


def test_adding_again_leaves_what_was_edited_and_names_the_command_that_shows_it(run: Run) -> None:
    run("add", TEAM, "--yes")
    (INSTALLED / "notes/reference.md").write_text("mine\n")
    ended = run("add", TEAM, "--yes")
    assert (ended.code, (INSTALLED / "notes/reference.md").read_text()) == (0, "mine\n")
    assert "`skillwire sync` shows which" in ended.err


def test_adding_again_installs_nothing_that_only_somebody_elses_lock_has_approved(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", TEAM, "--yes")
    shutil.rmtree(INSTALLED)
    become(tmp_path, "other", monkeypatch)
    ended = run("add", TEAM, "--yes")
    assert not INSTALLED.exists()
    assert "`skillwire sync` shows which" in ended.err


def test_a_broken_skill_beside_the_one_that_is_meant_does_not_matter(run: Run) -> None:
    write_skill(TEAM, "broken", {"SKILL.md": "---\nname: other\n---\n"})
    ended = run("add", TEAM, "--skill", "notes", "--yes")
    assert (ended.code, ended.out) == (0, "Installed 1 skill: notes\n")
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    assert run("update", "--diff", "notes").code == 0
    assert run("update", "--yes").out == "Updated 1 skill: notes\n"
    ended = run("add", TEAM, "--yes")
    assert (ended.code, "broken" in ended.err) == (11, True)
    shutil.rmtree(TEAM / "notes")
    ended = run("update", "--check")
    assert (ended.code, "no longer has notes" in ended.out) == (11, True)


@pytest.mark.parametrize("kind", ["archive", pytest.param("git", marks=pytest.mark.process)])
def test_sync_takes_what_is_pinned_from_a_source_that_also_has_a_broken_skill(run: Run, kind: str) -> None:
    write_skill(TEAM, "more")
    write_skill(TEAM, "broken", {"SKILL.md": "---\nname: broken\n---\n"})
    if kind == "git":
        for words in (
            ["init", "-q"],
            ["add", "-A"],
            ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm1"],
        ):
            subprocess.run(["git", "-C", TEAM, *words], check=True)
        source = f"git+file://{TEAM.resolve()}"
    else:
        source = "../team.tar.gz"
        with tarfile.open(source, "w:gz") as archive:
            archive.add(TEAM, ".")
    added = run("add", source, "--skill", "notes", "--skill", "more", "--yes")
    assert (added.code, added.out) == (0, "Installed 2 skills: more, notes\n")
    shutil.rmtree(INSTALLED)
    shutil.rmtree(StateFiles.of_user().folder)
    ended = run("sync", "--yes")
    assert (ended.code, ended.out) == (0, "Installed 2 skills: more, notes\n")


def test_a_pinned_skill_that_is_broken_at_its_source_is_named_with_the_reason(run: Run) -> None:
    run("add", TEAM, "--yes")
    (TEAM / "notes/SKILL.md").write_text("no frontmatter")
    for command in ("update --check", "update", "update --diff notes"):
        ended = run(*command.split())
        assert ended.code != 0, command
        assert "frontmatter" in ended.out + ended.err, command


def test_a_skill_that_a_source_does_not_have_is_named_with_the_source(run: Run) -> None:
    ended = run("add", TEAM, "--skill", "none", "--yes")
    assert (ended.code, "../team has no skill called none" in ended.err) == (8, True)
    assert len(ended.err.splitlines()) == 1


def test_what_cannot_be_installed_is_in_the_document_that_asks_for_a_yes(run: Run) -> None:
    write_skill(TEAM, "broken", {"SKILL.md": "---\nname: other\n---\n"})
    document = json.loads(run("add", TEAM, "--json").out)
    assert [one["name"] for one in document["proposed"]] == ["notes"]
    assert [one["name"] for one in document["failed"]] == ["broken"]


def test_without_a_terminal_every_option_that_is_needed_is_named(run: Run) -> None:
    assert "--allow" not in run("add", TEAM).err
    with_powers()
    assert "--yes to accept exactly what is shown, and --allow-tools and --allow-code" in run("add", TEAM).err
    assert "is shown, and --allow-code to grant" in run("add", TEAM, "--allow-tools").err


def test_an_update_shows_the_text_of_new_files(run: Run) -> None:
    run("add", TEAM, "--yes")
    write_skill(TEAM, "notes", {"scripts/new.py": "print('new')\n"})
    for command in ("update --diff notes", "update"):
        ended = run(*command.split())
        assert "+print('new')" in ended.out + ended.err, command


def test_in_a_folder_of_a_project_the_place_of_its_lock_is_named(
    run: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", TEAM, "--yes")
    (work / "docs/pages").mkdir(parents=True)
    monkeypatch.chdir(work / "docs/pages")
    ended = run("sync")
    assert (ended.code, f"there is one in {work}, so run the command there" in ended.err) == (4, True)


def test_a_lock_that_is_not_text_is_not_valid(run: Run) -> None:
    LOCK.write_bytes(b"\xff\xfe")
    ended = run("sync")
    assert (ended.code, "skillwire.lock: not UTF-8 text" in ended.err) == (3, True)


def test_only_archives_that_can_be_written_are_exported(run: Run) -> None:
    run("add", TEAM, "--yes")
    ended = run("sync", "--export", "skills.zip")
    assert (ended.code, "only .tar.gz archives are written" in ended.err) == (4, True)
    assert not Path("skills.zip").exists()


def test_an_archive_that_cannot_be_read_is_named(run: Run) -> None:
    Path("half.tar.gz").write_bytes(write_tar_gz([ArchiveFile("SKILL.md", skill_md("a"))])[:40])
    ended = run("add", "./half.tar.gz")
    assert (ended.code, "half.tar.gz: the archive is not used" in ended.err) == (3, True)


def test_control_characters_of_a_source_are_escaped_once(run: Run) -> None:
    ended = run("add", "a\x1b[31mred")
    assert "'a\\u001b[31mred' is not a source" in ended.err


def test_a_reason_that_many_skills_share_is_printed_once(run: Run) -> None:
    archive = Path("../team.tar.gz")
    archive.write_bytes(write_tar_gz([ArchiveFile(f"{name}/SKILL.md", skill_md(name)) for name in "abc"]))
    run("add", archive, "--yes")
    shutil.rmtree(INSTALLED)
    archive.unlink()
    # The stored versions go, so that the source must be asked.
    shutil.rmtree(StateFiles.of_user().folder)
    ended = run("sync", "--yes")
    assert "not installed  a, b, c: " in ended.out


def test_a_server_that_only_the_lock_names_is_asked_for_updates_too(run: Run, folders: FolderServer) -> None:
    before = folders.at(TEAM)
    run("add", "docs/notes", "--server", f"docs={before}", "--yes")
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    with in_thread(SkillServer(TEAM).http_app(well_known=True)) as site:
        url = f"{site}/mcp"
        LOCK.write_text(LOCK.read_text().replace(before, url))
        assert run("update", "--check").code == 10
        assert "+two" in run("update", "--diff", "notes").out
        assert run("update", "--yes").out == "Updated 1 skill: notes\n"
        assert f'url = "{url}"' in LOCK.read_text()
        assert run("update", "--check").code == 0
        ended = run("add", "dosc/notes", "--server", f"docs={url}", "--yes")
        assert (ended.code, "no server is called dosc: did you mean docs?" in ended.err) == (4, True)
        ended = run("add", f"{site}#none", "--yes")
        assert (ended.code, "lists no skill called none" in ended.err) == (8, True)
        ended = run("add", url, "--yes")
        assert ended.code == 4
        assert f"if it is an MCP server, `skillwire servers add NAME {url}` first" in ended.err


def test_one_failure_is_reported_once(run: Run) -> None:
    ended = run("add", "./nowhere")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (4, "", 1)
    with_powers()
    ended = run("add", TEAM / "release", "--yes", "--allow-tools")
    assert (ended.code, ended.out) == (12, "")
    assert (ended.out + ended.err).count("were not granted") == 1


def test_two_refusals_are_both_named_and_end_with_refused(run: Run) -> None:
    """One name is taken by another source, and the other skill asks for scripts."""
    run("add", TEAM / "notes", "--yes")
    other = Path("../other")
    write_skill(other, "notes")
    write_skill(other, "release", {"run.sh": "#!/bin/sh\n"})
    ended = run("add", other, "--yes")
    assert ended.code == 12
    said = ended.out + ended.err
    assert "not installed  notes is already installed from ../team/notes" in said
    assert "not installed  release has scripts (run.sh)" in said
    assert "2 skills refused: see above" in said


def test_a_declined_question_has_a_document_too(run: Run) -> None:
    run("add", TEAM, "--yes")
    (INSTALLED / "notes/reference.md").write_text("mine\n")
    ended = run("sync", "--adopt", "--json")
    assert ended.code == 7
    assert json.loads(ended.out)["proposed"][0]["name"] == "notes"
    assert "description" not in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "../nowhere"], "does not exist"),
        (["add", "./skills-lock.json"], "skills-lock.json cannot be read: No such file or directory"),
        (["add", "plain"], "./plain if it is a folder"),
        (["add", TEAM, "--agent", "nobody"], "`skillwire config agents --all` lists them"),
        pytest.param(
            ["add", "git+file:///nowhere/repository"], "file:///nowhere/repository", marks=pytest.mark.process
        ),
        (["add", "http://127.0.0.1:1"], "http://127.0.0.1:1/.well-known/agent-skills/index.json"),
        (["sync"], "does not exist: `skillwire add` creates one"),
        (["add", TEAM], "this is not a terminal: use --yes"),
    ],
)
def test_what_is_wrong_and_what_to_do_is_one_line(run: Run, words: list[str | Path], said: str) -> None:
    ended = run(*words)
    assert ended.code != 0
    assert said in ended.err.splitlines()[-1]


def test_a_server_that_cannot_be_reached_is_reported_once(run: Run) -> None:
    run("servers", "add", "--no-check", "docs", "http://127.0.0.1:1/mcp")
    ended = run("add", "docs/notes", "--yes")
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (4, "", 1)
    assert "MCP server docs cannot be reached" in ended.err


def test_what_is_up_to_date_is_reported_once(run: Run) -> None:
    run("add", TEAM, "--yes")
    for again in (("add", TEAM, "--yes"), ("update",)):
        ended = run(*again)
        assert (ended.code, ended.out, ended.err) == (0, "1 skill up to date.\n", "")
    (INSTALLED / "notes/reference.md").write_text("mine\n")
    ended = run("update")
    assert ended.out == "1 skill up to date.\n"
    assert "Not all folders match skillwire.lock" in ended.err
    ended = run("remove", "notes")
    assert ended.code == 10
    assert "--force removes it" in ended.err


def test_packages_without_skills_are_reported(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillwire.sources.packages.distributions", list)
    ended = run("add", "--installed")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "No installed Python package has skills: there is nothing to install.\n"


def test_very_many_names_are_cut_short(run: Run) -> None:
    for number in range(50):
        write_skill(TEAM, f"skill-{number:02}")
    ended = run("add", TEAM, "--yes", "--json")
    assert len(ended.document["installed"]) == 51
    ended = run("remove", *ended.document["installed"])
    assert ended.out.startswith("Removed 51 skills: notes, skill-00")
    assert ended.out.endswith(" and 11 more\n")


def test_a_digest_that_toolhive_pinned_must_match(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sources are repositories on the network: a folder stands in for one here."""
    wrong = parse_set_digest("sha256:" + "0" * 64)
    rows = (ForeignSkill("notes", str(TEAM), wrong), ForeignSkill("oci", problem="is in an OCI registry"))
    monkeypatch.setattr("skillwire.install.parse_foreign_lock", lambda text, name: rows)
    Path("toolhive.lock.yaml").write_text("version: 1\n")
    ended = run("add", "./toolhive.lock.yaml", "--yes")
    assert ended.code == 4
    assert "has another version now" in ended.err
    assert "OCI" in ended.err
    assert not INSTALLED.exists()
    right = run("add", TEAM, "--json").out
    digest = parse_set_digest(json.loads(right)["proposed"][0]["digest"])
    monkeypatch.setattr(
        "skillwire.install.parse_foreign_lock", lambda text, name: (ForeignSkill("notes", str(TEAM), digest),)
    )
    assert run("add", "./toolhive.lock.yaml", "--yes").code == 0


def test_yes_grants_neither_tools_nor_scripts(run: Run) -> None:
    with_powers()
    ended = run("add", TEAM, "--yes")
    assert ended.code == 12
    assert "Installed 1 skill: notes" in ended.out
    assert "--allow-tools" in ended.out
    assert not (INSTALLED / "release").exists()
    ended = run("add", TEAM, "--yes", "--allow-tools")
    assert ended.code == 12
    assert "--allow-code" in ended.out + ended.err
    assert run("add", TEAM, "--yes", "--allow-tools", "--allow-code").code == 0
    assert (INSTALLED / "release/scripts/tag.sh").stat().st_mode & 0o111


def test_a_source_that_fails_beside_one_that_does_not_is_done_in_part(run: Run) -> None:
    ended = run("add", TEAM, "./none", "--yes")
    assert ended.code == 11
    assert "Installed 1 skill: notes" in ended.out
    assert "none does not exist" in ended.err
    assert run("add", "./none", "--yes").code == 4
    assert run("add", TEAM, "--skill", "other", "--yes").code == 8


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(repository: Path, body: str) -> str:
    """Commit the skill `notes` with this text; the commit."""
    write_skill(repository / "skills", "notes", body=body)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "notes")
    return git(repository, "rev-parse", "HEAD")


@pytest.mark.process
def test_a_repository_is_installed_at_a_commit_and_stays_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    first = commit(repository, "the first text")
    git(repository, "tag", "v1")
    assert run("add", f"git+file://{repository}#v1:skills/notes", "--yes").code == 0
    assert f'commit = "{first}"' in LOCK.read_text()
    installed = tree_of(INSTALLED)
    # The branch goes on and the tag is moved: a clean machine still gets what was pinned.
    second = commit(repository, "the second text")
    git(repository, "tag", "-f", "v1")
    become(tmp_path, "another", monkeypatch)
    shutil.rmtree(INSTALLED)
    assert run("sync", "--yes").code == 0
    assert tree_of(INSTALLED) == installed
    assert "the first text" in (INSTALLED / "notes/SKILL.md").read_text()
    # What the tag means now is an update, which is shown and agreed to.
    assert "notes" in run("update", "--check").out
    assert run("update", "--yes").code == 0
    assert f'commit = "{second}"' in LOCK.read_text()
    assert "the second text" in (INSTALLED / "notes/SKILL.md").read_text()


@pytest.mark.process
def test_a_skill_with_a_link_in_its_repository_is_not_installed(run: Run, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    write_skill(repository / "skills", "linked")
    (repository / "skills/linked/secret.md").symlink_to("/etc/passwd")
    commit(repository, "text")
    ended = run("add", f"git+file://{repository}", "--yes")
    assert ended.code == 11
    assert "Installed 1 skill: notes" in ended.out
    assert "secret.md is a link in the repository" in ended.err
    assert not (INSTALLED / "linked").exists()


@pytest.mark.parametrize("names", [["notes"], ["notes", "more"]])
def test_bytes_that_do_not_match_the_pin_have_their_own_exit_code(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """The lock says one thing and the folder that it names has another by now."""
    for text in ("one\n", "two\n"):
        for name in names:
            write_skill(TEAM, name, {"reference.md": text})
        if text == "one\n":
            run("add", TEAM, "--yes")
    become(tmp_path, "another", monkeypatch)
    shutil.rmtree(INSTALLED)
    ended = run("sync", "--yes")
    assert ended.code == 6
    for name in names:
        assert f"{name}: ../team has another version now" in ended.out + ended.err
        assert not (INSTALLED / name).exists()


def test_what_is_not_valid_and_what_is_too_large_have_exit_codes_of_their_own(
    run: Run, tmp_path: Path
) -> None:
    large = tmp_path / "large.tar.gz"
    large.write_bytes(b"\x1f\x8b" + bytes(10 * 1024 * 1024))
    assert run("add", large, "--yes").code == 5
    write_skill(TEAM, "bad", {"SKILL.md": "no frontmatter"})
    assert run("add", TEAM / "bad", "--yes").code == 3
    LOCK.write_text("version = 2\n")
    ended = run("sync")
    assert (ended.code, len(ended.err.splitlines())) == (3, 1)
    assert not INSTALLED.exists()


def test_check_says_what_differs_and_frozen_repairs_it(run: Run) -> None:
    run("add", TEAM, "--yes")
    lock = LOCK.read_bytes()
    shutil.rmtree(INSTALLED / "notes")
    ended = run("sync", "--check")
    assert ended.code == 10
    assert "notes  missing" in ended.out
    assert not (INSTALLED / "notes").exists()
    assert run("sync", "--frozen", "--yes").code == 0
    assert run("sync", "--check").code == 0
    assert LOCK.read_bytes() == lock


def test_an_edit_stops_sync_with_a_diff_until_somebody_decides(run: Run) -> None:
    run("add", TEAM, "--yes")
    file = INSTALLED / "notes/reference.md"
    file.write_text("mine\n")
    for words in (["sync"], ["sync", "--frozen", "--yes"], ["sync", "--check"]):
        ended = run(*words)
        assert ended.code == 10
        assert "edited by hand" in ended.out
    ended = run("sync")
    assert "│ -one" in ended.out
    assert "│ +mine" in ended.out
    assert "`skillwire sync --adopt` pins what is there" in ended.err
    assert file.read_text() == "mine\n"
    assert run("update", "--diff", "notes", "--local").out.count("mine") == 1
    adopted = run("sync", "--adopt", "--yes")
    assert (adopted.code, adopted.out) == (0, "Pinned 1 skill as edited: notes\n")
    assert run("sync", "--check").code == 0
    assert file.read_text() == "mine\n"
    file.write_text("more\n")
    assert run("sync", "--force", "--yes").code == 0
    assert file.read_text() == "mine\n"


def test_a_folder_that_others_put_there_is_left_alone(run: Run) -> None:
    write_skill(INSTALLED, "notes", body="theirs")
    before = tree_of(INSTALLED)
    ended = run("add", TEAM, "--yes")
    assert ended.code == 10
    assert "not installed by skillwire" in ended.out
    assert tree_of(INSTALLED) == before
    assert run("add", TEAM, "--yes", "--force").code == 0
    assert tree_of(INSTALLED) == tree_of(TEAM)
    assert run("rollback", "notes").code == 0
    assert tree_of(INSTALLED) == before


def test_a_folder_with_the_same_files_is_pinned_as_it_is(run: Run) -> None:
    shutil.copytree(TEAM / "notes", INSTALLED / "notes")
    before = (INSTALLED / "notes/SKILL.md").stat()
    ended = run("add", TEAM, "--yes")
    assert ended.out == "Pinned 1 skill: notes (the same files were already there)\n"
    assert (INSTALLED / "notes/SKILL.md").stat().st_ino == before.st_ino
    assert run("sync", "--check").code == 0


def test_what_changed_upstream_is_listed_shown_installed_and_rolled_back(run: Run) -> None:
    run("add", TEAM, "--yes")
    first = tree_of(INSTALLED)
    assert run("update", "--check").code == 0
    write_skill(TEAM, "notes", {"reference.md": "two\n", "scripts/new.py": "print()\n"})
    ended = run("update", "--check")
    assert ended.code == 10
    assert "notes  outdated" in ended.out
    shown = run("update", "--diff", "notes")
    assert "newly asks for: scripts scripts/new.py" in shown.out
    assert "│ -one" in shown.out
    assert "│ +two" in shown.out
    assert run("update", "--yes").code == 12
    assert tree_of(INSTALLED) == first
    assert run("update", "notes", "--yes", "--allow-code").code == 0
    assert tree_of(INSTALLED) == tree_of(TEAM)
    shutil.rmtree(TEAM)
    assert run("rollback", "notes").code == 0
    assert tree_of(INSTALLED) == first
    assert run("rollback", "notes").code == 8
    kept = run("show", "notes", "--json").document["installed"]["versions"]
    assert run("rollback", "notes", "--to", kept[-1]["digest"][:15]).code == 0
    assert (INSTALLED / "notes/scripts/new.py").exists()


def test_keys_of_a_newer_version_survive_every_command(run: Run) -> None:
    """In the file, in a skill, in its pin and in a file of it."""
    write_skill(TEAM, "more")
    run("add", TEAM / "notes", "--yes")
    text = LOCK.read_text()
    text = text.replace("version = 1\n", 'version = 1\nfuture = "top"\n')
    text = text.replace("signer = ", 'review = { by = "ann", stars = 3 }\nsigner = ')
    text = text.replace('pin = { kind = "folder",', 'pin = { kind = "folder", mirror = "here", depth = 2,')
    text = text.replace("size = 4,", 'size = 4, note = "kept",')
    LOCK.write_text(text)
    parts = (
        'future = "top"',
        'review = { by = "ann", stars = 3 }',
        'mirror = "here"',
        "depth = 2",
        'note = "kept"',
    )
    assert all(part in text for part in parts)
    assert run("add", TEAM / "notes", "--yes").out == "1 skill up to date.\n"
    assert run("update").out == "1 skill up to date.\n"
    write_skill(TEAM, "notes", body="two")
    for words in (
        ["add", TEAM / "more", "--yes"],
        ["update", "--yes"],
        ["rollback", "notes"],
        ["sync", "--yes"],
        ["remove", "more"],
    ):
        assert run(*words).code == 0, words
        for part in parts:
            assert part in LOCK.read_text(), (words, part)
    (INSTALLED / "notes/SKILL.md").write_text((INSTALLED / "notes/SKILL.md").read_text() + "mine")
    assert run("sync", "--adopt", "--yes").code == 0
    assert "review = " in LOCK.read_text()


def test_a_server_whose_policy_is_never_ends_with_refused(run: Run) -> None:
    run("servers", "add", "--no-check", "docs", "http://127.0.0.1:1/mcp", "--approval", "never")
    ended = run("add", "docs/notes", "--yes")
    assert (ended.code, "approval mode of that server is never" in ended.err) == (12, True)


def test_every_command_has_json(run: Run, tmp_path: Path) -> None:
    assert json.loads(run("add", TEAM, "--json").out)["proposed"][0]["name"] == "notes"
    assert run("add", TEAM, "--yes", "--json").document["installed"] == ["notes"]
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    assert run("sync", "--json").document["current"] == ["notes"]
    assert run("sync", "--check", "--json").document["in_sync"] is True
    assert json.loads(run("update", "--check", "--json").out)["skills"][0]["state"] == "outdated"
    [news] = run("update", "--diff", "notes", "--json").document["skills"]
    assert news["changes"] == [{"path": "reference.md", "kind": "changed"}]
    [edits] = run("update", "--diff", "notes", "--local", "--json").document["skills"]
    assert edits["changes"] == []
    assert run("update", "--yes", "--json").document["updated"] == ["notes"]
    assert run("rollback", "notes", "--json").document["updated"] == ["notes"]
    why = run("show", "notes", "--json").document["installed"]
    assert why["approved"]
    assert len(why["versions"]) == 2
    assert why["places"] == [str((INSTALLED / "notes").absolute())]
    exported = run("sync", "--export", tmp_path / "skills.tar.gz", "--json").document
    assert [one["name"] for one in exported["skills"]] == ["notes"]
    assert len(run("config", "agents", "--all", "--json").document["agents"]) >= 79
    (INSTALLED / "notes/reference.md").write_text("mine\n")
    stopped = json.loads(run("sync", "--json").out)["stopped"]
    assert [(one["name"], one["state"]) for one in stopped] == [("notes", "edited")]
    assert run("remove", "notes", "--force", "--json").document["removed"] == ["notes"]
    assert not (INSTALLED / "notes").exists()


def test_what_is_installed_is_listed_without_a_server(run: Run) -> None:
    assert run("list", "--installed").code == 4
    run("add", TEAM, "--yes")
    ended = run("list", "--installed")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("notes  ../team ")
    assert run("list", "--installed", "--json").document["skills"][0]["name"] == "notes"
    missing = run("remove", "nothing")
    assert missing.code == 8
    assert "`skillwire list --installed` shows those it has" in missing.err
    run("remove", "notes")
    assert run("list", "--installed").out == "Nothing is installed here.\n"


def test_show_says_where_from_pinned_to_what_approved_when_and_by_whom(run: Run) -> None:
    run("add", TEAM, "--yes")
    text = run("show", "notes").out
    for word in ("../team", "sha256:", "unsigned", "approved", " by ", "folder", "version", "(now)"):
        assert word in text, text


def test_an_export_can_be_added_elsewhere(run: Run, tmp_path: Path) -> None:
    run("add", TEAM, "--yes")
    run("sync", "--export", tmp_path / "a.tar.gz")
    run("sync", "--export", tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    run("remove", "notes")
    assert run("add", tmp_path / "a.tar.gz", "--yes").code == 0
    assert tree_of(INSTALLED) == tree_of(TEAM)


# A lock that came with a repository


@pytest.fixture
def cloned(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock of two skills that somebody else wrote; nothing is installed."""
    with_powers()
    run("add", TEAM, "--yes", "--allow-tools", "--allow-code")
    shutil.rmtree(".agents")
    become(tmp_path, "somebody", monkeypatch)


@pytest.mark.usefixtures("cloned")
def test_a_cloned_lock_installs_nothing_without_a_yes_and_exactly_itself_with_one(run: Run) -> None:
    ended = run("sync")
    assert ended.code == 7
    for shown in ("would install 2 skills", "Bash(git:*)", "scripts/tag.sh", "not signed", "../team"):
        assert shown in ended.err
    assert not INSTALLED.exists()
    assert run("sync", "--yes").code == 0
    assert tree_of(INSTALLED) == tree_of(TEAM)
    # The yes is kept for exactly that set, and a host does not ask again.
    shutil.rmtree(".agents")
    assert run("sync").code == 0
    approvals = {one["name"]: one["approval"] for one in run("list", "--json").document["skills"]}
    assert {one["state"] for one in approvals.values()} == {"approved"}
    assert [name for name, one in approvals.items() if one["execute_code"]] == ["release"]


@pytest.mark.usefixtures("cloned")
def test_the_first_sync_of_a_cloned_lock_asks_once_for_the_whole_set(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = as_person(run, "sync", answers=("n",))
    assert (refused.code, refused.err.count("Install exactly these")) == (12, 1)
    assert not INSTALLED.exists()
    ended = as_person(run, "sync")
    assert (ended.code, ended.err.count("Install exactly these")) == (0, 1)
    assert "Installed 2 skills: notes, release" in ended.out
    # What changes later is asked about alone.
    become(tmp_path, "me", monkeypatch)
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    assert run("update", "--yes").code == 0
    shutil.rmtree(".agents")
    become(tmp_path, "somebody", monkeypatch)
    again = as_person(run, "sync")
    assert (again.code, again.err.count("Install exactly these")) == (0, 1)
    assert "would install 1 skill" in again.err


@pytest.mark.parametrize("name", ["skillwire.lock", "skills-lock.json", "toolhive.lock.yaml"])
@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "."])
def test_a_lock_that_is_no_file_is_one_clear_line(run: Run, name: str, target: str) -> None:
    """A clone can have a link in its place; reading it must neither wait nor fill the memory."""
    os.mkfifo("pipe")
    Path(name).symlink_to(target)
    ended = run("sync") if name == "skillwire.lock" else run("add", f"./{name}")
    assert (ended.code, len(ended.err.splitlines())) == (4, 1)
    assert "cannot be read" in ended.err


def test_a_name_that_windows_refuses_is_noted_before_it_is_installed(run: Run) -> None:
    write_skill(TEAM, "notes", {"aux.md": "x", "A.md": "x", "a.md": "x"})
    ended = run("add", TEAM)
    assert "not possible on Windows: aux.md contains the name of a device" in ended.err
    assert "on macOS and Windows, A.md and a.md are the same name" in ended.err


@pytest.mark.parametrize(
    "pin",
    [
        'kind = "mcp", server = "docs", uri = "skill://x/SKILL.md", url = "http://["',
        'kind = "mcp", server = "docs", uri = "skill://x/SKILL.md", url = "file:///etc/passwd"',
        'kind = "mcp", server = "../x y", uri = "nonsense"',
        f'kind = "site", index = "x", artifact = "file:///etc/passwd", digest = "sha256:{"0" * 64}"',
        'kind = "site", index = "x", artifact = "https://127.0.0.1:1", digest = "x"',
        'kind = "git", repository = "https://[", commit = "x"',
        'kind = "git", repository = "file:///tmp", commit = "../../x", path = "../../../etc"',
        'kind = "folder", path = "/proc/self"',
        'kind = "folder", path = "\\u0000"',
        'kind = "archive", path = "/dev/zero"',
        'kind = "package", package = "../x"',
    ],
)
def test_a_lock_with_a_source_that_is_none_is_one_clear_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pin: str
) -> None:
    run("add", TEAM, "--yes")
    text = LOCK.read_text()
    LOCK.write_text(text.replace('kind = "folder", path = "../team/notes"', pin))
    assert LOCK.read_text() != text
    become(tmp_path, "another", monkeypatch)
    shutil.rmtree(INSTALLED)
    ended = run("sync", "--yes")
    assert ended.code in (3, 4, 5, 6, 8)
    assert ended.err.splitlines()[-1].startswith("skillwire: ")
    assert not (INSTALLED / "notes").exists()


@pytest.mark.process
@pytest.mark.parametrize(
    "repository",
    [
        "ext::sh -c touch% {marker}",
        "--upload-pack=touch {marker}",
        "ssh://-oProxyCommand=touch {marker}/x",
        "file://{repository}",
    ],
)
def test_a_lock_cannot_name_a_command_as_its_repository(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    """Whoever writes a lock chooses the repository; only the plain one in the last row is fetched."""
    marker, real = tmp_path / "marker", tmp_path / "repository"
    real.mkdir()
    git(real, "init", "-q", "-b", "main")
    commit(real, "text")
    assert run("add", f"git+file://{real}", "--yes").code == 0
    place = repository.format(marker=marker, repository=real)
    LOCK.write_text(LOCK.read_text().replace(f'repository = "file://{real}"', f'repository = "{place}"'))
    become(tmp_path, "another", monkeypatch)
    shutil.rmtree(INSTALLED)
    ended = run("sync", "--yes")
    assert not marker.exists()
    assert (ended.code == 0) is (place == f"file://{real}"), ended.err


# Progress


class Status:
    """What a terminal would show while something runs."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __enter__(self) -> Status:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, text: object) -> None:
        self.shown.append(str(text))


def test_progress_counts_the_files_of_a_server_and_the_folders_that_are_written(
    run: Run, monkeypatch: pytest.MonkeyPatch, folders: FolderServer
) -> None:
    write_skill(TEAM, "more", {"a.md": "a"})
    run("servers", "add", "--no-check", "docs", folders.at(TEAM))
    status = Status()
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(install_setup, "sys", SimpleNamespace(stderr=terminal, stdin=sys.stdin))
    monkeypatch.setattr("rich.console.Console.status", lambda self, text: status.update(text) or status)
    assert run("add", "docs", "--yes").code == 0
    fetched = [text for text in status.shown if text.startswith("Fetching from docs: ")]
    assert fetched[-1] == "Fetching from docs: 4 of 4 files"
    assert status.shown[0] == "Contacting the sources ..."
    assert status.shown[-1].endswith(": 2 folders done")
    shutil.rmtree(INSTALLED)
    status.shown.clear()
    assert run("sync").code == 0
    assert status.shown[-1].endswith(": 2 folders done")
    assert not any(text.startswith("Fetching") for text in status.shown)
    shutil.rmtree(INSTALLED)
    shutil.rmtree(StateFiles.of_user().versions)
    status.shown.clear()
    assert run("sync").code == 0
    assert "Fetching from docs: 4 of 4 files; 1 folder done" in status.shown
    assert status.shown[-1].endswith(": 2 folders done")


# Skills of servers


def test_installing_from_a_server_is_approving_for_hosts_too(run: Run, folders: FolderServer) -> None:
    with_powers()
    run("servers", "add", "--no-check", "docs", folders.at(TEAM))
    assert run("list").code == 0
    assert not INSTALLED.exists()
    assert run("add", "docs/notes", "--yes").code == 0
    assert run("add", "docs/release", "--yes", "--allow-tools", "--allow-code").code == 0
    document = run("list", "--json").document
    approvals = {
        one["name"]: one["approval"] for one in document["skills"] if one["origin"]["label"] == "docs"
    }
    assert {name: one["state"] for name, one in approvals.items()} == {
        "notes": "approved",
        "release": "approved",
    }
    assert not approvals["notes"]["execute_code"]
    assert approvals["release"]["allowed_tools"]
    assert approvals["release"]["execute_code"]
    # A host asks about the copy in the project neither, nor about the same place under another name.
    run("servers", "add", "--no-check", "manuals", folders.at(TEAM))
    before = tree_of(Path())
    assert run("load", "project/notes").code == 0
    assert run("load", "notes", "--on", "manuals").code == 0
    assert tree_of(Path()) == before  # Loading installs nothing.
    # Another place is another server, and other bytes are another skill.
    write_skill(TEAM.with_name("other"), "notes", body="other")
    run("servers", "add", "--no-check", "other", folders.at(TEAM.with_name("other")))
    assert run("load", "notes", "--on", "other").code == 7
    (INSTALLED / "notes/reference.md").write_text("mine\n")
    assert run("load", "project/notes").code == 7


# Questions on a terminal


@pytest.mark.process
def test_a_person_is_shown_the_text_before_they_say_yes() -> None:
    terminal = Terminal("add", str(TEAM))
    terminal.wait_for("Contacting the sources")
    terminal.answer("Install it?", "t\n")
    terminal.wait_for("│ # notes")
    terminal.wait_for("Install it?", count=2)
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "Installed 1 skill: notes" in terminal.screen
    assert tree_of(INSTALLED) == tree_of(TEAM)


@pytest.mark.parametrize("answer", ["", "n", "yep", "\x04"])
def test_anything_but_a_yes_installs_nothing(run: Run, answer: str) -> None:
    ended = as_person(run, "add", TEAM, answers=(answer,))
    assert (ended.code, ended.err.count("Install it?")) == (12, 1)
    assert "nothing was installed" in (ended.out + ended.err).lower()
    assert not INSTALLED.exists()


def test_tools_and_scripts_are_asked_about_separately(run: Run) -> None:
    with_powers()
    words = ("add", TEAM, "--skill", "release")
    questions = (
        "Install it?",
        "asks for tools Bash(git:*). Grant that?",
        "has scripts scripts/tag.sh. May an agent run them?",
    )
    refused = as_person(run, *words, answers=("y", "y", "n"))
    places = [refused.err.find(question) for question in questions]
    assert places == sorted(places)
    assert -1 not in places
    assert refused.code == 12
    assert not INSTALLED.exists()
    assert as_person(run, *words).code == 0
    assert (INSTALLED / "release/scripts/tag.sh").is_file()


def test_an_update_shows_the_diff_and_asks(run: Run) -> None:
    assert run("add", TEAM, "--yes").code == 0
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    ended = as_person(run, "update")
    assert ended.code == 0
    shown, question, _ = ended.err.partition("Install it?")
    assert question
    assert "│ -one" in shown
    assert "│ +two" in shown
    assert tree_of(INSTALLED) == tree_of(TEAM)


def test_what_was_typed_before_the_question_is_no_answer(run: Run) -> None:
    with person("n") as somebody:
        somebody.type("y\ny\ny")
        ended = run("add", TEAM)
    assert (ended.code, ended.err.count("Install it?")) == (12, 1)
    assert not INSTALLED.exists()


# How sources are named


def test_an_owner_and_a_name_are_a_repository_whose_whole_address_is_shown_before_it_is_fetched(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    fetched: list[str] = []
    monkeypatch.setattr(install_setup, "info", told.append)

    def fetch_tree(reference: SourceReference, *, limits: object) -> object:
        assert told == [
            "acme/skills/pdf@v1.2 is the repository https://git.example/acme/skills at v1.2, folder pdf."
        ]
        fetched.append(reference.text)
        raise SourceError("not reached")

    monkeypatch.setattr("skillwire.install.sources.fetch_tree", fetch_tree)
    write_user_config('repository_host = "git.example"\n')
    assert run("add", "acme/skills/pdf@v1.2").code == 4
    assert fetched == ["git+https://git.example/acme/skills#v1.2:pdf"]


@pytest.mark.parametrize(
    ("config", "text", "message"),
    [
        ("[servers.docs]\nurl = 'http://127.0.0.1:9/mcp'\n", "docs/x", "review it with `skillwire trust`"),
        ("[servers.Docs]\nurl = 'http://127.0.0.1:9/mcp'\n", "docs/x", "review it with `skillwire trust`"),
        ("", "team/notes", "write ./team/notes"),
    ],
)
def test_a_name_of_a_configuration_or_a_folder_is_never_a_repository(
    run: Run, monkeypatch: pytest.MonkeyPatch, config: str, text: str, message: str
) -> None:
    monkeypatch.setattr("skillwire.install.sources.fetch_tree", lambda *_, **__: pytest.fail("fetched"))
    Path("skillwire.toml").write_text(config)
    Path("team/notes").mkdir(parents=True)
    ended = run("add", text)
    assert ended.code == 4
    assert message in ended.err


def test_a_name_of_another_clients_configuration_and_a_near_one_are_no_repositories(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillwire.install.sources.fetch_tree", lambda *_, **__: pytest.fail("fetched"))
    Path(".mcp.json").write_text('{"mcpServers": {"docs": {"url": "http://127.0.0.1:9/mcp"}}}')
    assert "servers import --write --only docs" in run("add", "docs/x").err
    write_user_config("[servers.handbook]\nurl = 'http://127.0.0.1:9/mcp'\n")
    assert "did you mean handbook?" in run("add", "handbok/x").err


def test_add_list_shows_what_is_there_and_installs_nothing(run: Run) -> None:
    write_skill(TEAM, "refunds", {})
    ended = run("add", TEAM, "--list")
    assert (ended.code, [line.split()[0] for line in ended.out.splitlines()]) == (0, ["notes", "refunds"])
    assert not INSTALLED.exists()
    assert run("add", TEAM, "--skill", "notes", "--yes").code == 0
    assert "installed" in run("add", TEAM, "--list").out
    listed = json.loads(run("add", TEAM, "--list", "--json").out)
    assert [skill["name"] for skill in listed["skills"]] == ["notes", "refunds"]


def test_a_site_behind_a_token_says_how_to_go_on_and_gets_the_token(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "0123456789abcdef0123456789abcdef"
    with in_thread(SkillServer(TEAM).http_app(well_known=True, token=token)) as site:
        refused = run("add", site, "--list")
        assert refused.code == 4
        assert "--token-env" in refused.err
        assert "is not set" in run("add", site, "--token-env", "SITE_TOKEN").err
        monkeypatch.setenv("SITE_TOKEN", token)
        assert run("add", site, "--token-env", "SITE_TOKEN", "--yes").code == 0
        assert (INSTALLED / "notes/SKILL.md").exists()
        assert run("update", "--check").code == 11
        write_user_config(f'[sources."{site}*"]\ntoken_env = "SITE_TOKEN"\n')
        assert run("update", "--check").code == 0


def test_a_token_is_for_a_site_and_not_sent_in_the_clear(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_TOKEN", "secret")
    assert "is for a site" in run("add", TEAM, "--token-env", "SITE_TOKEN").err
    assert "in the clear" in run("add", "http://example.org", "--token-env", "SITE_TOKEN").err


# Who reads what is installed


def test_add_says_which_agents_read_it_and_whose_own_skill_it_replaces(run: Run) -> None:
    home = Path(os.environ["HOME"])
    (home / ".claude").mkdir(parents=True)
    (home / ".codex").mkdir()
    write_skill(TEAM, "code-review", {})
    ended = run("add", TEAM, "--skill", "code-review", "--yes")
    assert ended.code == 0
    assert "code-review replaces the skill that Claude Code brings along" in ended.err
    assert "Read by: Claude Code (link), Codex" in ended.err
    assert "replaces" not in run("add", TEAM, "--skill", "notes", "--yes", "--copy").err


def write_user_config(text: str) -> None:
    file = Path(os.environ["XDG_CONFIG_HOME"]) / "skillwire/skillwire.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# The user's own skills


def test_commands_find_the_users_own_lock_and_hints_keep_the_option(run: Run) -> None:
    assert run("add", TEAM, "--user", "--yes").code == 0
    installed = Path(os.environ["HOME"]) / ".agents/skills/notes"
    assert installed.is_dir()
    assert run("list", "--installed", "--json").document["skills"][0]["name"] == "notes"
    assert "skillwire.lock" in run("show", "notes", "--json").document["installed"]["lock"]
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    outdated = run("update", "--check")
    assert (outdated.code, "`skillwire update --user` shows what changed" in outdated.err) == (10, True)
    assert run("update", "notes", "--yes").out == "Updated 1 skill: notes\n"
    assert "`skillwire update notes --user` installs the newest" in run("rollback", "notes").err
    (installed / "reference.md").write_text("mine\n")
    assert "`skillwire sync --adopt --user` pins what is there" in run("sync").err
    assert run("remove", "notes", "--force").code == 0
    assert not installed.exists()


def test_hints_keep_the_option_also_in_a_project_that_has_a_lock_of_its_own(run: Run) -> None:
    assert run("add", TEAM, "--yes").code == 0
    assert run("add", TEAM, "--user", "--yes").code == 0
    for command in ("remove", "update"):
        missing = run(command, "nothing", "--user").err
        assert "`skillwire list --installed --user` shows those it has" in missing
        assert "`skillwire list --installed` shows those it has" in run(command, "nothing").err
    other = Path("../other")
    write_skill(other, "notes", {})
    assert "run `skillwire remove notes --user` first" in run("add", other, "--user", "--yes").err
    for stored in StateFiles.of_user().versions.rglob("*"):
        if stored.is_file():
            stored.write_bytes(b"damaged")
    assert "`skillwire sync --user` fetches it" in run("sync", "--export", "out", "--user").err
    shutil.rmtree(StateFiles.of_user().versions)
    shutil.rmtree(Path(os.environ["HOME"]) / ".agents")
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    ended = run("sync", "--user", "--yes")
    assert "`skillwire update notes --user` shows what changed" in ended.out + ended.err


@pytest.mark.parametrize("source", ["../team", "../team/notes"])
def test_the_users_own_lock_means_the_same_folder_from_every_folder(
    source: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("add", source, "--user", "--yes").code == 0
    write_skill(TEAM, "notes", {"reference.md": "two\n"})
    elsewhere = tmp_path / "else/where"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    assert run("update", "--check").code == 10
    assert run("update", "--yes").out == "Updated 1 skill: notes\n"


def test_a_name_that_no_lock_has_is_looked_up_in_the_one_lock_that_is_there(run: Run) -> None:
    assert run("add", TEAM, "--user", "--yes").code == 0
    for command in ("remove", "update"):
        missing = run(command, "nothing")
        assert missing.code == 8
        assert "Your own skills (--user)" in missing.err
        assert "has no skill called nothing" in missing.err
    assert run("remove", "notes").code == 0
