"""Installer: add, sync, update, roll back and remove skills of a workspace.

`add` and `update` are one sequence, for commands, the page and programs: what the sources have is compared
with the lock (`propose`), scanned, decided about by a person or a program (`decide`), and written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import anyio

from skillwire.clients import CANONICAL_TARGET, Scope
from skillwire.errors import RefusedByPolicy, SkillNotFound, SkillwireError, SourceError, VerificationError
from skillwire.install.apply import InstallReport, StepResult, make_report, merge_reports
from skillwire.install.candidates import (
    Candidate,
    Check,
    FetchFailure,
    FetchResult,
    Proposal,
    make_candidate,
    not_granted,
    propose,
    read_folder,
)
from skillwire.install.fetcher import SkillFetcher, parse_sources
from skillwire.install.lock import Lock, LockedSkill, Pin
from skillwire.install.plan import Plan, Step, StepKind
from skillwire.install.source import Source
from skillwire.install.state import InstallState, Version, has_forgotten
from skillwire.install.workspace import PlanRun, Workspace
from skillwire.net import ArchiveFile
from skillwire.text import shown
from skillwire.trust import (
    ALL_GRANTS,
    NO_GRANTS,
    NO_SIGNER,
    Grants,
    confirms_signer,
    signer_text,
    signer_words,
)


class RecordApprovals(Protocol):
    """Stores the user's approval of installed skills, with these grants, where hosts look for it."""

    async def __call__(
        self, workspace: Workspace, installed: Sequence[tuple[Candidate, Grants]], /
    ) -> None: ...


Decide: TypeAlias = Callable[[Proposal], Awaitable[Mapping[str, Grants | SkillwireError]]]
"""The user's decision: the grants of each skill to install, by its name, or the error that says why it is not
installed. What is not named was not approved."""


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
        sources: Iterable[Source | str],
        decide: Decide,
        *,
        targets: Iterable[str] = (),
        names: Iterable[str] | None = None,
        force: Iterable[str] = (),
    ) -> InstallReport:
        """Install the skills of sources that `decide` grants, and pin them."""
        proposal = await self.propose(sources, targets=targets, names=names)
        return await self.complete(await self.scan(proposal), decide, force=force)

    async def update(
        self, decide: Decide, *, names: Iterable[str] | None = None, force: Iterable[str] = ()
    ) -> InstallReport:
        """Install what the sources of pinned skills have now, as far as `decide` grants it."""
        proposal = await self.propose_updates(names)
        return await self.complete(await self.scan(proposal), decide, force=force)

    async def complete(
        self, proposal: Proposal, decide: Decide, *, force: Iterable[str] = ()
    ) -> InstallReport:
        """Ask `decide` about a scanned proposal, if anything is new in it, and install what that grants.

        Of skills that are installed already, folders that are missing are written again.
        """
        answers: Mapping[str, Grants | SkillwireError] = {}
        if proposal.candidates:
            answers = await decide(proposal)
        grants = {name: one for name, one in answers.items() if isinstance(one, Grants)}
        refused = [
            FetchFailure(name, one) for name, one in answers.items() if isinstance(one, SkillwireError)
        ]
        left = {failure.what for failure in refused}
        chosen = [candidate for candidate in proposal.candidates if candidate.name not in left]
        report = await self.install(chosen, grants, force=force) if chosen else InstallReport()
        known = tuple(candidate.name for candidate in proposal.known)
        report = replace(
            report,
            current=(*report.current, *known),
            failures=(*proposal.failures, *refused, *report.failures),
        )
        return merge_reports(report, await self._restore(known))

    async def rollback(self, name: str, to: str = "", *, force: bool = False) -> InstallReport:
        """Restore the previous version of a skill, or the one whose digest begins with `to`.

        It has the grants that it was installed with.
        """
        earlier = self.earlier(name, to)
        return await self.install(
            [earlier], {name: ALL_GRANTS}, force=[name] if force else (), going_back=True
        )

    async def propose(
        self,
        sources: Iterable[Source | str],
        *,
        targets: Iterable[str],
        names: Iterable[str] | None = None,
    ) -> Proposal:
        """Fetch what sources have, only the skills of these names, and compare it with the lock. Nothing is
        written."""
        given = list(sources)
        parsed, failures = parse_sources(one for one in given if isinstance(one, str))
        wanted = [*(one for one in given if isinstance(one, Source)), *parsed]
        if names is not None:
            only = frozenset(names)
            wanted = [one.only(only) for one in wanted]
        if self.workspace.scope is Scope.USER:  # Their lock is used from every folder.
            wanted = [one.from_root(self.upstream.base) for one in wanted]
        fetched = await self._permitted(await self.upstream.fetch(wanted))
        fetched = replace(fetched, failures=(*failures, *fetched.failures))
        lock = self.workspace.read_lock() or Lock()
        return propose(fetched, lock, tuple(targets), option=self.workspace.option)

    async def propose_updates(self, names: Iterable[str] | None = None) -> Proposal:
        """Fetch what the sources of pinned skills have now."""
        lock = self.workspace.require_lock()
        skills = lock.skills if names is None else self._required(lock, names)
        return propose(await self._permitted(await self.upstream.fetch_latest(skills)), lock, None)

    async def _permitted(self, fetched: FetchResult) -> FetchResult:
        """What was fetched and may be installed, as far as that is known without a scan."""
        rules = self.upstream.rules
        await rules.read_policy()
        permitted: list[Candidate] = []
        failures = [*fetched.failures]
        for candidate in fetched.candidates:
            if refusal := rules.refusal(candidate, before_scan=True):
                failures.append(refusal)
            else:
                permitted.append(candidate)
        return FetchResult(tuple(permitted), tuple(sorted(failures, key=lambda one: one.what)))

    async def scan(self, proposal: Proposal) -> Proposal:
        """The proposal with what the scanners of the policy found; what they refuse is a failure."""
        rules = self.upstream.rules
        scanned: list[Candidate] = []
        refused: list[FetchFailure] = []
        for candidate in [await rules.scan(one) for one in proposal.candidates]:
            if rules.scans and (failure := rules.refusal(candidate)):
                refused.append(failure)
            else:
                scanned.append(candidate)
        return replace(proposal, candidates=tuple(scanned), failures=(*proposal.failures, *refused))

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
            name = candidate.name
            missing = candidate.skill.powers.missing(grants.get(name, NO_GRANTS))
            if name not in grants:
                refused.append(FetchFailure(name, RefusedByPolicy(f"{name} was not approved")))
            elif missing:
                refused.append(FetchFailure(name, not_granted(candidate.skill, missing.allowed_tools)))
            else:
                accepted.append(await self.upstream.rules.scan(candidate))
        if not accepted:
            return InstallReport(refused=tuple(refused))
        report, done = self._install(accepted, force=force, going_back=going_back)
        unrecorded = await self._record([(one, grants[one.name]) for one in done])
        return replace(report, refused=(*refused, *report.refused), unrecorded=unrecorded)

    async def _record(self, installed: Sequence[tuple[Candidate, Grants]]) -> str:
        """Store the approval of what is installed now. Returns why it cannot be stored; empty if it was."""
        if self.record is None or not installed:
            return ""
        try:
            await self.record(self.workspace, installed)
        except SkillwireError as error:
            return str(error)
        return ""

    async def _restore(self, names: Sequence[str]) -> InstallReport:
        """Write the folders of pinned skills that are missing, or that are links and should be copies.

        What the user has not approved, or has edited, is left for `sync`.
        """
        if not names:
            return InstallReport()
        _, state, made = self.compare(only=names)
        left = {skill.name for skill in self.unaccepted(state, made)} | {step.name for step in made.stopped}
        writes = sorted({step.name for step in made.writes} - left)
        report = await self.sync(only=writes) if writes else InstallReport()
        return replace(report, differing=tuple(sorted(left)))

    def _install(
        self, candidates: Sequence[Candidate], *, force: Iterable[str], going_back: bool
    ) -> tuple[InstallReport, list[Candidate]]:
        """Also returns which of them are installed now."""
        work, rules = self.workspace, self.upstream.rules
        with work.files.working(work.root, on_wait=self.on_wait):
            # After the last wait, and for a version that was stored before: what is revoked is not installed.
            refusals = {candidate.name: rules.refusal(candidate) for candidate in candidates}
            refused = tuple(failure for failure in refusals.values() if failure is not None)
            permitted = [candidate for candidate in candidates if refusals[candidate.name] is None]
            if not permitted:
                return InstallReport(refused=refused), []
            skills = [candidate.skill for candidate in permitted]
            lock = work.read_lock() or Lock()
            wanted = lock.put(*skills)
            for candidate in permitted:
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
                at_hand={candidate.skill.digest: candidate.files for candidate in permitted},
                on_step=self.on_step,
            )
            bad = {one.step.name for one in outcomes if not one.done and one.step.target == CANONICAL_TARGET}
            done = [skill for skill in skills if skill.name not in bad and skill.name not in stopped]
            state = state.remember(done, work.limits.kept_versions, in_place=going_back)
            work.write_lock(lock.put(*done))
            work.files.write(work.root, state)
            if has_forgotten(before, state):
                work.prune()
        report = replace(make_report(made, outcomes), refused=refused)
        return report, [candidate for candidate in permitted if candidate.skill in done]

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
        failures = (self.upstream.rules.locked_refusal(skill) for skill in skills)
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
            with work.carrying_out(made, state, accept=accepted, on_step=self.on_step) as run:
                writing = _Writing(self, run)
                try:
                    await writing.write_all()
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        await self._record_accepted(run, writing.fetched)
                    raise
            outcomes, after = run.finish()
            if has_forgotten(state, after):
                work.prune()
        unrecorded = await self._record_accepted(run, writing.fetched)
        report = make_report(made, outcomes)
        return replace(
            report,
            refused=(*refused, *report.refused),
            failures=(*writing.failures, *report.failures),
            unrecorded=unrecorded,
        )

    async def _record_accepted(self, run: PlanRun, fetched: Mapping[str, Candidate]) -> str:
        """Store the approval of what the user approved and is installed now."""
        try:
            made = [fetched.get(skill.name) or self._kept(skill) for skill in run.accepted]
        except SkillwireError as error:
            return str(error)
        # The set was shown with its tools and scripts, and agreed to with them.
        return await self._record([(one, ALL_GRANTS) for one in made])

    def stored(self, skill: LockedSkill) -> Candidate:
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
        candidate = self.stored(skill)
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


class _Writing:
    """The folders of a plan, each written as soon as its skill has arrived, while others are fetched."""

    def __init__(self, tool: Installer, run: PlanRun) -> None:
        self._tool = tool
        self._run = run
        self._rules = tool.upstream.rules
        self._store = tool.workspace.versions
        self._steps: dict[str, list[Step]] = {}
        for step in run.made.writes:
            self._steps.setdefault(step.name, []).append(step)
        self._fetching = anyio.CancelScope()
        self._unstored = ""
        self._unscanned: list[LockedSkill] = []
        self.fetched: dict[str, Candidate] = {}
        """What was fetched and stored, without its files."""
        self.failures: list[FetchFailure] = []
        """The skills that could not be fetched or verified, or that are refused."""

    async def write_all(self) -> None:
        needed = self._run.made.needs_content()
        missing = [skill for skill in needed if not self._store.has(skill)]
        absent = {skill.name for skill in missing}
        for skill in needed:
            if skill.name not in absent and (failure := await self._stored_failure(skill)):
                self.failures.append(failure)
        for name in self._left():
            if name not in absent:
                self._write(name)
        with self._fetching:
            if missing and not self._run.fatal:
                self.failures += await self._tool.upstream.fetch_pinned(
                    missing, self._take, option=self._tool.workspace.option
                )
        for skill in self._unscanned:
            if failure := await self._stored_failure(skill):
                self.failures.append(failure)
            else:
                self._write(skill.name)
        for name in self._left():
            if self._unstored:
                error = SourceError(f"{name}: not tried, for the same reason as {self._unstored}")
                self.failures.append(FetchFailure(name, error))
            elif self._run.fatal:
                self._write(name)  # It is not tried, and reported so.

    def _left(self) -> list[str]:
        failed = {failure.what for failure in self.failures}
        return [name for name in self._steps if name not in failed]

    def _write(self, name: str, files: Mapping[str, bytes] | None = None) -> None:
        for step in self._steps.pop(name):
            self._run.write(step, files)

    def _take(self, candidate: Candidate) -> None:
        """A skill has arrived: store it, and write it unless it has to be scanned first."""
        skill, is_scanned_first = candidate.skill, self._rules.scans
        if failure := self._failure(skill, candidate, before_scan=is_scanned_first):
            self.failures.append(failure)
            return
        try:
            self._store.keep(candidate.blobs())
        except SkillwireError as error:
            self.failures.append(FetchFailure(skill.name, error))
            self._unstored = self._unstored or skill.name
            self._fetching.cancel()
            return
        self.fetched[skill.name] = replace(candidate, files={})
        if is_scanned_first:
            self._unscanned.append(skill)
        else:
            self._write(skill.name, candidate.files)
        if self._run.fatal:
            self._fetching.cancel()

    async def _stored_failure(self, skill: LockedSkill) -> FetchFailure | None:
        """Why a stored skill is not installed. Its files may have been stored from another source."""
        if skill.signer == NO_SIGNER and not self._rules.asks_for_signature(skill):
            return None
        try:
            stored = self._tool.stored(skill)
        except SkillwireError as error:
            return FetchFailure(skill.name, error)
        return self._failure(skill, await self._rules.scan(stored) if self._rules.scans else stored)

    def _failure(
        self, skill: LockedSkill, candidate: Candidate, *, before_scan: bool = False
    ) -> FetchFailure | None:
        """Why a skill is not installed: it is refused, or the signer in the lock did not sign it. The lock
        alone proves nothing."""
        if refusal := self._rules.refusal(candidate, before_scan=before_scan):
            return refusal
        actual = signer_text(candidate.signature)
        if skill.signer == NO_SIGNER or confirms_signer(skill.signer, actual):
            return None
        words = (
            f"{skill.name}: skillwire.lock says that it is {signer_words(skill.signer)}, and it is "
            f"{signer_words(actual)}: it is not installed"
        )
        return FetchFailure(skill.name, VerificationError(words, uri=skill.name))
