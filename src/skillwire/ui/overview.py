"""Overview: all skills of a host with how they stand, searched, filtered and divided into pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from skillwire.host.approvals.status import State
from skillwire.host.review import SkillReview

if TYPE_CHECKING:
    from skillwire.catalog.registry import RegisteredSkill
    from skillwire.host.host import SkillHost

Item = TypeVar("Item")
_SEARCHED: Final = 500
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
    """Which skills a person wants to see. What is empty does not matter."""

    query: str = ""
    origin: str = ""
    state: str = ""
    signer: str = ""

    def admits(self, review: SkillReview) -> bool:
        return self.origin in ("", review.skill.origin.label) and self.state in (
            "",
            review.status.state.name.lower(),
        )


class Overview:
    """Reviews of all skills, made anew when a listing or an approval changed."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self._skills: tuple[RegisteredSkill, ...] | None = None
        self._approvals = -1
        self._reviews: tuple[SkillReview, ...] = ()

    def reviews(self) -> tuple[SkillReview, ...]:
        """Every skill with how it stands now, local ones first."""
        skills, approvals = self._host.skills(disabled=True), self._host.admin.approvals.revision
        if skills is not self._skills or approvals != self._approvals:
            self._reviews = tuple(self._host.admin.review(skill) for skill in skills)
            self._skills, self._approvals = skills, approvals
        return self._reviews

    def waiting(self, origin: str = "") -> list[SkillReview]:
        """What the user has to decide about: what changed first, then what is new."""
        found = [one for one in self.reviews() if one.waits and origin in ("", one.skill.origin.label)]
        return sorted(found, key=lambda review: _ORDER[review.status.state])

    def waiting_by_origin(self) -> list[tuple[str, int]]:
        """How many skills of each origin wait."""
        return sorted(Counter(review.skill.origin.label for review in self.waiting()).items())

    def origins(self) -> list[str]:
        return sorted({review.skill.origin.label for review in self.reviews()})

    def states(self) -> list[State]:
        """The states that occur."""
        present = {review.status.state for review in self.reviews()}
        return [state for state in State if state in present]

    async def find(self, wanted: Filter) -> list[SkillReview]:
        """The skills that fit, the best first where words are searched for."""
        reviews = self.reviews()
        if not wanted.query.strip():
            return [review for review in reviews if wanted.admits(review)]
        by_key = {review.skill.key: review for review in reviews}
        by_handle = {review.skill.handle: review for review in reviews}
        found: list[SkillReview] = []
        for match in await self._host.search(wanted.query, limit=_SEARCHED):
            # A page lists each skill; only a model is spared those with the same text.
            named = (by_key.get(match.skill.key), *(by_handle.get(handle) for handle in match.copies))
            found += [review for review in named if review is not None and wanted.admits(review)]
        return found
