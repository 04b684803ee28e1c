"""Approver: what the user agreed to, found or asked for (SEC-5, SEC-6).

What an approval allows is decided in `trust/admission.py`. Here it is looked up, asked for, kept and revoked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import ApprovalRequired
from skillwire.host.approvals.status import ApprovalStatus, status_of
from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.events import Event, EventKind
from skillwire.limits import Limits
from skillwire.skill.uris import SkillUri
from skillwire.trust.admission import Act, Ask, Candidate, Decision, admit, require
from skillwire.trust.approval import (
    NO_GRANTS,
    Approval,
    Coverage,
    FileChange,
    Grants,
    Reason,
    ResourceSet,
    approve,
    coverage,
    difference,
    is_nested,
    resource_set,
)
from skillwire.trust.guards import requested_tools
from skillwire.trust.origin import Origin
from skillwire.trust.paths import skill_file
from skillwire.trust.verify import CheckedEntry, VerifiedFile, check_entry

Preview: TypeAlias = Callable[[RegisteredSkill, str], Awaitable[VerifiedFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to the user: may this skill be loaded, as it is now?"""

    skill: RegisteredSkill
    reason: Reason
    changes: tuple[FileChange, ...]
    nested: bool
    requested_tools: tuple[str, ...]
    preview: Callable[[str], Awaitable[VerifiedFile]] = field(repr=False)
    """Reads a file of the skill for the user's eyes. It is no load (SEC-7)."""


ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Awaitable[Grants | bool]]
"""Asks the user. `True` loads the skill with no grants, `Grants` with those; anything else is a no."""


class Approver:
    """The approvals of a host, and the way to new ones."""

    def __init__(
        self,
        *,
        registry: Registry,
        facts: Callable[[RegisteredSkill], Candidate],
        approvals: ApprovalStore,
        ask: ApprovalCallback | None,
        tell: Callable[[Event], None],
        limits: Limits,
    ) -> None:
        self._registry = registry
        self._facts = facts
        self._approvals = approvals
        self._ask = ask
        self._tell = tell
        self._limits = limits
        # SEC-6: approvals of dynamic skills, which end with the session.
        self._of_seen: dict[SkillKey, Approval] = {}

    async def obtain(
        self,
        skill: RegisteredSkill,
        entry: CheckedEntry,
        preview: Preview,
        *,
        seen: ResourceSet = frozenset(),
        in_hand: Mapping[SkillUri, VerifiedFile] | None = None,
    ) -> Grants:
        """The grants of an approved skill; asks the user where somebody can be asked.

        `in_hand` are files of a dynamic skill that the yes will be for: the user is shown these very bytes.
        """
        await self._read(skill)
        decision = self._decide(skill, entry, self.forget_changed(skill), seen)
        if not isinstance(decision, Ask) or self._ask is None:
            return require(decision, entry.uri, skill.origin)

        async def look(path: str) -> VerifiedFile:
            return (in_hand or {}).get(skill_file(entry, path)) or await preview(skill, path)

        answer = await self._ask(
            ApprovalRequest(
                skill=skill,
                reason=decision.reason,
                changes=decision.changes,
                nested=self._nested(skill),
                requested_tools=requested_tools(entry.frontmatter.get("allowed-tools")),
                preview=look,
            )
        )
        if answer is not True and not isinstance(answer, Grants):
            # Fail closed: an answer that is no clear yes is a no.
            raise ApprovalRequired(
                f"{skill.handle} from {skill.origin} was not approved: it is not loaded",
                reason=Reason.DENIED,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        grants = answer if isinstance(answer, Grants) else NO_GRANTS
        approval = approve(entry, skill.origin, grants=grants, seen=seen)
        if approval.bound:
            await self._approvals.put(approval, entry, how="asked at load")
        else:
            self._of_seen[skill.key] = approval
        return grants

    async def confirm(
        self, skill: RegisteredSkill, entry: CheckedEntry, *, seen: ResourceSet = frozenset()
    ) -> Grants:
        """The grants as they are now, without asking: a yes may have been taken back since it was given."""
        await self._read(skill)
        return require(self._decide(skill, entry, self._kept(skill), seen), entry.uri, skill.origin)

    async def approve(self, skill: RegisteredSkill, grants: Grants = NO_GRANTS) -> Approval:
        """Record the user's yes to a skill as its entry is now."""
        entry = check_entry(skill.entry, limits=self._limits)
        if entry.is_dynamic:
            raise ApprovalRequired(
                f"{skill.handle} is made on request: it can only be approved when it is loaded and seen",
                reason=Reason.UNBINDABLE,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        approval = approve(entry, skill.origin, grants=grants)
        if not skill.origin.is_local:
            await self._approvals.put(approval, entry, how="approved by name")
        return approval

    async def revoke(self, key: SkillKey) -> bool:
        """Take the user's yes back; false when there was none."""
        seen = self._of_seen.pop(key, None) is not None
        return (not key.origin.is_local and await self._approvals.remove(key.origin, key.uri)) or seen

    async def forget_server(self, origin: Origin) -> int:
        """Take back everything that was approved of a server; how many skills that were."""
        seen = [key for key in self._of_seen if key.origin == origin]
        for key in seen:
            del self._of_seen[key]
        return await self._approvals.remove_server(origin) + len(seen)

    def forget_changed(self, skill: RegisteredSkill) -> Approval | None:
        """Take back an approval that no longer fits the entry (SEC-6); one that does is returned."""
        stored = self._kept(skill)
        if stored is None or coverage(stored, skill.origin, skill.entry) is not Coverage.OTHER:
            return stored
        self._approvals.withdraw(skill.origin, skill.uri)
        changes = difference(stored.resources, resource_set(skill.entry))
        self._tell(
            Event(
                kind=EventKind.REVOKED,
                message=f"{skill.handle} changed ({_files(len(changes))}): its approval is taken back",
                origin=skill.origin.label,
                handle=skill.handle,
                uri=skill.uri,
            )
        )
        return None

    def standing(self, skill: RegisteredSkill) -> ApprovalStatus:
        """How a skill stands with the user now. Changes nothing and asks nobody."""
        kept = self._of_seen.get(skill.key) or self._kept(skill)
        return status_of(self._candidate(skill, kept), limits=self._limits)

    def _decide(
        self, skill: RegisteredSkill, entry: CheckedEntry, kept: Approval | None, seen: ResourceSet
    ) -> Decision:
        candidate = self._candidate(skill, self._of_seen.get(skill.key) or kept)
        return admit(replace(candidate, entry=entry, seen=seen), Act.LOAD)

    def _candidate(self, skill: RegisteredSkill, approval: Approval | None) -> Candidate:
        return replace(
            self._facts(skill),
            approval=approval,
            withdrawn=self._withdrawn(skill),
            nested=self._nested(skill),
        )

    async def _read(self, skill: RegisteredSkill) -> None:
        """Learn what other processes approved and revoked since."""
        if not skill.origin.is_local:
            await self._approvals.fetch(skill.origin, skill.uri)

    def _nested(self, skill: RegisteredSkill) -> bool:
        return is_nested(skill.uri, self._registry.uris(skill.origin))

    def _kept(self, skill: RegisteredSkill) -> Approval | None:
        return None if skill.origin.is_local else self._approvals.get(skill.origin, skill.uri)

    def _withdrawn(self, skill: RegisteredSkill) -> Approval | None:
        return None if skill.origin.is_local else self._approvals.withdrawn(skill.origin, skill.uri)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
