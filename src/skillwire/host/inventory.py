"""Inventory: the sources of a host, and the registry that their skills go into.

Opening takes these steps: every source is opened in a task of its own, and every server connected; each is
asked for its listing; and when all have answered or used up their time, the registry takes everything at
once, so that no source comes first. Nothing but entries has been fetched by then (VER-5). After that, the
sources say what changed: one skill is asked for alone, a listing as a whole.

What gets into the registry is decided by `trust/admission.py`; this file collects the facts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc

from skillwire.catalog.naming import Naming
from skillwire.catalog.registry import Changes, RegisteredSkill, Registry
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.config.server import ServerConfig
from skillwire.host.events import Event, EventKind, EventLog
from skillwire.host.listings import ListingCache
from skillwire.host.state import ServerState, Status
from skillwire.host.styles.base import Style
from skillwire.host.styles.ranks import collision_lines
from skillwire.host.styles.switches import OPEN, Switches
from skillwire.issues import Issue, shown
from skillwire.limits import Limits
from skillwire.skill.drafts import Dialect
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri, skill_root
from skillwire.sources.base import Change, Source
from skillwire.sources.mcp import INCOMPLETE, McpSource
from skillwire.trust.admission import Act, Allowed, Candidate, admit, require
from skillwire.trust.approval import Policy, Reason
from skillwire.trust.origin import Origin

if TYPE_CHECKING:
    from skillwire.host.sessions import Connection

_MOST_COLLISIONS: Final = 100


@dataclass(slots=True)
class Place:
    """One place that skills come from."""

    origin: Origin
    source: Source
    is_open: bool = False


@dataclass(slots=True)
class ServerPlace:
    """One MCP server, with its connection."""

    origin: Origin
    source: McpSource
    config: ServerConfig
    connection: Connection
    is_cached: bool = False
    """Whether its skills come from a listing that was cached by an earlier host."""
    listed: anyio.Event = field(default_factory=anyio.Event)


class Inventory:
    """Opens sources, follows them, and keeps the registry up to date."""

    def __init__(
        self,
        *,
        servers: Mapping[Origin, ServerConfig],
        sources: Mapping[Origin, Source],
        registry: Registry,
        log: EventLog,
        approvals: ApprovalStore,
        disabled: Collection[str],
        style: Style,
        naming: Naming,
        limits: Limits,
        on_changed: Callable[[RegisteredSkill], None],
        listings: ListingCache | None = None,
        discover: bool = True,
        watch: bool = True,
    ) -> None:
        """`on_changed` is called for every skill whose entry is another one now.

        With `listings`, servers are listed from that cache while it is current, and connected when they are
        needed. Without `discover`, servers are not listed. Without `watch`, no changes are heard of.
        """
        self._configs = dict(servers)
        self._places = {origin: Place(origin, source) for origin, source in sources.items()}
        self._servers: dict[Origin, ServerPlace] = {}
        self._registry = registry
        self._log = log
        self._approvals = approvals
        self._disabled = frozenset(disabled)
        self._style = style
        self._naming = naming
        self._limits = limits
        self._on_changed = on_changed
        self._listings = listings
        self._discover = discover
        self._watch = watch
        self._switches = OPEN
        # Servers that were quick are asked for nothing more while others still start: on a small machine
        # they would take their time from them.
        self._opened = anyio.Event()
        # What was found while opening; `None` once the host is open.
        self._collected: dict[Origin, Sequence[SkillEntry]] | None = {}

    # Opening and closing

    async def open(self, tasks: anyio.abc.TaskGroup) -> None:
        """Open, connect and list, side by side; ends when everybody has answered or used up their time."""
        for origin, config in self._configs.items():
            self._servers[origin] = await self._server_place(origin, config)
        async with anyio.create_task_group() as finding:
            for place in self._places.values():
                finding.start_soon(self._open_place, place)
            for server in self._servers.values():
                tasks.start_soon(server.connection.run)
                finding.start_soon(self._await_listing, server)
        collected, self._collected = self._collected or {}, None
        self._report(self._registry.replace_many(collected))
        self._opened.set()
        if self._watch:
            for place in (*self._places.values(), *self._servers.values()):
                tasks.start_soon(self._follow, place.origin, place.source)

    async def aclose(self) -> None:
        """Close every source."""
        for place in self._places.values():
            with suppress(
                Exception
            ):  # Somebody's own class may fail here; the others are closed all the same.
                await place.source.aclose()

    async def _server_place(self, origin: Origin, config: ServerConfig) -> ServerPlace:
        # Imported now: the MCP SDK takes a second of processor time, and local skills do without it.
        from skillwire.host.sessions import Connection

        cached = None
        if self._listings is not None and self._discover:
            cached = await self._listings.get(config, clock=anyio.current_time)
        connection = Connection(
            origin,
            config,
            limits=self._limits,
            on_change=self._connection_changed,
            listen_after=self._opened if self._watch else None,
            is_lazy=cached is not None or not self._discover,
        )
        source = McpSource(
            origin.label,
            connection,
            accept_drafts=config.accept_drafts,
            bare_scan=config.bare_scan or self._style.bare_scan,
            peek=self._peek(config),
            ask_everyone=self._style.asks_everyone,
            limits=self._limits,
        )
        if cached is not None:
            source.preset(cached)
        return ServerPlace(origin, source, config, connection, is_cached=cached is not None)

    def _peek(self, config: ServerConfig) -> Callable[[SkillEntry], bool] | None:
        """Of which skills the frontmatter is read early: of a server with policy `never`, none (VER-5)."""
        if config.approval is Policy.NEVER:
            return None

        def wanted(entry: SkillEntry) -> bool:
            if not config.selection.admits(entry):
                return False
            if entry.dialect is Dialect.BARE_SCAN:
                return True  # Nothing else says what it is.
            if entry.dialect is Dialect.MANIFEST:
                return self._style.peek
            return self._style.peek_index or (self._style.peek and not entry.description)

        return wanted

    async def _open_place(self, place: Place) -> None:
        try:
            await place.source.open()
            place.is_open = True
            await self._list(place.origin, place.source)
        except SkillwireError as error:
            self._fail(place.origin, str(error))
        except Exception as error:  # Somebody's own class: whatever it raises costs that one source.
            self._fail(place.origin, f"{place.origin} failed: {type(error).__name__}: {error}")

    async def _await_listing(self, server: ServerPlace) -> None:
        """Wait for one server: for no longer than its deadline, and for a listing while its pages come."""
        connection, source = server.connection, server.source
        if not self._discover:
            return
        if server.is_cached:
            await self._list(server.origin, source)
            return
        await connection.settled()
        if connection.status is not Status.READY:
            self._offline(server.origin, f"cannot be reached: {connection.reason}")
            return
        seconds = connection.config.connect_seconds
        until = anyio.current_time() + self._limits.listing_seconds
        pages = -1
        while not server.listed.is_set() and source.pages != pages and anyio.current_time() < until:
            pages = source.pages
            with anyio.move_on_after(min(seconds, until - anyio.current_time())):
                await server.listed.wait()
        if server.listed.is_set():
            return
        if arrived := source.arrived():
            self._take(server.origin, arrived)
            reason = (
                f"is slow: {len(arrived):,} of its skills have come so far, and no more for {seconds:g} s"
            )
        else:
            reason = f"has not listed its skills within {seconds:g} s; they are added when they come"
        self._offline(server.origin, reason)

    # Listing and following

    async def refresh(self, label: str | None = None, *, expired_only: bool = False) -> None:
        """List every source again, or one; with `expired_only` no server whose listing is current."""
        if label is not None:
            self.require_label(label)
        async with anyio.create_task_group() as tasks:
            for server in self._servers.values():
                if label in (None, server.origin.label):
                    tasks.start_soon(self._list_server, server, not expired_only)
            for place in self._places.values():
                if label in (None, place.origin.label):
                    tasks.start_soon(self._refresh_place, place)

    async def _refresh_place(self, place: Place) -> None:
        if not place.is_open:
            await self._open_place(place)
            return
        try:
            await place.source.refresh()
            await self._list(place.origin, place.source)
        except SkillwireError as error:
            self._fail(place.origin, str(error))
        except Exception as error:  # As above.
            self._fail(place.origin, f"{place.origin} failed: {type(error).__name__}: {error}")

    async def _connection_changed(self, connection: Connection) -> None:
        """Runs in the connection's own task, whenever it is made or lost."""
        server = self._servers[connection.origin]
        if connection.status is not Status.READY:
            if self._collected is None:
                self._offline(server.origin, f"cannot be reached: {connection.reason}")
            return
        self._log.recover(server.origin, f"{server.origin} is connected")
        try:
            if self._discover:
                was_cached, server.is_cached = server.is_cached, False
                await self._list_server(server, afresh=not was_cached)
        finally:
            server.listed.set()

    async def _list_server(self, server: ServerPlace, afresh: bool) -> None:
        if self._switches.closed_for(server.origin):
            return
        if afresh:
            await server.source.refresh()
        try:
            await self._list(server.origin, server.source)
        except SkillwireError as error:
            self._fail(server.origin, f"{server.origin} gave no listing: {error}")
            return
        if self._listings is not None and server.source.listing is not None:
            await self._listings.put(server.config, server.source.listing)

    async def _list(self, origin: Origin, source: Source) -> None:
        """Take what a source lists now, and record what it had to leave out."""
        seconds = None if origin.is_local else self._style.listing_seconds
        try:
            with anyio.fail_after(seconds):
                entries = await source.list_entries()
        except TimeoutError:
            raise SourceError(
                f"{origin} did not list its skills within {seconds:g} s (listing_seconds)"
            ) from None
        issues = [issue for problem in source.problems() for issue in problem.issues]
        if incomplete := [issue for issue in issues if issue.rule == INCOMPLETE]:
            self._fail(origin, f"{origin}: {incomplete[0].message}")
        else:
            self._log.recover(origin)
        if origin.is_local:
            left_out = [
                f"{'left out' if problem.is_left_out else 'warning'}: {problem}"
                for problem in source.problems()
            ]
        else:
            left_out = [_unusable(origin, issue) for issue in issues if issue.rule != INCOMPLETE]
        self._take(origin, entries, left_out)

    async def _follow(self, origin: Origin, source: Source) -> None:
        """Keep the registry up to date with what a source says has changed, until cancelled."""
        try:
            async with aclosing(source.changes()) as changes:
                async for change in changes:
                    try:
                        await self._apply(origin, source, change)
                    except SkillwireError as error:
                        self._fail(origin, f"{origin} gave no listing: {error}")
        except SkillwireError as error:
            self._fail(origin, str(error))
        except Exception as error:  # Somebody's own class: whatever it raises costs that one source.
            self._fail(origin, f"{origin} no longer tells of changes: {type(error).__name__}: {error}")

    async def _apply(self, origin: Origin, source: Source, change: Change) -> None:
        if self._switches.closed_for(origin):
            return
        if change.uri is not None:
            try:
                # A skill that may not be listed any more is refused when it is next loaded.
                with suppress(LimitExceeded):
                    self.take_one(origin, await source.get_entry(change.uri))
                return
            except SkillNotFound:
                await source.refresh()
        await self._list(origin, source)

    def follow(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Hear of changes to these skills while they are in use."""
        server = self._servers.get(origin)
        if server is not None and self._watch:
            server.connection.follow([skill_root(uri) for uri in uris])

    # What is taken into the registry

    def candidate(self, origin: Origin, entry: SkillEntry, *, disabled: bool = False) -> Candidate:
        """What the admission of a skill depends on, without its approval."""
        config = self._configs.get(origin)
        return Candidate(
            origin=origin,
            entry=entry,
            switched_off=self._switches.closed_for(origin),
            selected=config is None or config.selection.admits(entry),
            style_refusal="" if origin.is_local else self._style.refusal(entry, self._limits),
            disabled=disabled,
            policy=config.approval if config else Policy.PROMPT,
        )

    def take_one(self, origin: Origin, entry: SkillEntry) -> None:
        """Take one entry that a source just gave, or raise when it is not admitted."""
        candidate = self.candidate(origin, entry)
        if candidate.selected and candidate.style_refusal:
            raise LimitExceeded(
                f"{shown_uri(entry.uri)} from {origin} is not taken: {candidate.style_refusal}"
            )
        # Not `SkillNotFound`: nobody may go on to read it as something else.
        require(admit(candidate, Act.LIST), entry.uri, origin)
        self._report(self._registry.add(origin, entry))

    def _take(self, origin: Origin, entries: Iterable[SkillEntry], left_out: Iterable[str] = ()) -> None:
        """Take these as all that an origin lists, and record what cannot be used of it."""
        candidates = [self.candidate(origin, entry) for entry in entries]
        refused = [one for one in candidates if one.selected and one.style_refusal]
        self._log.leave_out(
            origin, [*left_out, *(_unusable(origin, self._style_issue(one)) for one in refused)]
        )
        taken = tuple(one.entry for one in candidates if isinstance(admit(one, Act.LIST), Allowed))
        if self._switches.closed_for(origin):
            return  # It stays empty, whatever comes late.
        if self._collected is not None:
            self._collected[origin] = taken
            self._registry.foresee(origin, taken)  # Others are still waited for: there is time now.
        else:
            self._report(self._registry.replace(origin, taken))

    def _style_issue(self, refused: Candidate) -> Issue:
        fix = f"another style than {self._style.name} takes it"
        file = shown_uri(refused.entry.uri)
        return Issue(rule="style-cap", file=file, message=refused.style_refusal, fix=fix)

    def _empty(self, origin: Origin) -> None:
        if self._collected is not None:
            self._collected[origin] = ()
        else:
            self._report(self._registry.clear(origin))

    def _offline(self, origin: Origin, reason: str) -> None:
        """Say why a server cannot be used, and fall back to what was approved before and may be cached."""
        self._fail(origin, f"{origin} {reason}")
        if not self._style.keeps_offline:
            self._empty(origin)
            return
        if self._registry.uris(origin) or (self._collected or {}).get(origin):
            return
        try:
            self._take(origin, [stored.entry for stored in self._approvals.all(origin)])
        except SkillwireError as error:
            self._fail(origin, str(error))

    def _fail(self, origin: Origin, message: str) -> None:
        self._log.tell(Event(kind=EventKind.FAILURE, message=message, origin=origin))

    def _report(self, changes: Changes) -> None:
        for skill in changes.added if self._disabled else ():
            # Every name that it goes by: a collision must not enable it again.
            names = {skill.uri, skill.handle, *self._naming.handles(skill.key, skill.entry)}
            if names & self._disabled:
                self._registry.set_enabled(skill.key, False)
        for skill in changes.changed:
            self._on_changed(skill)
        for kind, skills in (
            (EventKind.ADDED, changes.added),
            (EventKind.CHANGED, changes.changed),
            (EventKind.REMOVED, changes.removed),
        ):
            for skill in skills:
                message = f"{skill.handle} from {skill.origin} was {kind}"
                self._log.tell(
                    Event(kind=kind, message=message, origin=skill.origin, handle=skill.handle, uri=skill.uri)
                )
        for collision in changes.collisions[:_MOST_COLLISIONS]:
            for line in collision_lines(collision):
                self._log.tell(Event(kind=EventKind.COLLISION, message=line, handle=collision.handle))
        if len(changes.collisions) > _MOST_COLLISIONS:
            more = len(changes.collisions) - _MOST_COLLISIONS
            message = f"{more:,} more names are used by several skills; each is shown under a name of its own"
            self._log.tell(Event(kind=EventKind.COLLISION, message=message))

    # Looking things up

    async def look_up(self, uri: SkillUri, origin: Origin) -> RegisteredSkill:
        """Ask a server for a skill that it may not list (LST-3)."""
        entry = await self.source(origin).get_entry(uri)
        self.take_one(origin, entry)
        return self._registry.find_uri(uri, origin.label)

    async def current(self, skill: RegisteredSkill) -> RegisteredSkill:
        """The skill as it is now, where it is known from a cached listing alone: that costs one request."""
        server = self._servers.get(skill.origin)
        if server is None or not server.is_cached:
            return skill
        try:
            return await self.look_up(skill.uri, skill.origin)
        except SourceError:
            return skill  # The server is away. What was approved and cached of it can still be used.

    def source(self, origin: Origin) -> Source:
        """Where the skills of an origin are read from; `ApprovalRequired` when it is switched off."""
        place = self._servers.get(origin) or self._places.get(origin)
        if place is None:
            raise SourceError(f"{origin} is not part of this host")
        if closed := self._switches.closed_for(origin):
            raise ApprovalRequired(
                f"{origin} is not read from: {closed}", reason=Reason.DENIED, origin=origin.label, uri=""
            )
        return place.source

    def path_of(self, skill: RegisteredSkill) -> str:
        """Where a local skill's file is on disk; empty for a server's."""
        place = self._places.get(skill.origin)
        return (place.source.local_path(skill.uri) or "") if place else ""

    def set_switches(self, switches: Switches) -> tuple[Origin, ...]:
        """Turn origins off and on. The skills of those that are off are gone when this returns.

        Gives the servers that were off and are on now.
        """
        before, self._switches = self._switches, switches
        for origin in self._servers:
            if closed := switches.closed_for(origin):
                self._empty(origin)
                if not before.closed_for(origin):
                    message = f"{origin}: {closed}"
                    self._log.tell(Event(kind=EventKind.REMARK, message=message, origin=origin))
        return tuple(
            origin
            for origin in self._servers
            if before.closed_for(origin) and not switches.closed_for(origin)
        )

    def server(self, label: str) -> Origin:
        """The server of this label, or `SkillNotFound` that names those there are."""
        for origin in self._configs:
            if origin.label == label:
                return origin
        known = ", ".join(origin.label for origin in self._configs) or "none"
        raise SkillNotFound(f"no server is called {shown(label)}; there is {known}")

    def servers(self) -> tuple[Origin, ...]:
        """The servers of this host, connected or not."""
        return tuple(self._configs)

    def require_label(self, label: str) -> None:
        """Raise `SkillNotFound` when neither a server nor another source has this label."""
        known = [origin.label for origin in (*self._configs, *self._places)]
        if label not in known:
            there = ", ".join(known) or "none"
            raise SkillNotFound(f"no server or directory is called {shown(label)}; there is {there}")

    def only_server(self, uri: SkillUri, candidates: Collection[Origin]) -> Origin:
        """The one server that a URI without a server can be on."""
        possible = sorted(candidates or self._configs)
        if not possible:
            raise SkillNotFound(f"no server is there that could serve {shown(uri, 200)}", uri=uri)
        if len(possible) > 1:
            raise AmbiguousName(shown(uri, 200), [origin.label for origin in possible])
        return possible[0]

    def states(self) -> tuple[ServerState, ...]:
        """The state of every server."""
        dialects: dict[Origin, set[Dialect]] = {}
        for skill in self._registry.skills(disabled=True):
            dialects.setdefault(skill.origin, set()).add(skill.entry.dialect)
        return tuple(
            ServerState(
                origin=origin,
                place=server.config.place,
                status=server.connection.status,
                reason=server.connection.reason,
                last_output=server.connection.last_output,
                era=server.connection.era,
                declares_skills=server.connection.declaration is not None,
                dialects=tuple(sorted(dialects.get(origin, ()), reverse=True)),
                policy=server.config.approval,
                cached=server.is_cached,
            )
            for origin, server in self._servers.items()
        )


def _unusable(origin: Origin, issue: Issue) -> str:
    return f"{origin} lists something that cannot be used: {issue}"
