"""The findings of a policy's scanners. Skills are scanned when they are opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import anyio
from markupsafe import Markup

from skillwire.errors import SkillwireError
from skillwire.trust import FindingLevel, Scan
from skillwire.ui.code import reveal

if TYPE_CHECKING:
    from skillwire.host import SkillHost, SkillReview

_WAIT_SECONDS: Final = 0.5
_FINDINGS_SHOWN: Final = 50


class SkillScans:
    """The scans of one host. A page waits for one only a moment, and shows it when it is done."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self.requested = anyio.Event()
        """Set when there are skills to be scanned."""
        self._waiting: dict[str, SkillReview] = {}
        self._failed: dict[str, str] = {}
        self._done = anyio.Event()

    def known(self, review: SkillReview) -> tuple[Scan, ...] | None:
        """The findings of every scanner of the policy; `None` if one has not scanned the skill yet."""
        candidate = self._host.decide.facts(review.skill)
        known = candidate.scans or {}
        if review.digest in self._failed:
            return (Scan(scanner="scanners", problem=self._failed[review.digest]),)
        scanners = candidate.policy.scanners
        return tuple(known.values()) if all(one.key in known for one in scanners) else None

    async def request(self, review: SkillReview) -> None:
        """Have a skill scanned as the policy asks for, and wait for that for a moment."""
        if self.known(review) is None and review.digest:
            self._waiting[review.digest] = review
            self.requested.set()
            done = self._done
            with anyio.move_on_after(_WAIT_SECONDS):
                await done.wait()

    async def run(self) -> None:
        """Scan what was requested."""
        self.requested = anyio.Event()
        while self._waiting:
            digest, review = self._waiting.popitem()
            try:
                await self._host.decide.scan(review.skill)
            except SkillwireError as error:
                self._failed[digest] = str(error)
            done, self._done = self._done, anyio.Event()
            done.set()


def scan_rows(scans: Iterable[Scan]) -> tuple[tuple[str, str, list[Markup]], ...]:
    """Each scan: its tone, its words, and its findings, with every hidden character as a mark."""
    return tuple(
        ("bad" if scan.problem or scan.worst is FindingLevel.ERROR else "", first, list(map(reveal, lines)))
        for scan in scans
        for first, *lines in [scan.lines(_FINDINGS_SHOWN)]
    )
