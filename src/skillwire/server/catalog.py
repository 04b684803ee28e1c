"""Catalog: an immutable snapshot of the skills of all sources, with differences and pages."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Generic, Literal, TypeVar

from skillwire.errors import FormatError
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.sources.base import PagedSource
from skillwire.sources.conflicts import Ownership

T = TypeVar("T")


@dataclass(frozen=True)
class Catalog:
    """The listings of the sources, merged and sorted by URI. `listed` excludes unlisted skills. `parts` are
    the listings of the sources. A catalog is immutable.
    """

    parts: tuple[Sequence[SkillEntry], ...]
    settled: Ownership
    entries: tuple[SkillEntry, ...]
    listed: tuple[SkillEntry, ...]
    paged: PagedSource | None = None
    """The source, if it is read in pages. The catalog then has no entries and only identifies the state."""
    number: int = 0
    """The last change of such a source."""

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The URIs of the listed skills."""
        return tuple([entry.uri for entry in self.listed])

    @cached_property
    def by_uri(self) -> dict[SkillUri, SkillEntry]:
        return {entry.uri: entry for entry in self.entries}

    def has_directory(self, uri: str) -> bool:
        """Whether a skill is at this URI or somewhere below it."""
        prefix = f"{uri}/"
        at = bisect_left(self.entries, prefix, key=lambda entry: entry.uri)
        return at < len(self.entries) and self.entries[at].uri.startswith(prefix)


@dataclass(frozen=True, slots=True)
class Difference:
    """The URIs of files that were added, removed or edited, and whether the listing itself changed."""

    changed: frozenset[SkillUri]
    is_list_changed: bool


def difference(before: Catalog, after: Catalog) -> Difference:
    """The visible differences between two catalogs. The cost depends on what changed, not on the size of the
    catalog.
    """
    if before is after:
        return Difference(frozenset(), False)
    if after.paged is not None:
        is_list_changed, files = after.paged.changed_files(before.number)
        return Difference(files, is_list_changed)
    changed: set[SkillUri] = set()
    for was, now in _pairs(before.entries, after.entries):
        changed.update(_files_that_differ(was, now))
    return Difference(frozenset(changed), not has_same_metadata(before, after))


@dataclass(frozen=True, slots=True)
class SkillChange:
    """What happened to one skill."""

    kind: Literal["added", "removed", "changed"]
    uri: SkillUri


def skill_changes(before: Catalog, after: Catalog) -> tuple[SkillChange, ...]:
    """The skills that were added, removed or changed, sorted by URI."""
    found: list[SkillChange] = []
    for was, now in () if before is after else _pairs(before.entries, after.entries):
        if was is None and now is not None:
            found.append(SkillChange("added", now.uri))
        elif was is not None and now is None:
            found.append(SkillChange("removed", was.uri))
        elif was is not None and was != now:
            found.append(SkillChange("changed", was.uri))
    return tuple(found)


def has_same_metadata(before: Catalog, after: Catalog) -> bool:
    """Whether both list the same skills with the same frontmatter."""
    if len(before.listed) != len(after.listed):
        return False
    return all(
        was is now or (was.uri, was.frontmatter) == (now.uri, now.frontmatter)
        for was, now in zip(before.listed, after.listed, strict=True)
    )


def _pairs(
    before: Sequence[SkillEntry], after: Sequence[SkillEntry]
) -> Iterator[tuple[SkillEntry | None, SkillEntry | None]]:
    """Pairs of old and new entries that are not the same object. Both sequences are sorted by URI."""
    # Most changes affect one place among thousands: skip the equal parts before and after it.
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
    """How many entries at the start are the same objects."""
    pairs = map(is_, before, after)
    return next((at for at, is_same in enumerate(pairs) if not is_same), min(len(before), len(after)))


def _files_that_differ(was: SkillEntry | None, now: SkillEntry | None) -> Iterator[SkillUri]:
    before, after = _digests(was), _digests(now)
    for uri in before.keys() | after.keys():
        if before.get(uri) != after.get(uri):
            yield uri
    # A dynamic skill lists no files, so only its frontmatter can be compared.
    present = was or now
    if present is not None and (was is None or now is None or was.frontmatter != now.frontmatter):
        yield present.uri


def _digests(entry: SkillEntry | None) -> dict[SkillUri, str]:
    if entry is None or entry.resources is DYNAMIC:
        return {}
    return {file.uri: file.digest for file in entry.resources}


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a listing, and the cursor of the next part."""

    items: Sequence[T]
    next_cursor: str | None


def cut_page(
    items: Sequence[T], keys: Sequence[str], cursor: str | None, *, size: int, listing: str
) -> Page[T]:
    """The page of `items` after `cursor`. `keys` are their sort keys; `listing` names the listing.

    A cursor contains the key of the last returned item, so changes neither skip nor repeat items, and the
    cursor stays valid if that item is removed (LST-1).
    """
    start = 0 if cursor is None else bisect_right(keys, decode_cursor(cursor, listing))
    end = start + size
    more = end < len(items)
    return Page(items[start:end], encode_cursor(keys[end - 1], listing) if more else None)


def encode_cursor(key: str, listing: str) -> str:
    """The cursor for the items after a key."""
    return base64.urlsafe_b64encode(f"{listing}\n{key}".encode()).decode("ascii").rstrip("=")


def decode_cursor(cursor: str, listing: str) -> str:
    """The key in a cursor of this listing, or a `FormatError`."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        named, newline, key = (
            base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8").partition("\n")
        )
    except (binascii.Error, ValueError):
        named, newline, key = "", "", ""
    if not newline or named != listing:
        raise FormatError.of(
            rule="cursor", message="the cursor does not belong to this listing", fix="start without a cursor"
        )
    return key
