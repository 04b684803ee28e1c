"""LibrarySearch: search in the skills of a server, by the tool `search_skills` and by `skills/list`.

The index is built by the first search, in a thread, and each later search adds what changed since. The text
of a skill is searched if its source has it at hand; otherwise its name and description are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
import anyio.to_thread

from skillwire.catalog import Query, parse_query
from skillwire.catalog.search import SearchIndex, SkillDocuments
from skillwire.errors import SkillwireError
from skillwire.limits import Limits
from skillwire.server.library import Catalog, SkillLibrary
from skillwire.skill import SkillEntry, SkillUri

_BATCH = 200

_log = logging.getLogger(__name__)


class LibrarySearch:
    """Searches the listed skills of a library."""

    def __init__(self, library: SkillLibrary, limits: Limits) -> None:
        self._library = library
        self._limits = limits
        self._updating = anyio.Lock()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._start_over()

    def _start_over(self) -> None:
        self._catalog: Catalog | None = None
        self._index: SearchIndex[SkillUri] = SearchIndex(snippets=False)
        self._documents: SkillDocuments[SkillUri] = SkillDocuments(self._limits)
        self._entries: dict[SkillUri, SkillEntry] = {}

    async def search(self, text: str, limit: int) -> Sequence[SkillEntry]:
        """The skills that fit best, best first; none if no skill seems to fit."""
        query = parse_query(text, limits=self._limits)
        if not query or limit < 1:
            return ()
        if self._library.paged is not None:
            return await self._library.paged.search(query, limit)
        async with self._updating:
            try:
                await self._update(await self._library.catalog())
            except BaseException:
                # A canceled update leaves the index incomplete: the next search builds a new one.
                self._start_over()
                raise
            return await self._in_thread(query, limit)

    async def _in_thread(self, query: Query, limit: int) -> Sequence[SkillEntry]:
        index, entries = self._index, self._entries
        matches = await anyio.to_thread.run_sync(
            lambda: index.search(query, limit=limit), limiter=self._one_at_a_time
        )
        return [entries[match.key] for match in matches]

    async def _update(self, catalog: Catalog) -> None:
        """Index what changed, and the skills whose text was not at hand and was read since."""
        read, self._library.read_since = self._library.read_since, set[SkillUri]()
        stale = self._documents.described & read
        if catalog is self._catalog and not stale:
            return
        now = {entry.uri: entry for entry in catalog.listed}
        removed = [uri for uri in self._entries if uri not in now]
        changed = [entry for uri, entry in now.items() if self._entries.get(uri) is not entry or uri in stale]
        for uri in (*removed, *(entry.uri for entry in changed)):
            self._documents.forget(uri)
        for start in range(0, len(changed), _BATCH):
            batch = [(entry, await self._bytes(entry)) for entry in changed[start : start + _BATCH]]
            await anyio.to_thread.run_sync(self._add, batch, limiter=self._one_at_a_time)
        self._index.update((), removed)
        self._entries, self._catalog = now, catalog
        if changed and self._documents.cut:
            _log.warning(
                "the text of %d skills is not searched, only their names and descriptions: "
                "all texts have more than %d bytes (Limits.search_text_bytes)",
                len(self._documents.cut),
                self._limits.search_text_bytes,
            )

    async def _bytes(self, entry: SkillEntry) -> bytes | None:
        if self._documents.wanted(entry.uri, entry) is None:
            return None
        try:
            return await self._library.at_hand(entry.uri)
        except SkillwireError:
            return None

    def _add(self, batch: Sequence[tuple[SkillEntry, bytes | None]]) -> None:
        self._index.update([self._documents.make(entry.uri, entry, data) for entry, data in batch])
