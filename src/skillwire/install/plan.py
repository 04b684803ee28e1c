"""Plan: what has to be done so that the folders match the lock. It does no I/O.

`plan` compares three things: the lock, what is on disk now, and what Skillwire installed. Only a folder that
Skillwire installed and that was not edited since is replaced or removed. Anything else stops that skill, and
the user decides: `adopt` keeps what is on disk, `force` overwrites it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from skillwire.clients import CANONICAL_TARGET
from skillwire.install.lock import Lock, LockedFile, LockedSkill
from skillwire.skill import SetDigest, set_digest

if TYPE_CHECKING:
    from skillwire.trust import ChangeKind


class StepKind(StrEnum):
    """The kinds of steps at one place."""

    CURRENT = "current"
    """Nothing: it matches the lock."""
    INSTALL = "install"
    """Nothing is there yet."""
    REPLACE = "replace"
    """An earlier version that Skillwire installed, unchanged."""
    REMOVE = "remove"
    """No longer in the lock, and unchanged since Skillwire installed it."""
    EDITED = "edited"
    """Stopped: Skillwire installed it, and it was edited since. It is only overwritten when the user forces
    that."""
    FOREIGN = "foreign"
    """Stopped: Skillwire did not install it. It is only overwritten when the user forces that."""

    @property
    def words(self) -> str:
        """How a folder compares with the lock, for a person."""
        return _WORDS[self]


_WORDS: Final = {
    StepKind.CURRENT: "as pinned",
    StepKind.INSTALL: "missing",
    StepKind.REPLACE: "another version",
    StepKind.REMOVE: "no longer in the lock",
    StepKind.EDITED: "edited by hand",
    StepKind.FOREIGN: "not installed by skillwire",
}


STOPPED: Final = frozenset({StepKind.EDITED, StepKind.FOREIGN})


@dataclass(frozen=True, slots=True)
class Missing:
    """There is nothing at a place."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder with its files. `strange` is what is in it that is not a plain file: links, pipes, devices."""

    files: tuple[LockedFile, ...]
    strange: tuple[str, ...] = ()

    @property
    def digest(self) -> SetDigest | None:
        """The digest of its files; `None` when it has none, or something that is not a file."""
        if self.strange or not self.files:
            return None
        return set_digest((file.path, file.digest) for file in self.files)

    def has_exactly(self, files: Sequence[LockedFile]) -> bool:
        """Whether it holds these files, given in the order of their paths, and nothing else."""
        return (
            not self.strange
            and len(self.files) == len(files)
            and all(
                one.digest == other.digest and one.path == other.path
                for one, other in zip(self.files, files, strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, and the path that it leads to, made absolute; it may lead nowhere."""

    leads_to: Path


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that is neither a folder nor a link: a file, or a folder that cannot be read."""

    reason: str


DiskState: TypeAlias = Missing | Tree | Link | Obstacle
"""What is at a place on disk."""
MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation at a place: a copy of one of these versions, or a link to the canonical one.

    There are two versions if an installation was interrupted: either may be there.
    """

    name: str
    digests: frozenset[str] = frozenset()
    link: bool = False

    def is_unchanged(self, there: Tree) -> bool:
        """Whether a folder is as Skillwire left it."""
        return not self.link and there.digest is not None and there.digest in self.digests


@dataclass(frozen=True, slots=True)
class FileDifference:
    """One file that is not on disk as the lock has it."""

    path: str
    kind: ChangeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An action for one skill at one place."""

    name: str
    target: str
    path: Path
    act: StepKind
    found: DiskState
    skill: LockedSkill | None
    """`None` when the skill is no longer in the lock."""
    link_to: Path | None = None
    """The canonical folder, where the place gets a link to it."""

    @property
    def stops(self) -> bool:
        return self.act in STOPPED

    @property
    def changes(self) -> bool:
        """Whether something is written."""
        return self.act in (StepKind.INSTALL, StepKind.REPLACE, StepKind.REMOVE)

    def differences(self) -> tuple[FileDifference, ...]:
        """How the folder on disk differs from the lock, file by file."""
        if not isinstance(self.found, Tree) or self.skill is None:
            return ()
        return tree_differences(self.skill.files, self.found)


@dataclass(frozen=True, slots=True)
class Plan:
    """Every step, in the order of names; of one skill the canonical folder comes first."""

    steps: tuple[Step, ...] = field(default=())

    @property
    def writes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.changes)

    @property
    def stopped(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.stops)

    @property
    def is_done(self) -> bool:
        """Whether the folders already match the lock."""
        return all(step.act is StepKind.CURRENT for step in self.steps)

    def needs_content(self) -> tuple[LockedSkill, ...]:
        """The skills whose bytes must be available before the plan is applied."""
        found: dict[str, LockedSkill] = {}
        for step in self.writes:
            if step.skill is not None and step.link_to is None:
                found[step.name] = step.skill
        return tuple(found.values())


def plan(
    lock: Lock,
    *,
    folders: Mapping[str, Path],
    found: Mapping[Path, DiskState],
    placed: Mapping[Path, Installation],
    links: bool = True,
    modes: bool = True,
    force: Iterable[str] = (),
    only: Iterable[str] | None = None,
) -> Plan:
    """Plan the changes so that `folders`, by the names of targets, hold what the lock says.

    `found` says what is at each place where a skill is or should be. `placed` is what Skillwire put where.
    Without `links` every target gets a copy; without `modes` the file system knows no executable files.
    `force` are the skills whose folders are overwritten whatever is in them. `only` limits the plan to some.
    """
    wanted = None if only is None else frozenset(only)
    forced = frozenset(force)
    canonical = folders[CANONICAL_TARGET]
    steps: list[Step] = []
    places: set[Path] = set()
    for skill in lock.skills:
        for target in (CANONICAL_TARGET, *skill.targets):
            folder = folders.get(target)
            if folder is None:
                continue
            path = folder / skill.name
            if path in places:
                continue  # The agent reads the canonical folder, or shares one with another agent.
            places.add(path)
            if wanted is not None and skill.name not in wanted:
                continue
            link_to = canonical / skill.name if links and target != CANONICAL_TARGET else None
            before, there = placed.get(path), found.get(path, MISSING)
            own = canonical / skill.name if target != CANONICAL_TARGET else None
            is_forced = skill.name in forced
            steps.append(
                Step(
                    name=skill.name,
                    target=target,
                    path=path,
                    act=_act(skill, there, before, link_to, own, modes=modes, forced=is_forced),
                    found=there,
                    skill=skill,
                    link_to=link_to,
                )
            )
    targets = {folder: target for target, folder in folders.items()}
    gone = [
        (path, before)
        for path, before in placed.items()
        if path not in places and (wanted is None or before.name in wanted)
    ]
    for path, before in sorted(gone, key=lambda one: one[0]):
        there = found.get(path, MISSING)
        if isinstance(there, Missing):
            continue
        steps.append(
            Step(
                name=before.name,
                target=targets.get(path.parent, str(path.parent)),
                path=path,
                act=_removal(there, before, canonical / before.name, forced=before.name in forced),
                found=there,
                skill=None,
                link_to=canonical / before.name if before.link else None,
            )
        )
    return Plan(
        tuple(sorted(steps, key=lambda step: (step.name, step.target != CANONICAL_TARGET, step.target)))
    )


def tree_differences(files: Iterable[LockedFile], tree: Tree) -> tuple[FileDifference, ...]:
    """File by file, how a folder differs from what is pinned."""
    from skillwire.trust import ChangeKind

    pinned = {file.path: file for file in files}
    there = {file.path: file for file in tree.files}
    rows = [FileDifference(path, ChangeKind.ADDED) for path in (*there.keys() - pinned.keys(), *tree.strange)]
    rows += [FileDifference(path, ChangeKind.REMOVED) for path in pinned.keys() - there.keys()]
    rows += [
        FileDifference(path, ChangeKind.CHANGED)
        for path in pinned.keys() & there.keys()
        if pinned[path].digest != there[path].digest
    ]
    return tuple(sorted(rows, key=lambda row: row.path))


def _act(
    skill: LockedSkill,
    there: DiskState,
    before: Installation | None,
    link_to: Path | None,
    canonical: Path | None,
    *,
    modes: bool,
    forced: bool,
) -> StepKind:
    match there:
        case Missing():
            return StepKind.INSTALL
        case Link(leads_to):
            if link_to is not None and leads_to == link_to:
                return StepKind.CURRENT
            # A link of ours gives way to a copy. One that leads elsewhere was put there by somebody else.
            ours = before is not None and before.link and leads_to == canonical
            return StepKind.REPLACE if forced or ours else StepKind.FOREIGN
        case Obstacle():
            return StepKind.FOREIGN  # Not even with force, because it is unknown what that is.
        case Tree():
            is_pinned = there.has_exactly(skill.files)
            if is_pinned and (not modes or _same_modes(skill, there)):
                # The content counts, whoever put it there: a copy in place of a link is current, too.
                return StepKind.CURRENT
            if forced or is_pinned:
                return StepKind.REPLACE  # Nothing is lost when only modes differ.
            if before is None:
                return StepKind.FOREIGN
            return StepKind.REPLACE if before.is_unchanged(there) else StepKind.EDITED


def _removal(there: DiskState, before: Installation, canonical: Path, *, forced: bool) -> StepKind:
    match there:
        case Link(leads_to):
            return StepKind.REMOVE if before.link and leads_to == canonical else StepKind.FOREIGN
        case Tree():
            return StepKind.REMOVE if before.is_unchanged(there) or forced else StepKind.EDITED
        case _:
            return StepKind.FOREIGN


def _same_modes(skill: LockedSkill, tree: Tree) -> bool:
    return all(one.executable == other.executable for one, other in zip(tree.files, skill.files, strict=True))
