"""ApprovalStatus: the one state of a skill, in the words that everything shows. Pure: it decides nothing new.

`list`, `show`, `approve`, the review page, the gateway, JSON and adapters print `ApprovalStatus.words`.
Whether a skill is disabled is said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from skillwire.errors import LimitExceeded, SkillwireError
from skillwire.limits import Limits
from skillwire.trust import (
    NO_GRANTS,
    AdmissionRequest,
    Allowed,
    Approval,
    ApprovalMode,
    Denied,
    FileChange,
    Grants,
    Purpose,
    Reason,
    admit,
    check_entry,
    missing_publisher,
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


def status_of(candidate: AdmissionRequest, *, limits: Limits) -> ApprovalStatus:
    """The result that a load would have, determined without loading."""
    candidate = candidate.before_scan
    try:
        entry = check_entry(candidate.entry, limits=limits)
    except SkillwireError as error:
        reason = "too large" if isinstance(error, LimitExceeded) else "broken"
        return _status(candidate, State.REFUSED, reason=reason, problem=str(error))
    # A disabled skill has a status too: what would happen on a load once it is enabled.
    if candidate.disabled or entry is not candidate.entry:
        candidate = replace(candidate, entry=entry, disabled=False)
    decision = admit(candidate, Purpose.LOAD)
    if isinstance(decision, Denied) and decision.refusal is not None:
        if candidate.signature is None and decision.refusal.rule.startswith("publishers."):
            return _status(candidate, State.NOT_APPROVED, reason=UNCHECKED)
        reason = f"policy {decision.refusal.layer.title}"
        return _status(candidate, State.REFUSED, reason=reason, problem=decision.refusal.message)
    if missing := missing_publisher(candidate):
        if candidate.signature is not None:
            problem = missing.removeprefix("is refused: ")
            return _status(
                candidate, State.REFUSED, reason=f"not signed by {candidate.require[0]}", problem=problem
            )
        # Who signed it is not known yet: only what holds in any case is said.
        without = status_of(replace(candidate, require=()), limits=limits)
        if without.state in (State.CHANGED, State.DECLINED, State.REFUSED):
            return without
        return _status(candidate, State.NOT_APPROVED, reason=UNCHECKED)
    if isinstance(decision, Allowed):
        state = State.APPROVED if decision.approved else State.ALLOWED
        state = State.OWN if candidate.origin.is_own else state
        by = " and ".join(f"by {name} on {one.approved_at[:10]}" for name, one in decision.team)
        return _status(candidate, state, grants=decision.grants, reason=by)
    if candidate.unavailable or not candidate.selected or candidate.style_refusal:
        return _status(
            candidate, State.REFUSED, reason="not offered", problem=getattr(decision, "message", "")
        )
    if candidate.approval_mode is ApprovalMode.NEVER:
        problem = "the approval mode of its server is never; change that to load it"
        return _status(candidate, State.REFUSED, reason="approval mode never", problem=problem)
    if candidate.declined:
        return _status(candidate, State.DECLINED)
    if decision.reason is Reason.CHANGED or candidate.signer_change:
        changed = [counted(len(decision.changes), "file")] if decision.changes else []
        reason = " and ".join([*changed, *(["signer"] if candidate.signer_change else [])])
        return _status(candidate, State.CHANGED, reason=reason, changes=decision.changes)
    waiting = _WAITING[candidate.approval_mode]
    if not entry.is_dynamic and _last_approval(candidate) is None and not candidate.nested:
        return waiting  # One value for most skills of a large server.
    return _status(candidate, State.NOT_APPROVED, reason="no digests" if entry.is_dynamic else "")


def _status(
    candidate: AdmissionRequest,
    state: State,
    *,
    reason: str = "",
    problem: str = "",
    grants: Grants = NO_GRANTS,
    changes: tuple[FileChange, ...] = (),
) -> ApprovalStatus:
    return ApprovalStatus(
        state=state,
        approval_mode=ApprovalMode.ALWAYS if candidate.origin.is_own else candidate.approval_mode,
        nested=candidate.nested,
        grants=grants,
        changes=changes,
        approved=_last_approval(candidate),
        reason=reason,
        problem=problem,
        signer_change=candidate.signer_change,
    )


def _last_approval(candidate: AdmissionRequest) -> Approval | None:
    return candidate.session or candidate.approval or candidate.ended


_WAITING: Final = {
    mode: ApprovalStatus(state=State.NOT_APPROVED, approval_mode=mode) for mode in ApprovalMode
}
