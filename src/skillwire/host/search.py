"""SkillSearch: full-text search over the skills of a host.

It searches the names, origins, paths and descriptions of all skills, and the text of a `SKILL.md` that is
local or in the cache. A search sends no request to a server (VER-5). Text is indexed only if its digest is
the one in the current entry (VER-1).

The index is built by the first search. Each later one adds what changed since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from skillwire.catalog import Changes, HostSkill, SkillKey, SkillTable, parse_query
from skillwire.catalog.search import Match, SearchIndex, SkillDocuments
from skillwire.errors import SkillwireError
from skillwire.host.places import Places
from skillwire.host.semantic import SkillVectors
from skillwire.host.storage import SkillCache
from skillwire.limits import Limits
from skillwire.skill import SkillUri
from skillwire.text import SafeLine
from skillwire.trust import Origin

_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A skill that matches a search. The best match comes first."""

    skill: HostSkill
    snippet: SafeLine
    """The passage that matches. It can be text of a server that nobody approved: for people, not prompts."""
    partial: bool
    """Whether only some of the words were found."""
    by_text: bool
    """Whether its text was searched too. That of a server's skill is not until it was loaded once."""
    copies: tuple[str, ...] = ()
    """The handles of skills with the same `SKILL.md`. They are not results of their own."""


@dataclass(kw_only=True, eq=False)
class SkillSearch:
    """Searches the skills of one host.

    It watches its table and the cache, so that only what changed since is indexed again.
    """

    table: SkillTable
    places: Places
    cache: SkillCache
    limits: Limits
    semantic: bool = False
    """Whether skills are also found by the meaning of their descriptions (`host/semantic.py`)."""

    def __post_init__(self) -> None:
        self._updating = anyio.Lock()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._start_over()
        self.table.watch(self._note)
        self.cache.watch(self._note_file)

    async def search(
        self,
        query: str,
        *,
        label: str | None = None,
        limit: int | None = None,
        among: Collection[SkillKey] | None = None,
    ) -> tuple[SearchMatch, ...]:
        """The best matches, of one origin if a label is given, and only `among` these keys if given.

        A query without words matches none.
        """
        words = parse_query(query, limits=self.limits)
        wanted = self.limits.search_results if limit is None else limit
        if not words or wanted < 1:
            return ()
        index = await self._up_to_date()

        def is_wanted(key: SkillKey) -> bool:
            skill = self.table.get(key)
            if skill is None or not skill.enabled or label not in (None, key.origin.label):
                return False
            return among is None or key in among

        def matching() -> list[Match[SkillKey]]:
            similar = None if self._vectors is None else self._vectors.nearest(query, is_wanted)
            return index.search(words, limit=wanted, wanted=is_wanted, similar=similar)

        matches = await anyio.to_thread.run_sync(matching, limiter=self._one_at_a_time)
        found: list[SearchMatch] = []
        for match in matches:
            skill = self.table.get(match.key)
            if skill is not None:
                copies = [self.table.get(key) for key in match.copies]
                handles = tuple(copy.handle for copy in copies if copy is not None)
                by_text = match.key not in self._documents.described
                found.append(SearchMatch(skill, index.snippet(match), match.partial, by_text, handles))
        return tuple(found)

    def _note(self, changes: Changes) -> None:
        if self._stale is not None:
            self._stale |= dict.fromkeys(
                skill.key for skill in (*changes.added, *changes.changed, *changes.removed)
            )

    def _note_file(self, origin: Origin, uri: SkillUri) -> None:
        """A file was cached or removed: if it is a `SKILL.md`, its skill is indexed again."""
        key = SkillKey(origin, uri)
        if self._stale is not None and self.table.get(key) is not None:
            self._stale[key] = None

    def _start_over(self) -> None:
        self._index: SearchIndex[SkillKey] | None = None
        # What changed since the last search; `None` if nothing is indexed yet.
        self._stale: dict[SkillKey, None] | None = None
        self._documents: SkillDocuments[SkillKey] = SkillDocuments(self.limits)
        self._vectors: SkillVectors[SkillKey] | None = SkillVectors(self.limits) if self.semantic else None

    async def _up_to_date(self) -> SearchIndex[SkillKey]:
        async with self._updating:
            index = self._index or SearchIndex[SkillKey]()
            stale = self._stale
            if stale is None:
                # In a fixed order, so that the same skills are ranked the same way.
                stale = dict.fromkeys(skill.key for skill in self.table.skills(disabled=True))
            self._stale = {}
            if stale:
                try:
                    await self._update(index, stale)
                except BaseException:
                    # A canceled update leaves the index incomplete: the next search builds a new one.
                    self._start_over()
                    raise
            self._index = index
            return index

    async def _update(self, index: SearchIndex[SkillKey], stale: Iterable[SkillKey]) -> None:
        gone: list[SkillKey] = []
        remote: list[HostSkill] = []
        local: list[HostSkill] = []
        for key in stale:
            self._documents.forget(key)
            skill = self.table.get(key)
            if skill is None:
                gone.append(key)
            else:
                (local if skill.origin.is_local else remote).append(skill)
        # Skills of servers first: their text is cached because they were used before.
        index.update((), gone)
        if self._vectors is not None:
            update = partial(self._vectors.update, (), gone)
            await anyio.to_thread.run_sync(update, limiter=self._one_at_a_time)
        for start in range(0, len(remote), _BATCH):
            batch = remote[start : start + _BATCH]
            await anyio.to_thread.run_sync(self._add_cached, index, batch, limiter=self._one_at_a_time)
        for start in range(0, len(local), _BATCH):
            rows = [(skill, await self._local(skill)) for skill in local[start : start + _BATCH]]
            await anyio.to_thread.run_sync(self._add, index, rows, limiter=self._one_at_a_time)

    def _add_cached(self, index: SearchIndex[SkillKey], skills: Sequence[HostSkill]) -> None:
        # Most servers have nothing in the cache: then no file is looked for.
        used = {origin: any(self.cache.files(origin)) for origin in {skill.origin for skill in skills}}
        self._add(index, [(skill, self._cached(skill) if used[skill.origin] else None) for skill in skills])

    def _add(self, index: SearchIndex[SkillKey], rows: Iterable[tuple[HostSkill, bytes | None]]) -> None:
        documents = [
            self._documents.make(skill.key, skill.entry, data, label=skill.origin.label)
            for skill, data in rows
        ]
        index.update(documents)
        if self._vectors is not None:
            self._vectors.update(documents)

    def _cached(self, skill: HostSkill) -> bytes | None:
        """The `SKILL.md` of a server's skill, if the cache has the version in the entry (SEC-8)."""
        digest = self._documents.wanted(skill.key, skill.entry)
        return None if digest is None else self.cache.get(skill.origin, skill.uri, digest)

    async def _local(self, skill: HostSkill) -> bytes | None:
        if self._documents.wanted(skill.key, skill.entry) is None:
            return None
        try:
            return (await self.places.source(skill.origin).read(skill.uri)).data
        except SkillwireError:
            return None
