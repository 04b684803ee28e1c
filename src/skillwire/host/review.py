"""Review: what a person is shown of a skill before they decide, the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import FormatError, SkillwireError
from skillwire.host.approvals.status import ApprovalStatus, State
from skillwire.issues import shown
from skillwire.skill.digests import SetDigest
from skillwire.skill.uris import SkillUri, path_below, skill_root
from skillwire.text import decode_text
from skillwire.trust.approval import ChangeKind, Policy, shown_digest
from skillwire.trust.guards import requested_tools
from skillwire.trust.verify import VerifiedFile
from skillwire.words import counted

WAITING: Final = (State.NEW, State.CHANGED, State.SIGNER)
"""The states of a skill that waits for a decision."""


@dataclass(frozen=True, slots=True)
class SkillReview:
    """A skill and its approval status. An approval is for exactly the files that `digest` names."""

    skill: RegisteredSkill
    status: ApprovalStatus

    @property
    def digest(self) -> SetDigest | None:
        """Of all files of the skill; `None` where it has no set of files that could be approved."""
        try:
            return shown_digest(self.skill.entry)
        except FormatError:
            return None

    @property
    def requested_tools(self) -> tuple[str, ...]:
        """The tools that its frontmatter asks for. A request, never a grant (SEC-4)."""
        return requested_tools(self.skill.entry.frontmatter.get("allowed-tools"))

    @property
    def sentence(self) -> str:
        """Its approval status, in words."""
        status = self.status
        words = {
            State.LOCAL: "not needed: these are your own files",
            State.APPROVED: "approved with the text that you saw; any other text is asked about"
            if self.skill.entry.is_dynamic
            else "approved as it is now",
            State.ALWAYS: "loaded without asking (policy of its server: always)",
            State.NEW: "not approved",
            State.CHANGED: f"changed since you approved it: {counted(len(status.changes), 'file')}",
            State.DECLINED: "declined by you, as it is now",
            State.DYNAMIC: "not approved; its server lists no digests, so a yes is for the text that you see",
            State.NEVER: "blocked (policy of its server: never)",
            State.SIGNER: "asked about: its signer changed",
            State.REFUSED: f"refused: {shown(status.problem, 2000)}",
            State.UNUSABLE: f"cannot be used: {shown(status.problem, 2000)}",
        }[status.state]
        if status.state is State.NEW and status.policy is Policy.PINNED:
            words += " (policy of its server: pinned, so you are not asked)"
        if not self.skill.origin.is_local and self.granted:
            words += f"; granted: {', '.join(self.granted)}"
        return f"{words}; it is nested in another skill" if status.nested else words

    @property
    def granted(self) -> tuple[str, ...]:
        """What the user granted beyond reading, in words."""
        given = (
            ("its tools", self.status.grants.allowed_tools),
            ("running code", self.status.grants.execute_code),
        )
        return tuple(words for words, is_given in given if is_given)

    @property
    def waits(self) -> bool:
        """Whether the user has still to decide about it."""
        return self.status.state in WAITING and self.skill.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class FileComparison:
    """A file that differs from what was approved.

    What is not available is `None`, and `problem` says why.
    """

    uri: SkillUri
    path: str
    kind: ChangeKind
    old: bytes | None = None
    """What was approved; `None` also for an added file."""
    new: bytes | None = None
    """What is served now; `None` also for a removed file."""
    problem: str = ""

    @property
    def old_text(self) -> str | None:
        return decode_text(self.old)

    @property
    def new_text(self) -> str | None:
        return decode_text(self.new)


async def compare(
    review: SkillReview,
    preview: Callable[[str], Awaitable[VerifiedFile]],
    approved: Callable[[SkillUri], Awaitable[bytes | None]],
) -> tuple[FileComparison, ...]:
    """Every file that changed since the skill was approved, with both versions as far as they are
    available."""
    root = skill_root(review.skill.uri)
    compared: list[FileComparison] = []
    for change in review.status.changes:
        old = new = None
        problem = ""
        if change.kind is not ChangeKind.ADDED:
            old = await approved(change.uri)
            problem = "" if old is not None else "the approved version is not in the cache"
        if change.kind is not ChangeKind.REMOVED:
            try:
                new = (await preview(change.uri)).data
            except SkillwireError as error:
                problem = f"it cannot be read now: {error}"
        path = "/".join(path_below(change.uri, root))
        compared.append(
            FileComparison(uri=change.uri, path=path, kind=change.kind, old=old, new=new, problem=problem)
        )
    return tuple(compared)
