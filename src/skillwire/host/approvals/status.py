"""ApprovalStatus: whether a skill is approved as it is now, for display. Pure: it decides nothing new."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import SkillwireError
from skillwire.limits import Limits
from skillwire.skill.entries import SkillEntry
from skillwire.trust.approval import (
    NO_GRANTS,
    Allowed,
    Approval,
    Ask,
    Decision,
    Denied,
    FileChange,
    Grants,
    Policy,
    Reason,
    decide,
    difference,
    resource_set,
)
from skillwire.trust.verify import check_entry


class State(StrEnum):
    """What a load would meet with."""

    LOCAL = "local"
    """The user's own files: no approval is needed."""
    APPROVED = "approved"
    NEW = "not approved"
    CHANGED = "changed"
    """Other files were approved than are served now."""
    DYNAMIC = "dynamic"
    """Made on request: the user is asked about what was seen, each time."""
    ALWAYS = "allowed"
    """The policy of its server loads it without asking."""
    NEVER = "blocked"
    """The policy of its server loads nothing."""
    UNUSABLE = "unusable"
    """Its entry is not sound, or it is too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """How a skill stands, what was granted to it, and what changed since it was approved."""

    state: State
    policy: Policy
    nested: bool = False
    grants: Grants = NO_GRANTS
    changes: tuple[FileChange, ...] = ()
    approved: Approval | None = None
    """What was approved, now or before the skill changed."""
    problem: str = ""


def since_approval(decision: Decision, entry: SkillEntry, before: Approval | None) -> Decision:
    """The decision on a skill that was approved before it changed: the user is told what changed."""
    if before is None or isinstance(decision, Allowed) or decision.reason is not Reason.NEW:
        return decision
    changes = difference(before.resources, resource_set(entry))
    if not changes:
        return decision  # It changed and changed back, which makes it no less unapproved.
    if isinstance(decision, Ask):
        return Ask(Reason.CHANGED, changes)
    return Denied(decision.policy, Reason.CHANGED, changes)


def status_of(
    skill: RegisteredSkill,
    policy: Policy,
    approval: Approval | None,
    before: Approval | None,
    *,
    nested: bool,
    limits: Limits,
) -> ApprovalStatus:
    """What a load would meet with, found out without loading."""
    if skill.origin.is_local:
        policy = Policy.ALWAYS
    known = approval or before
    try:
        entry = check_entry(skill.entry, limits=limits)
    except SkillwireError as error:
        return ApprovalStatus(
            state=State.UNUSABLE, policy=policy, nested=nested, approved=known, problem=str(error)
        )
    decision = decide(entry, skill.origin, policy, approval, nested=nested)
    decision = since_approval(decision, entry, before)
    if isinstance(decision, Allowed):
        state = State.APPROVED if approval is not None else State.ALWAYS
        state = State.LOCAL if skill.origin.is_local else state
        return ApprovalStatus(
            state=state, policy=policy, nested=nested, grants=decision.grants, approved=known
        )
    if policy is Policy.NEVER:
        state = State.NEVER
    else:
        states = {Reason.NEW: State.NEW, Reason.CHANGED: State.CHANGED, Reason.UNBINDABLE: State.DYNAMIC}
        state = states.get(decision.reason, State.NEW)
    return ApprovalStatus(state=state, policy=policy, nested=nested, changes=decision.changes, approved=known)
