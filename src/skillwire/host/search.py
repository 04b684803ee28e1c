"""SkillSearch: full-text search over the skills of a host.

It searches the names, origins, paths and descriptions of all skills, and the text of a `SKILL.md` that is
local or in the cache. A search sends no request to a server (VER-5). Text is indexed only if its digest is
the one in the current entry (VER-1).

The index is built by the first search. Each later one adds what changed since.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import unquote

import anyio
import anyio.to_thread

from skillwire.catalog.naming import MAX_HANDLE_LENGTH, SkillKey
from skillwire.catalog.registry import Changes, RegisteredSkill, Registry
from skillwire.catalog.search import Document, SearchIndex
from skillwire.catalog.tokenize import parse_query
from skillwire.errors import SkillwireError
from skillwire.host.cache import SkillCache
from skillwire.limits import Limits
from skillwire.skill.digests import Digest, digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SKILL_FILE, SkillUri
from skillwire.sources.base import Read
from skillwire.text import SafeLine, clean_line, clean_text
from skillwire.trust.origin import Origin

_FRONTMATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


class _Readable(Protocol):
    def read(self, uri: SkillUri) -> Awaitable[Read]: ...


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill that matches a search. The best match comes first."""

    skill: RegisteredSkill
    snippet: SafeLine
    """The passage that matches. It can be text of a server that nobody approved: for people, not prompts."""
    partial: bool
    """Whether only some of the words were found."""
    copies: tuple[str, ...] = ()
    """The handles of skills with the same `SKILL.md`. They are not results of their own."""


@dataclass(kw_only=True, eq=False)
class SkillSearch:
    """Searches the skills of one registry.

    It watches the registry and the cache, so that only what changed since is indexed again.
    """

    registry: Registry
    source_of: Callable[[Origin], _Readable]
    cache: SkillCache
    limits: Limits

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
    ) -> tuple[FoundSkill, ...]:
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

        matches = await anyio.to_thread.run_sync(
            lambda: index.search(words, limit=wanted, wanted=is_wanted), limiter=self._one_at_a_time
        )
        found: list[FoundSkill] = []
        for match in matches:
            skill = self.registry.get(match.key)
            if skill is not None:
                copies = [self.registry.get(key) for key in match.copies]
                handles = tuple(copy.handle for copy in copies if copy is not None)
                found.append(FoundSkill(skill, index.snippet(match), match.partial, handles))
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
        self._text_bytes: dict[SkillKey, int] = {}
        self._room = self.limits.search_text_bytes

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
        remote: list[RegisteredSkill] = []
        local: list[RegisteredSkill] = []
        for key in stale:
            self._room += self._text_bytes.pop(key, 0)
            skill = self.registry.get(key)
            if skill is None:
                gone.append(key)
            else:
                (local if skill.origin.is_local else remote).append(skill)
        # Skills of servers first: their text is cached because they were used before.
        texts = await anyio.to_thread.run_sync(self._cached_texts, remote)
        texts += [await self._local_text(skill) for skill in local]
        rows = zip([*remote, *local], texts, strict=True)
        await anyio.to_thread.run_sync(
            lambda: index.update([_document(skill, text, self.limits) for skill, text in rows], gone),
            limiter=self._one_at_a_time,
        )

    def _cached_texts(self, skills: Sequence[RegisteredSkill]) -> list[str]:
        # Most servers have nothing in the cache: then no file is looked for.
        used = {origin: any(self.cache.files(origin)) for origin in {skill.origin for skill in skills}}
        return [self._cached_text(skill) if used[skill.origin] else "" for skill in skills]

    def _cached_text(self, skill: RegisteredSkill) -> str:
        """The body of a server's skill, if the cache has the version in the entry (SEC-8)."""
        digest = self._wanted_digest(skill)
        if digest is None:
            return ""
        return self._text(skill, self.cache.get(skill.origin, skill.uri, digest))

    async def _local_text(self, skill: RegisteredSkill) -> str:
        if self._wanted_digest(skill) is None:
            return ""
        try:
            data = (await self.source_of(skill.origin).read(skill.uri)).data
        except SkillwireError:
            return ""
        return self._text(skill, data)

    def _wanted_digest(self, skill: RegisteredSkill) -> Digest | None:
        """The digest of `SKILL.md`; `None` if it is not listed, or its text is too long to index (SEC-9)."""
        resource = _skill_md(skill.entry)
        if resource is None:
            return None
        digest, size = resource
        return digest if size <= self._room else None

    def _text(self, skill: RegisteredSkill, data: bytes | None) -> str:
        # Older dialects do not list sizes, so the bytes are counted too.
        if data is None or len(data) > self._room:
            return ""
        resource = _skill_md(skill.entry)
        if resource is None or digest_of(data) != resource[0]:
            return ""  # VER-1: only the listed version is searched.
        try:
            body = _FRONTMATTER.sub("", data.decode("utf-8"), count=1)
        except UnicodeDecodeError:
            return ""
        self._text_bytes[skill.key] = len(data)
        self._room -= len(data)
        return clean_text(body).text


def _skill_md(entry: SkillEntry) -> tuple[Digest, int] | None:
    if entry.resources is DYNAMIC:
        return None
    return next(((file.digest, file.size) for file in entry.resources if file.uri == entry.uri), None)


def _document(skill: RegisteredSkill, text: str, limits: Limits) -> Document[SkillKey]:
    # Every handle consists of these words, so a collision, which changes handles, needs no new document.
    path = skill.uri.partition("://")[2].removesuffix(f"/{SKILL_FILE}")
    resource = _skill_md(skill.entry)
    return Document(
        key=skill.key,
        name=clean_line(skill.entry.name, limit=MAX_HANDLE_LENGTH).text,
        place=clean_line(f"{skill.origin.label} {unquote(path)}").text,
        description=clean_line(skill.entry.description, limit=limits.description_chars).text,
        body=text,
        digest="" if resource is None else resource[0],
    )
