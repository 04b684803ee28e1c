"""Inventory: the sources of a host, and the registry that their skills go into.

Opening takes these steps: every source is opened in a task of its own, and every server connected; each is
asked for its listing; and when all have answered or timed out, everything is registered at once, so that no
source comes first. Nothing but entries has been fetched by then (VER-5). After that, the sources say what
changed: one skill is asked for alone, a listing as a whole.

`registration.py` puts what they list into the registry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.to_thread

from skillwire.catalog import HostSkill, SkillTable
from skillwire.consent import ConsentStore
from skillwire.errors import LimitExceeded, SkillNotFound, SkillwireError, SourceError
from skillwire.host.config.server import ServerConfig
from skillwire.host.directories import other_directories
from skillwire.host.registration import Registration, unusable
from skillwire.host.sources import (
    HostSources,
    ListingCache,
    LocalSource,
    ServerSource,
    import_sessions,
    server_place,
)
from skillwire.host.state import ConnectionStatus, Event, EventKind, EventRecorder, Switches
from skillwire.host.styles.base import Style
from skillwire.limits import Limits
from skillwire.skill import SkillUri
from skillwire.sources import Change, Source
from skillwire.sources.listing import INCOMPLETE
from skillwire.telemetry import DIALECT, ORIGIN, SKILLS, operation
from skillwire.trust import Origin

if TYPE_CHECKING:
    from skillwire.host.connection import Connection


@dataclass(kw_only=True, eq=False)
class Inventory:
    """Opens sources, follows them, and keeps the registry up to date. Nothing is opened before `open`."""

    servers: InitVar[Mapping[Origin, ServerConfig]]
    sources: InitVar[Mapping[Origin, Source]]
    """Every other source."""
    later: InitVar[Collection[Origin]]
    """Sources whose directories are not there yet. They become part of the host when these are created and
    `check_directory` raises nothing."""
    directories: Mapping[Origin, Path]
    """Where the local sources are."""
    check_directory: Callable[[Path], None]
    registry: SkillTable
    log: EventRecorder
    approvals: ConsentStore
    registration: Registration
    on_listed: Callable[[Origin], None]
    """Called whenever an origin was listed or told of a change."""
    style: Style
    limits: Limits
    listings: ListingCache | None = None
    """Servers are listed from this cache while it is current, and connected when they are needed. Without
    it, all are connected at once."""
    reads_listings: bool = True
    """Whether `listings` is read from, and not only written to."""
    connect_after: Callable[[], Awaitable[None]] | None = None
    """If set, the last listing of each server is registered first, and servers are connected when this
    returns. It is not called if a server has not been listed before. What a server lists is registered when
    it arrives."""
    discover: bool = True
    """Whether servers are listed."""
    watch: bool = True
    """Whether changes are followed."""
    places: HostSources = field(init=False)

    def __post_init__(
        self,
        servers: Mapping[Origin, ServerConfig],
        sources: Mapping[Origin, Source],
        later: Collection[Origin],
    ) -> None:
        places = {origin: LocalSource(origin, source) for origin, source in sources.items()}
        self._later = {origin: place for origin, place in places.items() if origin in later}
        self.places = HostSources(
            configs=dict(servers),
            registry=self.registry,
            switches=self._current_switches,
            limits=self.limits,
            excluded=self.registration.excluded,
            opened={origin: place for origin, place in places.items() if origin not in later},
        )
        # The same tables: this class fills them, `places` answers from them.
        self._places = self.places.opened
        self._servers = self.places.connected
        # Servers that were quick are asked for nothing more while others still start: on a small machine
        # they would take their time from them.
        self._opened = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._known = {origin: anyio.Event() for origin in self.places.origins()}
        self._settled = {origin: anyio.Event() for origin in self.places.origins()}

    # Opening and closing

    async def open(self, tasks: anyio.abc.TaskGroup) -> None:
        """Open, connect and list concurrently; ends when all have answered or timed out."""
        self._tasks = tasks
        if self.connect_after is not None:
            self.registration.finish_opening()
        async with anyio.create_task_group() as finding:
            for place in self._places.values():
                finding.start_soon(self._open_place, place)
            if self.connect_after is not None and await self._begin_with_last_listings():
                await self.connect_after()
            await self._make_servers()
            for server in self._servers.values():
                tasks.start_soon(server.work.run, server.connection.run)
                finding.start_soon(self._await_listing, server)
        self.registration.finish_opening()
        self._opened.set()
        self.stop_waiting()
        if self.watch:
            awaited = [*self._later.values()]
            for place in self._places.values():
                if place.is_open or self._is_there(place):
                    self._follow_place(place)
                else:
                    awaited.append(place)
            for server in self._servers.values():
                self._follow_server(server)
            if awaited:
                tasks.start_soon(self._await_directories, awaited)

    async def known(self) -> None:
        """Wait until something is known of every origin: its last listing, its listing, or a failure."""
        for event in self._known.values():
            await event.wait()

    def is_known(self, origin: Origin) -> bool:
        """Whether something is known of an origin: its last listing, its listing, or a failure."""
        return self._known[origin].is_set()

    async def settled(self, origin: Origin | None = None) -> None:
        """Wait until an origin, or every one, has answered or failed since the host was opened."""
        for event in self._settled.values() if origin is None else [self._settled[origin]]:
            await event.wait()

    def stop_waiting(self) -> None:
        """Nothing more will be known of the origins than is known now."""
        for origin in self._settled:
            self._settle(origin)

    def _settle(self, origin: Origin) -> None:
        if origin in self._settled:
            self._known[origin].set()
            self._settled[origin].set()

    async def _begin_with_last_listings(self) -> bool:
        """Register what each server listed the last time; false if that is not known of one of them."""
        if self.listings is not None and self.discover:
            for origin, config in self.places.configs.items():
                entries = await self.listings.last(config)
                if entries is not None:
                    self.places.listed_before.add(origin)
                    self.registration.replace(origin, entries)
                    self._known[origin].set()
        return self.places.listed_before.issuperset(self.places.configs)

    async def _make_servers(self) -> None:
        if self.connect_after is not None and self.places.configs:
            # The MCP SDK, in a thread: clients of a gateway are answered meanwhile.
            await anyio.to_thread.run_sync(import_sessions)
        for origin in self.places.configs:
            self._servers[origin] = await self._server_place(origin)

    async def _server_place(self, origin: Origin) -> ServerSource:
        return await server_place(
            origin,
            self.places.configs[origin],
            style=self.style,
            limits=self.limits,
            listings=self.listings if self.connect_after is None and self.reads_listings else None,
            on_change=self._connection_changed,
            listen_after=self._opened if self.watch else None,
            discover=self.discover,
            on_remark=lambda remark: self.log.remark_once(origin, remark),
        )

    def _follow_server(self, server: ServerSource) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(server.work.run, self._follow, server.origin, server.source)
            self._tasks.start_soon(server.work.run, self._list_when_due, server)

    async def add(self, origin: Origin, source: Source | None = None) -> None:
        """Make an origin part of the open host: a server of `places.configs`, or else this source.

        A server is connected and listed soon; a source is opened and listed when this returns.
        """
        self.registration.removed.discard(origin)
        for events in (self._known, self._settled):
            events.setdefault(origin, anyio.Event()).set()  # Nobody waits for what came later.
        if source is not None:
            await self._arrive(LocalSource(origin, source))
        elif self._tasks is not None:
            await anyio.to_thread.run_sync(import_sessions)
            server = self._servers[origin] = await self._server_place(origin)
            self._tasks.start_soon(server.work.run, server.connection.run)
            if self.watch:
                self._follow_server(server)

    async def remove(self, origin: Origin) -> None:
        """End what runs for an origin, close it and remove its skills. What is loaded of it stays loaded."""
        server = self._servers.pop(origin, None)
        place = self._places.pop(origin, None) or self._later.pop(origin, None)
        for one in (server, place):
            if one is not None:
                one.work.end()
        if place is not None and place.is_open:
            with suppress(Exception):  # A user's own class may fail here.
                await place.source.aclose()
        self.registration.removed.add(origin)
        self.registration.clear(origin)
        self.log.leave_out(origin, ())
        self.log.recover(origin)

    async def aclose(self) -> None:
        """Close every source."""
        for place in list(self._places.values()):
            with suppress(Exception):  # A user's own class may fail here; the others are closed anyway.
                await place.source.aclose()

    async def _open_place(self, place: LocalSource) -> None:
        with self._recording_failures(place.origin, "failed"):
            if (path := self.directories.get(place.origin)) is not None:
                self.check_directory(path)
            await place.source.open()
            place.is_open = True
            await self._list(place.origin, place.source)
        self._settle(place.origin)

    def _is_there(self, place: LocalSource) -> bool:
        """Whether there is something to open. A source of the user's own knows that itself."""
        path = self.directories.get(place.origin)
        try:
            return path is None or path.is_dir()
        except OSError:
            return False  # A directory above it is not readable.

    async def _await_directories(self, places: Collection[LocalSource]) -> None:
        """Open directories when they are created."""
        from skillwire.sources import await_directories

        by_path = {self.directories[place.origin]: place for place in places}

        async def take(path: Path) -> bool:
            await self._arrive(by_path[path])
            return by_path[path].is_open

        await await_directories(by_path, take)

    async def _arrive(self, place: LocalSource) -> None:
        """Open a directory that did not exist when the host was opened, unless it is open."""
        if place.work.is_over:
            return
        self._places[place.origin] = place
        self._later.pop(place.origin, None)
        if not place.is_open:
            await self._open_place(place)
        if place.is_open:
            self._follow_place(place)

    def _follow_place(self, place: LocalSource) -> None:
        """Follow what changes in a place from now on, unless it is followed already."""

        async def follow() -> None:
            try:
                await self._follow(place.origin, place.source)
            finally:
                place.is_followed = False

        if self.watch and self._tasks is not None and not place.is_followed:
            place.is_followed = True
            self._tasks.start_soon(place.work.run, follow)

    async def _await_listing(self, server: ServerSource) -> None:
        """Wait for one server: for no longer than its deadline, and for a listing while its pages come."""
        try:
            await self._await_answer(server)
        finally:
            self._settle(server.origin)

    async def _await_answer(self, server: ServerSource) -> None:
        connection, source = server.connection, server.source
        if not self.discover:
            return
        if server.is_cached:
            await self._list(server.origin, source)
            return
        await connection.settled()
        if connection.status is not ConnectionStatus.READY:
            self._offline(server.origin, f"cannot be reached: {connection.reason}")
            return
        seconds = connection.config.connect_seconds
        until = anyio.current_time() + self.limits.listing_seconds
        pages = -1
        while not server.listed.is_set() and source.pages != pages and anyio.current_time() < until:
            pages = source.pages
            with anyio.move_on_after(min(seconds, until - anyio.current_time())):
                await server.listed.wait()
        if server.listed.is_set():
            return
        if arrived := source.arrived():
            self.registration.replace(server.origin, arrived)
            reason = (
                f"is slow: {len(arrived):,} of its skills have arrived so far, and no more for {seconds:g} s"
            )
        else:
            reason = f"has not listed its skills within {seconds:g} s; they are added when they arrive"
        self._offline(server.origin, reason)

    # Listing and following

    async def refresh(self, label: str | None = None, *, expired_only: bool = False) -> None:
        """List every source again, or one; with `expired_only` no server whose listing is current."""
        for place in [place for place in self._later.values() if self._is_there(place)]:
            self._places[place.origin] = self._later.pop(place.origin)
        if label is not None:
            self.places.require_label(label)
        async with anyio.create_task_group() as tasks:
            for server in self._servers.values():
                if label in (None, server.origin.label):
                    tasks.start_soon(self._list_server, server, not expired_only)
            for place in self._places.values():
                if label in (None, place.origin.label):
                    tasks.start_soon(self._refresh_place, place)

    async def _refresh_place(self, place: LocalSource) -> None:
        if not place.is_open:
            await self._arrive(place)
            return
        with self._recording_failures(place.origin, "failed"):
            await place.source.refresh()
            await self._list(place.origin, place.source)

    async def reconnect(self, label: str) -> None:
        """Connect to a server again now, if it is not connected; otherwise list it again."""
        server = self._servers.get(self.places.server(label))
        if server is not None and server.connection.status is ConnectionStatus.FAILED:
            server.connection.retry()
        else:
            await self.refresh(label)

    async def _connection_changed(self, connection: Connection) -> None:
        """Runs in the connection's own task, whenever it is made or lost."""
        server = self._servers.get(connection.origin)
        if server is None or server.connection is not connection:
            return  # It was removed.
        if connection.status is not ConnectionStatus.READY:
            if not self.registration.is_opening:
                self._offline(server.origin, f"cannot be reached: {connection.reason}")
            return
        self.log.recover(server.origin, f"{server.origin} is connected")
        try:
            if self.discover:
                was_cached, server.is_cached = server.is_cached, False
                await self._list_server(server, afresh=not was_cached)
        finally:
            server.listed.set()

    async def _list_server(self, server: ServerSource, afresh: bool) -> None:
        if self.registration.switches.closed_for(server.origin):
            return
        if afresh:
            await server.source.refresh()
        try:
            await self._list(server.origin, server.source)
        except SkillwireError as error:
            self.registration.fail(server.origin, f"{server.origin} gave no listing: {error}")
            return
        server.listed_at = datetime.now(UTC)
        if self.watch:
            server.follow()

    async def _list(self, origin: Origin, source: Source) -> None:
        """Take what a source lists now, and record what it had to leave out."""
        seconds = None if origin.is_local else self.style.listing_seconds
        with operation("discover", attributes=lambda: {ORIGIN: _shown(origin)}) as listing:
            try:
                with anyio.fail_after(seconds):
                    entries = await source.list_entries()
            except TimeoutError:
                raise SourceError(
                    f"{origin} did not list its skills within {seconds:g} s (listing_seconds)"
                ) from None
            listing.set(SKILLS, len(entries))
            listing.set(DIALECT, ",".join(sorted({entry.dialect for entry in entries})))
        issues = [issue for problem in source.problems() for issue in problem.issues]
        if incomplete := [issue for issue in issues if issue.rule == INCOMPLETE]:
            self.registration.fail(origin, f"{origin}: {incomplete[0].message}")
        else:
            self.log.recover(origin)
        if origin.is_local:
            left_out = [
                f"{'left out' if problem.is_left_out else 'warning'}: {problem}"
                for problem in source.problems()
            ]
        else:
            left_out = [unusable(origin, issue) for issue in issues if issue.rule != INCOMPLETE]
        self.on_listed(origin)
        if elsewhere := other_directories(origin, self.directories, self._places):
            entries = [
                entry for entry in entries if not (source.local_path(entry.uri) or "").startswith(elsewhere)
            ]
        self.registration.replace(origin, entries, left_out)
        await self._keep_listing(origin)

    async def _keep_listing(self, origin: Origin) -> None:
        """Store what a server listed, unless that is what is stored."""
        server = self._servers.get(origin)
        listing = server.source.listing if server is not None else None
        if self.listings is None or server is None or server.is_cached or listing is None:
            return
        if listing is not server.stored:
            server.stored = listing
            self.places.listed_before.discard(origin)
            await self.listings.put(server.config, listing)

    async def _expire_listing(self, origin: Origin) -> None:
        """Mark the stored listing as out of date, also for other processes: they would show another state."""
        server = self._servers.get(origin)
        if self.listings is not None and server is not None:
            await self.listings.expire(server.config)

    async def _follow(self, origin: Origin, source: Source) -> None:
        """Keep the registry up to date with what a source says has changed, until canceled."""
        with self._recording_failures(origin, "no longer reports changes"):
            async with aclosing(source.changes()) as changes:
                async for change in changes:
                    try:
                        await self._apply(origin, source, change)
                    except SkillwireError as error:
                        self.registration.fail(origin, f"{origin} gave no listing: {error}")

    @contextmanager
    def _recording_failures(self, origin: Origin, what: str) -> Generator[None]:
        """An error only affects its source, whatever a user's own class raises."""
        try:
            yield
        except SkillwireError as error:
            self.registration.fail(origin, str(error))
        except Exception as error:
            self.registration.fail(origin, f"{origin} {what}: {type(error).__name__}: {error}")

    async def _apply(self, origin: Origin, source: Source, change: Change) -> None:
        if self.registration.switches.closed_for(origin):
            return
        if change.uri is not None:
            try:
                # A skill that may not be listed any more is refused when it is next loaded.
                with suppress(LimitExceeded):
                    self.registration.add(origin, await source.get_entry(change.uri))
                await self._expire_listing(origin)
                return
            except SkillNotFound:
                await source.refresh()
        await self._list(origin, source)

    async def _list_when_due(self, server: ServerSource) -> None:
        """List a server whenever its listing expires, until canceled.

        Not only if it sends no notifications: one may accept a subscription and stay silent.
        """
        while True:
            seconds = server.source.due_seconds
            if seconds > 0:
                await anyio.sleep(seconds)
                continue  # It may have been listed meanwhile.
            if server.connection.status is ConnectionStatus.READY:
                await self._list_server(server, afresh=True)
            if server.source.due_seconds <= 0:  # It could not be listed, or is not connected.
                await anyio.sleep(self.limits.listing_ttl_seconds)

    def follow(self, origin: Origin, directories: Collection[SkillUri]) -> None:
        """Subscribe to changes in these directories of a server, and in no others."""
        server = self._servers.get(origin)
        if server is not None and self.watch:
            server.directories = tuple(directories)
            server.follow()

    def _offline(self, origin: Origin, reason: str) -> None:
        """Say why a server cannot be used, and fall back to what was approved before and may be cached."""
        self.registration.fail(origin, f"{origin} {reason}")
        if not self.style.keeps_offline:
            self.registration.clear(origin)
            return
        if origin in self.places.listed_before:
            self.places.listed_before.discard(origin)
            self.registration.clear(origin)  # Whether it would still list that is not known.
        if self.registration.has_skills(origin):
            return
        try:
            self.registration.replace(
                origin, [one.shown for one in self.approvals.approved(origin) if one.shown is not None]
            )
        except SkillwireError as error:
            self.registration.fail(origin, str(error))

    # Looking things up

    async def look_up(self, uri: SkillUri, origin: Origin) -> HostSkill:
        """Ask a server for a skill that it may not list (LST-3)."""
        entry = await self.places.source(origin).get_entry(uri)
        self.registration.add(origin, entry)
        return self.registry.find_uri(uri, origin.label)

    async def current(self, skill: HostSkill) -> HostSkill:
        """The skill as it is now, where it is known from a cached listing alone: that costs one request."""
        server = self._servers.get(skill.origin)
        if server is None or not server.is_cached:
            return skill
        try:
            current = await self.look_up(skill.uri, skill.origin)
        except SourceError:
            return skill  # The server is unavailable. What was approved and cached of it can still be used.
        if current.entry != skill.entry:
            await self._expire_listing(skill.origin)
        return current

    async def list_cached_again(self) -> None:
        """List the servers that are known from a cached listing alone: what is not in it may be new."""
        async with anyio.create_task_group() as tasks:
            for server in self._servers.values():
                if server.is_cached:
                    server.is_cached = False
                    tasks.start_soon(self._list_server, server, True)

    def _current_switches(self) -> Switches:
        return self.registration.switches

    def set_switches(self, switches: Switches) -> tuple[Origin, ...]:
        """Disable and enable origins. The skills of disabled ones are removed when this returns.

        Returns the servers that were disabled and are enabled now.
        """
        before, self.registration.switches = self.registration.switches, switches
        for origin in self._servers:
            if closed := switches.closed_for(origin):
                self.registration.clear(origin)
                if not before.closed_for(origin):
                    message = f"{origin}: {closed}"
                    self.log.record(Event(kind=EventKind.REMARK, message=message, origin=origin))
        return tuple(
            origin
            for origin in self._servers
            if before.closed_for(origin) and not switches.closed_for(origin)
        )


def _shown(origin: Origin) -> str:
    """An origin for telemetry, where the name of a directory does not belong."""
    return "local" if origin.is_local else origin.label
