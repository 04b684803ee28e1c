"""Following: the skills that a host is told about when they change at their server.

Those are the skills in use, those that a person approved, those that a page shows now, and those that a
gateway serves. A host subscribes to their directories where a server offers that. A server may accept a
subscription and send nothing, so `Places` lists every server again when its listing expires.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from skillwire.catalog import Changes, HostSkill, SkillKey, SkillTable
from skillwire.consent import ConsentStore
from skillwire.host.places import Places
from skillwire.limits import Limits
from skillwire.skill import SkillUri, skill_root
from skillwire.trust import Origin

_MOST_SHOWN: Final = 50
"""The number of skills that pages showed last, which are followed."""


@dataclass(kw_only=True, eq=False)
class Following:
    """The skills that a host follows at each server, as a few directories."""

    places: Places
    table: SkillTable
    consent: ConsentStore
    limits: Limits
    _held: dict[Origin, tuple[SkillUri, ...]] = field(
        default_factory=dict[Origin, tuple[SkillUri, ...]], init=False
    )
    _shown: OrderedDict[SkillKey, None] = field(default_factory=OrderedDict[SkillKey, None], init=False)
    _served: dict[Origin, tuple[SkillUri, ...]] = field(
        default_factory=dict[Origin, tuple[SkillUri, ...]], init=False
    )
    # Also what was approved before it changed: a person is shown how it differs now.
    _approved: dict[Origin, set[SkillUri]] = field(default_factory=dict[Origin, set[SkillUri]], init=False)

    def __post_init__(self) -> None:
        self.table.watch(self._listed)

    def show(self, skill: HostSkill) -> None:
        """Follow a skill that a person is shown now."""
        is_new = skill.key not in self._shown
        self._shown[skill.key] = None
        self._shown.move_to_end(skill.key)
        while len(self._shown) > _MOST_SHOWN:
            self._shown.popitem(last=False)
        if is_new:
            self.update(skill.origin)

    def hold(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Follow these skills of a server, which are in use, instead of those before."""
        self._held[origin] = tuple(uris)
        self.update(origin)

    def serve(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Follow these skills of a server, which are served to others, instead of those before."""
        self._served[origin] = tuple(uris)
        self.update(origin)

    def update(self, origin: Origin) -> None:
        """Subscribe to what is followed of a server now."""
        if origin.is_local:
            return  # Directories are watched as a whole.
        approved = self._approved.setdefault(origin, set())
        approved.update(SkillUri(record.key.uri) for record in self.consent.approved(origin, caller=None))
        shown = [key.uri for key in self._shown if key.origin == origin]
        # What is more important comes first: the number is limited.
        wanted = [*self._held.get(origin, ()), *shown, *self._served.get(origin, ()), *sorted(approved)]
        listed = self.table.uris(origin)
        roots = dict.fromkeys(skill_root(uri) for uri in wanted if uri in listed)
        self.places.follow(origin, few_directories(tuple(roots), self.limits.followed_directories))

    def update_all(self) -> None:
        """The same for every server, after approvals changed."""
        for origin in self.places.server_origins():
            self.update(origin)

    def _listed(self, changes: Changes) -> None:
        for origin in dict.fromkeys(skill.origin for skill in (*changes.added, *changes.removed)):
            self.update(origin)


def few_directories(roots: Collection[SkillUri], most: int) -> tuple[SkillUri, ...]:
    """Directories that cover these, at most so many. Where there are too many, the deepest are covered by
    the directories above them, the largest groups first. What does not fit even so is left out from the end.
    """
    found = tuple(dict.fromkeys(roots))
    depth = max(map(_depth, found), default=0)
    while len(found) > most and depth > 1:
        groups: dict[SkillUri, list[SkillUri]] = {}
        for root in found:
            if _depth(root) == depth:
                groups.setdefault(SkillUri(root.rpartition("/")[0]), []).append(root)
        above: dict[SkillUri, SkillUri] = {}
        excess = len(found) - most
        for parent in sorted(groups, key=lambda one: len(groups[one]), reverse=True):
            if excess <= 0:
                break
            above |= dict.fromkeys(groups[parent], parent)
            excess -= len(groups[parent]) - 1
        found = tuple(dict.fromkeys(above.get(root, root) for root in found))
        depth -= 1
    return found[:most]


def _depth(directory: SkillUri) -> int:
    """The number of segments of a URI, the first one being its authority."""
    return directory.partition("://")[2].count("/") + 1
