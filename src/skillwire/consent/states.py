"""The one state of a skill that everything shows: a table over the steps of admission.

`list`, `show`, `approve`, the review page, the gateway, JSON and adapters print `ApprovalStatus.words`. It
decides nothing. Whether a skill is disabled is said beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from skillwire.errors import LimitExceeded, SkillwireError
from skillwire.limits import Limits
from skillwire.trust import (
    NO_GRANTS,
    AdmissionRequest,
    Allowed,
    Approval,
    ApprovalMode,
    Decision,
    Denied,
    FileChange,
    Grants,
    NotSignedBy,
    Purpose,
    Reason,
    Refusal,
    Step,
    admit,
    check_entry,
)
from skillwire.words import counted

UNCHECKED: Final = "signature not checked yet"
"""Why a skill of an origin with a required signer has no better state before its signature was fetched."""


class State(StrEnum):
    """The result that a load would have."""

    OWN = "own files"
    """The user's own files: no approval is needed."""
    APPROVED = "approved"
    """It is loaded: exactly these files were approved."""
    ALLOWED = "allowed"
    """It is loaded without asking: the approval mode of its server is `always`."""
    NOT_APPROVED = "not approved"
    """The user is asked, or it is refused where the approval mode of its server is `pinned`."""
    CHANGED = "changed"
    """Its files, or who signed them, are not those that were approved."""
    DECLINED = "declined"
    """The user declined exactly these files."""
    REFUSED = "refused"
    """It is not loaded, and no approval changes that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatus:
    """Whether a skill is approved, what was granted to it, and what changed since."""

    state: State
    approval_mode: ApprovalMode
    """The approval mode of its server; `always` for the user's own files."""
    nested: bool = False
    """Whether it is inside another skill of its origin. Then no approval mode loads it without asking, and an
    approval of the other skill does not cover it (SEC-5)."""
    grants: Grants = NO_GRANTS
    """Grants beyond being read, if it is loaded now."""
    changes: tuple[FileChange, ...] = ()
    """How its files differ from those that were approved; empty if nothing was."""
    approved: Approval | None = None
    """The approval, valid now or before the skill changed."""
    reason: str = ""
    """Why it is in this state, in a few words; empty where the state says it all."""
    problem: str = ""
    """Why it is refused, in one line that says what to do; empty if an approval is all that it needs."""
    signer_change: str = ""
    """How its signer changed or disappeared since it was last loaded or approved, if that was checked."""

    @property
    def words(self) -> str:
        """The state, with its reason if there is one: the same text wherever a state is shown."""
        return f"{self.state.value} ({self.reason})" if self.reason else self.state.value

    @property
    def waits(self) -> bool:
        """Whether an approval by the user would make it usable."""
        return self.state in (State.NOT_APPROVED, State.CHANGED) and self.reason != UNCHECKED


_STATES: Final[Mapping[Step, State]] = {
    Step.SWITCHES: State.REFUSED,
    Step.SELECTION: State.REFUSED,
    Step.STYLE: State.REFUSED,
    Step.POLICY: State.REFUSED,
    Step.PUBLISHER: State.REFUSED,
    Step.SCANNER: State.REFUSED,
    Step.NEVER: State.REFUSED,
    Step.DECLINED: State.DECLINED,
    Step.PINNED: State.NOT_APPROVED,
    Step.QUESTION: State.NOT_APPROVED,
}
_REASONS: Final[Mapping[Step, str]] = {
    Step.SWITCHES: "not offered",
    Step.SELECTION: "not offered",
    Step.STYLE: "not offered",
    Step.NEVER: "approval mode never",
}
"""What is said of a refusal that nobody else decided."""


def status_of(candidate: AdmissionRequest, *, limits: Limits) -> ApprovalStatus:
    """The result that a load would have, determined without loading."""
    try:
        check_entry(candidate.entry, limits=limits)
    except SkillwireError as error:
        reason = "too large" if isinstance(error, LimitExceeded) else "broken"
        return _status(candidate, State.REFUSED, reason=reason, problem=str(error))
    # A disabled skill has a status too: what would happen on a load once it is enabled.
    if candidate.disabled:
        candidate = replace(candidate, disabled=False)
    return status_for(admit(candidate.before_scan, Purpose.LOAD), candidate)


def status_for(decision: Decision, candidate: AdmissionRequest) -> ApprovalStatus:
    """A decision on a load, as a state."""
    if isinstance(decision, Allowed):
        by = " and ".join(f"by {name} on {one.approved_at[:10]}" for name, one in decision.team)
        state = State.APPROVED if decision.approved else State.ALLOWED
        state = State.OWN if candidate.origin.is_own else state
        return _status(candidate, state, grants=decision.grants, reason=by)
    if decision.step is Step.PUBLISHER and candidate.signature is None:
        # Who signed it is not known yet: only what holds in any case is said.
        without = status_for(admit(candidate.before_scan.before_signature, Purpose.LOAD), candidate)
        if without.state in (State.CHANGED, State.DECLINED, State.REFUSED):
            return without
        return _status(candidate, State.NOT_APPROVED, reason=UNCHECKED)
    state = _STATES[decision.step]
    if state is State.REFUSED and isinstance(decision, Denied):
        return _status(candidate, state, reason=_refused_by(decision), problem=decision.problem)
    if state is State.DECLINED:
        return _status(candidate, state)
    signer_change = candidate.signer_change
    if decision.reason is Reason.CHANGED or signer_change:
        changed = [counted(len(decision.changes), "file")] if decision.changes else []
        reason = " and ".join([*changed, *(["signer"] if signer_change else [])])
        return _status(candidate, State.CHANGED, reason=reason, changes=decision.changes)
    return _status(candidate, state, reason="no digests" if candidate.entry.is_dynamic else "")


def _refused_by(decision: Denied) -> str:
    """Who or what refused, in a few words."""
    match decision.cause:
        case Refusal(layer):
            return f"policy {layer.title}"
        case NotSignedBy(publisher):
            return f"not signed by {publisher}"
        case _:
            return _REASONS[decision.step]


def _status(
    candidate: AdmissionRequest,
    state: State,
    *,
    reason: str = "",
    problem: str = "",
    grants: Grants = NO_GRANTS,
    changes: tuple[FileChange, ...] = (),
) -> ApprovalStatus:
    mode = ApprovalMode.ALWAYS if candidate.origin.is_own else candidate.approval_mode
    approved, signer_change = _last_approval(candidate), candidate.signer_change
    if grants is NO_GRANTS and not (changes or problem or approved or signer_change):
        return _undecided(state, mode, candidate.nested, reason)
    return ApprovalStatus(
        state=state,
        approval_mode=mode,
        nested=candidate.nested,
        grants=grants,
        changes=changes,
        approved=approved,
        reason=reason,
        problem=problem,
        signer_change=signer_change,
    )


@lru_cache(maxsize=256)
def _undecided(state: State, mode: ApprovalMode, nested: bool, reason: str) -> ApprovalStatus:
    """The status of a skill about which there is nothing more to say: one value for ten thousand of them."""
    return ApprovalStatus(state=state, approval_mode=mode, nested=nested, reason=reason)


def _last_approval(candidate: AdmissionRequest) -> Approval | None:
    return candidate.session or candidate.approval or candidate.ended
