"""SkillLibrary: the skills of all sources as one catalogue, in pages, ready for any transport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from skillwire.errors import SkillNotFound
from skillwire.issues import Issue, shown
from skillwire.server.cursors import Page, cut_page
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, skill_root, split_uri
from skillwire.sources.base import DirectoryChild, Problem, Source


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """The listings of the sources, merged. `parts` are the very objects that it was made from."""

    parts: tuple[Sequence[SkillEntry], ...]
    listed: tuple[SkillEntry, ...]
    keys: tuple[str, ...]
    problems: tuple[Problem, ...]


class SkillLibrary:
    """Answers what the methods of the extension ask, from one or more sources.

    `unlisted` are glob patterns over skill paths such as `internal/*`: what they match is served, not listed.
    """

    def __init__(
        self, sources: Iterable[Source], *, page_size: int = 100, unlisted: Iterable[str] = ()
    ) -> None:
        if page_size < 1:
            raise ValueError("page_size must be at least 1")
        self._sources = tuple(sources)
        self._page_size = page_size
        self._unlisted = tuple(unlisted)
        self._catalogue = _Catalogue((), (), (), ())

    async def list_skills(self, cursor: str | None) -> Page[SkillEntry]:
        """A page of the listing, which may be partial (LST-3)."""
        catalogue = await self._current()
        return cut_page(catalogue.listed, catalogue.keys, cursor, size=self._page_size, listing="skills")

    async def get_skill(self, uri: SkillUri) -> SkillEntry:
        """The entry of any skill served, listed or not (GET-1)."""
        for source in self._sources:
            try:
                return await source.get_entry(uri)
            except SkillNotFound:
                continue
        raise SkillNotFound(f"No skill is served at {shown(uri)}", uri=uri)

    async def read(self, uri: SkillUri) -> bytes:
        """The bytes of a file of any skill (RD-1)."""
        for source in self._sources:
            try:
                return await source.read(uri)
            except SkillNotFound:
                continue
        if await self._is_directory(uri):
            raise SkillNotFound(
                f"{shown(uri)} is a directory; list it with resources/directory/read, "
                "or read the SKILL.md inside it",
                uri=uri,
            )
        raise SkillNotFound(f"No resource is served at {shown(uri)}", uri=uri)

    async def read_directory(self, uri: SkillUri, cursor: str | None) -> Page[DirectoryChild]:
        """A page of the direct children of a directory, merged over the sources (DIR-1, DIR-2)."""
        children: dict[str, DirectoryChild] = {}
        is_directory = False
        for source in self._sources:
            try:
                found = await source.read_directory(uri)
            except SkillNotFound:
                continue
            is_directory = True
            for child in found:
                children.setdefault(child.uri, child)
        if not is_directory:
            raise SkillNotFound(f"No directory is served at {shown(uri)}", uri=uri)
        keys = sorted(children)
        listing = f"directory {uri}"
        return cut_page([children[key] for key in keys], keys, cursor, size=self._page_size, listing=listing)

    async def problems(self) -> Sequence[Problem]:
        """What the sources left out, and what two of them wanted to serve under one URI."""
        catalogue = await self._current()
        return [*(problem for source in self._sources for problem in source.problems()), *catalogue.problems]

    async def entries(self) -> Sequence[SkillEntry]:
        """Every skill, listed or not."""
        return [entry for source in self._sources for entry in await source.list_entries()]

    async def _is_directory(self, uri: SkillUri) -> bool:
        try:
            await self.read_directory(uri, None)
        except SkillNotFound:
            return False
        return True

    async def _current(self) -> _Catalogue:
        parts = tuple([await source.list_entries() for source in self._sources])
        kept = self._catalogue
        if len(parts) == len(kept.parts) and all(
            new is old for new, old in zip(parts, kept.parts, strict=True)
        ):
            return kept
        self._catalogue = self._merge(parts)
        return self._catalogue

    def _merge(self, parts: tuple[Sequence[SkillEntry], ...]) -> _Catalogue:
        merged: dict[SkillUri, SkillEntry] = {}
        problems: list[Problem] = []
        for part in parts:
            for entry in part:
                if merged.setdefault(entry.uri, entry) is not entry:
                    problems.append(_taken(entry.uri))
        listed = [merged[uri] for uri in sorted(merged) if not self._is_unlisted(uri)]
        return _Catalogue(parts, tuple(listed), tuple(entry.uri for entry in listed), tuple(problems))

    def _is_unlisted(self, uri: SkillUri) -> bool:
        if not self._unlisted:
            return False
        parts = split_uri(skill_root(uri))
        path = "/".join((parts.authority, *parts.segments))
        return any(
            fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)
            for pattern in self._unlisted
        )


def _taken(uri: SkillUri) -> Problem:
    issue = Issue(
        rule="uri-taken",
        message="two sources serve this URI; the first one is used",
        remedy="give one of them a prefix",
    )
    return Problem(uri, (issue,))
