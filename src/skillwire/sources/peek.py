"""Reads frontmatter early for dialects without metadata (VER-5).

These are the scans (D0, D1). A peek only reads `SKILL.md`, keeps its frontmatter and discards the bytes. It
is not a load: nothing is held, cached or approved. A later load must find the same frontmatter, field by
field (VER-2).
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
    """Whether an entry has no metadata, because it comes from a scan of resources (D0, D1)."""
    return entry.dialect in (Dialect.MANIFEST, Dialect.BARE_SCAN)


async def with_peeks(
    listing: LegacyListing,
    read: Callable[[str], Awaitable[bytes]],
    *,
    wanted: Callable[[SkillEntry], bool] = is_scanned,
    limits: Limits,
) -> LegacyListing:
    """The listing with the frontmatter of the wanted skills. Unreadable skills do not affect others."""
    entries: dict[SkillUri, SkillEntry] = {entry.uri: entry for entry in listing.entries}
    issues: list[Issue] = [*listing.issues]
    # VER-5: an entry with metadata is read early only if `wanted` says so.
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
                    return  # The index has enough to list it.
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
    """The entry with the frontmatter of its `SKILL.md`.

    A scanned skill keeps the name of its directory. For an index skill, the file takes precedence.
    """
    if len(data) > limits.peek_bytes or not data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return entry  # Too long to read early, or without frontmatter, which these dialects allow.
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
    """An entry for a skill that is in no index, from its own frontmatter, or a `FormatError`."""
    found = parse_skill_md(data, file=shown_uri(uri), limits=limits).frontmatter
    draft = Draft(dialect=Dialect.BARE_SCAN, confirmed=False, spelling=uri)
    return SkillEntry(uri, found, DYNAMIC, {}, draft)
