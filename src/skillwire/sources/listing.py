"""Listing: the skills that an MCP server lists, page by page, within limits (LST-1, SEC-9)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import anyio

from skillwire.documents import is_object
from skillwire.errors import (
    FormatError,
    Issue,
    LimitExceeded,
    RequestRefused,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.limits import Limits
from skillwire.skill import (
    SKILL_FILE,
    Dialect,
    SkillEntry,
    SkillUri,
    is_inside,
    parse_uri,
    shown_uri,
    skill_root,
)
from skillwire.sources.base import Problem
from skillwire.text import shown
from skillwire.wire import (
    INDEX_URI,
    METHOD_LIST,
    Declaration,
    LegacyListing,
    ListedResource,
    PageLimits,
    Stop,
)
from skillwire.wire.legacy import (
    bare_resources,
    bare_skills,
    bind_to_manifest,
    left_out,
    parse_index,
    reason,
    resource_page,
    scanned_entry,
    with_manifests,
)
from skillwire.wire.v1 import ListPage, extent, list_page, listed_items, same_page

_SIDE_BY_SIDE: Final = 8
_NAMED: Final = 5


def _none(entry: SkillEntry) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectOptions:
    """The dialects that are accepted and asked for beyond the final extension. By default, none."""

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
class ResourceRequests:
    """The requests that are needed: a page of resources, and the bytes of one by the server's spelling."""

    page: Callable[[str | None], Awaitable[object]]
    read: Callable[[str], Awaitable[bytes]]


async def list_legacy(asker: ResourceRequests, *, bare_scan: bool, limits: Limits) -> LegacyListing:
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


async def _index(asker: ResourceRequests, limits: Limits) -> tuple[LegacyListing | None, tuple[Issue, ...]]:
    try:
        return parse_index(await asker.read(INDEX_URI), limits=limits), ()
    except (RequestRefused, SkillNotFound):
        return None, ()  # Most servers have none.
    except LimitExceeded as error:
        return None, (left_out(INDEX_URI, str(error), "ask its operator for a shorter one"),)
    except FormatError as error:
        return None, (left_out(INDEX_URI, reason(error), error.issues[0].fix),)


async def all_resources(asker: ResourceRequests, limits: Limits) -> list[ListedResource]:
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


async def _with_manifests(asker: ResourceRequests, manifests: dict[str, ListedResource]) -> LegacyListing:
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


METHOD_NOT_FOUND: Final = -32601
INCOMPLETE: Final = "listing-incomplete"
"""The rule of the issue that a listing is incomplete."""

_MENTION_SECONDS: Final = 5.0
_AT_ONCE: Final = 32
_write: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_BETWEEN_WORDS: Final = re.compile(r"[\s<>\"'`()\[\]{},]+")


class Peer(Protocol):
    """The server at the other end of a connection."""

    @property
    def declaration(self) -> Declaration | None:
        """Return the server's declaration, or `None` (CAP-3)."""
        ...

    @property
    def serves_resources(self) -> bool:
        """Whether the server declared resources; without them, no requests are sent to it."""
        ...

    @property
    def instructions(self) -> str:
        """The server's instructions for clients."""
        ...

    async def settled(self) -> None:
        """Wait until the server is connected or has failed, because its declaration is not known before."""
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """The result of a request, within the time and size limits, or `SourceError`."""
        ...

    def changes(self) -> AsyncGenerator[Collection[str | None]]:
        """The URIs that the server reports as changed, and `None` for its listing."""
        ...


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries that a server listed, and how long they may be cached."""

    entries: tuple[SkillEntry, ...]
    problems: tuple[Problem, ...]
    good_until: float
    spellings: Mapping[SkillUri, str] = field(default_factory=dict[SkillUri, str])
    """URIs that the server does not write in canonical form."""
    ttl_seconds: float = 0
    """How long the server allows the listing to be cached; 0 if it did not say."""


def with_newer(listing: Listing, newer: Mapping[SkillUri, SkillEntry]) -> Listing:
    """A listing with these entries in place of its own of the same skills."""
    if not any(entry.uri in newer for entry in listing.entries):
        return listing
    return replace(listing, entries=tuple(newer.get(entry.uri, entry) for entry in listing.entries))


@dataclass(slots=True)
class ArrivingListing:
    """A listing in progress: what has arrived so far."""

    entries: dict[SkillUri, SkillEntry] = field(default_factory=dict[SkillUri, SkillEntry])
    issues: list[Issue] = field(default_factory=list[Issue])
    spellings: dict[SkillUri, str] = field(default_factory=dict[SkillUri, str])
    ttl_ms: int | None = None
    pages: int = 0

    def cut_short(self, error: SourceError) -> None:
        """Keep what arrived before an error. It is valid, but must not be cached."""
        message = f"the listing stopped after {len(self.entries):,} skills: {error}"
        self.issues.append(Issue(rule=INCOMPLETE, message=message))
        self.ttl_ms = None


class PageMemory:
    """The pages of the last listing: one that says the same again gives the same entries, unread.

    Most listings are asked for again and say nothing new. One copy of the entries is held then.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, ListPage] = {}
        self._pages: dict[bytes, ListPage] = {}

    def start(self) -> None:
        """A listing begins: what was not on the pages of the one before is forgotten."""
        self._last, self._pages = self._pages or self._last, {}

    def read(self, answer: object, digest: bytes, *, accept_drafts: bool, limits: Limits) -> ListPage:
        """The page in an answer whose entries have this digest, or an empty one."""
        known = self._last.get(digest)
        if known is not None:
            page = same_page(known, answer)
        else:
            page = list_page(answer, accept_drafts=accept_drafts, limits=limits)
        if digest:
            self._pages[digest] = page
        return page


def measured(answer: object, most: int) -> tuple[int, bytes]:
    """How many characters an answer to `skills/list` has, roughly, and a digest of its entries.

    Of what cannot be written as JSON there is no digest, and counting stops beyond `most`.
    """
    digest = hashlib.sha256()
    try:
        items = listed_items(answer)
        rest = {key: value for key, value in answer.items() if key != "skills"} if is_object(answer) else {}
        chars = extent(rest, most)
        for start in range(0, len(items), _AT_ONCE):
            text = _write(items[start : start + _AT_ONCE])
            chars += len(text)
            if chars > most:
                return chars, b""
            digest.update(text.encode("utf-8", "surrogatepass"))
    except (FormatError, TypeError, ValueError, RecursionError):
        return extent(answer, most), b""
    return chars, digest.digest()


async def read_pages(
    arriving: ArrivingListing,
    peer: Peer,
    label: str,
    *,
    memory: PageMemory,
    accept_drafts: bool,
    limits: Limits,
) -> None:
    """Request every page of `skills/list`. An error after the first page ends the listing early."""
    memory.start()
    room = limits.listing_chars
    cursor: str | None = None
    paging = PageLimits(limits)
    while True:
        try:
            answer = await peer.request(METHOD_LIST, {} if cursor is None else {"cursor": cursor})
        except SourceError as error:
            if cursor is None:
                raise
            arriving.cut_short(error)
            return
        arriving.pages += 1
        # SEC-9: the total size of all pages is limited as well.
        chars, digest = measured(answer, room)
        room -= chars
        if room < 0:
            raise LimitExceeded(f"{label} lists more than {limits.listing_chars:,} characters: it is cut off")
        page = memory.read(answer, digest, accept_drafts=accept_drafts, limits=limits)
        if arriving.ttl_ms is None:
            arriving.ttl_ms = page.ttl_ms
        arriving.issues.extend(page.issues)
        arriving.spellings.update(page.spellings)
        for entry in page.entries:
            if arriving.entries.setdefault(entry.uri, entry) != entry:
                arriving.issues.append(_listed_twice(entry.uri))
        items = len(page.entries) + len(page.issues)
        try:
            if is_last_page(paging, page.next_cursor, items, label=label, limits=limits):
                return
        except SourceError as error:
            arriving.cut_short(error)
            return
        cursor = page.next_cursor


def is_last_page(
    paging: PageLimits, next_cursor: str | None, items: int, *, label: str, limits: Limits
) -> bool:
    """Whether a page ends its listing; raises if the listing loops or exceeds a limit (SEC-9)."""
    match paging.stop(next_cursor, items):
        case None:
            return False
        case Stop.LAST:
            return True
        case Stop.LOOP:
            raise SourceError(f"the listing of {label} repeats itself: tell its operator")
        case Stop.PAGES:
            raise LimitExceeded(f"the listing of {label} has more than {limits.pages} pages: it is cut off")
        case Stop.ITEMS:
            most = limits.entries_per_server
            raise LimitExceeded(f"{label} lists more than {most:,} entries: it is cut off")


async def confirm_mentioned(
    arriving: ArrivingListing,
    instructions: str,
    get_entry: Callable[[SkillUri], Awaitable[SkillEntry]],
    limits: Limits,
) -> None:
    """Add the skills that the server's instructions name, if that server has them (LST-3, SEC-3)."""
    found: dict[SkillUri, SkillEntry] = {}

    async def look_up(text: str) -> None:
        try:
            uri = parse_uri(text)
            if uri not in arriving.entries:
                found[uri] = await get_entry(uri)
        except SkillwireError as error:
            arriving.issues.append(_not_served(text, error))

    with anyio.move_on_after(_MENTION_SECONDS):
        async with anyio.create_task_group() as tasks:
            for text in mentioned_skills(instructions, limits):
                tasks.start_soon(look_up, text)
    arriving.entries.update(found)


def mentioned_skills(instructions: str, limits: Limits) -> list[str]:
    """Everything that looks like the URI of a skill, each once; only the server knows whether it is one
    (FMT-5). The text is split into words that are checked once, so that this takes linear time.
    """
    found: dict[str, None] = {}
    for word in _BETWEEN_WORDS.split(instructions[: limits.instructions_chars]):
        text = word.rstrip(".;:!?")
        if text.endswith(f"/{SKILL_FILE}") and "://" in text and len(text) <= limits.uri_bytes:
            found[text] = None
    return list(found)[: limits.linked_skills]


def _listed_twice(uri: SkillUri) -> Issue:
    return Issue(
        rule="listed-twice",
        message="is listed twice with different content; the first is used",
        fix="tell the server's operator",
        file=shown_uri(uri),
    )


def _not_served(text: str, error: SkillwireError) -> Issue:
    return Issue(
        rule="mentioned-skill",
        message=f"is named in the server's instructions, but not served: {error}",
        fix="tell the server's operator",
        file=shown_uri(text),
    )


def spelling_of(uri: SkillUri, spellings: Mapping[SkillUri, str]) -> str:
    """A URI as its server writes it, because the server may not know any other spelling."""
    if not spellings or uri in spellings:
        return spellings.get(uri, uri)
    for root, written in spellings.items():
        if is_inside(uri, root):
            return written + uri[len(root) :]
    return uri


def skill_at(text: str, known: Collection[SkillUri]) -> SkillUri | None:
    """The innermost known skill at or around a URI."""
    try:
        uri = parse_uri(text)
    except FormatError:
        return None
    directory = f"{uri}/"
    while True:
        directory = directory.rpartition("/")[0]
        if directory.endswith("/"):  # Only the scheme is left.
            return None
        skill = SkillUri(f"{directory}/{SKILL_FILE}")
        if skill in known:
            return skill
