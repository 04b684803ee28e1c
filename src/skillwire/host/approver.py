"""Approver: finds the approval of a skill, or asks for one (SEC-5, SEC-6). What it allows is decided in
`trust/admission.py`; here it is looked up, asked for, kept and revoked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeAlias

import anyio
import anyio.to_thread

from skillwire.catalog import HostSkill, SkillKey, SkillTable
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
from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.host.policies import log_decision
from skillwire.host.scanners import Fetch, known_scans, scan_skill
from skillwire.host.state import Event, EventKind, skill_event
from skillwire.host.storage import SkillCache
from skillwire.limits import Limits
from skillwire.skill import (
    DYNAMIC,
    Digest,
    SetDigest,
    SkillEntry,
    SkillResource,
    SkillUri,
    shown_uri,
    skill_root,
)
from skillwire.telemetry import Value, operation, skill_attributes
from skillwire.trust import (
    MAX_BUNDLE_BYTES,
    NO_GRANTS,
    NO_SIGNER,
    SIGNATURE_FILE,
    UNSIGNED,
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
    Origin,
    Publisher,
    Purpose,
    Reason,
    ResourceSet,
    Scan,
    SignatureState,
    SignatureVerdict,
    VerifiedFile,
    admit,
    approve,
    check_entry,
    check_signature,
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
    skill_files,
)

Preview: TypeAlias = Callable[[HostSkill, str], Awaitable[VerifiedFile]]
_TOGETHER: Final = 16


class Signatures:
    """The signatures of a host's skills. Each is checked when it is needed, and again when files change."""

    def __init__(
        self,
        publishers: Iterable[Publisher],
        *,
        required: Callable[[Origin], Sequence[str]],
        tell: Callable[[Event], None],
    ) -> None:
        self.publishers = tuple(publishers)
        self._required = required
        self._tell = tell
        self._checked: dict[SkillKey, tuple[ResourceSet, SignatureVerdict]] = {}
        self.revision = 0
        """A number that changes with every signature that was checked."""

    def recognize(self, publishers: Iterable[Publisher]) -> None:
        """Recognize these publishers from now on. What was checked for others is checked again."""
        recognized = tuple(publishers)
        if recognized != self.publishers:
            self.publishers = recognized
            self._checked.clear()

    def required(self, origin: Origin) -> tuple[str, ...]:
        """The publishers who must have signed every skill of an origin."""
        return tuple(self._required(origin))

    def known(self, skill: HostSkill) -> SignatureVerdict | None:
        """Return the verdict without fetching anything; `None` when the signature was not checked yet."""
        if _signature_resource(skill.entry) is None:
            return UNSIGNED
        checked = self._checked.get(skill.key)
        return checked[1] if checked is not None and checked[0] == resource_set(skill.entry) else None

    async def check(
        self, skill: HostSkill, preview: Preview, publishers: Sequence[Publisher] | None = None
    ) -> SignatureVerdict:
        """Who signed a skill as it is listed now; at most its signature file is fetched.

        With `publishers`, these count and not those of the host.
        """
        signature = _signature_resource(skill.entry)
        if signature is None:
            return UNSIGNED
        verdict = self.known(skill) if publishers is None else None
        if verdict is not None and not verdict.is_unread:
            return verdict
        if signature.size > MAX_BUNDLE_BYTES:
            verdict = SignatureVerdict(SignatureState.INVALID, reason=f"{SIGNATURE_FILE} is too long")
        else:
            verdict = await self._read(skill, preview, self.publishers if publishers is None else publishers)
        if publishers is None:
            self._checked[skill.key] = (resource_set(skill.entry), verdict)
            self.revision += 1
            message = f"{skill.handle} from {skill.origin}: {verdict}"
            self._tell(skill_event(EventKind.SIGNATURE, skill, message))
        return verdict

    async def _read(
        self, skill: HostSkill, preview: Preview, publishers: Sequence[Publisher]
    ) -> SignatureVerdict:
        try:
            file = await preview(skill, SIGNATURE_FILE)
        except SkillwireError as error:
            # It proves nothing, and is read again when it is next needed.
            reason = f"{SIGNATURE_FILE} cannot be read: {error}"
            return SignatureVerdict(SignatureState.INVALID, reason=reason, is_unread=True)
        files = skill_files(skill.entry) or {}
        return check_signature(files, file.data, publishers, now=datetime.now(UTC))

    async def check_all(self, skills: Iterable[HostSkill], preview: Preview) -> None:
        """Check many skills concurrently; `known` has the verdicts then."""
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def check(skill: HostSkill) -> None:
            async with limiter:
                await self.check(skill, preview)

        async with anyio.create_task_group() as tasks:
            for skill in skills:
                tasks.start_soon(check, skill)


def _signature_resource(entry: SkillEntry) -> SkillResource | None:
    """The signature file that an entry lists."""
    if entry.resources is DYNAMIC:
        return None
    uri = f"{skill_root(entry.uri)}/{SIGNATURE_FILE}"
    return next((resource for resource in entry.resources if resource.uri == uri), None)


@dataclass(slots=True, eq=False)
class Case:
    """A skill on its way to a load: its key and the facts about it are computed once."""

    skill: HostSkill
    entry: CheckedEntry
    key: Key
    facts: AdmissionRequest
    record: Record
    once: Approval | None = None
    """An approval for this load alone."""


@dataclass(kw_only=True, eq=False)
class Approver:
    """The approvals of a host, and how new ones are obtained."""

    registry: SkillTable
    facts: Callable[[HostSkill], AdmissionRequest]
    light_facts: Callable[[HostSkill], AdmissionRequest]
    """The facts that decide whether a model is told of a skill, and no more: it is asked for every skill."""
    store: ConsentStore
    signatures: Signatures
    cache: SkillCache
    asker: ScopedCallback[ApprovalCallback]
    tell: Callable[[Event], None]
    limits: Limits

    async def open(self, skill: HostSkill, entry: CheckedEntry) -> Case:
        """A skill that is to be loaded, with the record of it as it is on disk now."""
        key = self.store.key(skill.origin, skill.uri)
        return Case(skill, entry, key, self.facts_of(skill), await self._read(skill, key))

    async def check_publishers(self, case: Case, preview: Preview) -> None:
        """Learn who signed a skill, where that matters. Refuse what a required publisher did not sign, and
        what the policy refuses whoever approves it.
        """
        if case.facts.require or self.signatures.publishers or case.record.signer:
            await self.signatures.check(case.skill, preview)
        await self.require(admit(self._usable(case).before_scan, Purpose.INSTALL), case.skill)

    async def check_scans(
        self, case: Case, fetch: Fetch, *, everything: bool = False, report: bool = False
    ) -> tuple[Scan, ...]:
        """Scan a skill where a threshold of the policy asks for it, and refuse what the policy refuses then.
        With `everything`, also by scanners whose findings are only shown, for a person who is asked; with
        `report`, what layers that only report would refuse is recorded, as it is when a host loads a skill.
        """
        policy = case.facts.policy
        if not (report or policy.thresholds or (everything and policy.scanners)):
            return ()
        scans = await scan_skill(policy, case.entry, fetch, everything=everything, limits=self.limits)
        await self.require(admit(self._usable(case), Purpose.INSTALL), case.skill, loaded=report)
        return scans

    async def scan(self, skill: HostSkill, fetch: Fetch) -> tuple[Scan, ...]:
        """The findings of the scanners of the policy in a skill. Nothing is refused."""
        return await scan_skill(self.facts(skill).policy, skill.entry, fetch, limits=self.limits)

    def _usable(self, case: Case) -> AdmissionRequest:
        """The candidate, without what else prevents a load."""
        return replace(self._candidate(case), unavailable="", selected=True, style_refusal="", disabled=False)

    async def obtain(
        self,
        case: Case,
        preview: Preview,
        *,
        fetch: Fetch,
        files: Sequence[VerifiedFile] = (),
        others: Callable[[], Awaitable[Sequence[VerifiedFile]]] | None = None,
    ) -> Grants:
        """The grants of an approved skill; asks the user if possible.

        `fetch` reads all files of a skill that lists them, for scanners of a policy, if the user is asked.
        `files` are those of a dynamic skill that are to be used now. If the user has to be asked, `others`
        reads more files of it, and the question is about all of these: exactly these bytes are shown, named
        and approved.
        """
        skill, entry = case.skill, case.entry
        seen = seen_set(files)
        case.record = self.end_outdated(skill, case.key)
        decision = admit(self._candidate(case, seen), Purpose.LOAD)
        ask = self.asker.current
        if isinstance(decision, Ask):
            # It may have been approved elsewhere since the record was read: nobody is asked twice.
            case.record = await self._read(skill, case.key)
            decision = admit(self._candidate(case, seen), Purpose.LOAD)
        if not isinstance(decision, Ask) or ask is None:
            return await self.require(decision, case.skill)

        if others is not None:
            files = (*files, *await others())
            seen = seen_set(files)
        in_hand = {file.uri: file for file in files}

        async def look(path: str) -> VerifiedFile:
            return in_hand.get(skill_file(entry, path)) or await preview(skill, path)

        before = case.record.approval() or case.record.ended()

        async def approved(path: str) -> bytes | None:
            return await self.approved_bytes(skill, skill_file(entry, path), before)

        signature = await self.signatures.check(skill, preview)
        scans = await self.check_scans(case, fetch, everything=True)
        request = ApprovalRequest(
            skill=skill,
            files=covered_files(
                entry, [SkillResource(file.uri, file.digest, len(file.data)) for file in files]
            ),
            reason=decision.reason,
            changes=decision.changes,
            nested=case.facts.nested,
            requested_tools=requested_tools(entry.frontmatter.get("allowed-tools")),
            signature=signature,
            signer_change=self._candidate(case).signer_change,
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
        # Files of an earlier draft are files, whose server just does not list their digests. What the final
        # extension calls dynamic is made for each request: a yes at a load counts for this session.
        is_file = approval.bound or entry.draft is not None
        if isinstance(answer, Once) and is_file:
            case.once = _with_others(approval, case.once)
        elif is_file:
            await self.store.approve(
                case.key, _with_others(approval, case.record.approval()), entry, how="asked at load"
            )
            await self._note_signer(case.skill, case.key)
        else:
            self.store.approve_for_session(case.key, approval)
        return grants

    async def confirm(self, case: Case, *, seen: ResourceSet = frozenset()) -> tuple[Grants, bool]:
        """The current grants, without asking, and whether the approval is stored. An approval may have been
        revoked since it was given. One for this load alone ends here.
        """
        case.record = await self._read(case.skill, case.key)
        decision = admit(self._candidate(case, seen), Purpose.LOAD)
        grants = await self.require(decision, case.skill, loaded=True)
        once, case.once = case.once, None
        if once is None:
            await self._note_signer(case.skill, case.key)
        return grants, once is None

    async def require(
        self, decision: Decision, skill: HostSkill, *, act: str = "load", loaded: bool = False
    ) -> Grants:
        """The grants of a decision, or its error. What a policy refuses, or would refuse, is recorded."""
        is_reported = loaded and isinstance(decision, Allowed) and bool(decision.reported)
        if is_reported or isinstance(decision, Denied):
            log = partial(log_decision, decision, skill=skill.uri, origin=skill.origin, act=act)
            for words in await anyio.to_thread.run_sync(log):
                message = f"{skill.handle} from {skill.origin} {words}"
                self.tell(skill_event(EventKind.POLICY, skill, message))
        return require(decision, skill.uri, skill.origin)

    async def _note_signer(self, skill: HostSkill, key: Key) -> None:
        """Remember who signed what was loaded or approved: another signer is asked about."""
        verdict = self.signatures.known(skill)
        if verdict is None or skill.origin.is_own:
            return
        before, now = self.store.record(key).signer, signer_text(verdict)
        if now != (before or NO_SIGNER):
            await self.store.note_signer(key, now)

    def check_shown(self, skill: HostSkill, shown: SkillEntry | SetDigest) -> CheckedEntry:
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

    async def approve(
        self,
        skill: HostSkill,
        entry: CheckedEntry,
        grants: Grants = NO_GRANTS,
        *,
        seen: ResourceSet = frozenset(),
        how: str,
        caller: str = "",
    ) -> Approval:
        """Store the user's approval of exactly this entry; for a dynamic skill, of what was `seen`."""
        approval = approve(entry, skill.origin, grants=grants, seen=seen)
        key = self._key(skill, caller)
        await self.store.approve(key, approval, entry, how=how)
        await self._note_signer(skill, key)
        return approval

    async def decline(self, skill: HostSkill, entry: CheckedEntry, *, how: str, caller: str = "") -> None:
        """Record that the user, or a caller, declined a skill with exactly this entry."""
        await self.store.decline(self._key(skill, caller), shown_digest(entry) or "", how=how)

    async def approved_bytes(
        self, skill: HostSkill, uri: SkillUri, approval: Approval | None = None
    ) -> bytes | None:
        """A file as it was when it was approved, by default last, when it is still cached."""
        record = self.store.record(self._key(skill))
        approval = approval or record.approval() or record.ended()
        resources = approval.resources if approval is not None else ()
        digest = next((digest for file, digest in resources if file == uri), None)
        return await self.cache.fetch(skill.origin, uri, digest) if digest else None

    def approved_digest(self, origin: Origin, skill: SkillUri, file: SkillUri) -> Digest | None:
        """The digest under which a file of a dynamic skill is approved for good, if it is."""
        approval = self.store.record(self.store.key(origin, skill)).approval()
        if approval is None or approval.bound:
            return None
        return next((digest for uri, digest in approval.resources if uri == file), None)

    def end_outdated(self, skill: HostSkill, key: Key | None = None) -> Record:
        """End an approval that no longer fits the entry (SEC-6). Returns the record."""
        key = key or self._key(skill)
        record = self.store.record(key)
        approval = record.approval(skill.origin)
        if approval is None or not is_outdated(approval, skill.origin, skill.entry):
            return record
        self.store.end(key)
        what = _files(len(difference(approval.resources, resource_set(skill.entry))))
        if signer := self.candidate(skill).signer_change:
            what += f"; it {signer}"
        message = f"{skill.handle} changed ({what}): its approval is revoked"
        self.tell(skill_event(EventKind.REVOKED, skill, message))
        return self.store.record(key)

    def candidate(
        self, skill: HostSkill, *, caller: str = "", seen: ResourceSet = frozenset()
    ) -> AdmissionRequest:
        """Return the facts that admission depends on, for the user or for a caller of a gateway."""
        key = self._key(skill, caller)
        return consider(self.facts_of(skill), self.store.record(key), session=self.store.session(key))

    def status(self, skill: HostSkill, *, caller: str = "") -> ApprovalStatus:
        """The approval status for the user, or for a caller of a gateway. Changes nothing."""
        candidate = self.candidate(skill, caller=caller)
        approval = candidate.session or candidate.approval
        if approval is not None and not approval.bound and skill.uri in dict(approval.resources):
            candidate = replace(candidate, seen=approval.resources)  # Approved as it was seen.
        return status_of(candidate, limits=self.limits)

    def statuses(self, skills: Iterable[HostSkill]) -> Iterator[ApprovalStatus]:
        """The approval status of each skill for the user."""
        return map(self.status, skills)

    def is_offered(self, skill: HostSkill) -> bool:
        """Whether a model is told of a listed skill: not if a load is sure to be refused without asking."""
        candidate = self.light_facts(skill)
        record = self.store.record(self._key(skill))
        if record.declined is not None:
            candidate = consider(candidate, record)
        return isinstance(admit(candidate, Purpose.OFFER), Allowed)

    async def require_permitted(self, skill: HostSkill) -> None:
        """Raise `PolicyRefused` if the policy does not let a skill be used any more."""
        if not self.is_permitted(skill):
            await self.require(admit(self.light_facts(skill), Purpose.OFFER), skill)

    def is_permitted(self, skill: HostSkill) -> bool:
        """Whether the policy lets a skill be used as it is now, whatever people decided."""
        decision = admit(self.light_facts(skill), Purpose.OFFER)
        return not (isinstance(decision, Denied) and decision.refusal is not None)

    def _candidate(self, case: Case, seen: ResourceSet = frozenset()) -> AdmissionRequest:
        known = self.signatures.known(case.skill)
        scans = known_scans(case.facts.policy, case.entry)
        facts = replace(case.facts, entry=case.entry, seen=seen, signature=known, scans=scans)
        return consider(facts, case.record, session=case.once or self.store.session(case.key))

    def facts_of(self, skill: HostSkill) -> AdmissionRequest:
        """Return the facts that the admission of a skill depends on, without what people decided."""
        facts = self.facts(skill)
        nested = is_nested(skill.uri, self.registry.uris(skill.origin))
        require, signature = self.signatures.required(skill.origin), self.signatures.known(skill)
        scans = known_scans(facts.policy, skill.entry)
        return replace(facts, nested=nested, require=require, signature=signature, scans=scans)

    async def _read(self, skill: HostSkill, key: Key) -> Record:
        """The record, with what other processes approved and revoked since."""
        try:
            return await self.store.fetch(key)
        except SkillwireError:
            if not skill.origin.is_own:  # The user's own files need none.
                raise
        return self.store.record(key)

    def _key(self, skill: HostSkill, caller: str = "") -> Key:
        return self.store.key(skill.origin, skill.uri, caller)


def _with_others(approval: Approval, before: Approval | None) -> Approval:
    """An approval of what was seen, with the other files that were approved before."""
    if approval.bound or before is None or before.bound:
        return approval
    known = {uri for uri, _ in approval.resources}
    others = {(uri, digest) for uri, digest in before.resources if uri not in known}
    return replace(approval, resources=approval.resources | others)


def skill_facts(skill: HostSkill) -> dict[str, Value]:
    """Return the attributes of a skill for telemetry."""
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


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
