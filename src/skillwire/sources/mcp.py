"""McpSource: the skills of one MCP server, within budgets, asked for no more often than they can change.

It speaks to a `Peer`, one connection; it knows methods and limits, not transports. Nothing is fetched
ahead of need: a listing holds entries, and a file is read when somebody asks for that file (VER-5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from skillwire.errors import LimitExceeded, RequestRefused, SkillNotFound, SourceError
from skillwire.issues import Issue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri
from skillwire.sources.base import Problem
from skillwire.wire.answers import WireChild, directory_page, file_bytes, list_page, single_entry
from skillwire.wire.declaration import Declaration
from skillwire.wire.v1 import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY

INVALID_PARAMS: Final = -32602


class Peer(Protocol):
    """The other end of a connection."""

    @property
    def declaration(self) -> Declaration | None:
        """What the server declared, or `None` (CAP-3)."""
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """The result of a request, within the time and size limits; `SourceError` when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _Listing:
    entries: tuple[SkillEntry, ...]
    problems: tuple[Problem, ...]
    good_until: float


class McpSource:
    """Skills over the final extension (D6)."""

    def __init__(
        self,
        label: str,
        peer: Peer,
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._label = label
        self._peer = peer
        self._limits = limits
        self._clock = clock
        self._listing: _Listing | None = None
        self._asking = anyio.Lock()
        self._retrieved = 0

    async def list_entries(self) -> Sequence[SkillEntry]:
        """Every listed skill; asked for again only when the last answer has expired."""
        # Whoever comes while the question is open waits for the one answer.
        async with self._asking:
            if self._listing is None or self._clock() >= self._listing.good_until:
                self._listing = await self._ask_for_all()
            return self._listing.entries

    def expire(self) -> None:
        """Ask again next time, whatever the server said about keeping the answer."""
        self._listing = None

    def problems(self) -> Sequence[Problem]:
        return self._listing.problems if self._listing else ()

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        """The entry of one skill, listed or not, as it is now (GET-1)."""
        self._require_declaration()
        try:
            answer = await self._peer.request(METHOD_GET, {"uri": uri})
        except RequestRefused as error:
            if error.code == INVALID_PARAMS:
                raise SkillNotFound(f"{self._label} has no skill at {shown_uri(uri)}", uri=uri) from None
            raise
        return single_entry(answer, uri)

    async def read(self, uri: SkillUri) -> bytes:
        """The bytes of one resource, unverified. Only `trust/verify.py` makes more of them."""
        try:
            answer = await self._peer.request("resources/read", {"uri": uri})
        except RequestRefused as error:
            if error.code == INVALID_PARAMS:
                raise SkillNotFound(f"{self._label} has no file at {shown_uri(uri)}", uri=uri) from None
            raise
        data = file_bytes(answer, uri)
        # SEC-9: a skill of many small reads must not become endless either.
        self._retrieved += len(data)
        if self._retrieved > self._limits.bytes_per_server:
            raise LimitExceeded(
                f"{self._label} has sent more than {self._limits.bytes_per_server:,} bytes: it is cut off; "
                "raise bytes_per_server if that is meant"
            )
        return data

    async def read_directory(self, uri: SkillUri) -> Sequence[WireChild]:
        """What the server says lies in a directory. The held entry decides what may be shown (VER-4)."""
        declaration = self._require_declaration()
        if not declaration.directory_read:
            # CAP-3: never asked of a server that did not offer it.
            raise SourceError(f"{self._label} does not offer directory reads")
        children: list[WireChild] = []
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            params = {"uri": uri} if cursor is None else {"uri": uri, "cursor": cursor}
            try:
                page = directory_page(await self._peer.request(METHOD_READ_DIRECTORY, params))
            except RequestRefused as error:
                if error.code == INVALID_PARAMS:
                    raise SkillNotFound(
                        f"{self._label} has no directory at {shown_uri(uri)}", uri=uri
                    ) from None
                raise
            children.extend(page.children)
            cursor = self._next(page.next_cursor, seen, len(children))
            if cursor is None:
                return children

    async def _ask_for_all(self) -> _Listing:
        self._require_declaration()
        entries: dict[SkillUri, SkillEntry] = {}
        issues: list[Issue] = []
        ttl: int | None = None
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            page = list_page(
                await self._peer.request(METHOD_LIST, {} if cursor is None else {"cursor": cursor})
            )
            ttl = page.ttl_ms if ttl is None else ttl
            issues.extend(page.issues)
            for entry in page.entries:
                if entries.setdefault(entry.uri, entry) != entry:
                    issues.append(_listed_twice(entry.uri))
            cursor = self._next(page.next_cursor, seen, len(entries) + len(issues))
            if cursor is None:
                break
        problems = (Problem(self._label, tuple(issues)),) if issues else ()
        kept = min(max((ttl or 0) / 1000, self._limits.min_ttl_seconds), self._limits.max_ttl_seconds)
        return _Listing(tuple(entries[uri] for uri in sorted(entries)), problems, self._clock() + kept)

    def _next(self, cursor: str | None, seen: set[str], count: int) -> str | None:
        """The cursor of the next page, unless the listing goes in circles or on for ever (SEC-9)."""
        if count > self._limits.entries_per_server:
            raise LimitExceeded(
                f"{self._label} lists more than {self._limits.entries_per_server:,} entries: it is cut off"
            )
        if cursor is None:
            return None
        if cursor in seen:
            raise SourceError(f"the listing of {self._label} goes in circles: tell its operator")
        seen.add(cursor)
        if len(seen) >= self._limits.pages:
            raise LimitExceeded(
                f"the listing of {self._label} has more than {self._limits.pages} pages: it is cut off"
            )
        return cursor

    def _require_declaration(self) -> Declaration:
        declaration = self._peer.declaration
        if declaration is None:
            raise SourceError(f"{self._label} does not declare the skills extension")
        return declaration


def _listed_twice(uri: SkillUri) -> Issue:
    return Issue(
        rule="listed-twice",
        message="is listed twice with different content; the first was taken",
        remedy="tell the server's operator",
        file=shown_uri(uri),
    )
