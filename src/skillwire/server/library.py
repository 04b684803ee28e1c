"""SkillLibrary: the skills of all sources as one catalog, independent of transport and SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar, cast

from skillwire.errors import SkillNotFound
from skillwire.issues import Issue, shown
from skillwire.server.catalog import Catalog, Page, cut_page, decode_cursor, encode_cursor
from skillwire.server.options import DEFAULT_OPTIONS, ServerOptions
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, skill_root, split_uri
from skillwire.sources.base import DirectoryChild, PagedSource, Problem, Read, Source
from skillwire.sources.conflicts import Conflict, Ownership, resolve_conflicts
from skillwire.sources.directory.roots import Root
from skillwire.sources.directory.source import DirectorySource

# GET-1, RD-1: an error contains the whole URI, unless it is very long.
_SHOWN = 2048

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
            return read
        if await self._is_directory(uri):
            raise SkillNotFound(
                f"{shown(uri, _SHOWN)} is a directory; list it with resources/directory/read, "
                "or read the SKILL.md inside it",
                uri=uri,
            )
        raise SkillNotFound(f"No resource is served at {shown(uri, _SHOWN)}", uri=uri)

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
        """What the sources left out, including skills that another source already serves."""
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
        if self.paged is not None:
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
