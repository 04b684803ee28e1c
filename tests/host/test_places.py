"""Where local skills are looked for, and what such a place is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator import make_host
from skillwire.host import default_directories, state_paths
from skillwire.host.directories import label_directories
from trees import write_skill


def test_the_default_folders_of_project_and_user_are_found(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    for place in (project / ".agents/skills", home / ".agents/skills", home / ".claude/skills"):
        place.mkdir(parents=True)
    assert [label for label, _ in default_directories(project, home)] == ["project", "user", "user-claude"]


@pytest.mark.requirement("ENT-5")
def test_every_directory_has_a_label_of_its_own(tmp_path: Path) -> None:
    names = ["a/skills", "b/a", "c/A", "shop", "ﬁles", "..odd..", "*", "x" * 100]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    found = label_directories([], [tmp_path / name for name in [*names, "shop"]], taken=["Shop"])
    labels = [directory.origin.label for directory in found]
    assert labels == ["a", "a-2", "A-3", "shop-2", "files", "odd", "local", "x" * 48]


def test_approvals_are_not_stored_in_the_cache() -> None:
    places = state_paths()
    assert places.cache not in places.approvals.parents


@pytest.mark.anyio
async def test_the_default_folders_are_walked_unless_they_are_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "project/.agents/skills/notes")
    write_skill(tmp_path / "home/.claude/skills/letters")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with make_host(tmp_path / "state", default_directories=True) as host:
        found = {(skill.origin.label, skill.handle) for skill in host.skills()}
        assert found == {("project", "notes"), ("user-claude", "letters")}
    async with make_host(tmp_path / "state", default_directories=False) as host:
        assert host.skills() == ()


@pytest.mark.anyio
async def test_a_missing_directory_is_reported_and_affects_only_itself(tmp_path: Path) -> None:
    write_skill(tmp_path / "mine/notes")
    async with make_host(tmp_path / "state", directories=[tmp_path / "gone", tmp_path / "mine"]) as host:
        assert [skill.handle for skill in host.skills()] == ["notes"]
        assert next(event.kind for event in host.log.events_so_far()) == "failure"


@pytest.mark.anyio
async def test_a_skill_that_is_added_on_disk_is_there_after_a_refresh(tmp_path: Path) -> None:
    write_skill(tmp_path / "mine/notes")
    async with make_host(tmp_path / "state", directories=[tmp_path / "mine"]) as host:
        write_skill(tmp_path / "mine/letters")
        await host.refresh()
        assert {skill.handle for skill in host.skills()} == {"notes", "letters"}


@pytest.mark.anyio
async def test_a_skill_that_one_folder_links_to_in_another_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installers write the files into one folder, and links to them into those of agents."""
    project = tmp_path / "project"
    write_skill(project / ".agents/skills/notes")
    write_skill(project / ".claude/skills/letters")
    (project / ".claude/skills/notes").symlink_to("../../.agents/skills/notes")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with make_host(tmp_path / "state", default_directories=True) as host:
        assert {(skill.origin.label, skill.handle) for skill in host.skills()} == {
            ("project", "notes"),
            ("project-claude", "letters"),
        }
        assert [event for event in host.log.events_so_far() if event.kind == "collision"] == []
        await host.refresh()
        assert {skill.handle for skill in host.skills()} == {"notes", "letters"}
    # The folder that the link leads to is not part of this host.
    async with make_host(tmp_path / "state", directories=[project / ".claude/skills"]) as host:
        assert {skill.handle for skill in host.skills()} == {"notes", "letters"}


@pytest.mark.anyio
async def test_a_link_of_the_users_own_folder_to_a_skill_of_the_project_stays_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    write_skill(project / ".agents/skills/notes")
    (project / "mine").mkdir()
    (project / "mine/notes").symlink_to("../.agents/skills/notes")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with make_host(tmp_path / "state", default_directories=True, directories=["mine"]) as host:
        assert {(skill.origin.label, skill.origin.is_own) for skill in host.skills()} == {
            ("project", False),
            ("mine", True),
        }


@pytest.mark.anyio
async def test_a_folder_inside_another_lists_its_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "project" / ".agents/skills/notes")
    monkeypatch.chdir(tmp_path / "project")
    async with make_host(tmp_path / "state", default_directories=True, directories=["."]) as host:
        assert "project" in {skill.origin.label for skill in host.skills()}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of somebody else, as the working directory."""
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / ".agents").mkdir()
    (tmp_path / "home/.agents/skills").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(clone)
    return clone


@pytest.mark.anyio
@pytest.mark.parametrize("target", ["/", "{home}", "{home}/.ssh", ".."])
@pytest.mark.parametrize("link", [".agents/skills", ".claude/skills", ".claude"])
async def test_a_link_of_a_project_that_leaves_it_is_left_out_with_a_remark(
    clone: Path, tmp_path: Path, link: str, target: str
) -> None:
    (clone / ".agents/x").mkdir()
    (clone / link).parent.mkdir(exist_ok=True)
    place = target.format(home=tmp_path / "home") if target != ".." else str(clone.parent)
    (clone / link).symlink_to(place)
    async with make_host(tmp_path / "state", default_directories=True) as host:
        assert host.skills() == ()
        remarks = [
            event.message for event in host.log.events_so_far() if "outside the project" in event.message
        ]
    assert remarks


@pytest.mark.anyio
async def test_a_link_of_a_project_to_itself_is_left_out(clone: Path, tmp_path: Path) -> None:
    (clone / ".agents/skills").symlink_to("skills")
    async with make_host(tmp_path / "state", default_directories=True) as host:
        assert host.skills() == ()


@pytest.mark.anyio
async def test_a_link_of_a_project_to_its_own_folder_and_to_the_users_is_followed(
    clone: Path, tmp_path: Path
) -> None:
    write_skill(clone / "shared/ours")
    (clone / ".agents/skills").symlink_to("../shared")
    (clone / ".claude").mkdir()
    (clone / ".claude/skills").symlink_to(tmp_path / "home/.agents/skills")
    write_skill(tmp_path / "home/.agents/skills/mine")
    async with make_host(tmp_path / "state", default_directories=True) as host:
        assert {skill.entry.name for skill in host.skills()} == {"ours", "mine"}
        assert not [event for event in host.log.events_so_far() if "outside the project" in event.message]
