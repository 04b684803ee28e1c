"""Carrying out a plan: what is verified, and what is left alone because it changed in the meantime."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from install.samples import apply, lock_folder, locked, skill_md
from install.workspaces import tree_of, write_skill
from skillwire.errors import FormatError, LimitExceeded, SourceError, VerificationError
from skillwire.install import (
    Installation,
    Lock,
    LockedFile,
    LockedSkill,
    Obstacle,
    Plan,
    StepKind,
    StepResult,
    Tree,
    VersionStore,
)
from skillwire.install.candidates import read_archive_file, read_folder
from skillwire.install.plan import plan
from skillwire.install.state import look_at_all, read_file
from skillwire.limits import Limits
from skillwire.skill import digest_of

OLD, NEW = {"a.md": b"old"}, {"a.md": b"new"}


def content(files: dict[str, bytes]) -> dict[str, bytes]:
    return {"SKILL.md": skill_md("pdf"), **files}


def compare(target: Path, skill: LockedSkill, before: LockedSkill | None = None) -> Plan:
    """A plan for one skill, as if Skillwire had installed the version before."""
    place = target / "pdf"
    placed = {place: Installation("pdf", frozenset({before.digest}))} if before else {}
    found = look_at_all({place: [file.path for file in skill.files]})
    return plan(Lock((skill,)), folders={"agents": target}, found=found, placed=placed)


def install(target: Path, files: dict[str, bytes], before: LockedSkill | None = None) -> StepResult:
    skill = locked(files=files)
    [outcome] = apply(compare(target, skill, before), lambda _: content(files))
    return outcome


@pytest.mark.parametrize("wrong", [b"evil", b"ne", b"new\n"])
def test_bytes_that_are_not_those_pinned_are_not_installed(tmp_path: Path, wrong: bytes) -> None:
    [outcome] = apply(compare(tmp_path, locked(files=NEW)), lambda _: content({"a.md": wrong}))
    assert "is not what is pinned" in outcome.problem
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_appears_after_the_plan_is_left_alone(tmp_path: Path) -> None:
    made = compare(tmp_path, locked(files=NEW))
    write_skill(tmp_path, "pdf", {"theirs.md": "theirs"})
    before = tree_of(tmp_path)
    [outcome] = apply(made, lambda _: content(NEW))
    assert "appeared in the meantime" in outcome.problem
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("removed", [True, False])
def test_a_folder_that_is_edited_after_the_plan_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool, removed: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(import_module("skillwire.install.apply"), "exchange", lambda one, other: False)
    install(tmp_path, OLD)
    old = locked(files=OLD)
    made = compare(tmp_path, locked(files=NEW), old)
    if removed:
        found = look_at_all({tmp_path / "pdf": []})
        placed = {tmp_path / "pdf": Installation("pdf", frozenset({old.digest}))}
        made = plan(Lock(), folders={"agents": tmp_path}, found=found, placed=placed)
        assert made.steps[0].act is StepKind.REMOVE
    (tmp_path / "pdf/a.md").write_text("mine")
    before = tree_of(tmp_path)
    [outcome] = apply(made, lambda _: content(NEW))
    assert "was edited in the meantime" in outcome.problem
    assert tree_of(tmp_path) == before


def test_what_is_written_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system can change names: here one that makes them lowercase."""
    real_open = os.open

    def lowercase(path: os.PathLike[str] | str, flags: int, mode: int = 0o777, **more: int) -> int:
        given = Path(path)
        name = given.name.lower() if flags & os.O_CREAT and given.name == "A.md" else given.name
        return real_open(given.with_name(name), flags, mode, **more)

    monkeypatch.setattr(os, "open", lowercase)
    outcome = install(tmp_path, {"A.md": b"new"})
    assert "does not store its file names unchanged: A.md" in outcome.problem
    outcome = install(tmp_path, {"A.md": b"new", "a.md": b"other"})
    assert "A.md and a.md are the same name" in outcome.problem
    assert list(tmp_path.iterdir()) == []


def test_links_pipes_and_long_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert read_file(tmp_path / "file", 4) == b"four"
    for name, limit in (("file", 3), ("link", 4), ("pipe", 4), ("none", 4)):
        assert read_file(tmp_path / name, limit) is None


def test_what_is_no_plain_file_makes_a_folder_differ(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf", {"docs/a.md": "a"})
    write_skill(tmp_path, "outside", {"docs/a.md": "a"})
    place = tmp_path / "pdf"
    (place / "docs/a.md").unlink()
    (place / "docs/a.md").symlink_to(tmp_path / "outside/docs/a.md")
    (place / "more").symlink_to(tmp_path / "outside/docs")
    os.mkfifo(place / "pipe")
    (place / "a\\b").write_text("x")
    found = look_at_all({place: [], place / "SKILL.md": []})
    tree = found[place]
    assert isinstance(tree, Tree)
    assert tree.strange == ("a\\b", "docs/a.md", "more", "pipe")
    assert tree.digest is None
    assert isinstance(found[place / "SKILL.md"], Obstacle)


def test_a_pinned_file_counts_also_where_tools_leave_theirs(tmp_path: Path) -> None:
    """A skill can carry `__pycache__`: then it is pinned, and an edit there is one."""
    files = {"__pycache__/a.pyc": b"code"}
    assert install(tmp_path, files).done
    assert compare(tmp_path, locked(files=files)).is_done
    (tmp_path / "pdf/__pycache__/a.pyc").write_bytes(b"evil")
    assert not compare(tmp_path, locked(files=files)).is_done


# Folders and archives as sources


def test_a_link_in_a_folder_is_followed_only_inside(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = write_skill(tmp_path / "team", "pdf", {"a.md": "a"})
    (folder / "b.md").symlink_to("a.md")
    assert {file.path for file in read_folder(tmp_path / "team")["pdf"]} == {"SKILL.md", "a.md", "b.md"}
    (folder / "c.md").symlink_to(secret)
    with pytest.raises(VerificationError, match="link that leaves"):
        read_folder(tmp_path / "team")


def test_a_folder_is_read_within_limits(tmp_path: Path) -> None:
    write_skill(tmp_path / "team", "pdf", {"a.md": "a", "b.md": "b"})
    for limits in (Limits(files_per_skill=2), Limits(bytes_per_skill=20), Limits(directories_per_root=1)):
        with pytest.raises(LimitExceeded):
            read_folder(tmp_path / "team", limits=limits)
    os.mkfifo(tmp_path / "team/pdf/pipe")
    with pytest.raises(VerificationError, match="not a plain file"):
        read_folder(tmp_path / "team")


def test_a_name_that_is_not_that_of_its_folder_is_refused(tmp_path: Path) -> None:
    write_skill(tmp_path, "pdf").rename(tmp_path / "other")
    with pytest.raises(FormatError, match="the name is 'pdf', its place says 'other'"):
        lock_folder(tmp_path)


def test_an_archive_on_disk_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded):
        read_archive_file(Path("/dev/zero"), limits=Limits(archive_bytes=1000))
    with pytest.raises(SourceError):
        read_archive_file(tmp_path / "none.tar.gz")


# Stored versions


def test_stored_bytes_are_verified_when_they_come_out(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "versions")
    skill = locked(files=NEW)
    store.keep({digest_of(b"one"): b"two"})
    assert store.read(LockedFile("one", digest_of(b"one"), 3)) is None
    store.keep({digest_of(data): data for data in content(NEW).values()})
    assert store.content(skill) == content(NEW)
    digest = digest_of(b"new").removeprefix("sha256:")
    file = store.folder / digest[:2] / digest[2:]
    assert file.read_bytes() == b"new"
    file.write_bytes(b"bad")
    with pytest.raises(VerificationError, match="is incomplete"):
        store.content(skill)


def test_a_file_of_the_last_hour_is_not_pruned(tmp_path: Path) -> None:
    """Another command may have stored it, and not noted its version yet."""
    store = VersionStore(tmp_path / "versions")
    store.keep({digest_of(b"one"): b"one"})
    assert store.prune(set()) == 0
    [file] = store.folder.glob("*/*")
    os.utime(file, (0, 0))
    assert store.prune({digest_of(b"one")}) == 0
    assert store.prune(set()) == 1
