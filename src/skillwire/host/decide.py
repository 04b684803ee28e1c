"""Decider: whether a skill may be listed, offered or loaded, for the user or for a caller of a gateway.

It collects the facts, asks `admit` (`trust/admission.py`), asks the person, and records what they say. A load
takes these steps here (`load.py` has them all):

1. `open`: the entry is sound and within the limits; the facts are collected once.
2. `examine`: who signed it, and what the scanners of the policy find, where a decision depends on that. At
   most the signature file is fetched; only scanners with a threshold get all files.
3. `decide`: the first decision, on the record as it is on disk now, before a byte is loaded (SEC-5).
4. `ask`: the person, if the decision is a question. What they say is recorded for exactly what they saw.
5. `confirm`: the last decision, on a fresh record, after the last wait: an approval may have been revoked,
   and the policy changed, while a person thought or bytes were on their way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import anyio.to_thread

from skillwire.catalog import Changes, HostSkill, SkillTable
from skillwire.consent import (
    ApprovalCallback,
    ApprovalRequest,
    ApprovalStatus,
    ConsentStore,
    Key,
    Once,
    Record,
    ScopedCallback,
    consider,
    covered_files,
    status_of,
)
from skillwire.consent import Decision as Decided
from skillwire.errors import ApprovalRequired, SkillNotFound, SkillwireError
from skillwire.host.events import EventKind, EventRecorder, skill_event
from skillwire.host.files import SkillReader
from skillwire.host.held import HeldSkills
from skillwire.host.policies import log_decision
from skillwire.host.resolve import Resolver
from skillwire.host.review import FileComparison, SkillReview, compare
from skillwire.host.rules import Rules
from skillwire.host.scanners import Scans
from skillwire.host.signatures import Signatures
from skillwire.limits import Limits
from skillwire.skill import SetDigest, SkillEntry, SkillResource, parse_set_digest, shown_uri
from skillwire.telemetry import Value, operation, skill_attributes
from skillwire.text import shown as shown_name
from skillwire.trust import (
    NO_GRANTS,
    NO_SIGNER,
    AdmissionRequest,
    Allowed,
    Approval,
    Ask,
    ChangeKind,
    CheckedEntry,
    Decision,
    Denied,
    FileChange,
    Grants,
    HeldSkill,
    Origin,
    Purpose,
    Reason,
    ResourceSet,
    Scan,
    VerifiedFile,
    admit,
    admit_script,
    approval_error,
    approve,
    check_entry,
    difference,
    is_nested,
    is_outdated,
    requested_tools,
    require,
    resource_set,
    seen_digest,
    seen_set,
    shown_digest,
    signer_text,
    skill_file,
)


@dataclass(slots=True, eq=False)
class Case:
    """A skill on its way to a load: its key and the facts about it are made once."""

    skill: HostSkill
    entry: CheckedEntry
    key: Key
    facts: AdmissionRequest
    """What no person decided."""
    made_from: tuple[int, HostSkill | None]
    """The rules and the listed skill that the facts were made from."""
    record: Record
    """What the person decided, as it was last read."""
    once: Approval | None = None
    """An approval for this load alone."""


@dataclass(kw_only=True, eq=False)
class Decider:
    """The decisions of one person on the skills of a host: `host.decide`."""

    rules: Rules
    table: SkillTable
    consent: ConsentStore
    signatures: Signatures
    scans: Scans
    files: SkillReader
    held: HeldSkills
    resolver: Resolver
    asker: ScopedCallback[ApprovalCallback]
    log: EventRecorder
    limits: Limits
    caller: str = ""
    """The caller of a gateway whose decisions count; empty for the user."""

    def of(self, caller: str, *, consent: ConsentStore | None = None) -> Decider:
        """The same decisions with what a caller of a gateway decided, which `consent` may have."""
        if caller == self.caller and consent in (None, self.consent):
            return self
        return replace(self, caller=caller, consent=consent or self.consent)

    # Facts

    def facts(self, skill: HostSkill) -> AdmissionRequest:
        """What the admission of a skill depends on, without what people decided."""
        policy = self.rules.policy.policy
        return self.rules.request(
            skill.origin,
            skill.entry,
            disabled=not skill.enabled,
            nested=is_nested(skill.uri, self.table.uris(skill.origin)),
            signature=self.signatures.known(skill),
            scans=self.scans.known(policy, skill.entry) if policy.scanners else None,
        )

    def request(self, skill: HostSkill, *, seen: ResourceSet = frozenset()) -> AdmissionRequest:
        """What the admission of a skill depends on. `seen` are the files retrieved of a dynamic one."""
        key = self.key(skill)
        facts = self.facts(skill)
        facts = replace(facts, seen=seen) if seen else facts
        if not self.consent.knows(key):
            return facts  # Most skills of a large server.
        return consider(facts, self.consent.record(key), session=self.consent.session(key))

    def key(self, skill: HostSkill) -> Key:
        """The key of a skill among the decisions of this person."""
        return self.consent.key(skill.origin, skill.uri, self.caller)

    # Decisions that nothing is fetched for

    def decision(self, skill: HostSkill) -> Decision:
        """Whether a skill may be loaded now, as far as that is known."""
        return self.decision_on(self.request(skill))

    def decision_on(self, request: AdmissionRequest) -> Decision:
        """The decision on a load with these facts."""
        return admit(request, Purpose.LOAD)

    def waits(self, skill: HostSkill) -> bool:
        """Whether somebody has to do something before a skill is loaded; a scan is not waited for."""
        return not isinstance(admit(self.request(skill).before_scan, Purpose.LOAD), Allowed)

    def is_offered(self, skill: HostSkill) -> bool:
        """Whether a model is told of a listed skill: not if a load is sure to be refused without asking."""
        return isinstance(admit(self.request(skill), Purpose.OFFER), Allowed)

    @property
    def offer_revision(self) -> tuple[int, ...]:
        """Numbers that change when a model may be told of other skills."""
        signed = self.signatures.revision if self.rules.policy.policy.asks_signers else 0
        return self.consent.decline_revision, self.rules.revision, self.scans.revision, signed

    def is_permitted(self, skill: HostSkill) -> bool:
        """Whether the policy lets a skill be used as it is now, whatever people decided."""
        decision = admit(self.facts(skill), Purpose.OFFER)
        return not (isinstance(decision, Denied) and decision.refusal is not None)

    async def require_permitted(self, skill: HostSkill) -> None:
        """Raise `PolicyRefused` if the policy does not let a skill be used any more."""
        decision = admit(self.facts(skill), Purpose.OFFER)
        if isinstance(decision, Denied) and decision.refusal is not None:
            await self._require(decision, skill)

    async def require_script(self, skill: HostSkill, script: str, *, sandboxed: bool, loaded: bool) -> None:
        """Raise `PolicyRefused` for a script that the policy does not let run."""
        decision = admit_script(self.facts(skill), script, sandboxed=sandboxed)
        await self._require(decision, skill, act="run", loaded=loaded)

    # A load

    def open(self, skill: HostSkill, entry: CheckedEntry | None = None) -> Case:
        """A skill that is to be loaded; raises for an entry that is not sound or too large."""
        key = self.key(skill)
        entry = check_entry(skill.entry, limits=self.limits) if entry is None else entry
        facts = self._facts_of(skill, entry)
        return Case(skill, entry, key, facts, self._now(skill), self.consent.record(key))

    def needs_signature(self, case: Case) -> bool:
        """Whether a decision depends on who signed a skill."""
        return bool(case.facts.require or self.signatures.publishers or case.record.signer)

    async def examine(self, case: Case, *, report: bool = False) -> None:
        """Learn who signed a skill and what scanners find in it, where a decision depends on that.

        What is refused whatever they find is not scanned. With `report`, it is also scanned where that only
        has consequences in a layer that reports.
        """
        facts = case.facts
        if self.needs_signature(case):
            case.facts = facts = replace(facts, signature=await self.signatures.check(case.skill))
        policy = facts.policy
        if policy.scanners and ((policy.thresholds and facts.scans is None) or report):
            await self._require(admit(facts.before_scan, Purpose.INSTALL), case.skill)
            fetch = partial(self.files.fetch_all, case.skill)
            await self.scans.scan(policy, case.entry, fetch, everything=report, limits=self.limits)
            case.facts = replace(facts, scans=self.scans.known(policy, case.entry))

    async def require_usable(self, case: Case, *, report: bool = False) -> None:
        """Examine a skill, and raise if the policy or a missing signature refuses it whoever approves it.

        With `report`, what layers that only report would refuse is recorded.
        """
        case.facts = _usable(case.facts)
        await self.examine(case, report=report)
        await self._require(admit(case.facts, Purpose.INSTALL), case.skill, loaded=report)

    async def decide(self, case: Case, *, seen: ResourceSet | None = None) -> Allowed | Ask:
        """Decide on the record as it is now; raises for a skill that is refused, or when nobody can be asked.

        `seen` are the files retrieved of a dynamic skill; before that, it is what was approved of it.
        """
        await self._refresh(case)
        self.end_outdated(case.skill, case.key)
        case.record = self.consent.record(case.key)
        decision = admit(self._request(case, seen), Purpose.LOAD)
        if isinstance(decision, Denied) or (isinstance(decision, Ask) and self.asker.current is None):
            await self._require(decision, case.skill)
        if isinstance(decision, Denied):
            raise AssertionError("a refusal was raised")
        return decision

    async def ask(self, case: Case, question: Ask, *, files: Sequence[VerifiedFile] = ()) -> None:
        """Ask whether a skill may be loaded, and record a yes. Anything else raises `ApprovalRequired`.

        `files` are those of a dynamic skill that were read: exactly these bytes are shown, named and
        approved.
        """
        skill, entry = case.skill, case.entry
        ask = self.asker.current
        if ask is None:
            raise ValueError("there is nobody to ask")
        seen, in_hand = seen_set(files), {file.uri: file for file in files}
        before = case.record.approval() or case.record.ended()

        async def look(path: str) -> VerifiedFile:
            return in_hand.get(skill_file(entry, path)) or await self.files.look(skill, path)

        async def approved(path: str) -> bytes | None:
            return await self.files.approved_text(skill, skill_file(entry, path), before)

        signature = await self.signatures.check(skill)
        case.facts = replace(case.facts, signature=signature)
        policy, fetch = case.facts.policy, partial(self.files.fetch_all, skill)
        scans = await self.scans.scan(policy, entry, fetch, limits=self.limits) if policy.scanners else ()
        request = ApprovalRequest(
            skill=skill,
            files=covered_files(
                entry, [SkillResource(file.uri, file.digest, len(file.data)) for file in files]
            ),
            reason=question.reason,
            changes=question.changes,
            nested=case.facts.nested,
            requested_tools=requested_tools(entry.frontmatter.get("allowed-tools")),
            signature=signature,
            signer_change=self._request(case, seen).signer_change,
            scans=scans,
            digest=shown_digest(entry),
            seen_digest=seen_digest(entry, seen) if entry.is_dynamic else None,
            preview=look,
            approved=approved,
        )
        with operation("approve", attributes=lambda: skill_facts(skill)) as asked:
            answer = await ask(request)
            is_yes = answer is True or isinstance(answer, Grants | Once)
            asked.verdict = "approved" if is_yes else "denied"
        if not is_yes:
            # Fail closed: anything but a clear yes is a no.
            raise ApprovalRequired(
                f"{skill.handle} from {skill.origin} was not approved: it is not loaded",
                reason=Reason.DENIED,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        grants = answer.grants if isinstance(answer, Once) else NO_GRANTS
        grants = answer if isinstance(answer, Grants) else grants
        # SEC-6: for the entry that was shown, whatever the server lists by now.
        approval = approve(entry, skill.origin, grants=grants, seen=seen)
        if isinstance(answer, Once) and _is_file(approval, entry):
            case.once = _with_others(approval, case.once)
        else:
            await self._keep(skill, case.key, approval, entry, how="asked at load")

    async def confirm(self, case: Case, *, seen: ResourceSet | None = None) -> Allowed:
        """The last decision, without asking; raises if the skill may not be loaded any more. An approval may
        have been revoked since it was given. Nothing is waited for after it: hold the skill at once.
        """
        await self._refresh(case)
        decision = admit(self._request(case, seen), Purpose.LOAD)
        if not isinstance(decision, Allowed):
            await self._require(decision, case.skill)
            raise AssertionError("a refusal was raised")
        return decision

    async def note_load(self, case: Case, decision: Allowed) -> None:
        """Record what layers that only report would have refused, and who signed what is loaded now."""
        await self._require(decision, case.skill, loaded=True)
        if case.once is None:
            await self._note_signer(case.skill, case.key)

    def _request(self, case: Case, seen: ResourceSet | None) -> AdmissionRequest:
        session = case.once or self.consent.session(case.key)
        request = consider(replace(case.facts, entry=case.entry), case.record, session=session)
        if not case.entry.is_dynamic:
            return request
        return replace(request, seen=_approved_files(request) if seen is None else seen)

    async def _require(
        self, decision: Decision, skill: HostSkill, *, act: str = "load", loaded: bool = False
    ) -> Grants:
        """The grants of a decision, or its error. What a policy refuses, or would refuse, is recorded."""
        is_reported = loaded and isinstance(decision, Allowed) and bool(decision.reported)
        if is_reported or (isinstance(decision, Denied) and decision.refusal is not None):
            log = partial(log_decision, decision, skill=skill.uri, origin=skill.origin, act=act)
            for words in await anyio.to_thread.run_sync(log):
                message = f"{skill.handle} from {skill.origin} {words}"
                self.log.record(skill_event(EventKind.POLICY, skill, message))
        return require(decision, skill.uri, skill.origin)

    def _facts_of(self, skill: HostSkill, entry: CheckedEntry) -> AdmissionRequest:
        """The facts as they are now about the entry that is decided on, whatever the server lists by now."""
        return self.facts(replace(self.table.get(skill.key) or skill, entry=entry))

    def _now(self, skill: HostSkill) -> tuple[int, HostSkill | None]:
        return self.rules.revision, self.table.get(skill.key)

    async def _refresh(self, case: Case) -> None:
        """Read what other processes approved and revoked since; make the facts again if what they are made
        from changed.
        """
        await self._read_record(case)
        if case.made_from != (now := self._now(case.skill)):
            case.made_from, case.facts = now, self._facts_of(case.skill, case.entry)
        if case.facts.signature is None and self.needs_signature(case):
            # Another process has just noted a signer, or the publishers changed.
            verdict = await self.signatures.check(case.skill)
            await self._read_record(case)
            case.made_from = self._now(case.skill)
            case.facts = replace(self._facts_of(case.skill, case.entry), signature=verdict)

    async def _read_record(self, case: Case) -> None:
        try:
            case.record = await self.consent.fetch(case.key)
        except SkillwireError:
            if not case.skill.origin.is_own:  # The user's own files need none.
                raise
            case.record = self.consent.record(case.key)

    async def _note_signer(self, skill: HostSkill, key: Key) -> None:
        """Remember who signed what was loaded or approved: another signer is asked about."""
        verdict = self.signatures.known(skill)
        if verdict is None or skill.origin.is_own:
            return
        before, now = self.consent.record(key).signer, signer_text(verdict)
        if now != (before or NO_SIGNER):
            await self.consent.note_signer(key, now)

    async def _keep(
        self, skill: HostSkill, key: Key, approval: Approval, entry: CheckedEntry, *, how: str
    ) -> None:
        """Record an approval: for good, or for this session if its files are made for each request."""
        if not _is_file(approval, entry):
            self.consent.approve_for_session(key, approval)
            return
        before = self.consent.record(key).approval()
        await self.consent.approve(key, _with_others(approval, before), entry, how=how)
        await self._note_signer(skill, key)

    def end_outdated(self, skill: HostSkill, key: Key | None = None) -> None:
        """End an approval that no longer fits the entry (SEC-6)."""
        key = key or self.key(skill)
        approval = self.consent.record(key).approval(skill.origin)
        if approval is None or not is_outdated(approval, skill.origin, skill.entry):
            return
        signer = self.request(skill).signer_change
        self.consent.end(key)
        what = _files(len(difference(approval.resources, resource_set(skill.entry))))
        what += f"; it {signer}" if signer else ""
        message = f"{skill.handle} changed ({what}): its approval is revoked"
        self.log.record(skill_event(EventKind.REVOKED, skill, message))

    def note_changes(self, changes: Changes) -> None:
        """Entries changed: their approvals end, and it is said of those that are in use."""
        for skill in changes.changed:
            self.end_outdated(skill)
            held = self.held.get(skill.key)
            if held is not None and held.verified.entry != skill.entry:
                message = f"{skill.handle} from {skill.origin} changed while it is in use; load it again"
                self.log.record(skill_event(EventKind.OUTDATED, skill, message))

    # What a person is shown

    def status(self, skill: HostSkill) -> ApprovalStatus:
        """Whether a skill is approved as it is, changed since, new, and so on. Nobody is asked, and nothing
        is fetched.
        """
        request = self.request(skill)
        approval = request.session or request.approval
        if approval is not None and not approval.bound and skill.uri in dict(approval.resources):
            request = replace(request, seen=approval.resources)  # Approved as it was seen.
        return status_of(request, limits=self.limits)

    def statuses(self, skills: Iterable[HostSkill]) -> list[ApprovalStatus]:
        """The `status` of each of these skills."""
        return [self.status(skill) for skill in skills]

    def review(self, skill: HostSkill, *, caller: str = "") -> SkillReview:
        """The review of a skill, for a person who decides about it. The user is not asked.

        With `caller`, what a caller of a gateway is shown: their approval status instead of the user's.
        """
        return SkillReview(skill, self.of(caller).status(skill))

    async def compare(self, review: SkillReview) -> tuple[FileComparison, ...]:
        """Every file that changed since the skill was approved, both versions; does not load it (SEC-7)."""
        skill, approved = review.skill, review.status.approved
        return await compare(
            review,
            lambda path: self.files.look(skill, path),
            lambda uri: self.files.approved_text(skill, uri, approved),
        )

    async def history(self, skill: HostSkill, *, caller: str = "") -> tuple[Decided, ...]:
        """The decisions of the user, or of a caller of a gateway, about a skill, the latest first."""
        return await self.consent.history(self.of(caller).key(skill))

    async def scan(self, skill: HostSkill) -> tuple[Scan, ...]:
        """The findings of the policy's scanners in a skill, for a person who decides about it. Nothing is
        refused.
        """
        fetch = partial(self.files.fetch_all, skill)
        return await self.scans.scan(self.rules.policy.policy, skill.entry, fetch, limits=self.limits)

    @property
    def can_ask(self) -> bool:
        """Whether the user can be asked now: the host has `ask`, or this is inside a block of `asking`."""
        return self.asker.current is not None

    # What a person decides

    async def approve(
        self,
        skill: HostSkill | str,
        *,
        digest: str | None = None,
        grants: Grants = NO_GRANTS,
        server: str | None = None,
        how: str = "",
        keep_files: bool = False,
        caller: str = "",
    ) -> Approval:
        """Approve a skill of a server with exactly the files that the user was shown (SEC-6).

        Give the skill as `find` returned it when it was shown, or its name and the digest of its files. If
        the server has other files by now, this is an `ApprovalRequired` that names them, and nothing is
        approved. With `keep_files` the approved files are fetched, verified and cached, so that a later
        change can be compared with them: for a user who reviews them now. Otherwise nothing is fetched before
        it is needed (VER-5). `how` is recorded with the approval, beside the time and the user. With
        `caller`, the approval is that caller's instead of the user's.

        A skill whose entry lists no files is approved by the digest of its `fetch_files`: they are fetched
        again, and the approval is for exactly these bytes. Any other file is asked about when it is read.
        """
        how = how or "approved by the application"
        person = self.of(caller)
        if digest is not None:
            found = skill if isinstance(skill, HostSkill) else await self.resolver.find(skill, server)
            if found.entry.is_dynamic:
                return await person._approve_seen(found, parse_set_digest(digest), grants, how)
        current, entry = await self._shown(skill, digest, server)
        await person.require_usable(person.open(current, entry))
        if keep_files:
            await self.files.fetch_all(current)
        approval = approve(entry, current.origin, grants=grants)
        await person._store(current, approval, entry, how=how)
        return approval

    async def _approve_seen(self, skill: HostSkill, digest: SetDigest, grants: Grants, how: str) -> Approval:
        """Approve a dynamic skill with exactly what the person was shown, if it still has that."""
        case = self.open(skill)
        await self.require_usable(case)
        current = await self.files.files_of(skill)
        if current.digest != digest:
            raise changed_meanwhile(skill, current.digest, ())
        approval = approve(case.entry, skill.origin, grants=grants, seen=seen_set(current.files))
        await self._store(skill, approval, case.entry, how=how)
        for file in current.files:
            await self.files.cache.store(file, approved=True)
        return approval

    async def _store(self, skill: HostSkill, approval: Approval, entry: CheckedEntry, *, how: str) -> None:
        key = self.key(skill)
        await self.consent.approve(key, approval, entry, how=how)
        await self._note_signer(skill, key)

    async def keep(self, skill: HostSkill, *, seen: ResourceSet, how: str) -> None:
        """Record that this person said yes to a skill as it is, or to what was `seen` of a dynamic one."""
        entry = check_entry(skill.entry, limits=self.limits)
        approval = approve(entry, skill.origin, seen=seen)
        if approval.bound:
            await self.consent.approve(self.key(skill), approval, skill.entry, how=how)
        else:
            self.consent.approve_for_session(self.key(skill), approval)

    async def decline(
        self,
        skill: HostSkill | str,
        *,
        digest: str | None = None,
        server: str | None = None,
        how: str = "",
        caller: str = "",
    ) -> None:
        """Decline a skill with exactly the files that the user was shown, given as for `approve`.

        It is not loaded, no model is told of it, and the user is not asked about it, until its files change
        or it is approved.
        """
        current, entry = await self._shown(skill, digest, server)
        key = self.of(caller).key(current)
        try:
            await self.consent.decline(
                key, shown_digest(entry) or "", how=how or "declined by the application"
            )
        finally:
            if not caller:  # Not before: a load that is under way would hold it again.
                self.held.release(current.key)

    async def revoke(self, name: str, *, server: str | None = None, caller: str = "") -> bool:
        """Revoke an approval and release the skill, or take a decline back; false when there was neither.

        With `caller`, the decision of that caller of a gateway.
        """
        skill = await self.resolver.find(name, server)
        try:
            return await self.consent.revoke(self.of(caller).key(skill))
        finally:
            if not caller:
                self.held.release(skill.key)

    async def _shown(
        self, skill: HostSkill | str, digest: str | None, server: str | None
    ) -> tuple[HostSkill, CheckedEntry]:
        """The skill as it is now, and its entry, when that is what the user was shown (SEC-6)."""
        if isinstance(skill, str):
            if digest is None:
                raise ValueError("say what was shown to the user: give its digest, or the skill from find()")
            shown: SkillEntry | SetDigest = parse_set_digest(digest)
            current = await self.resolver.find(skill, server)
        else:
            shown = parse_set_digest(digest) if digest is not None else skill.entry
            current = self.table.get(skill.key) or skill
        return current, self._check_shown(current, shown)

    def _check_shown(self, skill: HostSkill, shown: SkillEntry | SetDigest) -> CheckedEntry:
        """The skill's entry if it is what the user was shown; otherwise `ApprovalRequired` (SEC-6)."""
        entry = check_entry(skill.entry, limits=self.limits)
        if entry.is_dynamic:
            raise ApprovalRequired(
                f"{skill.handle} lists no digests: it is approved by the digest of the files that it has now",
                reason=Reason.UNBINDABLE,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        digest = shown_digest(shown) if isinstance(shown, SkillEntry) else shown
        if digest == shown_digest(entry):
            return entry
        changes: tuple[FileChange, ...] = ()
        if isinstance(shown, SkillEntry):
            changes = difference(resource_set(shown), resource_set(entry))
        raise changed_meanwhile(skill, shown_digest(entry), changes)

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Disable or enable one skill, by handle or URI. A disabled skill is released."""
        skills = [skill for skill in self.table.skills(disabled=True) if name in (skill.handle, skill.uri)]
        if not skills:
            raise SkillNotFound(f"no skill is called {shown_name(name)}: list the skills to see their names")
        for skill in skills:
            self.table.set_enabled(skill.key, enabled)
            if not enabled:
                self.held.release(skill.key)

    async def forget_server(self, label: str) -> tuple[int, int]:
        """Remove everything cached and approved for a server. Returns the number of files and approvals."""
        origin = Origin.mcp(label)
        try:
            return await self.files.cache.forget_server(origin), await self.consent.remove_server(origin)
        finally:
            self.held.release_server(origin)


def _usable(facts: AdmissionRequest) -> AdmissionRequest:
    """The facts, without what else prevents a load."""
    return replace(facts, unavailable="", selected=True, style_refusal="", disabled=False)


def _approved_files(request: AdmissionRequest) -> ResourceSet:
    """What was approved of a dynamic skill: before it is fetched, nothing more can be decided about."""
    approval = request.session or request.approval
    return approval.resources if approval is not None and not approval.bound else frozenset()


def _is_file(approval: Approval, entry: CheckedEntry) -> bool:
    """Whether an approval can be kept.

    Files of an earlier draft are files, whose server just does not list their digests. What the final
    extension calls dynamic is made for each request: a yes at a load counts for this session.
    """
    return approval.bound or entry.draft is not None


def _with_others(approval: Approval, before: Approval | None) -> Approval:
    """An approval of what was seen, with the other files that were approved before."""
    if approval.bound or before is None or before.bound:
        return approval
    known = {uri for uri, _ in approval.resources}
    others = {(uri, digest) for uri, digest in before.resources if uri not in known}
    return replace(approval, resources=approval.resources | others)


def skill_facts(skill: HostSkill) -> dict[str, Value]:
    """The attributes of a skill for telemetry."""
    digest: str | None = None
    with suppress(SkillwireError):  # An entry that is not sound has none.
        digest = shown_digest(skill.entry)
    return skill_attributes(
        skill.handle,
        skill.entry.description,
        skill.uri,
        origin=skill.origin.label,
        dialect=skill.entry.dialect,
        digest=digest,
        is_local=skill.origin.is_local,
    )


def changed_meanwhile(
    skill: HostSkill, digest: SetDigest | None, changes: tuple[FileChange, ...]
) -> ApprovalRequired:
    """The error for an approval of files that the skill no longer has."""
    differing = ", ".join(f"{shown_uri(change.uri)} {change.kind}" for change in changes[:8])
    return ApprovalRequired(
        f"{skill.handle} from {skill.origin} is not what was shown: it has other files now"
        f"{f' ({differing})' if differing else ''}; review it again and approve {digest}",
        reason=Reason.CHANGED,
        origin=skill.origin.label,
        uri=skill.uri,
        added=[change.uri for change in changes if change.kind is ChangeKind.ADDED],
        changed=[change.uri for change in changes if change.kind is ChangeKind.CHANGED],
        removed=[change.uri for change in changes if change.kind is ChangeKind.REMOVED],
    )


def changed_since(held: HeldSkill, entry: SkillEntry) -> ApprovalRequired:
    """The error for a loaded skill that its server changed."""
    changes = difference(resource_set(held.entry), resource_set(entry))
    return approval_error(Ask(Reason.CHANGED, changes), held.entry.uri, held.origin)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
