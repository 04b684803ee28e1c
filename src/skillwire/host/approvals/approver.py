"""Approver: finds the approval of a skill, or asks for one (SEC-5, SEC-6).

What an approval allows is decided in `trust/admission.py`. Here it is looked up, asked for, kept and revoked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.host.approvals.asking import ApprovalCallback, ApprovalRequest, Asker, Once
from skillwire.host.approvals.status import ApprovalStatus, status_of
from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.cache import SkillCache
from skillwire.host.events import Event, EventKind, skill_event
from skillwire.host.signatures import Preview, Signatures
from skillwire.limits import Limits
from skillwire.skill.digests import Digest, SetDigest
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri
from skillwire.telemetry import Value, operation, skill_attributes
from skillwire.trust.admission import (
    Act,
    Allowed,
    Ask,
    Candidate,
    Decision,
    Denied,
    admit,
    missing_publisher,
    require,
)
from skillwire.trust.approval import (
    NO_GRANTS,
    Approval,
    ChangeKind,
    Coverage,
    FileChange,
    Grants,
    Policy,
    Reason,
    ResourceSet,
    approve,
    coverage,
    difference,
    is_nested,
    resource_set,
    seen_digest,
    shown_digest,
)
from skillwire.trust.guards import requested_tools
from skillwire.trust.origin import Origin
from skillwire.trust.paths import skill_file
from skillwire.trust.signers import NO_SIGNER, signer_text
from skillwire.trust.verify import CheckedEntry, VerifiedFile, check_entry


@dataclass(kw_only=True, eq=False)
class Approver:
    """The approvals of a host, and how new ones are obtained."""

    registry: Registry
    facts: Callable[[RegisteredSkill], Candidate]
    policy: Callable[[Origin], Policy]
    approvals: ApprovalStore
    signatures: Signatures
    cache: SkillCache
    asker: Asker[ApprovalCallback]
    tell: Callable[[Event], None]
    limits: Limits
    # SEC-6: approvals of dynamic skills, which end with the session.
    _of_seen: dict[SkillKey, Approval] = field(default_factory=dict[SkillKey, Approval], init=False)
    # Approvals for one load, from the answer until the load is done.
    _once: dict[SkillKey, Approval] = field(default_factory=dict[SkillKey, Approval], init=False)

    async def check_publishers(self, skill: RegisteredSkill, preview: Preview) -> None:
        """Learn who signed a skill, where that matters; refuse what a required publisher did not sign."""
        await self._read(skill)
        required = self.signatures.required(skill.origin)
        if required or self.signatures.publishers or self.approvals.signer(skill.origin, skill.uri):
            await self.signatures.check(skill, preview)
        candidate = self._candidate(skill, None)
        if missing := missing_publisher(candidate):
            denied = Denied(candidate.policy, Reason.DENIED, message=missing)
            require(denied, skill.uri, skill.origin)

    async def obtain(
        self,
        skill: RegisteredSkill,
        entry: CheckedEntry,
        preview: Preview,
        *,
        seen: ResourceSet = frozenset(),
        in_hand: Mapping[SkillUri, VerifiedFile] | None = None,
    ) -> Grants:
        """The grants of an approved skill; asks the user if possible.

        `in_hand` are the files of a dynamic skill that would be approved: the user is shown these bytes.
        """
        await self._read(skill)
        decision = self._decide(skill, entry, self.forget_changed(skill), seen)
        ask = self.asker.current
        if not isinstance(decision, Ask) or ask is None:
            return require(decision, entry.uri, skill.origin)

        async def look(path: str) -> VerifiedFile:
            return (in_hand or {}).get(skill_file(entry, path)) or await preview(skill, path)

        before = self._kept(skill) or self._withdrawn(skill)
        signature = await self.signatures.check(skill, preview)
        change = self._candidate(skill, None).signer_change

        async def approved(path: str) -> bytes | None:
            return await self.approved_bytes(skill, skill_file(entry, path), before)

        request = ApprovalRequest(
            skill=skill,
            reason=decision.reason,
            changes=decision.changes,
            nested=self._nested(skill),
            requested_tools=requested_tools(entry.frontmatter.get("allowed-tools")),
            signature=signature,
            signer_change=change,
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
            self._once[skill.key] = approval
        elif is_file:
            await self.approvals.put(self._with_others(approval, skill), entry, how="asked at load")
            await self._note_signer(skill)
        else:
            self._of_seen[skill.key] = approval
        return grants

    def _with_others(self, approval: Approval, skill: RegisteredSkill) -> Approval:
        """An approval of what was seen, with the other files that were approved before."""
        kept = self._kept(skill)
        if approval.bound or kept is None or kept.bound:
            return approval
        known = {uri for uri, _ in approval.resources}
        others = {(uri, digest) for uri, digest in kept.resources if uri not in known}
        return replace(approval, resources=approval.resources | others)

    async def confirm(
        self, skill: RegisteredSkill, entry: CheckedEntry, *, seen: ResourceSet = frozenset()
    ) -> tuple[Grants, bool]:
        """The current grants, without asking, and whether the approval is stored. An approval may have been
        revoked since it was given. One for this load alone ends here.
        """
        await self._read(skill)
        once = self._once.pop(skill.key, None)
        decision = self._decide(skill, entry, once or self._kept(skill), seen)
        grants = require(decision, entry.uri, skill.origin)
        if once is None:
            await self._note_signer(skill)
        return grants, once is None

    async def _note_signer(self, skill: RegisteredSkill) -> None:
        """Remember who signed what was loaded or approved: another signer is asked about."""
        verdict = self.signatures.known(skill)
        if verdict is None or skill.origin.is_own:
            return
        before, now = self.approvals.signer(skill.origin, skill.uri), signer_text(verdict)
        if now != (before or NO_SIGNER):
            await self.approvals.note_signer(skill.origin, skill.uri, now)

    def check_shown(self, skill: RegisteredSkill, shown: SkillEntry | SetDigest) -> CheckedEntry:
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
        skill: RegisteredSkill,
        entry: CheckedEntry,
        grants: Grants = NO_GRANTS,
        *,
        seen: ResourceSet = frozenset(),
        how: str,
        caller: str = "",
    ) -> Approval:
        """Store the user's approval of exactly this entry; for a dynamic skill, of what was `seen`."""
        approval = approve(entry, skill.origin, grants=grants, seen=seen)
        await self.approvals.put(approval, entry, how=how, caller=caller)
        await self._note_signer(skill)
        return approval

    async def decline(
        self, skill: RegisteredSkill, entry: CheckedEntry, *, how: str, caller: str = ""
    ) -> None:
        """Record that the user, or a caller, declined a skill with exactly this entry."""
        if not caller:
            self._of_seen.pop(skill.key, None)
        digest = shown_digest(entry) or ""
        await self.approvals.decline(skill.origin, entry.uri, digest, how=how, caller=caller)

    async def approved_bytes(
        self, skill: RegisteredSkill, uri: SkillUri, approval: Approval | None = None
    ) -> bytes | None:
        """A file as it was when it was approved, when it is still cached."""
        approval = approval or self._kept(skill) or self._withdrawn(skill)
        resources = approval.resources if approval is not None else ()
        digest = next((digest for file, digest in resources if file == uri), None)
        return await self.cache.fetch(skill.origin, uri, digest) if digest else None

    def approved_digest(self, origin: Origin, skill: SkillUri, file: SkillUri) -> Digest | None:
        """The digest under which a file of a dynamic skill is approved for good, if it is."""
        kept = self.approvals.get(origin, skill)
        if kept is None or kept.bound:
            return None
        return next((digest for uri, digest in kept.resources if uri == file), None)

    async def revoke(self, key: SkillKey) -> bool:
        """Revoke an approval, or take a decline back; false when there was neither."""
        seen = self._of_seen.pop(key, None) is not None
        return await self.approvals.remove(key.origin, key.uri) or seen

    async def forget_server(self, origin: Origin) -> int:
        """Revoke every approval for a server. Returns the number of skills."""
        seen = [key for key in self._of_seen if key.origin == origin]
        for key in seen:
            del self._of_seen[key]
        return await self.approvals.remove_server(origin) + len(seen)

    def forget_changed(self, skill: RegisteredSkill) -> Approval | None:
        """Revoke an approval that no longer fits the entry (SEC-6); one that fits is returned."""
        stored = self._kept(skill)
        if stored is None or (skill.entry.is_dynamic and not stored.bound):
            return stored  # Whether it fits what a dynamic skill has now is seen when that is read.
        if coverage(stored, skill.origin, skill.entry) is not Coverage.OTHER:
            return stored
        self.approvals.withdraw(skill.origin, skill.uri)
        changes = difference(stored.resources, resource_set(skill.entry))
        what = _files(len(changes))
        if signer := self._candidate(skill, None).signer_change:
            what += f"; it {signer}"
        message = f"{skill.handle} changed ({what}): its approval is revoked"
        self.tell(skill_event(EventKind.REVOKED, skill, message))
        return None

    def status(self, skill: RegisteredSkill, *, caller: str = "") -> ApprovalStatus:
        """The approval status for the user, or for a caller of a gateway. Changes nothing."""
        if caller:
            origin, uri = skill.origin, skill.uri
            candidate = replace(
                self._candidate(skill, self.approvals.get(origin, uri, caller=caller)),
                withdrawn=self.approvals.withdrawn(origin, uri, caller=caller),
                declined=self.is_declined(skill, caller=caller),
            )
            return status_of(candidate, limits=self.limits)
        kept = self._kept(skill)
        candidate = self._candidate(skill, kept or self._of_seen.get(skill.key))
        if kept is not None and not kept.bound:
            candidate = replace(candidate, seen=kept.resources)  # Approved as it was seen.
        return status_of(candidate, limits=self.limits)

    def is_offered(self, skill: RegisteredSkill) -> bool:
        """Whether a model is told of a listed skill: not if a load is sure to be refused without asking."""
        # Only what the decision depends on: this is called for every skill.
        declined = self.is_declined(skill)
        candidate = Candidate(
            origin=skill.origin,
            entry=skill.entry,
            policy=self.policy(skill.origin),
            approval=self._kept(skill) if declined else None,
            declined=declined,
        )
        return isinstance(admit(candidate, Act.OFFER), Allowed)

    def _decide(
        self, skill: RegisteredSkill, entry: CheckedEntry, kept: Approval | None, seen: ResourceSet
    ) -> Decision:
        known = [one for one in (self._of_seen.get(skill.key), kept) if one is not None]
        covering = [one for one in known if coverage(one, skill.origin, entry, seen) is Coverage.EQUAL]
        candidate = self._candidate(skill, next(iter(covering or known), None))
        return admit(replace(candidate, entry=entry, seen=seen), Act.LOAD)

    def _candidate(self, skill: RegisteredSkill, approval: Approval | None) -> Candidate:
        return replace(
            self.facts(skill),
            approval=approval,
            withdrawn=self._withdrawn(skill),
            declined=self.is_declined(skill),
            nested=self._nested(skill),
            require=self.signatures.required(skill.origin),
            signature=self.signatures.known(skill),
            signer=self.approvals.signer(skill.origin, skill.uri),
        )

    def is_declined(self, skill: RegisteredSkill, *, caller: str = "") -> bool:
        """Whether the last decision declined exactly the files that the skill has now."""
        declined = self.approvals.declined(skill.origin, skill.uri, caller=caller)
        return declined is not None and declined == shown_digest(skill.entry)

    async def _read(self, skill: RegisteredSkill) -> None:
        """Learn what other processes approved and revoked since."""
        try:
            await self.approvals.fetch(skill.origin, skill.uri)
        except SkillwireError:
            if not skill.origin.is_own:  # The user's own files need none.
                raise

    def _nested(self, skill: RegisteredSkill) -> bool:
        return is_nested(skill.uri, self.registry.uris(skill.origin))

    def _kept(self, skill: RegisteredSkill) -> Approval | None:
        return self.approvals.get(skill.origin, skill.uri)

    def _withdrawn(self, skill: RegisteredSkill) -> Approval | None:
        return self.approvals.withdrawn(skill.origin, skill.uri)


def skill_facts(skill: RegisteredSkill) -> dict[str, Value]:
    """What telemetry says of a skill."""
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
    skill: RegisteredSkill, digest: SetDigest | None, changes: tuple[FileChange, ...]
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
