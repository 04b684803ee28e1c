"""Catalog: the skills of all sources at one moment. Nothing in it changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.sources.conflicts import Ownership


@dataclass(frozen=True)
class Catalog:
    """The listings of the sources, merged and in the order of URIs. `listed` leaves out what is not listed.

    `parts` are the very objects that it was made from.
    """

    parts: tuple[Sequence[SkillEntry], ...]
    settled: Ownership
    entries: tuple[SkillEntry, ...]
    listed: tuple[SkillEntry, ...]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The URIs of what is listed."""
        return tuple([entry.uri for entry in self.listed])

    @cached_property
    def by_uri(self) -> dict[SkillUri, SkillEntry]:
        return {entry.uri: entry for entry in self.entries}

    def has_directory(self, uri: str) -> bool:
        """Whether a skill is at this URI or somewhere below it."""
        prefix = f"{uri}/"
        at = bisect_left(self.entries, prefix, key=lambda entry: entry.uri)
        return at < len(self.entries) and self.entries[at].uri.startswith(prefix)
