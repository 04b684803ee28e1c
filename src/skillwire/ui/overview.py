"""Overview: all skills of a host with their status, searched, filtered and divided into pages."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import anyio

from skillwire.consent import State
from skillwire.consent.status import UNCHECKED
from skillwire.errors import SkillwireError
from skillwire.host import SkillReview
from skillwire.limits import MIB
from skillwire.skill import DYNAMIC, path_below, skill_root
from skillwire.text import split_hidden
from skillwire.trust import SignatureState, requested_tools
from skillwire.ui.items import SkillItem
from skillwire.words import counted

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.host import SkillHost

Item = TypeVar("Item")
_SEARCHED: Final = 500
_MOST_SIGNATURES: Final = 2_000
_MOST_ASKED: Final = 10_000
_MOST_TEXTS: Final = 20_000
_MOST_FILES: Final = 32
_MOST_BYTES: Final = MIB
"""A skill with more files or bytes is not checked for the inbox: it has to be opened."""
_TEXT_SECONDS: Final = 0.5
_TOGETHER: Final = 8
NOT_SIGNED: Final = "not signed"
_SIGNER_WORDS: Final = {
    SignatureState.UNSIGNED: NOT_SIGNED,
    SignatureState.UNKNOWN: "unknown publisher",
    SignatureState.DIFFERS: "files differ from the signature",
}
_ORDER: Final = {State.CHANGED: 0, State.NOT_APPROVED: 1}


@dataclass(frozen=True, slots=True)
class ItemPage(Generic[Item]):
    """Some of many items."""

    rows: Sequence[Item]
    number: int
    count: int
    total: int


def paged(items: Sequence[Item], number: int, size: int) -> ItemPage[Item]:
    """One page of items; the nearest one when there is no such page."""
    count = max(-(-len(items) // size), 1)
    number = min(max(number, 1), count)
    return ItemPage(items[(number - 1) * size : number * size], number, count, len(items))


@dataclass(frozen=True, slots=True)
class Filter:
    """Which skills to show. An empty field matches all."""

    query: str = ""
    origin: str = ""
    state: str = ""
    signer: str = ""

    def admits(self, review: SkillReview) -> bool:
        """Whether a skill has the requested origin and state."""
        return self.origin in ("", review.skill.origin.label) and self.state in (
            "",
            review.status.state.value,
        )


class Overview:
    """Reviews of all skills, rebuilt when a listing or an approval changes."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._skills: tuple[HostSkill, ...] | None = None
        self._revisions = (-1, -1)
        self._reviews: tuple[SkillReview, ...] = ()
        self._signers: tuple[object, int, list[str]] = (None, 0, [])
        self._asked: dict[tuple[str, str], list[str]] = {}
        self.checked = 0
        """How often signatures were checked."""
        self.text_requested = anyio.Event()
        """Set when there are skills whose texts are to be checked."""
        self._hidden: OrderedDict[str, int] = OrderedDict()
        self._unchecked: dict[str, SkillReview] = {}
        self._texts_checked = anyio.Event()

    def reviews(self) -> tuple[SkillReview, ...]:
        """Every skill with its approval status, local ones first."""
        skills, approvals = self._host.skills(disabled=True), self._host.admin.approvals.revision
        revisions = (approvals, self._host.admin.signature_revision)
        if skills is not self._skills or revisions != self._revisions:
            self._reviews = tuple(self._host.admin.review(skill) for skill in skills)
            self._skills, self._revisions = skills, revisions
        return self._reviews

    async def prepare(self) -> None:
        """Check the signatures without which a state would not be true: those of origins that require one."""
        await self._host.admin.check_signatures()

    def ask(self, label: str, uri: str, caller: str) -> None:
        """Record that a caller of a gateway asked for a skill."""
        callers = self._asked.setdefault((label, uri), [])
        name = caller or "your client"
        if name not in callers:
            callers.append(name)
        while len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def asked_by(self, review: SkillReview) -> tuple[str, ...]:
        """The callers of a gateway who asked for a skill."""
        return tuple(self._asked.get((review.skill.origin.label, review.skill.uri), ()))

    def waiting(self, origin: str = "") -> list[SkillReview]:
        """Return the skills to decide about: what was asked for, what changed, what is new."""
        found = [one for one in self.reviews() if one.waits and origin in ("", one.skill.origin.label)]
        return sorted(found, key=lambda one: (not self.asked_by(one), _ORDER[one.status.state]))

    def not_yet_waiting(self) -> list[str]:
        """Return what is neither decided nor in the inbox, in words: there is nothing to decide about yet."""
        unchecked = sum(one.skill.enabled and one.status.reason == UNCHECKED for one in self.reviews())
        return [f"The signatures of {counted(unchecked, 'skill')} are being checked."] if unchecked else []

    def waiting_by_origin(self) -> list[tuple[str, int]]:
        """How many skills of each origin need a decision."""
        return sorted(Counter(review.skill.origin.label for review in self.waiting()).items())

    def item(self, review: SkillReview, caller: str = "") -> SkillItem:
        """A skill as a page shows it, to the user or to a caller of a gateway."""
        skill, admin = review.skill, self._host.admin
        shown = admin.approvals.record(admin.approvals.key(skill.origin, skill.uri, caller)).shown
        before = requested_tools(shown.frontmatter.get("allowed-tools")) if shown is not None else ()
        return SkillItem(
            review,
            admin.known_signature(skill),
            self.asked_by(review),
            hidden=self._hidden.get(review.digest or ""),
            new_tools=tuple(tool for tool in review.requested_tools if tool not in before),
        )

    async def request_texts(self, reviews: Iterable[SkillReview]) -> None:
        """Have the texts of these skills checked for hidden characters, and wait for that for a moment."""
        unknown = {one.digest: one for one in reviews if one.digest and one.digest not in self._hidden}
        if not unknown:
            return
        self._unchecked |= unknown
        checked = self._texts_checked
        self.text_requested.set()
        with anyio.move_on_after(_TEXT_SECONDS):
            await checked.wait()

    async def check_texts(self) -> bool:
        """Count the hidden characters of what was requested. Returns whether anything was checked."""
        self.text_requested = anyio.Event()
        unchecked, self._unchecked = self._unchecked, {}
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def check(digest: str, review: SkillReview) -> None:
            async with limiter:
                self._hidden[digest] = await self._count_hidden(review)

        async with anyio.create_task_group() as tasks:
            for digest, review in unchecked.items():
                tasks.start_soon(check, digest, review)
        while len(self._hidden) > _MOST_TEXTS:
            self._hidden.popitem(last=False)
        done, self._texts_checked = self._texts_checked, anyio.Event()
        done.set()
        return bool(unchecked)

    async def _count_hidden(self, review: SkillReview) -> int:
        """The hidden characters in all texts of a skill; -1 if they cannot be read, or are too many to."""
        skill = review.skill
        entry = skill.entry
        if entry.resources is DYNAMIC or len(entry.resources) > _MOST_FILES or entry.total_size > _MOST_BYTES:
            return -1
        root, found = skill_root(entry.uri), 0
        for resource in entry.resources:
            path = "/".join(path_below(resource.uri, root))
            try:
                file = await self._host.admin.preview(skill.uri, path, server=skill.origin.label)
            except SkillwireError:
                return -1
            found += sum(len(run) for run, is_hidden in split_hidden(file.text or "") if is_hidden)
        return found

    def signers(self) -> list[str]:
        """The signers that occur: publishers, and the words for skills without a good signature."""
        if self._signers[0] is not self.reviews() or self._signers[1] != self.checked:
            found = {self.signer_of(review) for review in self.reviews()}
            self._signers = (self.reviews(), self.checked, sorted(found))
        return self._signers[2] if self._signers[2] != [NOT_SIGNED] else []

    def signer_of(self, review: SkillReview) -> str:
        verdict = self._host.admin.known_signature(review.skill)
        if verdict is None:
            return "not checked"
        return verdict.publisher if verdict.is_signed else _SIGNER_WORDS.get(verdict.state, "not valid")

    async def check_signatures(self) -> None:
        """Check the signatures that have not been checked yet; one small file each."""
        admin = self._host.admin
        unknown = [one.skill for one in self.reviews() if admin.known_signature(one.skill) is None]
        await admin.check_signatures(unknown[:_MOST_SIGNATURES])
        self.checked += bool(unknown)

    def origins(self) -> list[str]:
        return sorted({review.skill.origin.label for review in self.reviews()})

    def states(self) -> list[State]:
        """The states that occur."""
        present = {review.status.state for review in self.reviews()}
        return [state for state in State if state in present]

    async def find(self, wanted: Filter) -> list[SkillReview]:
        """The matching skills, best first if words are searched for."""
        reviews = self.reviews()
        if not wanted.query.strip():
            return self._signed_by(wanted.signer, [review for review in reviews if wanted.admits(review)])
        by_key = {review.skill.key: review for review in reviews}
        by_handle = {review.skill.handle: review for review in reviews}
        found: list[SkillReview] = []
        for match in await self._host.search(wanted.query, limit=_SEARCHED):
            # A page lists every skill; copies with the same text are left out only for a model.
            named = (by_key.get(match.skill.key), *(by_handle.get(handle) for handle in match.copies))
            found += [review for review in named if review is not None and wanted.admits(review)]
        return self._signed_by(wanted.signer, found)

    def _signed_by(self, signer: str, reviews: list[SkillReview]) -> list[SkillReview]:
        return [review for review in reviews if self.signer_of(review) == signer] if signer else reviews
