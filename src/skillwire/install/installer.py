"""Installer: add, sync, update, roll back and remove skills of a workspace.

It does not ask the user. `add` and `update` call back with what would be installed, and install what is
granted. A program that shows more in between calls `propose`, `propose_updates` and `install` itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import anyio

from skillwire.clients import CANONICAL_TARGET, Scope
from skillwire.errors import RefusedByPolicy, SkillNotFound, SkillwireError, SourceError, VerificationError
from skillwire.install.apply import InstallReport, StepResult, make_report
from skillwire.install.candidates import (
    Candidate,
    Check,
    FetchFailure,
    Proposal,
    make_candidate,
    not_granted,
    propose,
    read_folder,
)
from skillwire.install.fetcher import SkillFetcher
from skillwire.install.lock import Lock, LockedSkill, Pin
from skillwire.install.plan import Plan, Step, StepKind
from skillwire.install.state import InstallState, Version, has_forgotten
from skillwire.install.workspace import PlanRun, Workspace
from skillwire.net import ArchiveFile
from skillwire.text import shown
from skillwire.trust import ALL_GRANTS, NO_GRANTS, NO_SIGNER, Grants, confirms_signer, signer_words


class RecordApprovals(Protocol):
    """Stores the user's approval of installed skills, with these grants, where hosts look for it."""

    async def __call__(
        self, workspace: Workspace, installed: Sequence[tuple[Candidate, Grants]], /
    ) -> None: ...


Decide: TypeAlias = Callable[[Proposal], Awaitable[Mapping[str, Grants]]]
"""The user's decision: the grants of each skill to install, by its name. The others are refused."""


@dataclass(slots=True)
class Installer:
    """The operations on one workspace."""

    workspace: Workspace
    upstream: SkillFetcher
    record: RecordApprovals | None = None
    on_step: Callable[[StepResult], None] = field(default=lambda _: None)
    on_wait: Callable[[], None] = field(default=lambda: None)

    # Adding and updating

    async def add(
        self,
        sources: Sequence[str],
        decide: Decide,
        *,
        targets: Iterable[str] = (),
        names: Iterable[str] | None = None,
        force: Iterable[str] = (),
    ) -> InstallReport:
        """Install the skills of sources that `decide` grants, and pin them."""
        return await self._decided(await self.propose(sources, targets=targets, names=names), decide, force)

    async def update(
        self, decide: Decide, *, names: Iterable[str] | None = None, force: Iterable[str] = ()
    ) -> InstallReport:
        """Install what the sources of pinned skills have now, as far as `decide` grants it."""
        return await self._decided(await self.propose_updates(names), decide, force)

    async def rollback(self, name: str, to: str = "", *, force: bool = False) -> InstallReport:
        """Restore the previous version of a skill, or the one whose digest begins with `to`.

        It has the grants that it was installed with.
        """
        earlier = self.earlier(name, to)
        return await self.install(
            [earlier], {name: ALL_GRANTS}, force=[name] if force else (), going_back=True
        )

    async def _decided(self, proposal: Proposal, decide: Decide, force: Iterable[str]) -> InstallReport:
        proposal = await self.scan(proposal)
        grants: Mapping[str, Grants] = await decide(proposal) if proposal.candidates else {}
        report = await self.install(proposal.candidates, grants, force=force)
        current = (*report.current, *(candidate.name for candidate in proposal.known))
        return replace(report, current=current, failures=(*proposal.failures, *report.failures))

    async def propose(
        self, sources: Sequence[str], *, targets: Iterable[str], names: Iterable[str] | None = None
    ) -> Proposal:
        """Fetch what sources have and compare it with the lock. Nothing is written."""
        if self.workspace.scope is Scope.USER:  # Their lock is used from every folder.
            sources = [self.upstream.from_root(source) for source in sources]
        wanted = None if names is None else {source: list(names) for source in sources}
        fetched = await self.upstream.fetch(sources, wanted)
        lock = self.workspace.read_lock() or Lock()
        return propose(fetched, lock, tuple(targets), option=self.workspace.option)

    async def propose_updates(self, names: Iterable[str] | None = None) -> Proposal:
        """Fetch what the sources of pinned skills have now."""
        lock = self.workspace.require_lock()
        skills = lock.skills if names is None else self._required(lock, names)
        return propose(await self.upstream.fetch_latest(skills), lock, None)

    async def scan(self, proposal: Proposal) -> Proposal:
        """The proposal with what the scanners of the policy found; what they refuse is a failure."""
        made = [await self.upstream.scanned(candidate) for candidate in proposal.candidates]
        refused = (one for one in made if isinstance(one, FetchFailure))
        return replace(
            proposal,
            candidates=tuple(one for one in made if isinstance(one, Candidate)),
            failures=(*proposal.failures, *refused),
        )

    async def install(
        self,
        candidates: Sequence[Candidate],
        grants: Mapping[str, Grants],
        *,
        force: Iterable[str] = (),
        going_back: bool = False,
    ) -> InstallReport:
        """Install exactly these versions, pin them, and store the approval.

        A skill whose powers were not all granted is refused: bytes are never stripped (SEC-2, SEC-4).
        """
        refused: list[FetchFailure] = []
        accepted: list[Candidate] = []
        for candidate in candidates:
            # Also for a version that was stored before: what is revoked is not installed again.
            scanned = await self.upstream.scanned(candidate)
            if isinstance(scanned, FetchFailure):
                refused.append(scanned)
                continue
            missing = candidate.skill.powers.missing(grants.get(candidate.name, NO_GRANTS))
            if candidate.name not in grants:
                refused.append(
                    FetchFailure(candidate.name, RefusedByPolicy(f"{candidate.name} was not approved"))
                )
            elif missing:
                refused.append(
                    FetchFailure(candidate.name, not_granted(candidate.skill, missing.allowed_tools))
                )
            else:
                accepted.append(candidate)
        report, done = self._install(accepted, force=force, going_back=going_back)
        if self.record is not None and done:
            await self.record(
                self.workspace, [(one, grants[one.name]) for one in accepted if one.skill in done]
            )
        return replace(report, refused=(*refused, *report.refused))

    def _install(
        self, candidates: Sequence[Candidate], *, force: Iterable[str], going_back: bool
    ) -> tuple[InstallReport, list[LockedSkill]]:
        """Also returns which of them are installed now."""
        work = self.workspace
        skills = [candidate.skill for candidate in candidates]
        with work.files.working(work.root, on_wait=self.on_wait):
            lock = work.read_lock() or Lock()
            wanted = lock.put(*skills)
            for candidate in candidates:
                work.versions.keep(candidate.blobs())
            before = work.files.read(work.root)
            work.recover(wanted, before)
            state = before.accept(skills)
            names = [skill.name for skill in skills]
            made = work.plan(wanted, state, force=force, only=names)
            stopped = {step.name for step in made.stopped if step.target == CANONICAL_TARGET}
            made = Plan(tuple(step for step in made.steps if step.name not in stopped or step.stops))
            outcomes, state = work.carry_out(
                made,
                state,
                going_back=going_back,
                at_hand={candidate.skill.digest: candidate.files for candidate in candidates},
                on_step=self.on_step,
            )
            bad = {one.step.name for one in outcomes if not one.done and one.step.target == CANONICAL_TARGET}
            done = [skill for skill in skills if skill.name not in bad and skill.name not in stopped]
            state = state.remember(done, work.limits.kept_versions, in_place=going_back)
            work.write_lock(lock.put(*done))
            work.files.write(work.root, state)
            if has_forgotten(before, state):
                work.prune()
        return make_report(made, outcomes), done

    # Syncing

    def compare(
        self, *, force: Iterable[str] = (), only: Iterable[str] | None = None
    ) -> tuple[Lock, InstallState, Plan]:
        """How the disk differs from the lock, with every file hashed. Nothing is written."""
        lock = self.workspace.require_lock()
        state = self.workspace.files.read(self.workspace.root)
        return lock, state, self.workspace.plan(lock, state, force=force, only=only)

    def refused_by_policy(self, skills: Iterable[LockedSkill]) -> list[FetchFailure]:
        """The pinned skills that the policy refuses now, whether or not they are installed."""
        failures = (self.upstream.locked_refusal(skill) for skill in skills)
        return [failure for failure in failures if failure is not None]

    def unaccepted(self, state: InstallState, made: Plan) -> tuple[LockedSkill, ...]:
        """The skills that would be written and that this user has not approved as they are pinned."""
        skills = {step.name: step.skill for step in made.writes if step.skill is not None}
        return tuple(skill for skill in skills.values() if not state.has_accepted(skill))

    async def sync(
        self,
        *,
        accept: Iterable[LockedSkill] = (),
        force: Iterable[str] = (),
        only: Iterable[str] | None = None,
    ) -> InstallReport:
        """Make the folders match the lock. `accept` is what the user was shown and has just approved."""
        work = self.workspace
        accepted = tuple(accept)
        with work.files.working(work.root, on_wait=self.on_wait):
            lock, state = work.require_lock(), work.files.read(work.root)
            work.recover(lock, state)
            made = work.plan(lock, state, force=force, only=only)
            unaccepted = {skill.name for skill in self.unaccepted(state.accept(accepted), made)}
            refused = [
                FetchFailure(name, RefusedByPolicy(f"{name} was not approved as it is pinned now"))
                for name in sorted(unaccepted)
            ]
            by_policy = self.refused_by_policy(lock.skills)
            refused += by_policy
            left = unaccepted | {failure.what for failure in by_policy}
            made = Plan(tuple(step for step in made.steps if step.name not in left or not step.changes))
            fetched: dict[str, Candidate] = {}
            with work.carrying_out(made, state, accept=accepted, on_step=self.on_step) as run:
                try:
                    failures = await self._write(run, fetched)
                except BaseException:
                    with anyio.CancelScope(shield=True), suppress(SkillwireError):
                        await self._record_accepted(run, fetched)
                    raise
            outcomes, after = run.finish()
            if has_forgotten(state, after):
                work.prune()
        await self._record_accepted(run, fetched)
        report = make_report(made, outcomes)
        return replace(report, refused=(*refused, *report.refused), failures=(*failures, *report.failures))

    async def _record_accepted(self, run: PlanRun, fetched: Mapping[str, Candidate]) -> None:
        """Store the approval of what the user approved and is installed now."""
        if self.record is not None:
            made = [fetched.get(skill.name) or self._kept(skill) for skill in run.accepted]
            # The set was shown with its tools and scripts, and agreed to with them.
            await self.record(self.workspace, [(one, ALL_GRANTS) for one in made])

    async def _write(self, run: PlanRun, fetched: dict[str, Candidate]) -> list[FetchFailure]:
        """Write what a plan says, and fetch what is not stored here.

        A skill is written as soon as it has arrived, while the others are fetched. What was fetched is put
        into `fetched`, without its files. Returns the skills that could not be fetched or verified.
        """
        store = self.workspace.versions
        steps: dict[str, list[Step]] = {}
        for step in run.made.writes:
            steps.setdefault(step.name, []).append(step)
        needed = run.made.needs_content()
        missing = {skill.name: skill for skill in needed if not store.has(skill)}
        failures: list[FetchFailure] = []
        unstored = ""
        scans = bool(self.upstream.policy_files.current(self.upstream.base).policy.thresholds)
        unscanned: list[LockedSkill] = []

        def write(name: str, files: Mapping[str, bytes] | None = None) -> None:
            for step in steps.pop(name):
                run.write(step, files)

        def write_fetched(candidate: Candidate) -> None:
            nonlocal unstored
            skill = missing.pop(candidate.skill.name)
            try:
                store.keep(candidate.blobs())
            except SkillwireError as error:
                failures.append(FetchFailure(skill.name, error))
                unstored = unstored or skill.name
                fetching.cancel()
                return
            fetched[skill.name] = replace(candidate, files={})
            if scans:
                unscanned.append(skill)
            elif failure := self._untrusted(skill):
                failures.append(failure)
            else:
                write(skill.name, candidate.files)
            if run.is_over:
                fetching.cancel()

        for skill in needed:
            if skill.name not in missing and (
                failure := self._untrusted(skill) or await self._unclean(skill)
            ):
                failures.append(failure)
        failed = {failure.what for failure in failures}
        for name in [one for one in steps if one not in missing and one not in failed]:
            write(name)
        with anyio.CancelScope() as fetching:
            if missing and not run.is_over:
                failures += await self.upstream.fetch_pinned(
                    tuple(missing.values()), write_fetched, option=self.workspace.option
                )
        for skill in unscanned:
            if failure := self._untrusted(skill) or await self._unclean(skill):
                failures.append(failure)
            else:
                write(skill.name)
        failed = {failure.what for failure in failures}
        for name in [one for one in steps if one not in failed]:
            if unstored:
                error = SourceError(f"{name}: not tried, for the same reason as {unstored}")
                failures.append(FetchFailure(name, error))
            elif run.is_over:
                write(name)  # It is not tried, and reported so.
        return failures

    def _untrusted(self, skill: LockedSkill) -> FetchFailure | None:
        """The failure of a stored skill that a required publisher or the signer in the lock did not sign.

        The lock alone proves nothing, and the files may have been stored from another source.
        """
        is_asked = (
            self.upstream.publishers_for(skill)
            or self.upstream.policy_files.current(self.upstream.base).policy.given
        )
        if skill.signer == NO_SIGNER and not is_asked:
            return None
        try:
            stored = self._kept_candidate(skill)
        except SkillwireError as error:
            return FetchFailure(skill.name, error)
        if refusal := self.upstream.refusal(stored):
            return refusal
        actual = stored.skill.signer
        if skill.signer == NO_SIGNER or confirms_signer(skill.signer, actual):
            return None
        words = (
            f"{skill.name}: skillwire.lock says that it is {signer_words(skill.signer)}, and it is "
            f"{signer_words(actual)}: it is not installed"
        )
        return FetchFailure(skill.name, VerificationError(words, uri=skill.name))

    async def _unclean(self, skill: LockedSkill) -> FetchFailure | None:
        """The failure of a stored skill that the policy refuses for what scanners find in it."""
        if not self.upstream.policy_files.current(self.upstream.base).policy.thresholds:
            return None
        scanned = await self.upstream.scanned(self._kept_candidate(skill))
        return scanned if isinstance(scanned, FetchFailure) else None

    def _kept_candidate(self, skill: LockedSkill) -> Candidate:
        """A version whose bytes are stored here, checked again."""
        content = self.workspace.versions.content(skill)
        return make_candidate(
            [ArchiveFile(file.path, content[file.path], file.executable) for file in skill.files],
            source=skill.source,
            pin=skill.pin,
            expected_name=skill.name,
            publishers=self.upstream.publishers,
            limits=self.workspace.limits,
        )

    def adoptable(self, steps: Iterable[Step]) -> tuple[Candidate, ...]:
        """The skills on disk where a plan stopped, as skills that could be pinned as they are."""
        adopted: list[Candidate] = []
        for step in steps:
            if step.skill is None or step.target != CANONICAL_TARGET:
                continue
            files = read_folder(step.path, limits=self.workspace.limits).get("")
            if files is None:
                raise SourceError(
                    f"{step.path} has no SKILL.md, so it cannot be adopted: use --force to replace it"
                )
            path = step.path
            try:
                shown_path = f"./{path.relative_to(self.workspace.root.resolve()).as_posix()}"
            except ValueError:
                shown_path = path.as_posix()
            candidate = make_candidate(
                files,
                source=step.skill.source,
                pin=Pin.make("folder", path=shown_path),
                expected_name=step.name,
                publishers=self.upstream.publishers,
                limits=self.workspace.limits,
            )
            skill = replace(candidate.skill.with_unknown_keys(step.skill), targets=step.skill.targets)
            adopted.append(replace(candidate, skill=skill))
        return tuple(adopted)

    # Checking sources

    async def check(self, names: Iterable[str] | None = None) -> tuple[Check, ...]:
        """Whether the sources have something other than what is pinned."""
        lock = self.workspace.require_lock()
        skills = lock.skills if names is None else self._required(lock, names)
        return await self.upstream.check(skills)

    def _required(self, lock: Lock, names: Iterable[str]) -> tuple[LockedSkill, ...]:
        return tuple(lock.require(name, option=self.workspace.option) for name in names)

    # Going back, removing, exporting

    def versions(self, name: str) -> tuple[Version, ...]:
        """The versions of a skill that are stored here, the latest last."""
        return self.workspace.files.read(self.workspace.root).history.get(name, ())

    def earlier(self, name: str, to: str = "") -> Candidate:
        """An earlier version, from the stored copies and verified again: the previous one, or a given one."""
        lock = self.workspace.require_lock()
        current = lock.get(name)
        kept = self.versions(name)
        if not kept:
            raise SkillNotFound(
                f"no version of {shown(name)} is stored here: "
                f"`skillwire list --installed{self.workspace.option}` shows what is installed"
            )
        if to:
            wanted = to if to.startswith("sha256:") else f"sha256:{to}"
            fitting = [one for one in kept if one.digest.startswith(wanted)]
            if len(fitting) != 1:
                raise SkillNotFound(
                    f"{'no' if not fitting else 'more than one'} stored version of {name} begins with "
                    f"{shown(to)}: `skillwire show {name}` lists them"
                )
            version = fitting[0]
        else:
            at = next(
                (number for number, one in enumerate(kept) if current and one.digest == current.digest),
                len(kept),
            )
            if at == 0:
                raise SkillNotFound(
                    f"no earlier version of {name} is stored here: "
                    f"`skillwire show {name}` lists the stored versions"
                )
            version = kept[at - 1]
        skill = version.skill
        if current is not None:
            skill = replace(skill.with_unknown_keys(current), targets=current.targets)
            if skill.pin.kind == "folder" and skill.pin.get("path") == skill.source:
                # An edit that was overwritten: it still belongs to the same source.
                skill = replace(skill, source=current.source)
        return self._kept(skill)

    def _kept(self, skill: LockedSkill) -> Candidate:
        """A version as it was installed, from the stored copies and verified again."""
        candidate = self._kept_candidate(skill)
        if candidate.skill.digest != skill.digest:
            raise VerificationError(
                f"the stored version of {skill.name} is damaged: it is not used", uri=skill.name
            )
        # It has the signer that it was installed with.
        return replace(
            candidate,
            skill=replace(
                candidate.skill.with_unknown_keys(skill), targets=skill.targets, signer=skill.signer
            ),
        )

    def remove(self, names: Sequence[str], *, force: bool = False) -> InstallReport:
        """Remove skills from the lock and from every folder. One that was edited stays, unless forced."""
        work = self.workspace
        with work.files.working(work.root, on_wait=self.on_wait):
            lock = work.require_lock()
            skills = self._required(lock, names)
            rest = lock.without(names)
            state = work.files.read(work.root)
            work.recover(lock, state)
            # A folder that matches is ours to remove, whether or not it was recorded.
            _, state = work.carry_out(_only_current(work.plan(lock, state, only=names)), state)
            made = work.plan(rest, state, only=names, force=names if force else ())
            stopped = {step.name for step in made.stopped}
            made = Plan(tuple(step for step in made.steps if step.name not in stopped or step.stops))
            outcomes, state = work.carry_out(made, state, on_step=self.on_step)
            bad = stopped | {one.step.name for one in outcomes if not one.done}
            gone = [skill for skill in skills if skill.name not in bad]
            work.write_lock(lock.without(skill.name for skill in gone))
            work.files.write(work.root, state.forget(gone))
        report = make_report(made, outcomes)
        return replace(report, removed=tuple(skill.name for skill in gone))


def _only_current(made: Plan) -> Plan:
    return Plan(tuple(step for step in made.steps if step.act is StepKind.CURRENT))
