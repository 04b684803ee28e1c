"""SkillReview: what a person is shown before they decide, the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from skillwire.catalog import HostSkill
from skillwire.consent import ApprovalStatus, State
from skillwire.errors import FormatError, SkillwireError
from skillwire.skill import SetDigest, SkillUri, path_below, skill_root
from skillwire.text import decode_text, safe_line
from skillwire.text import shown as shown_name
from skillwire.trust import ApprovalMode, ChangeKind, VerifiedFile, requested_tools, shown_digest


@dataclass(frozen=True, slots=True)
class SkillReview:
    """A skill and its approval status. An approval is for exactly the files that `digest` names."""

    skill: HostSkill
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
        """The words of its approval status, and what follows from it."""
        status = self.status
        more = {
            State.OWN: "no approval is needed",
            State.APPROVED: "with the text that you saw; any other text is asked about"
            if self.skill.entry.is_dynamic
            else "as it is now",
            State.ALLOWED: "the approval mode of its server is always",
            State.NOT_APPROVED: "its server lists no digests, so a yes is for the files that you see"
            if self.skill.entry.is_dynamic
            else "",
            State.CHANGED: "since you approved it",
            State.DECLINED: "by you, as it is now",
            State.REFUSED: shown_name(status.problem, 2000),
        }[status.state]
        if status.state is State.NOT_APPROVED and status.approval_mode is ApprovalMode.PINNED:
            more = "the approval mode of its server is pinned, so you are not asked"
        words = f"{status.words}: {more}" if more else status.words
        if self.granted:
            words += f"; granted: {', '.join(self.granted)}"
        return f"{words}; it is nested in another skill" if status.nested else words

    @property
    def granted(self) -> tuple[str, ...]:
        """The grants of the user beyond reading, in words."""
        given = (
            ("its tools", self.status.grants.allowed_tools),
            ("running code", self.status.grants.execute_code),
        )
        scripts = (safe_line(f"{script} {grant}") for script, grant in sorted(self.status.grants.scripts))
        return (*(words for words, is_given in given if is_given), *scripts)

    @property
    def waits(self) -> bool:
        """Whether the user has still to decide about it."""
        return self.status.waits and self.skill.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class FileComparison:
    """A file that differs from what was approved.

    What is not available is `None`, and `problem` says why.
    """

    uri: SkillUri
    path: str
    kind: ChangeKind
    old: bytes | None = None
    """The approved content; `None` also for an added file."""
    new: bytes | None = None
    """The content served now; `None` also for a removed file."""
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
    """Every file that changed since the skill was approved, both versions as far as they are available."""
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
