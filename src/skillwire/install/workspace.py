"""Workspace: a project or a home, with its lock file, its folders and its state.

Everything here is local: what had to be fetched is in the version store before a plan is carried out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import platformdirs

from skillwire.clients import BaseDirectories, Scope, agents, detect_agents, find_agents, shares_canonical
from skillwire.errors import FormatError, LimitExceeded, SkillwireError, SourceError, VerificationError
from skillwire.files import make_folder, read_regular, write_atomic
from skillwire.install.apply import StepResult, recover, write_step, write_tree
from skillwire.install.candidates import read_folder
from skillwire.install.lock import LOCK_NAME, Lock, LockedSkill, Pin, format_lock, parse_lock
from skillwire.install.plan import DiskState, Installation, Plan, Step, StepKind, Tree, plan
from skillwire.install.state import (
    InstallState,
    StateFiles,
    VersionStore,
    knows_modes,
    look_at_all,
    read_file,
    target_folders,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import ArchiveFile, write_tar_gz
from skillwire.skill import Digest, SetDigest, digest_of, parse_name
from skillwire.trust import manifest_issues

_LOCK_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where skills are installed."""

    scope: Scope
    places: BaseDirectories
    files: StateFiles
    lock_file: Path
    links: bool = True
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def open(
        cls,
        scope: Scope = Scope.PROJECT,
        *,
        places: BaseDirectories | None = None,
        files: StateFiles | None = None,
        links: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Workspace:
        """The workspace of the working directory, or of the user. Nothing is read or written yet."""
        where = places or BaseDirectories.here()
        lock_file = (
            where.project / LOCK_NAME
            if scope is Scope.PROJECT
            else Path(platformdirs.user_config_dir("skillwire", appauthor=False)) / LOCK_NAME
        )
        return cls(scope, where, files or StateFiles.of_user(), lock_file, links, limits)

    @property
    def root(self) -> Path:
        return self.places.root(self.scope)

    @property
    def option(self) -> str:
        """The option by which a command line means this workspace: empty, or ` --user`."""
        return " --user" if self.scope is Scope.USER else ""

    @property
    def versions(self) -> VersionStore:
        """The bytes of every version that was installed."""
        return VersionStore(self.files.versions, self.option)

    # The lock file

    def read_lock(self) -> Lock | None:
        """The lock, or `None` when there is none."""
        try:
            data = read_regular(self.lock_file, self.limits.document_bytes + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{self.lock_file} cannot be read: {error.strerror}") from None
        if len(data) > self.limits.document_bytes:
            raise LimitExceeded(f"{self.lock_file} has more than {self.limits.document_bytes:,} bytes")
        try:
            return parse_lock(data.decode("utf-8"), file=str(self.lock_file))
        except UnicodeDecodeError:
            raise FormatError.of(
                rule="lock-format",
                message="not UTF-8 text",
                fix="take the file from version control again",
                file=str(self.lock_file),
            ) from None

    def require_lock(self) -> Lock:
        lock = self.read_lock()
        if lock is None:
            above = next((one for one in self.lock_file.parent.parents if (one / LOCK_NAME).is_file()), None)
            words = (
                f"there is one in {above}, so run the command there"
                if above is not None and self.scope is Scope.PROJECT
                else "`skillwire add` creates one; with --user, your own lock file is used"
                if self.scope is Scope.PROJECT
                else "`skillwire add --user` creates it"
            )
            raise SourceError(f"{self.lock_file} does not exist: {words}")
        return lock

    def write_lock(self, lock: Lock) -> bool:
        """Write the lock file unless it is the same already; whether it was written."""
        text = format_lock(lock).encode("utf-8")
        try:
            if self.lock_file.read_bytes() == text:
                return False
        except OSError:
            pass
        try:
            make_folder(self.lock_file.parent)
            write_atomic(self.lock_file, text, mode=_LOCK_MODE)
        except OSError as error:
            raise SourceError(
                f"{self.lock_file} cannot be written: {error.strerror}; free some space, or make it writable"
            ) from None
        return True

    # Targets

    def choose_targets(self, agent_ids: Iterable[str] | None) -> tuple[str, ...]:
        """The agents that need a folder of their own: those that were named, or those that are found here."""
        chosen = detect_agents(self.places, self.scope) if agent_ids is None else find_agents(agent_ids)
        return tuple(
            sorted(
                agent.id
                for agent in chosen
                if self.places.folder(agent, self.scope) is not None
                and not shares_canonical(agent, self.places, self.scope)
            )
        )

    def readers(self, targets: Iterable[str]) -> list[tuple[str, str]]:
        """The agents that are found here and read what is installed, those of `targets` too: the name of
        each, and `link` or `copy` for one with a folder of its own."""
        chosen = set(targets)
        found = {agent.id: agent for agent in detect_agents(self.places, self.scope)}
        found |= {agent.id: agent for agent in find_agents(chosen)}
        return [
            (agent.name, ("link" if self.links else "copy") if agent.id in chosen else "")
            for agent in sorted(found.values(), key=lambda agent: (agent.id not in chosen, agent.name))
            if agent.id in chosen or shares_canonical(agent, self.places, self.scope)
        ]

    def replaced_by(self, name: str, targets: Iterable[str]) -> list[str]:
        """The agents that read what is installed, and bring along a skill of this name."""
        readers = {reader for reader, _ in self.readers(targets)}
        return sorted(
            agent.name for agent in agents().values() if agent.name in readers and name in agent.built_in
        )

    def folders(self, lock: Lock) -> dict[str, Path]:
        """The real folder of every target of the lock."""
        return target_folders(
            self.places, self.scope, {target for skill in lock.skills for target in skill.targets}
        )

    # Plan and apply

    def recover(self, lock: Lock, state: InstallState) -> None:
        """Clean up after a command that was killed; call it before a plan that will be carried out."""
        recover({*self.folders(lock).values(), *(path.parent for path in state.placed)})

    def plan(
        self,
        lock: Lock,
        state: InstallState,
        *,
        force: Iterable[str] = (),
        only: Iterable[str] | None = None,
    ) -> Plan:
        """Compare the lock with what is on disk, every file hashed."""
        folders = self.folders(lock)
        wanted = None if only is None else frozenset(only)
        looked_at: dict[Path, Sequence[str]] = {}
        for skill in lock.skills:
            if wanted is not None and skill.name not in wanted:
                continue
            paths = [file.path for file in skill.files]
            for target in ("agents", *skill.targets):
                if target in folders:
                    looked_at[folders[target] / skill.name] = paths
        for path, placed in state.placed.items():
            if wanted is None or placed.name in wanted:
                looked_at.setdefault(path, ())
        found = look_at_all(looked_at)
        make = partial(
            plan,
            lock,
            folders=folders,
            found=found,
            placed=state.placed,
            links=self.links,
            force=force,
            only=only,
        )
        made = make()
        if any(
            _only_modes_differ(step.act, step.found, step.skill) for step in made.steps
        ) and not knows_modes(folders["agents"]):
            return make(modes=False)
        return made

    def carry_out(
        self,
        made: Plan,
        state: InstallState,
        *,
        going_back: bool = False,
        at_hand: Mapping[SetDigest, Mapping[str, bytes]] | None = None,
        on_step: Callable[[StepResult], None] = lambda _: None,
    ) -> tuple[tuple[StepResult, ...], InstallState]:
        """Apply a plan, and record what was installed where. The content must be in the version store.

        `going_back` is for a version that was installed before: it does not become the latest one. `at_hand`
        are files by the digest of their set, which need not be read from the store.
        """
        in_memory = at_hand or {}
        with self.carrying_out(made, state, on_step=on_step) as run:
            for step in made.writes:
                run.write(step, in_memory.get(step.skill.digest) if step.skill else None)
        return run.finish(going_back=going_back)

    @contextmanager
    def carrying_out(
        self,
        made: Plan,
        state: InstallState,
        *,
        accept: Iterable[LockedSkill] = (),
        on_step: Callable[[StepResult], None] = lambda _: None,
    ) -> Generator[PlanRun]:
        """A plan whose steps the caller writes one by one, and then finishes.

        If the block raises, what was written until then is recorded. `accept` is what the user has just
        approved: it counts as approved as soon as it is installed.
        """
        if made.writes:
            state = self._keep_replaced(made, state)
            # Written first: a process that dies leaves one of the two versions, and both are ours.
            pending = {
                step.path: Installation(
                    step.name,
                    state.placed.get(step.path, Installation(step.name)).digests
                    | ({step.skill.digest} if step.skill else frozenset[str]()),
                    state.placed.get(step.path, Installation(step.name)).link and step.link_to is not None,
                )
                for step in made.writes
                if step.act is not StepKind.REMOVE
            }
            self.files.write(self.root, state.put(pending))
        run = PlanRun(self, made, state, on_step, tuple(accept))
        try:
            yield run
        except BaseException:
            with suppress(SkillwireError):
                run.finish()
            raise

    def _keep_replaced(self, made: Plan, state: InstallState) -> InstallState:
        """Store every folder that a plan overwrites, even an edited one, so that it can be rolled back to."""
        for step in made.writes:
            tree = step.found
            if not isinstance(tree, Tree) or tree.digest is None:
                continue
            if any(one.digest == tree.digest for one in state.history.get(step.name, ())):
                continue
            # Before it is read: somebody may have put anything there.
            if sum(file.size for file in tree.files) > self.limits.bytes_per_skill:
                continue
            if manifest_issues(file.path for file in tree.files):
                continue
            blobs: dict[Digest, bytes] = {}
            for file in tree.files:
                data = read_file(step.path / file.path, file.size)
                if data is not None and digest_of(data) == file.digest:
                    blobs[file.digest] = data
            if len(blobs) != len({file.digest for file in tree.files}):
                continue
            self.versions.keep(blobs)
            found = LockedSkill(
                name=parse_name(step.name),
                source=str(step.path),
                pin=Pin.make("folder", path=str(step.path)),
                digest=tree.digest,
                files=tree.files,
            )
            state = state.remember([found], self.limits.kept_versions)
        return state

    def prune(self) -> int:
        """Remove stored files that no version of any project uses; returns how many."""
        states = self.files.roots()
        if states is None:
            return 0  # It is unknown what that project uses.
        versions = [one for state in states for kept in state.history.values() for one in kept]
        return self.versions.prune({file.digest for version in versions for file in version.skill.files})


@dataclass(slots=True)
class PlanRun:
    """A plan that is being carried out."""

    work: Workspace
    made: Plan
    state: InstallState
    on_step: Callable[[StepResult], None]
    accept: tuple[LockedSkill, ...] = ()
    outcomes: list[StepResult] = field(default_factory=list[StepResult])

    def write(self, step: Step, files: Mapping[str, bytes] | None = None) -> None:
        """Carry out a step, with these files or with those in the version store."""
        if fatal := self.fatal:
            outcome = StepResult(step, f"not tried: {fatal}", fatal=fatal)
        else:
            outcome = write_step(step, lambda skill: files or self.work.versions.content(skill))
        self.outcomes.append(outcome)
        self.on_step(outcome)

    @property
    def fatal(self) -> str:
        """Why nothing more is written: the disk is full or cannot be written at all."""
        return self.outcomes[-1].fatal if self.outcomes else ""

    @property
    def accepted(self) -> tuple[LockedSkill, ...]:
        """The skills that the user has just approved and that are installed now."""
        outcomes = self.outcomes
        there = {one.step.name for one in outcomes if one.done}
        there |= {step.name for step in self.made.steps if step.act is StepKind.CURRENT}
        bad = {one.step.name for one in outcomes if not one.done}
        waiting = {step.name for step in self.made.writes} - {one.step.name for one in outcomes}
        return tuple(one for one in self.accept if one.name in there - bad - waiting)

    def finish(self, *, going_back: bool = False) -> tuple[tuple[StepResult, ...], InstallState]:
        """Record what is installed where."""
        work, outcomes = self.work, tuple(self.outcomes)
        placed = dict(_noted(self.made, self.state))
        for outcome in outcomes:
            step = outcome.step
            if not outcome.done:
                continue
            if step.skill is None:
                placed.pop(step.path, None)
            else:
                placed[step.path] = Installation(step.name, frozenset({step.skill.digest}), outcome.link)
        installed = [outcome.step.skill for outcome in outcomes if outcome.done and outcome.step.skill]
        accepted = self.accepted
        state = replace(self.state, placed=placed).accept(accepted)
        state = state.remember(installed, work.limits.kept_versions, in_place=going_back)
        # Without a step to write, only folders that match already, but were not recorded as ours, are new.
        if self.made.writes or accepted or placed != self.state.placed:
            work.files.write(work.root, state)
        return outcomes, state


def _noted(made: Plan, state: InstallState) -> Mapping[Path, Installation]:
    """Return what is installed where, including the folders that matched already."""
    placed = dict(state.placed)
    for step in made.steps:
        if step.act is StepKind.CURRENT and step.skill is not None:
            placed[step.path] = Installation(
                step.name, frozenset({step.skill.digest}), not isinstance(step.found, Tree)
            )
    planned = {step.path for step in made.steps}
    return {path: one for path, one in placed.items() if path in planned or os.path.lexists(path)}


def _only_modes_differ(act: StepKind, found: DiskState, skill: LockedSkill | None) -> bool:
    return (
        act is StepKind.REPLACE
        and skill is not None
        and isinstance(found, Tree)
        and found.digest == skill.digest
    )


def content_of(workspace: Workspace, skill: LockedSkill) -> dict[str, bytes]:
    """The bytes of a pinned skill, from the version store or from its folder, verified."""
    if workspace.versions.has(skill):
        return workspace.versions.content(skill)
    folder = workspace.places.canonical(workspace.scope) / skill.name
    files = read_folder(folder, limits=workspace.limits).get("", ()) if folder.is_dir() else ()
    content = {file.path: file.data for file in files}
    wanted = {file.path: file.digest for file in skill.files}
    actual = {path: digest_of(data) for path, data in content.items()}
    if actual != wanted:
        raise VerificationError(
            f"{skill.name} is not installed as pinned: run `skillwire sync{workspace.option}` first",
            uri=skill.name,
        )
    return content


def export_skills(
    workspace: Workspace, place: Path, names: Iterable[str] | None = None
) -> tuple[LockedSkill, ...]:
    """Write pinned skills and their lock to a new folder, or to a reproducible archive."""
    lock = workspace.require_lock()
    option = workspace.option
    skills = lock.skills if names is None else tuple(lock.require(name, option=option) for name in names)
    text = format_lock(replace(lock, skills=tuple(skills)))
    contents = {skill.name: content_of(workspace, skill) for skill in skills}
    if place.name.endswith((".tar.gz", ".tgz")):
        files = [
            ArchiveFile(f"{skill.name}/{file.path}", contents[skill.name][file.path], file.executable)
            for skill in skills
            for file in skill.files
        ]
        _write_new(place, write_tar_gz([*files, ArchiveFile("skillwire.lock", text.encode())]))
        return tuple(skills)
    if place.name.endswith((".zip", ".tar", ".tar.bz2", ".tar.xz", ".tar.zst")):
        raise SourceError(f"{place}: only .tar.gz archives are written: name one, or a new folder")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise SourceError(f"{place} already exists: name a new folder, or a file that ends in .tar.gz")
    try:
        place.mkdir(parents=True, exist_ok=True)
        for skill in skills:
            write_tree(place / skill.name, skill, contents[skill.name])
        (place / "skillwire.lock").write_text(text, "utf-8")
    except OSError as error:
        raise SourceError(f"{place} cannot be written: {error.strerror}") from None
    return tuple(skills)


def _write_new(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data, mode=0o644)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error.strerror}") from None
