"""After a change, only what it concerns is walked again, and the outcome is that of a fresh scan."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from skillwire import DirectorySource
from skillwire.sources.directory.files import OpenDirectory, parse_root
from skillwire.sources.directory.scan import concerns_skills, starts_for
from trees import assert_serves_what_it_lists, scanned, skill_md, write, write_skill

pytestmark = pytest.mark.anyio


def told(source: DirectorySource) -> tuple[object, ...]:
    """All that a client could see of a source, but for the order of problems at one place."""
    snapshot = source.snapshot
    tree = {uri: snapshot.children(uri) for uri in {uri.rpartition("/")[0] for uri in snapshot.files}}  # type: ignore[arg-type]
    return snapshot.entries, sorted(map(str, snapshot.problems)), tree


async def expect_a_fresh_scan(source: DirectorySource) -> None:
    assert told(source) == told(scanned(source.roots))
    await assert_serves_what_it_lists(source)


Change = Callable[[Path], list[Path]]


def edit(root: Path) -> list[Path]:
    write(root / "a/x.txt", b"new")
    return [root / "a/x.txt"]


def edit_metadata(root: Path) -> list[Path]:
    write(root / "a/SKILL.md", skill_md("a", "Something else."))
    return [root / "a/SKILL.md"]


def add_skill(root: Path) -> list[Path]:
    write_skill(root / "team/new/deep", {"y.txt": b"y"})
    return [root / "team/new"]


def add_file_in_new_directory(root: Path) -> list[Path]:
    write(root / "a/refs/deep/z.md", b"z")
    return [root / "a/refs"]


def add_empty_directory(root: Path) -> list[Path]:
    (root / "a/drafts").mkdir()
    return [root / "a/drafts"]


def break_skill(root: Path) -> list[Path]:
    write(root / "a/SKILL.md", b"no frontmatter")
    return [root / "a/SKILL.md"]


def delete_skill_md_of_outer_skill(root: Path) -> list[Path]:
    (root / "outer/SKILL.md").unlink()
    return [root / "outer/SKILL.md"]


def enclose_skills(root: Path) -> list[Path]:
    write(root / "team/SKILL.md", skill_md("team"))
    return [root / "team/SKILL.md"]


def edit_nested(root: Path) -> list[Path]:
    write(root / "outer/inner/n.txt", b"changed")
    return [root / "outer/inner/n.txt"]


def break_outer_skill(root: Path) -> list[Path]:
    write(root / "outer/SKILL.md", b"---\nname: other\n---\n")
    return [root / "outer/SKILL.md"]


def rename_directory_of_skills(root: Path) -> list[Path]:
    (root / "team").rename(root / "crew")
    return [root / "team", root / "crew"]


def delete_directory_of_skills(root: Path) -> list[Path]:
    shutil.rmtree(root / "team")
    return [root / "team"]


def misspell(root: Path) -> list[Path]:
    (root / "a/SKILL.md").rename(root / "a/skill.md")
    return [root / "a/SKILL.md", root / "a/skill.md"]


def litter(root: Path) -> list[Path]:
    write(root / "a/.git/index", b"")
    return [root / "a/.git/index", root / "a/.git"]


def nobodys_file(root: Path) -> list[Path]:
    write(root / "team/README.md", b"")
    return [root / "team/README.md"]


CHANGES: list[Change] = [
    edit,
    edit_metadata,
    add_skill,
    add_file_in_new_directory,
    add_empty_directory,
    break_skill,
    delete_skill_md_of_outer_skill,
    enclose_skills,
    edit_nested,
    break_outer_skill,
    rename_directory_of_skills,
    delete_directory_of_skills,
    misspell,
    litter,
    nobodys_file,
]


def plant(root: Path) -> Path:
    write_skill(root / "a", {"x.txt": b"old"})
    write_skill(root / "outer", {"o.txt": b"o"})
    write_skill(root / "outer/inner", {"n.txt": b"n"})
    write_skill(root / "team/one")
    write_skill(root / "team/two", {"x.txt": b"x"})
    write(root / "broken/SKILL.md", b"not yet")
    return root


@pytest.mark.requirement("ENT-2", "FMT-8")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_one_processed_change_leaves_what_a_fresh_scan_finds(tmp_path: Path, change: Change) -> None:
    source = scanned([plant(tmp_path)])
    paths = change(tmp_path)
    await source.rescan(map(str, paths))
    await expect_a_fresh_scan(source)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_one_change_below_one_of_two_roots_leaves_what_a_fresh_scan_finds(
    tmp_path: Path, change: Change
) -> None:
    write_skill(tmp_path / "second/crew/one")
    write_skill(tmp_path / "second/team/one", description="Loses to the first root's.")
    source = scanned([plant(tmp_path / "first"), tmp_path / "second"])
    await source.rescan(map(str, change(tmp_path / "first")))
    await expect_a_fresh_scan(source)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_a_change_processed_in_parts_and_twice_does_no_harm(tmp_path: Path, change: Change) -> None:
    source = scanned([f"acme/more={plant(tmp_path)}"])
    for path in change(tmp_path) * 2:
        await source.rescan([str(path)])
    await expect_a_fresh_scan(source)


@pytest.mark.parametrize("seed", range(20))
async def test_many_changes_processed_together_leave_what_a_fresh_scan_finds(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    source = scanned([plant(tmp_path)])
    for _ in range(6):
        paths = [path for change in chance.sample(CHANGES, 3) for path in _tried(change, tmp_path)]
        await source.rescan(map(str, paths))
        await expect_a_fresh_scan(source)


def _tried(change: Change, root: Path) -> list[Path]:
    try:
        return change(root)
    except OSError:  # What it changes is gone already.
        return []


@pytest.mark.parametrize(
    "touch",
    [
        pytest.param(lambda root: write(root / "shared/text.md", b"new"), id="a file that a skill links to"),
        pytest.param(lambda root: write(root / "shared/more.md", b"new"), id="a file beside it"),
        pytest.param(lambda root: write(root / "shared/later.md", b"new"), id="the end of a dangling link"),
    ],
)
async def test_what_a_link_leads_to_is_seen_though_it_lies_elsewhere(
    tmp_path: Path, touch: Callable[[Path], None]
) -> None:
    write(tmp_path / "shared/text.md", b"old")
    write_skill(tmp_path / "a")
    (tmp_path / "a/link").symlink_to(tmp_path / "shared")
    (tmp_path / "a/later.md").symlink_to(tmp_path / "shared/later.md")
    source = scanned([tmp_path])
    touch(tmp_path)
    assert await source.rescan([str(next((tmp_path / "shared").glob("*.md")))]) is True
    await expect_a_fresh_scan(source)


async def test_a_skill_that_links_give_two_places_changes_in_both(tmp_path: Path) -> None:
    write_skill(tmp_path / "real/tool")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    source = scanned([tmp_path])
    assert len(source.snapshot.entries) == 2
    write_skill(tmp_path / "real/new")
    await source.rescan([str(tmp_path / "real/new")])
    assert len(source.snapshot.entries) == 4
    await expect_a_fresh_scan(source)


async def test_a_root_that_is_a_skill_is_followed_too(tmp_path: Path) -> None:
    root = write_skill(tmp_path / "tool")
    source = scanned([root])
    write(root / "x.txt", b"new")
    assert await source.rescan([str(root / "x.txt")]) is True
    (root / "SKILL.md").unlink()
    assert await source.rescan([str(root / "SKILL.md")]) is True
    assert source.snapshot.entries == ()
    write(root / "SKILL.md", skill_md("tool"))
    assert await source.rescan([str(root / "SKILL.md")]) is True
    await expect_a_fresh_scan(source)


async def test_only_the_skill_around_a_change_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scanned([plant(tmp_path)])
    visited: list[str] = []
    children = OpenDirectory.children

    def note(directory: OpenDirectory) -> object:
        visited.append(os.path.relpath(directory.path, tmp_path))
        return children(directory)

    monkeypatch.setattr(OpenDirectory, "children", note)
    before = {entry.uri: entry for entry in source.snapshot.entries}
    await source.rescan(map(str, edit_nested(tmp_path)))
    assert visited == ["outer", "outer/inner"]
    # What did not change is the same object, which is how others see at a glance what did.
    changed = [entry.uri for entry in source.snapshot.entries if entry is not before[entry.uri]]
    assert changed == ["skill://outer/SKILL.md", "skill://outer/inner/SKILL.md"]


async def test_a_change_that_says_nothing_new_keeps_the_listing_itself(tmp_path: Path) -> None:
    source = scanned([plant(tmp_path)])
    listing = await source.list_entries()
    write(tmp_path / "a/x.txt", b"old")
    assert await source.rescan([str(tmp_path / "a/x.txt")]) is False
    assert await source.list_entries() is listing


@pytest.mark.parametrize(
    ("path", "cares"),
    [
        ("a/SKILL.md", True),
        ("new", True),
        ("", True),
        (".git/HEAD", False),
        ("a/__pycache__/x.pyc", False),
        ("a/.SKILL.md.swp", False),
        ("../elsewhere/SKILL.md", False),
    ],
)
def test_the_rules_of_what_belongs_to_a_skill_say_what_a_watch_cares_about(
    tmp_path: Path, path: str, cares: bool
) -> None:
    plain = os.path.normpath(tmp_path / path)
    assert concerns_skills(plain, [parse_root(tmp_path)]) is cares


def test_starts_inside_one_another_are_one(tmp_path: Path) -> None:
    root = parse_root(plant(tmp_path))
    snapshot = scanned([root]).snapshot
    paths = [
        tmp_path / "outer/inner/n.txt",
        tmp_path / "outer/o.txt",
        tmp_path / "a/x.txt",
        tmp_path / "team",
    ]
    starts = starts_for(map(str, paths), snapshot, [root])
    assert starts is not None
    assert [start.uri for start in starts] == ["skill://a", "skill://outer", "skill://team"]
