"""DirectoryWalk: every directory that a server shows below its skills and above them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from skillwire.conformance.entries import EntryView
from skillwire.conformance.observations import ChildSeen, DirectorySeen, Paged
from skillwire.errors import FormatError
from skillwire.json_types import JsonObject, is_object
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.uris import SkillUri, is_inside, parse_uri, shown_uri, split_uri
from skillwire.wire.v1 import METHOD_READ_DIRECTORY


class Pages(Protocol):
    """Reads a listing to its end."""

    async def pages(self, method: str, params: JsonObject, key: str) -> Paged: ...


class DirectoryWalk:
    """Level by level, each directory once. Children that are not below their parent are never followed."""

    def __init__(self, reader: Pages, skills: Sequence[EntryView], *, is_whole: bool) -> None:
        self._reader = reader
        self._roots = [entry.root for entry in skills if entry.root is not None]
        self._files = [(entry.root, uri) for entry in skills if entry.root for uri in entry.files]
        # With only some skills to be checked, the rest of the tree is not read.
        self._is_whole = is_whole
        self._announced: set[SkillUri] = set()
        self.seen: dict[SkillUri, DirectorySeen] = {}
        self.too_deep = ""

    async def run(
        self,
        each: Callable[[str, Iterable[SkillUri], Callable[[SkillUri], Awaitable[None]]], Awaitable[None]],
    ) -> None:
        level = set(self._roots)
        for root in self._roots:
            level |= set(ancestors(root))
        for root, file in self._files:
            level |= {up for up in ancestors(file) if is_inside(up, root)}
        most = DEFAULT_LIMITS.verified_directories
        while level and len(self.seen) < most:
            await each("walking directories", sorted(level)[: most - len(self.seen)], self._read)
            level = set(self._next())

    async def _read(self, uri: SkillUri) -> None:
        paged = await self._reader.pages(METHOD_READ_DIRECTORY, {"uri": uri}, "resources")
        children = tuple(_child(item) for item in paged.items("resources"))
        self.seen[uri] = DirectorySeen(uri, paged, children, uri in self._announced)

    def _next(self) -> Iterator[SkillUri]:
        for directory in list(self.seen.values()):
            for child in directory.children:
                uri = child.uri
                if (
                    uri is None
                    or uri in self.seen
                    or not child.is_directory
                    or not is_direct(uri, directory.uri)
                ):
                    continue
                if len(split_uri(uri).segments) > DEFAULT_LIMITS.directory_depth:
                    self.too_deep = shown_uri(uri)
                elif self._is_whole or any(uri == root or is_inside(uri, root) for root in self._roots):
                    self._announced.add(uri)
                    yield uri


def ancestors(uri: SkillUri) -> Iterator[SkillUri]:
    """The directories above a URI, down to the authority (DIR-2)."""
    while (up := uri.rpartition("/")[0]) and not up.endswith("/"):
        uri = SkillUri(up)
        yield uri


def is_direct(uri: SkillUri, directory: SkillUri) -> bool:
    return is_inside(uri, directory) and "/" not in uri[len(directory) + 1 :]


def _child(raw: object) -> ChildSeen:
    asked = raw.get("uri") if is_object(raw) else None
    if not isinstance(asked, str):
        return ChildSeen(raw, None, "")
    try:
        # FMT-4: a slash at the end is a violation, not a reason to stop.
        return ChildSeen(raw, parse_uri(asked.removesuffix("/")), asked)
    except FormatError:
        return ChildSeen(raw, None, asked)
