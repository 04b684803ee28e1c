"""SkillSearch: finds the skills of a host by words, in an index that follows the registry.

Names, places and descriptions of all skills are searched. So is the text of a skill's `SKILL.md`, where it is
at hand: a server's that was loaded before and is in the cache, and a local one on its disk. Nothing is asked
of a server for a search (VER-5). Text counts only when it is what the entry says now (VER-1).

Nothing is indexed before the first search. After that, a search takes in what changed since the last one.
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
    """A skill that fits a search. They come best first."""

    skill: RegisteredSkill
    snippet: SafeLine
    """The passage with the words. It can be a server's text that nobody approved: for people, not prompts."""
    partial: bool
    """Whether only some of the words were found."""
    copies: tuple[str, ...] = ()
    """The handles of skills with the same `SKILL.md`, which are not found again."""


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
        """The skills that fit best, of one origin if a label is given, or only `among` these.

        A query without words finds none.
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
        """A file came into the cache or went; if it is a skill's own, its text did."""
        key = SkillKey(origin, uri)
        if self._stale is not None and self.registry.get(key) is not None:
            self._stale[key] = None

    def _start_over(self) -> None:
        self._index: SearchIndex[SkillKey] | None = None
        # What changed since the index was made; `None` when nothing is indexed yet.
        self._stale: dict[SkillKey, None] | None = None
        self._text_bytes: dict[SkillKey, int] = {}
        self._room = self.limits.search_text_bytes

    async def _up_to_date(self) -> SearchIndex[SkillKey]:
        async with self._updating:
            index = self._index or SearchIndex[SkillKey]()
            stale = self._stale
            if stale is None:
                # In order, so that the same skills give the same ranks.
                stale = dict.fromkeys(skill.key for skill in self.registry.skills(disabled=True))
            self._stale = {}
            if stale:
                try:
                    await self._update(index, stale)
                except BaseException:
                    # Half an update is none: whoever was called off leaves the work to the next.
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
        # Servers' skills first: what is cached of them was used before.
        texts = await anyio.to_thread.run_sync(self._cached_texts, remote)
        texts += [await self._local_text(skill) for skill in local]
        rows = zip([*remote, *local], texts, strict=True)
        await anyio.to_thread.run_sync(
            lambda: index.update([_document(skill, text, self.limits) for skill, text in rows], gone),
            limiter=self._one_at_a_time,
        )

    def _cached_texts(self, skills: Sequence[RegisteredSkill]) -> list[str]:
        # Of most servers nothing was loaded yet: then there are no files to look for.
        used = {origin: any(self.cache.files(origin)) for origin in {skill.origin for skill in skills}}
        return [self._cached_text(skill) if used[skill.origin] else "" for skill in skills]

    def _cached_text(self, skill: RegisteredSkill) -> str:
        """The body of a server's skill when the cache has it as the entry says (SEC-8)."""
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
        """The digest of `SKILL.md`, unless it has none or there is no room for its text (SEC-9)."""
        resource = _skill_md(skill.entry)
        if resource is None:
            return None
        digest, size = resource
        return digest if size <= self._room else None

    def _text(self, skill: RegisteredSkill, data: bytes | None) -> str:
        # An older dialect does not list sizes, so what came is measured too.
        if data is None or len(data) > self._room:
            return ""
        resource = _skill_md(skill.entry)
        if resource is None or digest_of(data) != resource[0]:
            return ""  # VER-1: what is not as listed is not searched.
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
    # Every handle is made of these words, so a handle that changes in a collision needs no new document.
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
