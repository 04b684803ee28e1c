"""Decision: what admission decided about a skill, by which step, why, and what changes that.

`admission.py` makes these values. What was decided is put into words here only: `message` is for errors,
events and logs, and `consent/states.py` has the state words, a table over steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, TypeAlias

from skillwire.trust.approval import NO_GRANTS, ApprovalMode, ChangeKind, FileChange, Grants, Reason
from skillwire.trust.policy import Refusal, TeamApproval
from skillwire.trust.signatures import SignatureVerdict


class Step(StrEnum):
    """The steps of `admit` that refuse a skill or ask about it, in the order in which they are taken."""

    SWITCHES = "switches"
    SELECTION = "selection"
    STYLE = "style"
    DISABLED = "disabled"
    POLICY = "policy"
    PUBLISHER = "publisher"
    """A required publisher did not sign it, or that has not been checked."""
    SCANNER = "scanner"
    """A scanner with a threshold found too much, or has not scanned it."""
    NEVER = "never"
    DECLINED = "declined"
    PINNED = "pinned"
    QUESTION = "question"


class Remedy(StrEnum):
    """What changes a decision, and who can do that."""

    SWITCH = "switch"
    """Enable the server, or trust the folder."""
    CONFIGURE = "configure"
    """Change which skills of the server the configuration includes."""
    RESTYLE = "restyle"
    """Use another style."""
    ENABLE = "enable"
    """Enable the skill."""
    CONTACT = "contact"
    """Ask whoever is responsible for the policy."""
    SIGN = "sign"
    """Ask the operator of the server for a signed skill."""
    CHANGE_MODE = "change mode"
    """Change the approval mode of its server."""
    CHANGE_MODE_OR_APPROVE = "change mode or approve"
    """Change the approval mode of its server, or approve the skill."""
    APPROVE = "approve"
    """Review it and approve it."""


REMEDIES: Final[Mapping[Step, Remedy]] = {
    Step.SWITCHES: Remedy.SWITCH,
    Step.SELECTION: Remedy.CONFIGURE,
    Step.STYLE: Remedy.RESTYLE,
    Step.DISABLED: Remedy.ENABLE,
    Step.POLICY: Remedy.CONTACT,
    Step.PUBLISHER: Remedy.SIGN,
    Step.SCANNER: Remedy.CONTACT,
    Step.NEVER: Remedy.CHANGE_MODE,
    Step.DECLINED: Remedy.APPROVE,
    Step.PINNED: Remedy.CHANGE_MODE_OR_APPROVE,
    Step.QUESTION: Remedy.APPROVE,
}


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Nothing of its origin may be used."""

    why: str


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The emulated host does not take it."""

    why: str


@dataclass(frozen=True, slots=True)
class NotSignedBy:
    """A publisher whom the configuration requires did not sign it."""

    publisher: str
    verdict: SignatureVerdict | None
    """Who did; `None` if that has not been checked."""

    @property
    def words(self) -> str:
        """Whose signature is missing, and what was found instead."""
        found = (
            "its signature has not been checked" if self.verdict is None else f"the skill is {self.verdict}"
        )
        return f"the publisher {self.publisher} is required, and {found}; ask its operator for a signed one"


@dataclass(frozen=True, slots=True)
class Unapproved:
    """These files were not approved: how they, or who signed them, differ from what was."""

    reason: Reason
    changes: tuple[FileChange, ...] = ()
    signer_change: str = ""


Cause: TypeAlias = Unavailable | Unsupported | NotSignedBy | Refusal | Unapproved | None
"""Why a step refused, where there is more to say than which step it was."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The skill may be listed, or loaded with these grants."""

    grants: Grants = NO_GRANTS
    approved: bool = False
    """Whether a person approved exactly these files."""
    team: tuple[tuple[str, TeamApproval], ...] = ()
    """The signed approvals that made it approved, by the name of the approver; empty if the user did."""
    reported: tuple[Refusal, ...] = ()
    """Refusals by layers of the policy that only report."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The user has to be asked first."""

    step: ClassVar[Step] = Step.QUESTION
    remedy: ClassVar[Remedy] = Remedy.APPROVE

    reason: Reason
    changes: tuple[FileChange, ...] = ()
    signer_change: str = ""
    """How its signer changed, which must be shown as prominently as a changed text."""

    @property
    def message(self) -> str:
        """Why it may not be loaded, and what to do: the rest of a sentence that begins with the skill."""
        return f"{_unapproved(self.reason, self.changes, self.signer_change)}: review it and approve it"


@dataclass(frozen=True, slots=True)
class Denied:
    """The skill may not be listed or loaded, and the user is not asked."""

    step: Step
    cause: Cause = None

    @property
    def remedy(self) -> Remedy:
        return REMEDIES[self.step]

    @property
    def reason(self) -> Reason:
        """Return the reason for programs: an approval changes only what is not approved."""
        return self.cause.reason if isinstance(self.cause, Unapproved) else Reason.DENIED

    @property
    def changes(self) -> tuple[FileChange, ...]:
        return self.cause.changes if isinstance(self.cause, Unapproved) else ()

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of the policy, if it was the policy that refused."""
        return self.cause if isinstance(self.cause, Refusal) else None

    @property
    def problem(self) -> str:
        """Why nothing can be loaded whatever the user approves, in one line that says what to do."""
        if self.step is Step.NEVER:
            return f"the approval mode of its server is {ApprovalMode.NEVER}; change that to load it"
        match self.cause:
            case Refusal():
                return self.cause.message
            case NotSignedBy():
                return self.cause.words
            case _:
                return self.message

    @property
    def message(self) -> str:
        """Why it may not be used, and what to do: the rest of a sentence that begins with the skill."""
        match self.cause:
            case Unavailable(why):
                return f"is unavailable: {why}"
            case Unsupported(why):
                return f"is not taken: {why}"
            case Refusal():
                return f"is refused: {self.cause.message}"
            case NotSignedBy():
                return f"is refused: {self.cause.words}"
            case Unapproved(reason, changes, signer_change):
                why = _unapproved(reason, changes, signer_change)
                return f"{why}: the approval mode of its server is {ApprovalMode.PINNED}; " + (
                    "change that or approve the skill"
                )
            case None:
                return _MESSAGES[self.step]


Decision: TypeAlias = Allowed | Ask | Denied

_MESSAGES: Final[Mapping[Step, str]] = {
    Step.SELECTION: "is excluded by the configuration; change that",
    Step.DISABLED: "is disabled: enable it to use it",
    Step.NEVER: (
        f"is refused: the approval mode of its server is {ApprovalMode.NEVER}; change that to load it"
    ),
    Step.DECLINED: "was declined by you: approve it to change that",
}
_REASONS: Final[Mapping[Reason, str]] = {
    Reason.NEW: "is not approved",
    Reason.UNBINDABLE: "is not approved and comes without digests, so only what was seen can be approved",
}


def _unapproved(reason: Reason, changes: tuple[FileChange, ...], signer_change: str) -> str:
    if reason is Reason.SIGNER:
        return f"changed: it {signer_change or 'has another signer'}"
    signer = f" and {signer_change}" if signer_change else ""
    if reason is not Reason.CHANGED:
        return f"{_REASONS[reason]}{signer}"
    counts = {kind: sum(change.kind is kind for change in changes) for kind in ChangeKind}
    counted = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return f"changed since it was approved ({counted or 'now with a fixed list of files'}){signer}"
