"""Difference: what a client can tell between two moments of a catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import is_

from skillwire.server.catalog import Catalog
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri


@dataclass(frozen=True, slots=True)
class Difference:
    """The URIs of files that came, went or have other bytes; whether other skills or metadata are listed."""

    changed: frozenset[SkillUri]
    is_list_changed: bool


def difference(before: Catalog, after: Catalog) -> Difference:
    """What changed. An entry that is the same object is not looked at, so it costs what differs."""
    if before is after:
        return Difference(frozenset(), False)
    changed: set[SkillUri] = set()
    for was, now in _pairs(before.entries, after.entries):
        changed.update(_files_that_differ(was, now))
    return Difference(frozenset(changed), not has_same_metadata(before, after))


def has_same_metadata(before: Catalog, after: Catalog) -> bool:
    """Whether the same skills are listed, with the same frontmatter."""
    if len(before.listed) != len(after.listed):
        return False
    return all(
        was is now or (was.uri, was.frontmatter) == (now.uri, now.frontmatter)
        for was, now in zip(before.listed, after.listed, strict=True)
    )


def _pairs(
    before: Sequence[SkillEntry], after: Sequence[SkillEntry]
) -> Iterator[tuple[SkillEntry | None, SkillEntry | None]]:
    """The entries that are not the same object, old and new side by side. Both are in the order of URIs."""
    # Most changes are in one place among thousands: what is the same before it and after it is left out.
    start = _same(before, after)
    before, after = before[start:], after[start:]
    end = _same(before[::-1], after[::-1])
    before, after = before[: len(before) - end], after[: len(after) - end]
    at = to = 0
    while at < len(before) and to < len(after):
        was, now = before[at], after[to]
        if was.uri <= now.uri:
            at += 1
        if now.uri <= was.uri:
            to += 1
        if was is not now:
            yield (was if was.uri <= now.uri else None), (now if now.uri <= was.uri else None)
    for was in before[at:]:
        yield was, None
    for now in after[to:]:
        yield None, now


def _same(before: Sequence[SkillEntry], after: Sequence[SkillEntry]) -> int:
    """How many entries are the same objects, from the first one on."""
    pairs = map(is_, before, after)
    return next((at for at, is_same in enumerate(pairs) if not is_same), min(len(before), len(after)))


def _files_that_differ(was: SkillEntry | None, now: SkillEntry | None) -> Iterator[SkillUri]:
    before, after = _digests(was), _digests(now)
    for uri in before.keys() | after.keys():
        if before.get(uri) != after.get(uri):
            yield uri
    # A dynamic skill lists no files. That it came, went or calls itself something else is all that is known.
    present = was or now
    if present is not None and (was is None or now is None or was.frontmatter != now.frontmatter):
        yield present.uri


def _digests(entry: SkillEntry | None) -> dict[SkillUri, str]:
    if entry is None or entry.resources is DYNAMIC:
        return {}
    return {file.uri: file.digest for file in entry.resources}
