"""Overview: all skills of a host with their status, searched, filtered and divided into pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from skillwire.host.approvals.status import State
from skillwire.host.review import SkillReview
from skillwire.trust.signatures import SignatureState
from skillwire.ui.items import SkillItem

if TYPE_CHECKING:
    from skillwire.catalog.registry import RegisteredSkill
    from skillwire.host.host import SkillHost

Item = TypeVar("Item")
_SEARCHED: Final = 500
_MOST_SIGNATURES: Final = 2_000
_MOST_ASKED: Final = 10_000
NOT_SIGNED: Final = "not signed"
_SIGNER_WORDS: Final = {
    SignatureState.UNSIGNED: NOT_SIGNED,
    SignatureState.UNKNOWN: "unknown publisher",
    SignatureState.DIFFERS: "files differ from the signature",
}
_ORDER: Final = {State.SIGNER: 0, State.CHANGED: 1, State.NEW: 2}


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some of many items."""

    rows: Sequence[Item]
    number: int
    count: int
    total: int


def paged(items: Sequence[Item], number: int, size: int) -> Page[Item]:
    """One page of items; the nearest one when there is no such page."""
    count = max(-(-len(items) // size), 1)
    number = min(max(number, 1), count)
    return Page(items[(number - 1) * size : number * size], number, count, len(items))


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
            review.status.state.name.lower(),
        )


class Overview:
    """Reviews of all skills, rebuilt when a listing or an approval changes."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._skills: tuple[RegisteredSkill, ...] | None = None
        self._approvals = -1
        self._reviews: tuple[SkillReview, ...] = ()
        self._signers: tuple[object, int, list[str]] = (None, 0, [])
        self._asked: dict[tuple[str, str], list[str]] = {}
        self.checked = 0
        """How often signatures were checked."""

    def reviews(self) -> tuple[SkillReview, ...]:
        """Every skill with its approval status, local ones first."""
        skills, approvals = self._host.skills(disabled=True), self._host.admin.approvals.revision
        if skills is not self._skills or approvals != self._approvals:
            self._reviews = tuple(self._host.admin.review(skill) for skill in skills)
            self._skills, self._approvals = skills, approvals
        return self._reviews

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
        """What the user has to decide about: what was asked for, what changed, what is new."""
        found = [one for one in self.reviews() if one.waits and origin in ("", one.skill.origin.label)]
        return sorted(found, key=lambda one: (not self.asked_by(one), _ORDER[one.status.state]))

    def waiting_by_origin(self) -> list[tuple[str, int]]:
        """How many skills of each origin need a decision."""
        return sorted(Counter(review.skill.origin.label for review in self.waiting()).items())

    def item(self, review: SkillReview) -> SkillItem:
        """A skill as a page shows it."""
        return SkillItem(review, self._host.admin.known_signature(review.skill), self.asked_by(review))

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
