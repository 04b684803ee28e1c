"""SkillLibrary: the skills of all sources as one catalog, independent of transport and SDK."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from operator import is_
from pathlib import Path
from typing import Generic, Literal, TypeAlias, TypeVar, cast
from urllib.parse import unquote

from skillwire.documents import JsonObject
from skillwire.errors import FormatError, Issue, SkillNotFound
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import DYNAMIC, SkillEntry, SkillUri, media_type, skill_root, split_uri
from skillwire.sources import (
    Conflict,
    DirectoryChild,
    DirectorySource,
    Ownership,
    PagedSource,
    Problem,
    Read,
    Root,
    Source,
    resolve_conflicts,
)
from skillwire.text import shown
from skillwire.wire import DIRECTORY_READ_SETTING, EXTENSION_ID, QUERY_ID

IndexShape: TypeAlias = Literal["april-2026", "early-june-2026", "june-2026", "off"]
ToolsMode: TypeAlias = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyFeatures:
    """The features for clients without the extension; `docs/clients.md` says which client uses what.

    `index` is the draft whose format `skill://index.json` has. With `tools="auto"`, the tools are hidden from
    clients with the extension; with `every_tool`, the tools for searching and for listing files are always
    included.
    `list_legacy` adds the index, the manifests and the XML to `resources/list`, `list_files` the supporting
    files of all skills. The options of `skillwire serve` have the same names.
    """

    index: IndexShape = "april-2026"
    manifests: bool = True
    prompt_xml: bool = True
    tools: ToolsMode = "auto"
    prompts: bool = True
    list_legacy: bool = False
    list_files: bool = False
    every_tool: bool = False


ALL_OFF = LegacyFeatures(index="off", manifests=False, prompt_xml=False, tools="never", prompts=False)
"""No legacy features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How skills are served."""

    ttl_ms: int = 60_000
    """How long clients may cache a result, in milliseconds (LST-2, GET-2)."""
    cache_scope: Literal["public", "private"] = "public"
    """Whether a cache between server and client may share results among users."""
    page_size: int = 100
    """The number of items on one page of a listing."""
    unlisted: tuple[str, ...] = ()
    """Glob patterns over skill paths, such as `internal/*`. Matching skills are served but not listed."""
    legacy_features: LegacyFeatures = field(default_factory=LegacyFeatures)
    """The features for clients without the skills extension."""
    query: bool = False
    """Whether clients that declare `dev.skillwire/query` may search with `skills/list`."""
    watch: bool = True
    """Whether to watch for changes and notify clients. Otherwise a change is noticed when a file is read."""
    limits: Limits = DEFAULT_LIMITS
    """The limits of the server."""

    @property
    def extensions(self) -> dict[str, JsonObject]:
        """The extensions that a server declares, with their settings (CAP-1)."""
        return {EXTENSION_ID: {DIRECTORY_READ_SETTING: True}, **({QUERY_ID: {}} if self.query else {})}

    def __post_init__(self) -> None:
        if self.ttl_ms < 0:
            raise ValueError("ttl_ms must not be negative")
        if self.page_size < 1:
            raise ValueError("page_size must be at least 1")


DEFAULT_OPTIONS = ServerOptions()


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
    """A change of one skill."""

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


# GET-1, RD-1: an error contains the whole URI, unless it is very long.
_SHOWN = 2048
_MOST_READ = 10_000

Result = TypeVar("Result")


class SkillLibrary:
    """The skills of one or more sources: listings, entries, files and directories.

    Sources are directories, `prefix=directory` strings or `Source` objects. Directories are scanned together
    and come first.
    """

    def __init__(
        self, sources: Iterable[Source | Root | str | Path], options: ServerOptions = DEFAULT_OPTIONS
    ) -> None:
        self.sources = _sources(sources)
        self.page_size = options.page_size
        self.paged = _paged(self.sources)
        self._ttl_ms = options.ttl_ms
        self._unlisted = options.unlisted
        self._catalog: Catalog | None = None
        self._is_open = False
        self._users = 0
        self.read_since: set[SkillUri] = set()
        """The files that were read since the last search: their text may be at hand now."""

    async def open(self) -> None:
        """Open every source. The first request does so too."""
        if not self._is_open:
            for source in self.sources:
                await source.open()
            self._is_open = True

    async def aclose(self) -> None:
        """Close every source. The next request opens them again."""
        self._is_open = False
        for source in self.sources:
            await source.aclose()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Keep the sources open for the block. The last of several concurrent blocks closes them."""
        await self.open()
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                await self.aclose()

    async def list_skills(self, cursor: str | None, *, listing: str = "skills") -> Page[SkillEntry]:
        """A page of the listing, which may be partial (LST-3). Cursors are valid for one `listing` only."""
        if self.paged is not None:
            return await self._list_page(self.paged, cursor, listing)
        catalog = await self.catalog()
        return cut_page(catalog.listed, catalog.keys, cursor, size=self.page_size, listing=listing)

    async def get_skill(self, uri: SkillUri) -> SkillEntry:
        """The entry of any skill, listed or not (GET-1)."""
        entry = await self._first(uri, lambda source: source.get_entry(uri))
        if entry is None:
            raise SkillNotFound(f"No skill is served at {shown(uri, _SHOWN)}", uri=uri)
        return entry

    async def read(self, uri: SkillUri) -> Read:
        """The bytes of a file of any skill (RD-1)."""
        if (read := await self._first(uri, lambda source: source.read(uri))) is not None:
            if len(self.read_since) < _MOST_READ:
                self.read_since.add(uri)
            return read
        if await self._is_directory(uri):
            raise SkillNotFound(
                f"{shown(uri, _SHOWN)} is a directory; list it with resources/directory/read, "
                "or read the SKILL.md inside it",
                uri=uri,
            )
        raise SkillNotFound(f"No resource is served at {shown(uri, _SHOWN)}", uri=uri)

    async def at_hand(self, uri: SkillUri) -> bytes | None:
        """The bytes of a file, if no server and no person has to be asked for them; for search."""
        return await self._first(uri, lambda source: source.at_hand(uri))

    async def read_directory(self, uri: SkillUri, cursor: str | None) -> Page[DirectoryChild]:
        """A page of the direct children of a directory, merged over the sources (DIR-1, DIR-2)."""
        children: dict[str, DirectoryChild] = {}
        is_directory = False
        for source in await self._sources_of(uri):
            try:
                found = await source.read_directory(uri)
            except SkillNotFound:
                continue
            is_directory = True
            for child in found:
                children.setdefault(child.uri, child)
        if not is_directory:
            raise SkillNotFound(f"No directory is served at {shown(uri, _SHOWN)}", uri=uri)
        keys = sorted(children)
        listing = f"directory {uri}"
        return cut_page([children[key] for key in keys], keys, cursor, size=self.page_size, listing=listing)

    def ttl_ms(self, uri: str | None = None) -> int:
        """How long clients may cache a result, about one URI or about everything."""
        ttl_ms = self._ttl_ms
        for source in self.sources:
            ttl_ms = source.ttl_ms(uri, ttl_ms)
        return ttl_ms

    def follow(self, uris: Collection[SkillUri]) -> None:
        """Tell the sources which URIs clients subscribed to."""
        for source in self.sources:
            source.follow(uris)

    async def problems(self) -> Sequence[Problem]:
        """The skills that the sources left out, including those that another source already serves."""
        lost = (await self.catalog()).settled.lost
        return [*(problem for source in self.sources for problem in source.problems()), *map(_taken, lost)]

    async def entries(self) -> Sequence[SkillEntry]:
        """Every skill served, listed or not."""
        return (await self.catalog()).entries

    async def count(self) -> int:
        """How many skills are served."""
        return await self.paged.count() if self.paged is not None else len((await self.catalog()).entries)

    async def _list_page(self, source: PagedSource, cursor: str | None, listing: str) -> Page[SkillEntry]:
        await self.open()
        after = None if cursor is None else SkillUri(decode_cursor(cursor, listing))
        found = await source.list_page(after, self.page_size + 1)
        entries = found[: self.page_size]
        more = len(found) > self.page_size
        return Page(entries, encode_cursor(entries[-1].uri, listing) if more else None)

    async def _sources_of(self, uri: SkillUri) -> Sequence[Source]:
        """The source of the skill around a URI; outside of skills, all sources."""
        if self.paged is not None or (len(self.sources) == 1 and self.sources[0].is_starting):
            await self.open()
            return self.sources
        owner = (await self.catalog()).settled.owner_of(uri)
        return self.sources if owner is None else (self.sources[owner],)

    async def _first(self, uri: SkillUri, ask: Callable[[Source], Awaitable[Result]]) -> Result | None:
        """The result of the first source that has something at a URI; `None` if none has."""
        for source in await self._sources_of(uri):
            try:
                return await ask(source)
            except SkillNotFound:
                continue
        return None

    async def _is_directory(self, uri: SkillUri) -> bool:
        try:
            await self.read_directory(uri, None)
        except SkillNotFound:
            return False
        return True

    async def catalog(self) -> Catalog:
        """The current catalog. Returns the same object while nothing changes."""
        if not self._is_open:
            await self.open()
        if self.paged is not None:
            return self.current_catalog() or self._mark(self.paged)
        parts = tuple([await source.list_entries() for source in self.sources])
        cached = self._catalog
        if cached is None or any(new is not old for new, old in zip(parts, cached.parts, strict=True)):
            cached = self._catalog = self._merge(parts)
        return cached

    def current_catalog(self) -> Catalog | None:
        """The catalog, if it is known without waiting that it is current."""
        cached = self._catalog
        if cached is None:
            return None
        for source, part in zip(self.sources, cached.parts, strict=True):
            if source.current_entries() is not part:
                return None
        return cached

    def _mark(self, source: PagedSource) -> Catalog:
        """A catalog that identifies the state of a source whose entries are not loaded."""
        part = source.current_entries()
        self._catalog = Catalog((part,), Ownership({}, ()), (), (), paged=source, number=source.number)
        return self._catalog

    def _merge(self, parts: tuple[Sequence[SkillEntry], ...]) -> Catalog:
        if len(parts) == 1:
            settled, found = Ownership({}, ()), parts[0]  # One source: no conflicts.
        else:
            owned = {(entry.uri, owner): entry for owner, part in enumerate(parts) for entry in part}
            settled = resolve_conflicts(owned)
            for lost in settled.lost:
                del owned[lost.uri, lost.owner]
            found = owned.values()
        entries = tuple(sorted(found, key=lambda entry: entry.uri))
        listed = entries
        if self._unlisted:
            listed = tuple(entry for entry in entries if not self._is_unlisted(entry.uri))
        return Catalog(parts, settled, entries, listed)

    def _is_unlisted(self, uri: SkillUri) -> bool:
        parts = split_uri(skill_root(uri))
        path = "/".join((parts.authority, *parts.segments))
        return any(
            fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)
            for pattern in self._unlisted
        )


def _sources(given: Iterable[Source | Root | str | Path]) -> tuple[Source, ...]:
    sources: list[Source] = []
    roots: list[Root | str | Path] = []
    for one in given:
        if isinstance(one, Root | str | Path):
            roots.append(one)
        else:
            sources.append(one)
    if roots:
        sources.insert(0, DirectorySource(roots))
    return tuple(sources)


def _paged(sources: Sequence[Source]) -> PagedSource | None:
    """The single source, if it is read in pages; with other sources it is listed completely."""
    if len(sources) == 1 and getattr(sources[0], "is_paged", False):
        return cast("PagedSource", sources[0])
    return None


def _taken(lost: Conflict) -> Problem:
    where = "at this URI" if lost.uri == lost.winner else f"around it, {shown(lost.winner, _SHOWN)}"
    issue = Issue(
        rule="uri-taken",
        message=f"another source already serves a skill {where}",
        fix="give one of them a prefix",
    )
    return Problem(lost.uri, (issue,))


def file_content(uri: SkillUri, data: bytes) -> JsonObject:
    """The bytes of a file as the contents of a resource."""
    content: JsonObject = {"uri": uri, "mimeType": media_type(unquote(uri.rpartition("/")[2]))}
    # RD-2: text only if decoding loses nothing. Python's strict UTF-8 round-trips, including BOM and CRLF.
    try:
        content["text"] = data.decode("utf-8")
    except UnicodeDecodeError:
        content["blob"] = base64.b64encode(data).decode("ascii")
    return content
