"""Discovery in the dialects before the final extension.

The most informative dialect comes first: the index (D4, D3, D2), then resources with manifests (D1), then
plain `SKILL.md` resources (D0). The first dialect with a result is used. Other resources that look like
skills are used only if the user or the style enabled the bare scan, and reported otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from skillwire.errors import FormatError, LimitExceeded, RequestRefused, SkillNotFound, SkillwireError
from skillwire.issues import Issue, shown
from skillwire.limits import Limits
from skillwire.skill.dialects import Dialect
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SKILL_FILE, SkillUri, skill_root
from skillwire.wire.index import INDEX_URI, parse_index
from skillwire.wire.legacy import LegacyListing, ListedResource, left_out, reason
from skillwire.wire.manifest import bind_to_manifest
from skillwire.wire.paging import PageLimits, Stop
from skillwire.wire.scan import (
    bare_resources,
    bare_skills,
    resource_page,
    scanned_entry,
    with_manifests,
)

_SIDE_BY_SIDE: Final = 8
_NAMED: Final = 5


def _none(entry: SkillEntry) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectOptions:
    """What is accepted and asked for beyond the final extension. By default, nothing."""

    accept_drafts: bool = False
    """Accept entries without files, as in a draft. Only the user enables it."""
    bare_scan: bool = False
    """Accept resources that only look like skills. Only the user, or the style that they chose, enables
    it."""
    peek: Callable[[SkillEntry], bool] = _none
    """Selects the skills whose frontmatter is read early, where VER-5 allows it."""
    ask_everyone: bool = False
    """Request an index even if a server declared no resources."""


@dataclass(frozen=True, slots=True)
class Asker:
    """The requests that are needed: a page of resources, and the bytes of one by the server's spelling."""

    page: Callable[[str | None], Awaitable[object]]
    read: Callable[[str], Awaitable[bytes]]


async def list_legacy(asker: Asker, *, bare_scan: bool, limits: Limits) -> LegacyListing:
    """The skills of a server in the newest dialect that it supports."""
    found, issues = await _index(asker, limits)
    has_index = found is not None or bool(issues)
    try:
        resources = await all_resources(asker, limits)
    except (RequestRefused, FormatError):
        if found is None:
            raise
        resources = []  # An index is enough.
    if found is None:
        manifests = with_manifests(resources)
        found = await _with_manifests(asker, manifests) if manifests else LegacyListing()
    known = {skill_root(entry.uri) for entry in found.entries}
    rest = [resource for resource in bare_resources(resources) if not _is_of(resource.uri, known)]
    if not bare_scan:
        # R7: without an index or manifests, a SKILL.md is an unconfirmed skill.
        taken = [one for one in rest if one.uri.endswith(f"/{SKILL_FILE}")] if not found.entries else []
        issues = (*issues, *_left_alone([one for one in rest if one not in taken]))
        rest = taken
    bare = bare_skills(rest)
    entries = {entry.uri: entry for entry in (*bare.entries, *found.entries)}
    return LegacyListing(
        tuple(entries[uri] for uri in sorted(entries)),
        (*issues, *found.issues, *bare.issues),
        bare.spellings | found.spellings,
        found.templates,
        tuple(resources),
        has_index,
    )


def _is_of(text: str, roots: Collection[SkillUri]) -> bool:
    """Whether a resource is one of these skills or a file of it."""
    return any(text.rstrip("/") == root or text.startswith(f"{root}/") for root in roots)


def _left_alone(resources: Sequence[ListedResource]) -> Iterable[Issue]:
    if resources:
        names = ", ".join(shown(resource.uri) for resource in resources[:_NAMED])
        more = f" and {len(resources) - _NAMED:,} more" if len(resources) > _NAMED else ""
        message = f"look like skills, but no index or manifest says that they are: {names}{more}"
        yield left_out("resources", message, "set bare_scan = true for this server to use them")


async def _index(asker: Asker, limits: Limits) -> tuple[LegacyListing | None, tuple[Issue, ...]]:
    try:
        return parse_index(await asker.read(INDEX_URI), limits=limits), ()
    except (RequestRefused, SkillNotFound):
        return None, ()  # Most servers have none.
    except LimitExceeded as error:
        return None, (left_out(INDEX_URI, str(error), "ask its operator for a shorter one"),)
    except FormatError as error:
        return None, (left_out(INDEX_URI, reason(error), error.issues[0].fix),)


async def all_resources(asker: Asker, limits: Limits) -> list[ListedResource]:
    """All resources of `resources/list`, over all pages."""
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
    """Every skill with its manifest, a few at a time. A bad manifest only affects its own skill."""
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
