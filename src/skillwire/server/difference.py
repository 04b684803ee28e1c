"""Difference: what a client can tell between two moments of a catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skillwire.server.catalogue import Catalogue
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri


@dataclass(frozen=True, slots=True)
class Difference:
    """The URIs of files that came, went or have other bytes; whether other skills or metadata are listed."""

    changed: frozenset[SkillUri]
    is_list_changed: bool


def difference(before: Catalogue, after: Catalogue) -> Difference:
    """What changed. An entry that is the same object is not looked at, so it costs what differs."""
    if before is after:
        return Difference(frozenset(), False)
    old, new = before.by_uri, after.by_uri
    changed: set[SkillUri] = set()
    for uri in old.keys() | new.keys():
        was, now = old.get(uri), new.get(uri)
        if was is not now:
            changed.update(_files_that_differ(was, now))
    return Difference(frozenset(changed), _metadata(before, after))


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


def _metadata(before: Catalogue, after: Catalogue) -> bool:
    if len(before.listed) != len(after.listed):
        return True
    return any(
        was is not now and (was.uri, was.frontmatter) != (now.uri, now.frontmatter)
        for was, now in zip(before.listed, after.listed, strict=True)
    )
