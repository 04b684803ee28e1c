"""McpSource: the skills of one MCP server, within limits, and cached for as long as the server allows. It
uses one connection, a `Peer`, and is independent of transports. Nothing is fetched early: a listing only has
entries, and a file is read when it is requested (VER-5).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final

import anyio

from skillwire.errors import (
    FormatError,
    Issue,
    LimitExceeded,
    RequestRefused,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    Dialect,
    DraftDetails,
    SkillEntry,
    SkillUri,
    is_inside,
    parse_skill_md,
    parse_uri,
    shown_uri,
    skill_root,
)
from skillwire.sources.base import Change, DirectoryChild, Problem, Read, Source, children_among
from skillwire.sources.listing import (
    METHOD_NOT_FOUND,
    ArrivingListing,
    DialectOptions,
    Listing,
    PageMemory,
    Peer,
    ResourceRequests,
    all_resources,
    confirm_mentioned,
    is_last_page,
    list_legacy,
    read_pages,
    skill_at,
    spelling_of,
    with_newer,
)
from skillwire.text import shown
from skillwire.wire import (
    INDEX_URI,
    INVALID_PARAMS,
    METHOD_GET,
    METHOD_READ_DIRECTORY,
    Declaration,
    LegacyListing,
    ListedResource,
    PageLimits,
    SkillTemplate,
)
from skillwire.wire.legacy import completed_values, left_out, reason
from skillwire.wire.v1 import WireChild, content_count, directory_page, file_bytes, single_entry

_SIDE_BY_SIDE: Final = 8
_INDEX: Final = frozenset({Dialect.INDEX, Dialect.INDEX_WITH_DIGESTS, Dialect.INDEX_WITH_FRONTMATTER})


def is_scanned(entry: SkillEntry) -> bool:
    """Whether an entry has no metadata, because it comes from a scan of resources (D0, D1)."""
    return entry.dialect in (Dialect.MANIFEST, Dialect.BARE_SCAN)


async def with_peeks(
    listing: LegacyListing,
    read: Callable[[str], Awaitable[bytes]],
    *,
    wanted: Callable[[SkillEntry], bool] = is_scanned,
    limits: Limits,
) -> LegacyListing:
    """The listing with the frontmatter of the wanted skills. Unreadable skills do not affect others."""
    entries: dict[SkillUri, SkillEntry] = {entry.uri: entry for entry in listing.entries}
    issues: list[Issue] = [*listing.issues]
    # VER-5: an entry with metadata is read early only if `wanted` says so.
    scanned = [entry for entry in listing.entries if entry.draft is not None and wanted(entry)]
    late = {entry.uri for entry in scanned[: limits.peeks]}
    turns = anyio.Semaphore(_SIDE_BY_SIDE)

    async def peek(entry: SkillEntry) -> None:
        spelling = entry.draft.spelling if entry.draft else entry.uri
        async with turns:
            try:
                data = await read(spelling)
                late.discard(entry.uri)
                entries[entry.uri] = peeked(entry, data, limits=limits)
            except FormatError as error:
                del entries[entry.uri]
                issues.append(left_out(shown_uri(entry.uri), reason(error), error.issues[0].fix))
            except SkillwireError as error:
                late.discard(entry.uri)
                if entry.dialect in _INDEX and entry.description:
                    return  # The index has enough to list it.
                del entries[entry.uri]
                issues.append(left_out(shown_uri(entry.uri), shown(str(error), 300), "ask again later"))

    # One that does not arrive costs only itself: others are listed in time.
    with anyio.move_on_after(limits.peek_seconds):
        async with anyio.create_task_group() as tasks:
            for entry in scanned[: limits.peeks]:
                tasks.start_soon(peek, entry)
    for entry in scanned[: limits.peeks]:
        if entry.uri in late and not (entry.dialect in _INDEX and entry.description):
            entries.pop(entry.uri, None)
            issues.append(
                left_out(shown_uri(entry.uri), "its SKILL.md did not arrive in time", "ask again later")
            )
    if len(scanned) > limits.peeks:
        more = len(scanned) - limits.peeks
        issues.append(
            left_out("resources", f"{more:,} skills were not peeked at (peeks)", "load them by name")
        )
    for entry in [entry for entry in entries.values() if entry.dialect in _INDEX and not entry.description]:
        del entries[entry.uri]
        message = "has no description, so no model could choose it"
        issues.append(left_out(shown_uri(entry.uri), message, "load it by its URI"))
    return replace(listing, entries=tuple(entries.values()), issues=tuple(issues))


def peeked(entry: SkillEntry, data: bytes, *, limits: Limits) -> SkillEntry:
    """The entry with the frontmatter of its `SKILL.md`.

    A scanned skill keeps the name of its directory. For an index skill, the file takes precedence.
    """
    if len(data) > limits.peek_bytes or not data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return entry  # Too long to read early, or without frontmatter, which these dialects allow.
    found = parse_skill_md(data, file=shown_uri(entry.uri), limits=limits).frontmatter
    if entry.dialect in _INDEX:
        draft = replace(entry.draft, carried=None) if entry.draft else None
        return replace(entry, frontmatter=found, draft=draft)
    carried = frozenset(found) - {"name"}
    description = found.get("description")
    if not isinstance(description, str) or not description.strip():
        carried -= {"description"}
        found["description"] = entry.description
    draft = replace(entry.draft, carried=carried) if entry.draft else None
    return replace(entry, frontmatter={**found, "name": entry.name}, draft=draft)


def unlisted_entry(uri: SkillUri, data: bytes, *, limits: Limits) -> SkillEntry:
    """An entry for a skill that is in no index, from its own frontmatter, or a `FormatError`."""
    found = parse_skill_md(data, file=shown_uri(uri), limits=limits).frontmatter
    draft = DraftDetails(dialect=Dialect.BARE_SCAN, confirmed=False, spelling=uri)
    return SkillEntry(uri, found, DYNAMIC, {}, draft)


_FINAL_ONLY: Final = DialectOptions()


class McpSource(Source):
    """The skills of one server, in any dialect. `on_remark` is called for unusual but usable responses."""

    def __init__(
        self,
        label: str,
        peer: Peer,
        *,
        options: DialectOptions = _FINAL_ONLY,
        on_remark: Callable[[str], None] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._label = label
        self._peer = peer
        self._options = options
        self._on_remark = on_remark or _ignore
        self._limits = limits
        self._clock = clock
        self._listing: Listing | None = None
        self._arriving = ArrivingListing()
        self._memory = PageMemory()
        self._pages_before = 0
        self._spellings: Mapping[SkillUri, str] = {}
        self._asked_for: set[SkillUri] = set()
        self._resources: tuple[ListedResource, ...] | None = None
        self._files: tuple[SkillUri, ...] = ()
        self._has_index = False
        self._templates: tuple[SkillTemplate, ...] = ()
        # Whether a server declares the extension but not its methods, as in an earlier draft.
        self._is_draft = False
        self._asking = anyio.Lock()
        # Requests in the order in which they were sent: the response to a later one is the newer one.
        self._sent = 0
        self._listing_sent = 0
        self._newer: dict[SkillUri, SkillEntry] = {}
        """The responses to requests for single skills that were sent after the one for the listing."""
        self._retrieved = 0

    @property
    def is_legacy(self) -> bool:
        """Whether the server uses a dialect before the final extension."""
        return self._peer.declaration is None or self._is_draft

    @property
    def explanation(self) -> str:
        """Why this dialect is used for the server, for people."""
        if self._is_draft:
            return "it declares the extension but not skills/list, like servers of the April draft"
        if self._peer.declaration is not None:
            return "it declares the extension and answers skills/list"
        if self._peer.serves_resources:
            return "it does not declare the extension, but it has resources"
        return "it declares neither the extension nor resources"

    @property
    def followed(self) -> tuple[str, ...]:
        """The URIs to subscribe to for changes of the listing: the index, if there is one."""
        return (INDEX_URI,) if self._has_index else ()

    async def list_resources(self) -> tuple[ListedResource, ...]:
        """All resources of the server; requested again after a change."""
        await self._peer.settled()
        if not self._peer.serves_resources:
            return ()
        if self._resources is None:
            self._set_resources(tuple(await all_resources(self._asker(), self._limits)))
        return self._resources or ()

    def listed_files(self, uri: SkillUri) -> tuple[SkillUri, ...]:
        """The known supporting files of the skill at a URI, from `resources/list`."""
        root = skill_root(uri)
        return tuple(file for file in self._files if file != uri and is_inside(file, root))

    @property
    def templates(self) -> tuple[SkillTemplate, ...]:
        """The templates of its index."""
        return self._templates

    async def complete(self, template: SkillTemplate, argument: str, prefix: str = "") -> tuple[str, ...]:
        """The values that the server suggests for an argument; none without completion."""
        ref = {"type": "ref/resource", "uri": template.template}
        params = {"ref": ref, "argument": {"name": argument, "value": prefix}}
        try:
            answer = await self._peer.request("completion/complete", params)
        except RequestRefused:
            return ()
        return completed_values(answer)

    @property
    def listing(self) -> Listing | None:
        """The last complete listing, unless a change was reported since."""
        return self._listing

    def preset(self, listing: Listing) -> None:
        """Use an earlier listing until it expires."""
        self._listing = listing
        self._spellings = listing.spellings

    @property
    def lists_again_after(self) -> float:
        """How long a listing is shown without asking again, in seconds: as long as the server says."""
        said = self._listing.ttl_seconds if self._listing else 0
        return max(said, self._limits.min_ttl_seconds) if said > 0 else self._limits.listing_ttl_seconds

    @property
    def due_seconds(self) -> float:
        """In how many seconds the listing is to be requested again by whoever shows it."""
        listing = self._listing
        if listing is None:
            return self._limits.listing_ttl_seconds
        listed_at = listing.good_until - max(listing.ttl_seconds, self._limits.min_ttl_seconds)
        return max(0.0, listed_at + self.lists_again_after - self._clock())

    def arrived(self) -> Sequence[SkillEntry]:
        """The part of a listing in progress that has arrived."""
        entries = self._arriving.entries
        return tuple(entries[uri] for uri in sorted(entries))

    @property
    def pages(self) -> int:
        """How many pages of listings have arrived, to distinguish a slow server from a silent one."""
        return self._pages_before + self._arriving.pages

    async def list_entries(self) -> Sequence[SkillEntry]:
        """Every listed skill; requested again only after the last response has expired."""
        # Concurrent callers wait for the same request.
        async with self._asking:
            if self._listing is None or self._clock() >= self._listing.good_until:
                self._sent += 1
                self._listing_sent = self._sent
                self._newer = {}
                self._listing = await self._ask_for_all()
            if self._newer:
                self._listing = with_newer(self._listing, self._newer)
                self._newer = {}
            return self._listing.entries

    def current_entries(self) -> Sequence[SkillEntry] | None:
        return self._listing.entries if self._listing else None

    async def refresh(self) -> None:
        """Request the listing again next time, even if it has not expired."""
        self._listing = self._resources = None

    def problems(self) -> Sequence[Problem]:
        return self._listing.problems if self._listing else ()

    async def changes(self) -> AsyncGenerator[Change]:
        """The changes that the server reports: one skill if it names one, otherwise the listing."""
        async with aclosing(self._peer.changes()) as batches:
            async for batch in batches:
                skills = {uri: self._skill_at(uri) for uri in batch if uri is not None}
                is_listing = None in batch or self.is_legacy or None in skills.values()
                if is_listing:
                    await self.refresh()
                    yield Change()
                listed = (
                    {entry.uri for entry in self.current_entries() or ()} if is_listing else set[SkillUri]()
                )
                for uri in sorted({skill for skill in skills.values() if skill is not None} - listed):
                    yield Change(uri)

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        """The current entry of one skill, listed or not (GET-1)."""
        await self._peer.settled()
        if self.is_legacy:
            return await self._listed_again(uri)
        self._sent += 1
        sent = self._sent
        try:
            answer = await self._peer.request(METHOD_GET, {"uri": self._spelling(uri)})
        except RequestRefused as error:
            if error.code == METHOD_NOT_FOUND:
                self._is_draft = True
                return await self._listed_again(uri)
            if error.code == INVALID_PARAMS:
                raise SkillNotFound(f"{self._label} has no skill at {shown_uri(uri)}", uri=uri) from None
            raise
        entry = single_entry(answer, uri, accept_drafts=self._options.accept_drafts, limits=self._limits)
        self._asked_for.add(uri)
        if sent > self._listing_sent:
            self._newer[uri] = entry  # An earlier listing must not bring an earlier version back.
        return entry

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
        if (count := content_count(answer)) > 1:
            self._on_remark(
                f"{self._label} answered with {count} contents for {shown_uri(uri)}: the first is used"
            )
        # SEC-9: many small reads are limited as well.
        self._retrieved += len(data)
        if self._retrieved > self._limits.bytes_per_server:
            raise LimitExceeded(
                f"{self._label} has sent more than {self._limits.bytes_per_server:,} bytes: it is cut off; "
                "raise bytes_per_server to allow more"
            )
        return data

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        """The content of a directory according to the server. The held entry decides what may be shown
        (VER-4).
        """
        await self._peer.settled()
        if self.is_legacy:
            return self._listed_below(uri)
        declaration = self._require_declaration()
        if not declaration.directory_read:
            # CAP-3: never requested from a server that does not offer it.
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
            if is_last_page(
                paging, page.next_cursor, len(page.children), label=self._label, limits=self._limits
            ):
                return children
            cursor = page.next_cursor

    async def _ask_for_all(self) -> Listing:
        await self._peer.settled()
        if self._peer.declaration is not None:
            try:
                listing = await self._ask_by_extension()
                self._is_draft = False
                return listing
            except RequestRefused as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                self._is_draft = True
        elif not self._peer.serves_resources and not self._options.ask_everyone:
            return self._made({}, [], None, {})
        asker = self._asker()
        try:
            found = await list_legacy(asker, bare_scan=self._options.bare_scan, limits=self._limits)
        except RequestRefused:
            if self._peer.serves_resources or self._is_draft:
                raise
            return self._made({}, [], None, {})  # It never declared this method.
        found = await with_peeks(found, asker.read, wanted=self._options.peek, limits=self._limits)
        entries = {entry.uri: entry for entry in found.entries}
        self._templates, self._has_index = found.templates, found.has_index
        self._set_resources(found.resources)
        return self._made(entries, list(found.issues), None, found.spellings)

    async def _ask_by_extension(self) -> Listing:
        arriving = self._start_listing()
        await read_pages(
            arriving,
            self._peer,
            self._label,
            memory=self._memory,
            accept_drafts=self._options.accept_drafts,
            limits=self._limits,
        )
        self._spellings = arriving.spellings
        await confirm_mentioned(arriving, self._peer.instructions, self.get_entry, self._limits)
        return self._made(arriving.entries, arriving.issues, arriving.ttl_ms, arriving.spellings)

    def _start_listing(self) -> ArrivingListing:
        self._pages_before += self._arriving.pages
        self._arriving = ArrivingListing()
        return self._arriving

    def _made(
        self,
        entries: Mapping[SkillUri, SkillEntry],
        issues: list[Issue],
        ttl: int | None,
        spellings: Mapping[SkillUri, str],
    ) -> Listing:
        self._start_listing()
        self._spellings = spellings
        problems = (Problem(self._label, tuple(issues)),) if issues else ()
        seconds = min((ttl or 0) / 1000, self._limits.max_ttl_seconds)
        return Listing(
            tuple(entries[uri] for uri in sorted(entries)),
            problems,
            self._clock() + max(seconds, self._limits.min_ttl_seconds),
            spellings,
            seconds,
        )

    def _asker(self) -> ResourceRequests:
        return ResourceRequests(page=self._resource_page, read=lambda uri: self._read(parse_uri(uri), uri))

    def _set_resources(self, resources: tuple[ListedResource, ...]) -> None:
        files: set[SkillUri] = set()
        for resource in resources:
            with suppress(FormatError):
                files.add(parse_uri(resource.uri))
        self._resources, self._files = resources, tuple(sorted(files))

    async def _resource_page(self, cursor: str | None) -> object:
        return await self._peer.request("resources/list", {} if cursor is None else {"cursor": cursor})

    async def _listed_again(self, uri: SkillUri) -> SkillEntry:
        """Earlier dialects cannot request one skill, so the whole listing is read again. An unlisted skill
        exists if its `SKILL.md` can be read and has frontmatter (LST-3). It is unconfirmed, and approved as
        shown.
        """
        await self.refresh()
        for entry in await self.list_entries():
            if entry.uri == uri:
                return entry
        try:
            entry = unlisted_entry(uri, await self._read(uri, uri), limits=self._limits)
        except (RequestRefused, FormatError):
            raise SkillNotFound(f"{self._label} has no skill at {shown_uri(uri)}", uri=uri) from None
        self._asked_for.add(uri)
        return entry

    def _listed_below(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        """The resources below a directory: the supporting files of an index skill."""
        children = children_among([(file, NO_SIZE) for file in self._files], uri)
        if not children:
            raise SkillNotFound(f"{self._label} lists nothing below {shown_uri(uri)}", uri=uri)
        return children

    def _spelling(self, uri: SkillUri) -> str:
        return spelling_of(uri, self._spellings)

    def _skill_at(self, text: str) -> SkillUri | None:
        return skill_at(text, {entry.uri for entry in self.current_entries() or ()} | self._asked_for)

    def _require_declaration(self) -> Declaration:
        declaration = self._peer.declaration
        if declaration is None:
            raise SourceError(f"{self._label} does not declare the skills extension")
        return declaration


def _ignore(remark: str) -> None:
    """Nobody wants to know."""


def _child(child: WireChild) -> DirectoryChild:
    return DirectoryChild(child.uri, child.uri.rpartition("/")[2], child.is_directory)
