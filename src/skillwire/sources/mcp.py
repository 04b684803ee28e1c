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
from skillwire.skill.uris import SkillUri, is_inside, parse_uri, shown_uri
from skillwire.sources.base import DirectoryChild, Problem, Read, Source
from skillwire.sources.legacy import Asker, list_legacy
from skillwire.sources.peek import with_peeks
from skillwire.wire.declaration import Declaration
from skillwire.wire.paging import PageLimits, Stop
from skillwire.wire.responses import WireChild, directory_page, extent, file_bytes, list_page, single_entry
from skillwire.wire.v1 import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY

INVALID_PARAMS: Final = -32602


class Peer(Protocol):
    """The other end of a connection."""

    @property
    def declaration(self) -> Declaration | None:
        """What the server declared, or `None` (CAP-3)."""
        ...

    @property
    def serves_resources(self) -> bool:
        """Whether the server declared resources; without them nothing is asked of it at all."""
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """The result of a request, within the time and size limits; `SourceError` when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _Listing:
    entries: tuple[SkillEntry, ...]
    problems: tuple[Problem, ...]
    good_until: float


class McpSource(Source):
    """Skills of one server, in whichever dialect it speaks.

    `accept_drafts` takes entries that list no files, as a draft had them; `bare_scan` takes resources that
    only look like skills. Both are the user's to turn on. `peek` says of which skills the frontmatter is read
    early where VER-5 allows; `ask_everyone` asks for an index though a server declared no resources.
    """

    def __init__(
        self,
        label: str,
        peer: Peer,
        *,
        accept_drafts: bool = False,
        bare_scan: bool = False,
        peek: Callable[[SkillEntry], bool] | None = None,
        ask_everyone: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._label = label
        self._peer = peer
        self._accept_drafts = accept_drafts
        self._bare_scan = bare_scan
        self._peek = peek
        self._ask_everyone = ask_everyone
        self._spellings: dict[SkillUri, str] = {}
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

    async def refresh(self) -> None:
        """Ask again next time, whatever the server said about caching its listing."""
        self._listing = None

    def problems(self) -> Sequence[Problem]:
        return self._listing.problems if self._listing else ()

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        """The entry of one skill, listed or not, as it is now (GET-1)."""
        if self._peer.declaration is None:
            return await self._listed_again(uri)
        try:
            answer = await self._peer.request(METHOD_GET, {"uri": self._spelling(uri)})
        except RequestRefused as error:
            if error.code == INVALID_PARAMS:
                raise SkillNotFound(f"{self._label} has no skill at {shown_uri(uri)}", uri=uri) from None
            raise
        return single_entry(answer, uri, accept_drafts=self._accept_drafts, limits=self._limits)

    async def read(self, uri: SkillUri) -> Read:
        """The bytes of one resource, unverified: `trust/verify.py` checks them."""
        return Read(await self._read(uri, self._spelling(uri)))

    async def _read(self, uri: SkillUri, spelling: str) -> bytes:
        try:
            answer = await self._peer.request("resources/read", {"uri": spelling})
        except RequestRefused as error:
            if error.code == INVALID_PARAMS:
                raise SkillNotFound(f"{self._label} has no file at {shown_uri(uri)}", uri=uri) from None
            raise
        data = file_bytes(answer, uri, spelling=spelling)
        # SEC-9: a skill of many small reads must not become endless either.
        self._retrieved += len(data)
        if self._retrieved > self._limits.bytes_per_server:
            raise LimitExceeded(
                f"{self._label} has sent more than {self._limits.bytes_per_server:,} bytes: it is cut off; "
                "raise bytes_per_server if that is meant"
            )
        return data

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        """What the server says lies in a directory. The held entry decides what may be shown (VER-4)."""
        declaration = self._require_declaration()
        if not declaration.directory_read:
            # CAP-3: never asked of a server that did not offer it.
            raise SourceError(f"{self._label} does not offer directory reads")
        children: list[DirectoryChild] = []
        cursor: str | None = None
        paging = PageLimits(self._limits)
        while True:
            params = {"uri": self._spelling(uri)} | ({} if cursor is None else {"cursor": cursor})
            try:
                answer = await self._peer.request(METHOD_READ_DIRECTORY, params)
                page = directory_page(answer, limits=self._limits)
            except RequestRefused as error:
                if error.code == INVALID_PARAMS:
                    raise SkillNotFound(
                        f"{self._label} has no directory at {shown_uri(uri)}", uri=uri
                    ) from None
                raise
            children.extend(map(_child, page.children))
            if self._is_last(paging, page.next_cursor, len(page.children)):
                return children
            cursor = page.next_cursor

    async def _ask_for_all(self) -> _Listing:
        if self._peer.declaration is not None:
            return await self._ask_by_extension()
        if not self._peer.serves_resources and not self._ask_everyone:
            return self._kept({}, [], None)
        asker = Asker(page=self._resource_page, read=lambda uri: self._read(parse_uri(uri), uri))
        try:
            found = await list_legacy(asker, bare_scan=self._bare_scan, limits=self._limits)
        except RequestRefused:
            if self._peer.serves_resources:
                raise
            return self._kept({}, [], None)  # It never said that it would answer.
        if self._peek is not None:
            found = await with_peeks(found, asker.read, wanted=self._peek, limits=self._limits)
        self._spellings = found.spellings
        return self._kept({entry.uri: entry for entry in found.entries}, list(found.issues), None)

    async def _ask_by_extension(self) -> _Listing:
        entries: dict[SkillUri, SkillEntry] = {}
        issues: list[Issue] = []
        spellings: dict[SkillUri, str] = {}
        room = self._limits.listing_chars
        ttl: int | None = None
        cursor: str | None = None
        paging = PageLimits(self._limits)
        while True:
            answer = await self._peer.request(METHOD_LIST, {} if cursor is None else {"cursor": cursor})
            # SEC-9: many pages of long entries must not add up either.
            room -= extent(answer, room)
            if room < 0:
                raise LimitExceeded(
                    f"{self._label} lists more than {self._limits.listing_chars:,} characters: it is cut off"
                )
            page = list_page(answer, accept_drafts=self._accept_drafts, limits=self._limits)
            ttl = page.ttl_ms if ttl is None else ttl
            issues.extend(page.issues)
            spellings.update(page.spellings)
            for entry in page.entries:
                if entries.setdefault(entry.uri, entry) != entry:
                    issues.append(_listed_twice(entry.uri))
            if self._is_last(paging, page.next_cursor, len(page.entries) + len(page.issues)):
                break
            cursor = page.next_cursor
        self._spellings = spellings
        return self._kept(entries, issues, ttl)

    def _kept(self, entries: Mapping[SkillUri, SkillEntry], issues: list[Issue], ttl: int | None) -> _Listing:
        problems = (Problem(self._label, tuple(issues)),) if issues else ()
        seconds = min(max((ttl or 0) / 1000, self._limits.min_ttl_seconds), self._limits.max_ttl_seconds)
        return _Listing(tuple(entries[uri] for uri in sorted(entries)), problems, self._clock() + seconds)

    async def _resource_page(self, cursor: str | None) -> object:
        return await self._peer.request("resources/list", {} if cursor is None else {"cursor": cursor})

    async def _listed_again(self, uri: SkillUri) -> SkillEntry:
        """An older dialect has no way to ask for one skill: its whole listing is read again."""
        await self.refresh()
        for entry in await self.list_entries():
            if entry.uri == uri:
                return entry
        raise SkillNotFound(f"{self._label} has no skill at {shown_uri(uri)}", uri=uri)

    def _spelling(self, uri: SkillUri) -> str:
        """A URI as the server writes it, which is the only way that it is sure to know it by."""
        if not self._spellings or uri in self._spellings:
            return self._spellings.get(uri, uri)
        for root, written in self._spellings.items():
            if is_inside(uri, root):
                return written + uri[len(root) :]
        return uri

    def _is_last(self, paging: PageLimits, next_cursor: str | None, items: int) -> bool:
        """Whether a page ends its listing; raises when the listing loops or exceeds a limit (SEC-9)."""
        match paging.stop(next_cursor, items):
            case None:
                return False
            case Stop.LAST:
                return True
            case Stop.LOOP:
                raise SourceError(f"the listing of {self._label} goes in circles: tell its operator")
            case Stop.PAGES:
                raise LimitExceeded(
                    f"the listing of {self._label} has more than {self._limits.pages} pages: it is cut off"
                )
            case Stop.ITEMS:
                most = self._limits.entries_per_server
                raise LimitExceeded(f"{self._label} lists more than {most:,} entries: it is cut off")

    def _require_declaration(self) -> Declaration:
        declaration = self._peer.declaration
        if declaration is None:
            raise SourceError(f"{self._label} does not declare the skills extension")
        return declaration


def _child(child: WireChild) -> DirectoryChild:
    return DirectoryChild(child.uri, child.uri.rpartition("/")[2], child.is_directory)


def _listed_twice(uri: SkillUri) -> Issue:
    return Issue(
        rule="listed-twice",
        message="is listed twice with different content; the first was taken",
        fix="tell the server's operator",
        file=shown_uri(uri),
    )
