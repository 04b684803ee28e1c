"""Peeks: frontmatter read early, where a dialect has no metadata of its own (VER-5).

Only the scans (D0, D1) are like that. A peek reads `SKILL.md` alone, keeps its parsed frontmatter and drops
the bytes. It is no load: nothing is held, cached or approved by it. What was peeked at is what a load must
find again, field by field (VER-2).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import anyio

from skillwire.errors import FormatError, SkillwireError
from skillwire.issues import Issue, shown
from skillwire.limits import Limits
from skillwire.skill.dialects import Dialect, Draft
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.uris import SkillUri, shown_uri
from skillwire.wire.legacy import LegacyListing, left_out, reason

_SIDE_BY_SIDE: Final = 8
_INDEX: Final = frozenset({Dialect.INDEX, Dialect.INDEX_WITH_DIGESTS, Dialect.INDEX_WITH_FRONTMATTER})


def is_scanned(entry: SkillEntry) -> bool:
    """Whether an entry came without metadata, from a scan of resources (D0, D1)."""
    return entry.dialect in (Dialect.MANIFEST, Dialect.BARE_SCAN)


async def with_peeks(
    listing: LegacyListing,
    read: Callable[[str], Awaitable[bytes]],
    *,
    wanted: Callable[[SkillEntry], bool] = is_scanned,
    limits: Limits,
) -> LegacyListing:
    """The listing with the frontmatter of the wanted skills. One that cannot be read costs itself alone."""
    entries: dict[SkillUri, SkillEntry] = {entry.uri: entry for entry in listing.entries}
    issues: list[Issue] = [*listing.issues]
    # VER-5: an entry with metadata of its own is read early only where `wanted` says so.
    scanned = [entry for entry in listing.entries if entry.draft is not None and wanted(entry)]
    turns = anyio.Semaphore(_SIDE_BY_SIDE)

    async def peek(entry: SkillEntry) -> None:
        spelling = entry.draft.spelling if entry.draft else entry.uri
        async with turns:
            try:
                entries[entry.uri] = peeked(entry, await read(spelling), limits=limits)
            except FormatError as error:
                del entries[entry.uri]
                issues.append(left_out(shown_uri(entry.uri), reason(error), error.issues[0].fix))
            except SkillwireError as error:
                if entry.dialect in _INDEX and entry.description:
                    return  # What the index says is enough to list it.
                del entries[entry.uri]
                issues.append(left_out(shown_uri(entry.uri), shown(str(error), 300), "ask again later"))

    async with anyio.create_task_group() as tasks:
        for entry in scanned[: limits.peeks]:
            tasks.start_soon(peek, entry)
    if len(scanned) > limits.peeks:
        more = len(scanned) - limits.peeks
        issues.append(
            left_out("resources", f"{more:,} skills were not peeked at (peeks)", "load them by name")
        )
    for entry in [entry for entry in entries.values() if entry.dialect in _INDEX and not entry.description]:
        del entries[entry.uri]
        message = "has no description, so no model could choose it"
        issues.append(left_out(shown_uri(entry.uri), message, "load it by its URI"))
    return replace(listing, entries=tuple(entries.values()), issues=tuple(issues))


def peeked(entry: SkillEntry, data: bytes, *, limits: Limits) -> SkillEntry:
    """The entry with what its `SKILL.md` says of itself.

    A scanned skill keeps the name of its directory. For an index skill the file is authoritative.
    """
    if len(data) > limits.peek_bytes or not data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return entry  # Too long to look at, or without frontmatter, which these dialects allow.
    found = parse_skill_md(data, file=shown_uri(entry.uri), limits=limits).frontmatter
    if entry.dialect in _INDEX:
        draft = replace(entry.draft, carried=None) if entry.draft else None
        return replace(entry, frontmatter=found, draft=draft)
    carried = frozenset(found) - {"name"}
    description = found.get("description")
    if not isinstance(description, str) or not description.strip():
        carried -= {"description"}
        found["description"] = entry.description
    draft = replace(entry.draft, carried=carried) if entry.draft else None
    return replace(entry, frontmatter={**found, "name": entry.name}, draft=draft)


def unlisted_entry(uri: SkillUri, data: bytes, *, limits: Limits) -> SkillEntry:
    """An entry for a skill that no index names, from its own frontmatter, or a `FormatError`."""
    found = parse_skill_md(data, file=shown_uri(uri), limits=limits).frontmatter
    draft = Draft(dialect=Dialect.BARE_SCAN, confirmed=False, spelling=uri)
    return SkillEntry(uri, found, DYNAMIC, {}, draft)
