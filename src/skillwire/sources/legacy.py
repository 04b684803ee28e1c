"""Discovery in the older dialects, for servers that do not declare the extension.

The order is from the most that a dialect says to the least: the index (D4, D3, D2), then resources with
manifests (D1), then, only where the user turned it on, whatever looks like a skill (D0). What was found in
the first that has an answer is all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

import anyio

from skillwire.errors import FormatError, LimitExceeded, RequestRefused, SkillNotFound, SkillwireError
from skillwire.issues import Issue, shown
from skillwire.limits import Limits
from skillwire.skill.drafts import Dialect
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, skill_root
from skillwire.wire.index import INDEX_URI, parse_index
from skillwire.wire.legacy import LegacyListing, left_out, reason
from skillwire.wire.manifest import bind_to_manifest
from skillwire.wire.paging import PageLimits, Stop
from skillwire.wire.scan import ListedResource, bare_skills, resource_page, scanned_entry, with_manifests

_SIDE_BY_SIDE: Final = 8


@dataclass(frozen=True, slots=True)
class Asker:
    """How a server is asked: one page of its resources, and the bytes of one of them by its own spelling."""

    page: Callable[[str | None], Awaitable[object]]
    read: Callable[[str], Awaitable[bytes]]


async def list_legacy(asker: Asker, *, bare_scan: bool, limits: Limits) -> LegacyListing:
    """The skills of a server in the newest dialect that it has an answer in."""
    index, issues = await _index(asker)
    if index is not None:
        return index
    resources = await _resources(asker, limits)
    manifests = with_manifests(resources)
    if manifests:
        found = await _with_manifests(asker, manifests)
        return replace(found, issues=(*issues, *found.issues))
    if bare_scan:
        found = bare_skills(resources)
        return replace(found, issues=(*issues, *found.issues))
    return LegacyListing((), issues)


async def _index(asker: Asker) -> tuple[LegacyListing | None, tuple[Issue, ...]]:
    try:
        return parse_index(await asker.read(INDEX_URI)), ()
    except (RequestRefused, SkillNotFound):
        return None, ()  # Most servers have none.
    except FormatError as error:
        return None, (left_out(INDEX_URI, reason(error), error.issues[0].fix),)


async def _resources(asker: Asker, limits: Limits) -> list[ListedResource]:
    resources: list[ListedResource] = []
    cursor: str | None = None
    paging = PageLimits(limits)
    while True:
        page = resource_page(await asker.page(cursor))
        resources.extend(page.resources)
        cursor = page.next_cursor
        stop = paging.stop(cursor, len(page.resources))
        if stop is Stop.LAST:
            return resources
        if stop is not None:
            # SEC-9: a listing that loops or never ends is cut off.
            raise LimitExceeded("its list of resources has no end: it is cut off")


async def _with_manifests(asker: Asker, manifests: dict[str, ListedResource]) -> LegacyListing:
    """Every skill with its manifest, a few read at a time. A bad one costs itself alone."""
    entries: dict[SkillUri, SkillEntry] = {}
    issues: list[Issue] = []
    spellings: dict[SkillUri, str] = {}
    turns = anyio.Semaphore(_SIDE_BY_SIDE)

    async def bind(manifest: str, resource: ListedResource) -> None:
        async with turns:
            try:
                entry = bind_to_manifest(
                    scanned_entry(resource, Dialect.MANIFEST), await asker.read(manifest)
                )
            except FormatError as error:
                issues.append(left_out(shown(resource.uri), reason(error), error.issues[0].fix))
                return
            except SkillwireError as error:
                issues.append(left_out(shown(resource.uri), str(error), "ask again later"))
                return
        entries[entry.uri] = entry
        root = resource.uri.rpartition("/")[0]
        if root != skill_root(entry.uri):
            spellings[skill_root(entry.uri)] = root

    async with anyio.create_task_group() as tasks:
        for manifest, resource in manifests.items():
            tasks.start_soon(bind, manifest, resource)
    return LegacyListing(tuple(entries[uri] for uri in sorted(entries)), tuple(issues), spellings)
