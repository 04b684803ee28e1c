"""SkillSearch: full-text search over the skills of a host.

It searches the names, origins, paths and descriptions of all skills, and the text of a `SKILL.md` that is
local or in the cache. A search sends no request to a server (VER-5). Text is indexed only if its digest is
the one in the current entry (VER-1).

The index is built by the first search. Each later one adds what changed since.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Final, Protocol

import anyio
import anyio.to_thread

from skillwire.catalog import Changes, HostSkill, SkillKey, SkillTable, parse_query
from skillwire.catalog.search import Match, SearchIndex, SkillDocuments
from skillwire.errors import AmbiguousName, SkillNotFound, SkillwireError, SourceError
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Loader
from skillwire.host.semantic import SkillVectors
from skillwire.host.state import EventLog, ServedTemplate, find_template, is_template
from skillwire.host.storage import SkillCache
from skillwire.host.styles.base import owner_of, typed_fields
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, SkillUri, is_inside, parse_uri, path_below, skill_root
from skillwire.sources import Read
from skillwire.text import SafeLine, clean_line, shown
from skillwire.trust import Origin, looks_like_uri

_BATCH: Final = 200


class _Readable(Protocol):
    def read(self, uri: SkillUri) -> Awaitable[Read]: ...


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
    """Searches the skills of one registry.

    It watches the registry and the cache, so that only what changed since is indexed again.
    """

    registry: SkillTable
    source_of: Callable[[Origin], _Readable]
    cache: SkillCache
    limits: Limits
    semantic: bool = False
    """Whether skills are also found by the meaning of their descriptions (`host/semantic.py`)."""

    def __post_init__(self) -> None:
        self._updating = anyio.Lock()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._start_over()
        self.registry.watch(self._note)
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
            skill = self.registry.get(key)
            if skill is None or not skill.enabled or label not in (None, key.origin.label):
                return False
            return among is None or key in among

        def matching() -> list[Match[SkillKey]]:
            similar = None if self._vectors is None else self._vectors.nearest(query, is_wanted)
            return index.search(words, limit=wanted, wanted=is_wanted, similar=similar)

        matches = await anyio.to_thread.run_sync(matching, limiter=self._one_at_a_time)
        found: list[SearchMatch] = []
        for match in matches:
            skill = self.registry.get(match.key)
            if skill is not None:
                copies = [self.registry.get(key) for key in match.copies]
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
        if self._stale is not None and self.registry.get(key) is not None:
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
                stale = dict.fromkeys(skill.key for skill in self.registry.skills(disabled=True))
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
            skill = self.registry.get(key)
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
            return (await self.source_of(skill.origin).read(skill.uri)).data
        except SkillwireError:
            return None


_MOST_FAILURES: Final = 3
"""A message names this many origins that do not work, and counts the others."""


@dataclass(kw_only=True, eq=False)
class Resolver:
    """Looks skills up: first among those that are registered, and then, for a URI, on the one server that
    may have it without listing it.
    """

    registry: SkillTable
    inventory: Inventory
    loader: Loader
    log: EventLog

    async def find(
        self, name: str, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> HostSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3).

        A template means the skill for these values of its arguments.
        """
        if is_template(name):
            return await self._of_template(name, server, values or {})
        if values:
            raise SkillNotFound(f"{shown(name, 200)} is a skill, not a template: give no values for it")
        if "://" not in name:
            if not self.knows(name):
                await self.inventory.list_cached_again()
            try:
                skill = self.registry.find(name)
            except SkillNotFound as error:
                raise self._with_failures(error) from None
            except AmbiguousName:
                if server is None:
                    raise
                skill = self._on_server(name, server)
            if server is not None and skill.origin.label != server:
                skill = self._on_server(name, server)
            return await self.inventory.current(skill)
        uri = parse_uri(name)
        try:
            return await self.inventory.current(self.registry.find_uri(uri, server))
        except SkillNotFound:
            origin = self.inventory.places.server(server) if server is not None else self.likely_server(uri)
            return await self.inventory.look_up(uri, origin)

    async def _of_template(self, name: str, server: str | None, values: Mapping[str, str]) -> HostSkill:
        """The skill of a template. Where a value is missing, the error has those that the server suggests."""
        served = find_template(name, self.inventory.places.templates(), server)
        missing = [argument for argument in served.arguments if not values.get(argument)]
        if missing:
            known = await self.suggestions(served, missing[0])
            hint = f"; {missing[0]} can be {', '.join(known)}" if known else ""
            needed = " and ".join(missing)
            raise SkillNotFound(
                f"{shown(served.name, 200)} from {served.origin} needs a value for {needed}{hint}"
            )
        uri = served.template.expand(values)
        try:
            return await self.inventory.look_up(uri, served.origin)
        except SkillNotFound as error:
            raise SkillNotFound(
                f"the template {shown(served.name, 200)} has no skill for these values: {error}", uri=uri
            ) from None

    async def suggestions(self, served: ServedTemplate, argument: str, prefix: str = "") -> tuple[str, ...]:
        """Values that a server suggests, fit for one line; none when it does not say."""
        try:
            values = await self.inventory.places.complete(served, argument, prefix)
        except SourceError:
            return ()
        return tuple(clean_line(value, limit=100).text for value in values)

    async def key(self, name: str) -> SkillKey:
        """The skill that a name means, the held one of that name first."""
        return self.loader.held_as(name) or (await self.find(name)).key

    def handle(self, key: SkillKey, name: str) -> str:
        """Return the current handle of a skill; `name` if it is no longer listed."""
        skill = self.registry.get(key)
        return skill.handle if skill else name

    def knows(self, name: str) -> bool:
        """Whether a skill is called so."""
        try:
            self.registry.find(name)
        except AmbiguousName:
            return True
        except SkillNotFound:
            return False
        return True

    def require_label(self, label: str) -> None:
        """Raise `SkillNotFound` when neither a server nor a directory has this label."""
        self.inventory.places.require_label(label)

    def registered_on(self, uri: SkillUri, server: str | None) -> str | None:
        """The label of the origin of a registered skill; `None` when it is not registered."""
        try:
            return self.registry.find_uri(uri, server).origin.label
        except SkillNotFound:
            return None

    async def owner(self, uri: SkillUri) -> str:
        """The label of the one server that has a URI, as a skill or as any resource that it lists.

        `AmbiguousName` when there are two.
        """
        listing = await self.inventory.places.servers_listing(uri)
        skills = self.registry.skills(disabled=True)
        return owner_of(uri, skills, listing, self.inventory.places.servers()).label

    def local_file(self, text: str) -> tuple[HostSkill, str] | None:
        """The local skill that a URI, or a path on disk, is a file of, and the path below its directory.

        `None` when it is no file of a local skill. Of two skills inside one another, the inner one.
        """
        found: list[tuple[int, HostSkill, str]] = []
        path = None if looks_like_uri(text) else PurePath(text)
        uri = parse_uri(text) if path is None else None
        for skill in self.registry.skills():
            if not skill.origin.is_local:
                continue
            root = skill_root(skill.uri)
            if uri is not None and is_inside(uri, root):
                found.append((len(root), skill, "/".join(path_below(uri, root))))
            elif path is not None and (own := self.inventory.places.local_path(skill.origin, skill.uri)):
                folder = PurePath(own).parent
                if path.is_relative_to(folder):
                    found.append((len(root), skill, path.relative_to(folder).as_posix()))
        return max(found, key=lambda one: one[0])[1:] if found else None

    def files(self, skill: HostSkill) -> tuple[str, ...]:
        """The paths of a skill's supporting files, as far as its entry or its server lists them."""
        entry = skill.entry
        root = skill_root(entry.uri)
        if entry.resources is DYNAMIC:
            uris = self.inventory.places.listed_files(skill.origin, entry.uri)
        else:
            uris = tuple(resource.uri for resource in entry.resources if resource.uri != entry.uri)
        return tuple("/".join(path_below(uri, root)) for uri in uris)

    def invocable(self) -> list[HostSkill]:
        """The skills that a user can name in a message."""
        return [one for one in self.registry.skills() if typed_fields(one.entry.frontmatter).user_invocable]

    def likely_server(self, uri: SkillUri) -> Origin:
        """SEC-3: a URI in the text of a held skill concerns that skill's server alone."""
        held = [skill for skill in self.loader.held if not skill.origin.is_local]
        naming = [
            skill.origin
            for skill in held
            if (text := self.loader.held_text(SkillKey(skill.origin, skill.entry.uri))) and uri in text.body
        ]
        return self.inventory.places.only_server(uri, frozenset(naming or (skill.origin for skill in held)))

    def _on_server(self, name: str, server: str) -> HostSkill:
        """The skill of this name on one server, where another one has the name too."""
        self.inventory.places.require_label(server)
        return self.registry.find(f"{server}/{name}")

    def _with_failures(self, error: SkillNotFound) -> SkillNotFound:
        """The error, with the servers and directories that could not be asked: it may be on one of those."""
        failed = [failure for failure in self.log.failures() if failure.origin is not None]
        if not failed:
            return error
        reasons = "; ".join(failure.message for failure in failed[:_MOST_FAILURES])
        more = f"; and {len(failed) - _MOST_FAILURES} more" if len(failed) > _MOST_FAILURES else ""
        return SkillNotFound(f"{error}. Not all places could be searched: {reasons}{more}", uri=error.uri)
