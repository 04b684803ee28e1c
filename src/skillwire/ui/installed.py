"""Installed: what the lock files pin, whether folders and sources still agree, updates and rollbacks.

Everything goes through `Installer`, as the commands do. It works with files and locks, so it runs in a thread
with an event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from anyio import to_thread

from skillwire.errors import RefusedByPolicy, SkillNotFound, SkillwireError
from skillwire.host import FileComparison
from skillwire.install import Freshness, StepKind, Tree, acceptance_key, tree_differences
from skillwire.skill import SkillUri
from skillwire.trust import ChangeKind, Grants, signer_change, signer_words

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.host import SkillReview
    from skillwire.install import (
        Candidate,
        Installer,
        InstallReport,
        InstallState,
        LockedFile,
        LockedSkill,
        Plan,
        Proposal,
        Version,
    )

Installers: TypeAlias = Mapping[str, Callable[[], "Installer"]]
"""What makes the installer of each scope: `project` and `user`."""
Result = TypeVar("Result")
_TONES: Final = {StepKind.CURRENT: "ok", StepKind.EDITED: "bad", StepKind.FOREIGN: "bad"}
_FRESH_TONES: Final = {Freshness.CURRENT: "ok", Freshness.OUTDATED: "wait"}


@dataclass(frozen=True, slots=True)
class InstalledSkill:
    """One pinned skill, and its state on disk and at its source."""

    skill: LockedSkill
    acts: frozenset[StepKind]
    places: tuple[Path, ...]
    versions: tuple[Version, ...]
    freshness: Freshness | None = None
    detail: str = ""
    refused: str = ""
    """Why the policy refuses it now, in its words; empty if it does not."""

    @property
    def act(self) -> StepKind:
        """Everything that differs from what is pinned."""
        return next(
            (act for act in StepKind if act in self.acts and act is not StepKind.CURRENT), StepKind.CURRENT
        )

    @property
    def tone(self) -> str:
        return _TONES.get(self.act, "wait")

    @property
    def fresh_tone(self) -> str:
        return _FRESH_TONES.get(self.freshness, "bad") if self.freshness else ""

    @property
    def signer(self) -> str:
        return signer_words(self.skill.signer)

    @property
    def earlier(self) -> tuple[Version, ...]:
        """Versions to go back to, the latest first."""
        return tuple(one for one in reversed(self.versions) if one.digest != self.skill.digest)


@dataclass(frozen=True, slots=True)
class InstalledScope:
    """The lock of a project or of the user. `problem` says why it cannot be read."""

    name: str
    lock_file: str
    skills: tuple[InstalledSkill, ...] = ()
    unaccepted: tuple[LockedSkill, ...] = ()
    in_sync: bool = True
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Update:
    """A version that would replace a pinned one, with every file that differs."""

    candidate: Candidate
    before: LockedSkill | None
    comparison: tuple[FileComparison, ...]

    @property
    def carried(self) -> Grants:
        """Return the grants that need no question, because the previous version had them."""
        return self.candidate.skill.powers.grants_after(self.before.powers if self.before else None)

    @property
    def signer_change(self) -> str:
        return signer_change(self.before.signer, self.candidate.skill.signer) if self.before else ""


@dataclass(slots=True)
class InstalledSkills:
    """The installed skills of every scope."""

    installers: Installers
    _checks: dict[tuple[str, str], tuple[Freshness, str]] = field(
        default_factory=dict[tuple[str, str], tuple[Freshness, str]]
    )

    async def scopes(self) -> list[InstalledScope]:
        """Each scope that has a lock, with every file on disk hashed."""
        found = [await to_thread.run_sync(self._scope, name) for name in self.installers]
        return [scope for scope in found if scope is not None]

    def _scope(self, name: str) -> InstalledScope | None:
        tool = self.installers[name]()
        lock_file = str(tool.workspace.lock_file)
        try:
            if tool.workspace.read_lock() is None:
                return None
            lock, state, made = tool.compare()
        except SkillwireError as error:
            return InstalledScope(name, lock_file, problem=str(error))
        skills = tuple(
            replace(self._skill(name, skill, state, made), refused=tool.upstream.rules.locked_words(skill))
            for skill in lock.skills
        )
        return InstalledScope(name, lock_file, skills, tool.unaccepted(state, made), made.is_done)

    def _skill(self, scope: str, skill: LockedSkill, state: InstallState, made: Plan) -> InstalledSkill:
        steps = [step for step in made.steps if step.name == skill.name]
        freshness, detail = self._checks.get((scope, skill.name), (None, ""))
        return InstalledSkill(
            skill,
            frozenset(step.act for step in steps),
            tuple(step.path for step in steps),
            state.history.get(skill.name, ()),
            freshness,
            detail,
        )

    async def check(self, scope: str) -> int:
        """Ask every source whether it has another version. Returns how many do."""
        checks = await self._run(scope, lambda tool: tool.check())
        self._checks = {key: value for key, value in self._checks.items() if key[0] != scope}
        self._checks |= {(scope, one.skill.name): (one.freshness, one.detail) for one in checks}
        return sum(one.freshness is Freshness.OUTDATED for one in checks)

    async def propose(self, scope: str, name: str) -> Update | None:
        """Return the update of a skill at its source; `None` when that is what is pinned."""

        async def action(tool: Installer) -> Update | None:
            proposal = await tool.scan(await tool.propose_updates([name]))
            for failure in proposal.failures:
                raise failure.error
            if not proposal.candidates:
                return None
            [candidate] = proposal.candidates
            before = proposal.before.get(candidate.name)
            old = before.files if before else ()
            read = tool.workspace.versions.read
            comparison = compare_files(
                old, read, candidate.skill.files, lambda file: candidate.files[file.path]
            )
            return Update(candidate, before, comparison)

        return await self._run(scope, action)

    async def update(self, scope: str, name: str, digest: str, given: Grants) -> InstallReport:
        """Install a version, if the source still has the one that was shown."""

        async def decide(proposal: Proposal) -> Mapping[str, Grants]:
            for failure in proposal.failures:
                raise failure.error
            [candidate] = proposal.candidates or [None]
            if candidate is None or candidate.skill.digest != digest:
                raise RefusedByPolicy(f"{name} is not what was shown: its source changed; look at it again")
            before = proposal.before.get(candidate.name)
            return {name: candidate.skill.powers.grants_after(before.powers if before else None, given)}

        report = await self._run(scope, lambda tool: tool.update(decide, names=[name]))
        self._checks.pop((scope, name), None)
        return report

    async def roll_back(self, scope: str, name: str, digest: str) -> InstallReport:
        """Restore an earlier version: it was approved when it was installed."""

        async def action(tool: Installer) -> InstallReport:
            return await tool.rollback(name, digest)

        report = await self._run(scope, action)
        self._checks.pop((scope, name), None)
        return report

    async def sync(self, scope: str, accepted: Iterable[str]) -> InstallReport:
        """Make the folders match the lock; of what was not approved yet, only what these keys name."""
        keys = frozenset(accepted)

        async def action(tool: Installer) -> InstallReport:
            _, state, made = tool.compare()
            agreed = [skill for skill in tool.unaccepted(state, made) if acceptance_key(skill) in keys]
            return await tool.sync(accept=agreed)

        return await self._run(scope, action)

    async def of(self, review: SkillReview) -> list[tuple[str, InstalledSkill]]:
        """Where a skill is installed: what is pinned from it, or has the same files."""
        return [
            (scope.name, one)
            for scope in await self.scopes()
            for one in scope.skills
            if _is_same(one.skill, review) or any(kept.digest == review.digest for kept in one.versions)
        ]

    async def compare_with(
        self, review: SkillReview, digest: str, current: Mapping[str, bytes], listed: Iterable[LockedFile]
    ) -> tuple[FileComparison, ...]:
        """How a skill differs from a stored version of it."""
        kept = [
            (name, version)
            for name, one in await self.of(review)
            for version in one.versions
            if version.digest == digest
        ]
        if kept:
            name, version = kept[0]
            read = self.installers[name]().workspace.versions.read
            return await to_thread.run_sync(
                lambda: compare_files(
                    version.skill.files, read, tuple(listed), lambda file: current.get(file.path)
                )
            )
        raise SkillNotFound(f"no version {digest[:19]} of {review.skill.handle} is stored here")

    async def _run(self, scope: str, action: Callable[[Installer], Coroutine[Any, Any, Result]]) -> Result:
        if scope not in self.installers:
            raise SkillNotFound(f"there is no scope of this name; known: {', '.join(self.installers)}")
        return await to_thread.run_sync(lambda: asyncio.run(action(self.installers[scope]())))


def compare_files(
    old: tuple[LockedFile, ...],
    old_bytes: Callable[[LockedFile], bytes | None],
    new: tuple[LockedFile, ...],
    new_bytes: Callable[[LockedFile], bytes | None],
) -> tuple[FileComparison, ...]:
    """Two versions of a skill, file by file."""
    before, after = ({file.path: file for file in files} for files in (old, new))
    compared: list[FileComparison] = []
    for row in tree_differences(old, Tree(new)):
        one = old_bytes(before[row.path]) if row.path in before else None
        other = new_bytes(after[row.path]) if row.path in after else None
        missing = (one is None and row.kind is not ChangeKind.ADDED) or (
            other is None and row.kind is not ChangeKind.REMOVED
        )
        compared.append(
            FileComparison(
                uri=SkillUri(row.path),
                path=row.path,
                kind=row.kind,
                old=one,
                new=other,
                problem="one side is not available" if missing else "",
            )
        )
    return tuple(compared)


def _is_same(locked: LockedSkill, review: SkillReview) -> bool:
    pin, skill = locked.pin, review.skill
    if pin.kind == "mcp" and not skill.origin.is_local:
        return (pin.get("server"), pin.get("uri")) == (skill.origin.label, skill.uri)
    return locked.digest == review.digest
