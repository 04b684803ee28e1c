"""Plans: what is done, and what is never touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from install.samples import locked
from skillwire.install import (
    DiskState,
    Installation,
    Link,
    Lock,
    LockedFile,
    LockedSkill,
    Obstacle,
    Plan,
    StepKind,
    Tree,
    tree_differences,
)
from skillwire.install.plan import MISSING, plan
from skillwire.skill import digest_of
from skillwire.trust import ChangeKind

CANONICAL = Path("/p/.agents/skills")
CLAUDE = Path("/p/.claude/skills")
FOLDERS = {"agents": CANONICAL, "claude-code": CLAUDE}
OLD, NEW = locked("pdf", {"a": b"old"}), locked("pdf", {"a": b"new"})
HERE = CANONICAL / "pdf"
THERE = CLAUDE / "pdf"


def tree(skill: LockedSkill, *strange: str) -> Tree:
    return Tree(skill.files, strange)


def one(
    found: DiskState, placed: Installation | None = None, *, skill: LockedSkill = NEW, **options: object
) -> StepKind:
    """What is done at the canonical place of a skill."""
    made = plan(
        Lock((skill,)),
        folders=FOLDERS,
        found={HERE: found},
        placed={HERE: placed} if placed else {},
        **options,  # pyright: ignore[reportArgumentType]
    )
    [step] = made.steps
    assert (step.path, step.target) == (HERE, "agents")
    return step.act


BY_US = Installation("pdf", frozenset({OLD.digest}))


@pytest.mark.parametrize(
    ("found", "placed", "act"),
    [
        pytest.param(MISSING, None, StepKind.INSTALL, id="nothing there"),
        pytest.param(MISSING, BY_US, StepKind.INSTALL, id="removed by hand"),
        pytest.param(tree(NEW), None, StepKind.CURRENT, id="right, whoever put it there"),
        pytest.param(tree(NEW), BY_US, StepKind.CURRENT, id="right"),
        pytest.param(tree(OLD), BY_US, StepKind.REPLACE, id="an earlier version of ours"),
        pytest.param(tree(OLD), None, StepKind.FOREIGN, id="somebody else's"),
        pytest.param(tree(locked("pdf", {"a": b"mine"})), BY_US, StepKind.EDITED, id="edited by hand"),
        pytest.param(tree(OLD, "link"), BY_US, StepKind.EDITED, id="a link was put into it"),
        pytest.param(tree(NEW, "pipe"), BY_US, StepKind.EDITED, id="right but for a pipe"),
        pytest.param(Tree(()), BY_US, StepKind.EDITED, id="emptied"),
        pytest.param(Link(Path("/etc")), BY_US, StepKind.FOREIGN, id="a planted link"),
        pytest.param(Link(HERE), BY_US, StepKind.FOREIGN, id="a link to itself"),
        pytest.param(Obstacle("a file"), BY_US, StepKind.FOREIGN, id="a file"),
    ],
)
def test_what_is_done_depends_on_what_is_there_and_who_put_it_there(
    found: DiskState, placed: Installation | None, act: StepKind
) -> None:
    assert one(found, placed) is act


@pytest.mark.parametrize("found", [tree(OLD), tree(OLD, "x"), Link(Path("/etc")), Tree(())])
def test_force_overwrites_folders_and_links(found: DiskState) -> None:
    assert one(found, force=["pdf"]) is StepKind.REPLACE


def test_force_leaves_what_is_no_folder() -> None:
    assert one(Obstacle("a file"), force=["pdf"]) is StepKind.FOREIGN


def test_force_of_one_skill_is_not_force_of_another() -> None:
    assert one(tree(OLD), force=["other"]) is StepKind.FOREIGN


def test_a_mode_that_differs_is_repaired_where_modes_are_known() -> None:
    runs = locked("pdf", {"a": b"new"}, executable=("a",))
    assert one(tree(NEW), skill=runs) is StepKind.REPLACE
    assert one(tree(NEW), BY_US, skill=runs) is StepKind.REPLACE
    assert one(tree(NEW), skill=runs, modes=False) is StepKind.CURRENT


def whole(
    skills: tuple[LockedSkill, ...],
    found: dict[Path, DiskState],
    placed: dict[Path, Installation],
    *,
    links: bool = True,
    folders: dict[str, Path] | None = None,
    only: list[str] | None = None,
) -> Plan:
    return plan(Lock(skills), folders=folders or FOLDERS, found=found, placed=placed, links=links, only=only)


def acts(made: Plan) -> list[tuple[str, str, StepKind]]:
    return [(step.name, step.target, step.act) for step in made.steps]


TWO = replace(NEW, targets=("claude-code",))


@pytest.mark.parametrize(
    ("found", "act"),
    [
        (MISSING, StepKind.INSTALL),
        (Link(HERE), StepKind.CURRENT),
        (Link(Path("/etc")), StepKind.FOREIGN),
        (tree(NEW), StepKind.CURRENT),
        (tree(OLD), StepKind.FOREIGN),
    ],
)
def test_an_agent_with_a_folder_of_its_own_gets_a_link(found: DiskState, act: StepKind) -> None:
    made = whole((TWO,), {HERE: tree(NEW), THERE: found}, {})
    assert acts(made) == [("pdf", "agents", StepKind.CURRENT), ("pdf", "claude-code", act)]
    assert made.steps[1].link_to == HERE
    assert made.needs_content() == ()


def test_without_links_it_gets_a_copy() -> None:
    made = whole((TWO,), {}, {}, links=False)
    assert [step.link_to for step in made.steps] == [None, None]
    assert made.needs_content() == (TWO,)


def test_a_link_of_ours_gives_way_to_a_copy() -> None:
    ours = {THERE: Installation("pdf", frozenset({NEW.digest}), link=True)}
    made = whole((TWO,), {HERE: tree(NEW), THERE: Link(HERE)}, ours, links=False)
    assert acts(made)[1] == ("pdf", "claude-code", StepKind.REPLACE)
    made = whole((TWO,), {HERE: tree(NEW), THERE: Link(HERE)}, {}, links=False)
    assert acts(made)[1] == ("pdf", "claude-code", StepKind.FOREIGN)


def test_an_agent_that_shares_a_folder_gets_nothing_more() -> None:
    folders = {"agents": CANONICAL, "codex": CANONICAL, "trae": CLAUDE, "trae-cn": CLAUDE}
    made = whole((replace(NEW, targets=("codex", "trae", "trae-cn")),), {}, {}, folders=folders)
    assert [step.path for step in made.steps] == [HERE, THERE]


def test_an_agent_that_is_not_known_here_is_left_out() -> None:
    made = whole((replace(NEW, targets=("agent-of-the-future",)),), {}, {})
    assert [step.target for step in made.steps] == ["agents"]


@pytest.mark.parametrize(
    ("found", "placed", "act"),
    [
        (tree(OLD), BY_US, StepKind.REMOVE),
        (tree(NEW), BY_US, StepKind.EDITED),
        (tree(OLD, "x"), BY_US, StepKind.EDITED),
        (Link(Path("/etc")), BY_US, StepKind.FOREIGN),
        (Obstacle("a file"), BY_US, StepKind.FOREIGN),
        (tree(OLD), Installation("pdf", frozenset({OLD.digest}), link=True), StepKind.EDITED),
    ],
)
def test_a_skill_that_left_the_lock_is_removed_if_nobody_changed_it(
    found: DiskState, placed: Installation, act: StepKind
) -> None:
    made = whole((), {HERE: found}, {HERE: placed})
    assert acts(made) == [("pdf", "agents", act)]
    assert made.steps[0].skill is None


def test_a_link_of_ours_is_removed_with_its_skill_and_a_link_elsewhere_is_not() -> None:
    ours = {THERE: Installation("pdf", link=True)}
    assert acts(whole((), {THERE: Link(HERE)}, ours)) == [("pdf", "claude-code", StepKind.REMOVE)]
    assert acts(whole((), {THERE: Link(Path("/x"))}, ours)) == [("pdf", "claude-code", StepKind.FOREIGN)]
    assert whole((), {}, ours).steps == ()


def test_a_folder_that_nobody_knows_is_not_in_the_plan() -> None:
    assert whole((), {CANONICAL / "other": tree(OLD)}, {}).steps == ()


def test_a_plan_can_be_for_some_skills_alone() -> None:
    other = locked("other")
    placed = {CANONICAL / "gone": Installation("gone", frozenset({OLD.digest}))}
    found: dict[Path, DiskState] = {CANONICAL / "gone": tree(OLD)}
    assert acts(whole((NEW, other), found, placed, only=["other"])) == [("other", "agents", StepKind.INSTALL)]


def test_steps_come_by_name_with_the_canonical_folder_first() -> None:
    made = whole((replace(locked("b"), targets=("claude-code",)), locked("a")), {}, {})
    assert [(step.name, step.target) for step in made.steps] == [
        ("a", "agents"),
        ("b", "agents"),
        ("b", "claude-code"),
    ]
    assert not made.is_done
    assert len(made.writes) == 3
    assert whole((NEW,), {HERE: tree(NEW)}, {}).is_done


def test_an_edited_folder_says_which_files_differ() -> None:
    edited = Tree(
        (
            *(file for file in NEW.files if file.path == "SKILL.md"),
            LockedFile("added", digest_of(b"x"), 1),
        ),
        ("socket",),
    )
    made = whole((NEW,), {HERE: edited}, {HERE: BY_US})
    [step] = made.stopped
    assert [(row.path, row.kind) for row in step.differences()] == [
        ("a", ChangeKind.REMOVED),
        ("added", ChangeKind.ADDED),
        ("socket", ChangeKind.ADDED),
    ]
    assert [(row.path, row.kind) for row in tree_differences(OLD.files, tree(NEW))] == [
        ("a", ChangeKind.CHANGED)
    ]
    assert replace(step, found=MISSING).differences() == ()
