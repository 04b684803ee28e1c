"""C2: links into skill folders, the project or the repository are followed; every other one is named."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from skillwire import DirectorySource
from skillwire.skill import SkillUri
from skillwire.sources import Root
from skillwire.sources.directory.files import LinkScope, find_reach
from trees import assert_serves_what_it_lists, paths_of, rules_of, scanned, write, write_skill
from waiting import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


async def served(*roots: str | Path, **options: bool) -> tuple[DirectorySource, list[str]]:
    source = scanned(roots, **options)
    await assert_serves_what_it_lists(source)
    return source, [entry.uri for entry in await source.list_entries()]


async def test_links_that_an_installer_made_in_a_project_are_followed(home: Path) -> None:
    project = home / "work/project"
    for name in ("x", "y"):
        write_skill(project / ".agents/skills" / name, {"more.md": b"more"})
        link = project / ".claude/skills" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"../../.agents/skills/{name}")
    source, uris = await served(project / ".claude/skills")
    assert uris == ["skill://x/SKILL.md", "skill://y/SKILL.md"]
    assert not source.problems()


async def test_links_into_the_users_own_skill_folder_are_followed(home: Path) -> None:
    write_skill(home / ".agents/skills/x")
    (home / ".claude/skills").mkdir(parents=True)
    (home / ".claude/skills/x").symlink_to(home / ".agents/skills/x")
    _, uris = await served(home / ".claude/skills")
    assert uris == ["skill://x/SKILL.md"]


async def test_links_within_a_repository_are_followed(home: Path) -> None:
    repository = home / "repository"
    (repository / ".git").mkdir(parents=True)
    write(repository / "shared/text.md", b"shared")
    skill = write_skill(repository / "skills/x")
    (skill / "text.md").symlink_to("../../shared/text.md")
    source, _ = await served(repository / "skills")
    (entry,) = await source.list_entries()
    assert paths_of(entry) == ["SKILL.md", "text.md"]
    assert (await source.read(SkillUri("skill://x/text.md"))).data == b"shared"


async def test_a_link_into_another_given_root_is_followed_and_is_no_conflict(home: Path) -> None:
    write_skill(home / "one/x")
    (home / "two").mkdir()
    (home / "two/x").symlink_to("../one/x")
    source, uris = await served(home / "one", home / "two")
    assert uris == ["skill://x/SKILL.md"]
    assert not source.problems()


async def test_a_link_elsewhere_is_named_with_its_target_and_needs_an_option(home: Path) -> None:
    write_skill(home / "elsewhere/x")
    (home / "skills").mkdir()
    (home / "skills/x").symlink_to(home / "elsewhere/x")
    source, uris = await served(home / "skills")
    assert uris == []
    (problem,) = source.problems()
    assert str(home / "elsewhere/x") in str(problem)
    assert "--follow-links" in str(problem)
    source, uris = await served(home / "skills", follow_links=True)
    assert uris == ["skill://x/SKILL.md"]
    assert not source.problems()


async def test_a_link_that_leads_nowhere_names_its_target(home: Path) -> None:
    write_skill(home / "skills/x")
    (home / "skills/y").symlink_to("../gone/y")
    source, uris = await served(home / "skills")
    assert uris == ["skill://x/SKILL.md"]
    assert rules_of(source.problems()) == ["link-dangling"]
    assert "../gone/y" in str(source.problems()[0])


@pytest.mark.parametrize("project", ["", "work"])
def test_a_home_directory_is_no_project(home: Path, project: str) -> None:
    (home / ".git").mkdir()
    root = home / project / ".claude/skills"
    root.mkdir(parents=True)
    reach = find_reach([Root(root)], home=home)
    assert str(home) not in reach.bases
    assert (str(home / "work") in reach.bases) is bool(project)


def test_reach_ends_at_whole_names() -> None:
    reach = LinkScope(("/a/b",))
    assert reach.allows("/a/b/c")
    assert not reach.allows("/a/bc")
    assert reach.base_of("/a") is None
    assert LinkScope((), everywhere=True).base_of("/x/y") == os.sep


async def test_an_edit_behind_a_link_is_noticed(home: Path) -> None:
    write_skill(home / ".agents/skills/x")
    (home / ".claude/skills").mkdir(parents=True)
    (home / ".claude/skills/x").symlink_to(home / ".agents/skills/x")
    source = scanned([home / ".claude/skills"])
    assert source.snapshot.outside == {str(home / ".agents/skills/x")}
    # The scan when watching starts finds the first edit, and only watching the second one.
    with anyio.fail_after(PATIENCE):
        async with aclosing(source.changes()) as changes:
            for name in ("first.md", "second.md"):
                write(home / ".agents/skills/x" / name, b"new")
                await anext(changes)
    (entry,) = await source.list_entries()
    assert paths_of(entry) == ["SKILL.md", "first.md", "second.md"]
