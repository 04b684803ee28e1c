"""ApprovalStatus: whether a skill is approved as it is now, for display. Pure: it decides nothing new."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from skillwire.errors import SkillwireError
from skillwire.limits import Limits
from skillwire.trust.admission import Act, Allowed, Candidate, admit, missing_publisher
from skillwire.trust.approval import (
    NO_GRANTS,
    Approval,
    Coverage,
    FileChange,
    Grants,
    Policy,
    Reason,
    coverage,
)
from skillwire.trust.verify import check_entry


class State(StrEnum):
    """What would happen on a load."""

    LOCAL = "local"
    """The user's own files: no approval is needed."""
    APPROVED = "approved"
    """It is loaded: exactly these files were approved."""
    NEW = "not approved"
    """The user is asked, or it is refused where the policy of its server is `pinned`."""
    CHANGED = "changed"
    """The approved files differ from those served now."""
    SIGNER = "signer changed"
    """The policy of its server would load it, but its signer changed or disappeared."""
    DECLINED = "declined"
    """The user declined exactly these files."""
    DYNAMIC = "dynamic"
    """Its content is generated on request: the user is asked about the text that was seen, and a yes counts
    for that text, while the host is open."""
    ALWAYS = "allowed"
    """The policy of its server loads it without asking."""
    NEVER = "blocked"
    """The policy of its server loads nothing."""
    REFUSED = "refused"
    """A required publisher did not sign it; `problem` says more."""
    UNUSABLE = "unusable"
    """Its entry is not valid, or exceeds a limit; `problem` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """Whether a skill is approved, what was granted to it, and what changed since."""

    state: State
    policy: Policy
    """The policy of its server; `always` for the user's own files."""
    nested: bool = False
    """Whether it is inside another skill of its origin. Then no policy loads it without asking, and an
    approval of the other skill does not cover it (SEC-5)."""
    grants: Grants = NO_GRANTS
    """What it may do beyond being read, if it is loaded now."""
    changes: tuple[FileChange, ...] = ()
    """How its files differ from those that were approved; empty if nothing was."""
    approved: Approval | None = None
    """What was approved, now or before the skill changed."""
    problem: str = ""
    """Why it cannot be loaded at all, in one line; empty if an approval is all that it needs."""
    signer_change: str = ""
    """How its signer changed or disappeared since it was last loaded or approved, if that was checked."""


def status_of(candidate: Candidate, *, limits: Limits) -> ApprovalStatus:
    """What would happen on a load, determined without loading."""
    local = candidate.origin.is_own
    policy = Policy.ALWAYS if local else candidate.policy
    known = candidate.approval or candidate.withdrawn
    nested = candidate.nested
    try:
        entry = check_entry(candidate.entry, limits=limits)
    except SkillwireError as error:
        return ApprovalStatus(
            state=State.UNUSABLE, policy=policy, nested=nested, approved=known, problem=str(error)
        )
    # A disabled skill has a status too: what would happen on a load once it is enabled.
    decision = admit(replace(candidate, entry=entry, disabled=False), Act.LOAD)
    if isinstance(decision, Allowed):
        is_approved = coverage(candidate.approval, candidate.origin, entry, candidate.seen) is Coverage.EQUAL
        state = State.APPROVED if is_approved else State.ALWAYS
        state = State.LOCAL if local else state
        return ApprovalStatus(
            state=state, policy=policy, nested=nested, grants=decision.grants, approved=known
        )
    missing = missing_publisher(candidate)
    denied = State.REFUSED if missing else State.NEVER
    if candidate.declined and not missing and candidate.policy is not Policy.NEVER:
        denied = State.DECLINED
    states = {
        Reason.NEW: State.NEW,
        Reason.CHANGED: State.CHANGED,
        Reason.SIGNER: State.SIGNER,
        Reason.UNBINDABLE: State.DYNAMIC,
        Reason.DENIED: denied,
    }
    return ApprovalStatus(
        state=states[decision.reason],
        policy=policy,
        nested=nested,
        changes=decision.changes,
        approved=known,
        problem=missing.removeprefix("is refused: "),
        signer_change=candidate.signer_change,
    )
