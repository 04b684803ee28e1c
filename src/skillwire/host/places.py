"""Places: the servers, folders and other sources of a host, what they list, and what changed there.

Opening takes these steps: every source is opened in a task of its own, and every server connected; each is
asked for its listing; and when all have answered or timed out, everything is registered at once, so that no
source comes first. Nothing but entries has been fetched by then (VER-5). After that, the sources say what
changed: one skill is asked for alone, a listing as a whole.

`registration.py` puts what they list into the table of the host.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import anyio.to_thread

from skillwire.catalog import HostSkill, SkillTable
from skillwire.consent import ConsentStore
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.host.config.server import ServerConfig
from skillwire.host.directories import HostOrigins, other_directories
from skillwire.host.events import Event, EventKind, EventRecorder
from skillwire.host.registration import Registration, unusable
from skillwire.host.rules import Rules
from skillwire.host.settings import HostSettings
from skillwire.host.sources import (
    ListingCache,
    LocalSource,
    ServerSource,
    import_sessions,
    server_place,
)
from skillwire.host.state import (
    ConnectionStatus,
    ServedTemplate,
    ServerState,
    Switches,
    find_template,
)
from skillwire.host.storage import SkillCache
from skillwire.limits import Limits
from skillwire.skill import Dialect, SkillUri
from skillwire.sources import Change, Source
from skillwire.sources.listing import INCOMPLETE
from skillwire.telemetry import DIALECT, ORIGIN, SKILLS, operation
from skillwire.text import clean_line, shown
from skillwire.trust import Origin, Reason
from skillwire.wire import ListedResource

if TYPE_CHECKING:
    from skillwire.host.connection import Connection


class Places:
    """Opens the sources of a host, follows them, and keeps its table up to date. Nothing is opened before
    `open`.
    """

    def __init__(
        self,
        settings: HostSettings,
        *,
        rules: Rules,
        registration: Registration,
        table: SkillTable,
        cache: SkillCache,
        consent: ConsentStore,
        log: EventRecorder,
        limits: Limits,
    ) -> None:
        self.rules = rules
        self.registration = registration
        self.table = table
        self.cache = cache
        self.consent = consent
        self.log = log
        self.limits = limits
        self.style = rules.style
        self.discover = settings.discover
        self.watch = settings.watch
        self.connect_after = settings.connect_after
        self.listings: ListingCache | None = None
        """Servers are listed from this cache while it is current, and connected when they are needed.
        Without it, all are connected at once."""
        if settings.cache_listings or settings.connect_after:
            self.listings = ListingCache(cache.directory.parent / "listings", limits=limits)
        self.reads_listings = settings.cache_listings != "write"
        self.listings_seen: dict[Origin, int] = {}
        """How often each origin was listed, or told of a change, since the host was made."""
        origins = rules.origins
        sources = {origin: LocalSource(origin, source) for origin, source in origins.sources.items()}
        # Sources whose directories are not there yet. They become part of the host when these are created.
        self._later = {origin: place for origin, place in sources.items() if origin in origins.later}
        self.opened = {origin: place for origin, place in sources.items() if origin not in origins.later}
        """Directories and sources of the user's own that are part of the host."""
        self.connected: dict[Origin, ServerSource] = {}
        """The servers, since the host was opened."""
        # The servers that are known from their last listing alone, which may have expired.
        self._listed_before: set[Origin] = set()
        # Servers that were quick are asked for nothing more while others still start: on a small machine
        # they would take their time from them.
        self._opened = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._known = {origin: anyio.Event() for origin in self.origins()}
        self._settled = {origin: anyio.Event() for origin in self.origins()}

    @property
    def configs(self) -> Mapping[Origin, ServerConfig]:
        """The configuration of every server, as it is now."""
        return self.rules.origins.servers

    @property
    def directories(self) -> Mapping[Origin, Path]:
        """Where the local sources are."""
        return self.rules.origins.directories

    def bind(self, origins: HostOrigins) -> None:
        """Use these origins where decisions and files are stored."""
        self.cache.refuse_inside(
            path for origin, path in origins.directories.items() if origin not in origins.later
        )
        self.cache.bind(origins.identities)
        self.consent.bind(origins.identities)

    # Opening and closing

    async def open(self, tasks: anyio.abc.TaskGroup) -> None:
        """Open, connect and list concurrently; ends when all have answered or timed out."""
        self._tasks = tasks
        if self.connect_after is not None:
            self.registration.finish_opening()
        async with anyio.create_task_group() as finding:
            for place in self.opened.values():
                finding.start_soon(self._open_place, place)
            if self.connect_after is not None and await self._begin_with_last_listings():
                await self.connect_after()
            await self._make_servers()
            for server in self.connected.values():
                tasks.start_soon(server.work.run, server.connection.run)
                finding.start_soon(self._await_listing, server)
        self.registration.finish_opening()
        self._opened.set()
        self.stop_waiting()
        if self.watch:
            awaited = [*self._later.values()]
            for place in self.opened.values():
                if place.is_open or self._is_there(place):
                    self._follow_place(place)
                else:
                    awaited.append(place)
            for server in self.connected.values():
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
            for origin, config in self.configs.items():
                entries = await self.listings.last(config)
                if entries is not None:
                    self._listed_before.add(origin)
                    self.registration.replace(origin, entries)
                    self._known[origin].set()
        return self._listed_before.issuperset(self.configs)

    async def _make_servers(self) -> None:
        if self.connect_after is not None and self.configs:
            # The MCP SDK, in a thread: clients of a gateway are answered meanwhile.
            await anyio.to_thread.run_sync(import_sessions)
        for origin in self.configs:
            self.connected[origin] = await self._server_place(origin)

    async def _server_place(self, origin: Origin) -> ServerSource:
        return await server_place(
            origin,
            self.configs[origin],
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
        """Make an origin part of the open host: a server of `configs`, or else this source.

        A server is connected and listed soon; a source is opened and listed when this returns.
        """
        self.rules.restore(origin)
        for events in (self._known, self._settled):
            events.setdefault(origin, anyio.Event()).set()  # Nobody waits for what came later.
        if source is not None:
            await self._arrive(LocalSource(origin, source))
        elif self._tasks is not None:
            await anyio.to_thread.run_sync(import_sessions)
            server = self.connected[origin] = await self._server_place(origin)
            self._tasks.start_soon(server.work.run, server.connection.run)
            if self.watch:
                self._follow_server(server)

    async def remove(self, origin: Origin) -> None:
        """End what runs for an origin, close it and remove its skills. What is loaded of it stays loaded."""
        server = self.connected.pop(origin, None)
        place = self.opened.pop(origin, None) or self._later.pop(origin, None)
        for one in (server, place):
            if one is not None:
                one.work.end()
        if place is not None and place.is_open:
            with suppress(Exception):  # A user's own class may fail here.
                await place.source.aclose()
        self.rules.remove(origin)
        self.registration.clear(origin)
        self.log.leave_out(origin, ())
        self.log.recover(origin)

    async def aclose(self) -> None:
        """Close every source."""
        for place in list(self.opened.values()):
            with suppress(Exception):  # A user's own class may fail here; the others are closed anyway.
                await place.source.aclose()

    async def _open_place(self, place: LocalSource) -> None:
        with self._recording_failures(place.origin, "failed"):
            if (path := self.directories.get(place.origin)) is not None:
                self.cache.refuse_inside([path])
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
        self.opened[place.origin] = place
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
            self.opened[place.origin] = self._later.pop(place.origin)
        if label is not None:
            self.require_label(label)
        async with anyio.create_task_group() as tasks:
            for server in self.connected.values():
                if label in (None, server.origin.label):
                    tasks.start_soon(self._list_server, server, not expired_only)
            for place in self.opened.values():
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
        server = self.connected.get(self.server(label))
        if server is not None and server.connection.status is ConnectionStatus.FAILED:
            server.connection.retry()
        else:
            await self.refresh(label)

    async def _connection_changed(self, connection: Connection) -> None:
        """Runs in the connection's own task, whenever it is made or lost."""
        server = self.connected.get(connection.origin)
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
        if self.rules.closed_for(server.origin):
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
        self.listings_seen[origin] = self.listings_seen.get(origin, 0) + 1
        self.log.changed()
        if elsewhere := other_directories(origin, self.directories, self.opened):
            entries = [
                entry for entry in entries if not (source.local_path(entry.uri) or "").startswith(elsewhere)
            ]
        self.registration.replace(origin, entries, left_out)
        await self._keep_listing(origin)

    async def _keep_listing(self, origin: Origin) -> None:
        """Store what a server listed, unless that is what is stored."""
        server = self.connected.get(origin)
        listing = server.source.listing if server is not None else None
        if self.listings is None or server is None or server.is_cached or listing is None:
            return
        if listing is not server.stored:
            server.stored = listing
            self._listed_before.discard(origin)
            await self.listings.put(server.config, listing)

    async def _expire_listing(self, origin: Origin) -> None:
        """Mark the stored listing as out of date, also for other processes: they would show another state."""
        server = self.connected.get(origin)
        if self.listings is not None and server is not None:
            await self.listings.expire(server.config)

    async def _follow(self, origin: Origin, source: Source) -> None:
        """Keep the table up to date with what a source says has changed, until canceled."""
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
        if self.rules.closed_for(origin):
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
        server = self.connected.get(origin)
        if server is not None and self.watch:
            server.directories = tuple(directories)
            server.follow()

    def _offline(self, origin: Origin, reason: str) -> None:
        """Say why a server cannot be used, and fall back to what was approved before and may be cached."""
        self.registration.fail(origin, f"{origin} {reason}")
        if not self.style.keeps_offline:
            self.registration.clear(origin)
            return
        if origin in self._listed_before:
            self._listed_before.discard(origin)
            self.registration.clear(origin)  # Whether it would still list that is not known.
        if self.registration.has_skills(origin):
            return
        try:
            self.registration.replace(
                origin, [one.shown for one in self.consent.approved(origin) if one.shown is not None]
            )
        except SkillwireError as error:
            self.registration.fail(origin, str(error))

    # Looking things up

    async def look_up(self, uri: SkillUri, origin: Origin) -> HostSkill:
        """Ask a server for a skill that it may not list (LST-3)."""
        entry = await self.source(origin).get_entry(uri)
        self.registration.add(origin, entry)
        return self.table.find_uri(uri, origin.label)

    async def current(self, skill: HostSkill) -> HostSkill:
        """The skill as it is now, where it is known from a cached listing alone: that costs one request."""
        server = self.connected.get(skill.origin)
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
            for server in self.connected.values():
                if server.is_cached:
                    server.is_cached = False
                    tasks.start_soon(self._list_server, server, True)

    async def refreshed(self, skill: HostSkill, error: SkillwireError) -> HostSkill:
        """The skill with a fresh entry, after a check failed (VER-6); raises `error` if there is none."""
        try:
            entry = await self.source(skill.origin).get_entry(skill.uri)
        except SkillwireError:
            raise error from None
        self.registration.add(skill.origin, entry)
        return replace(skill, entry=entry)

    async def set_switches(self, switches: Switches) -> None:
        """Disable and enable servers. The skills of disabled servers are removed at once.

        A skill in use stays loaded, as its text is in the context, but nothing more is read of it (SEC-2).
        """
        before = self.rules.set_switches(switches)
        for origin in self.connected:
            if closed := switches.closed_for(origin):
                self.registration.clear(origin)
                if not before.closed_for(origin):
                    message = f"{origin}: {closed}"
                    self.log.record(Event(kind=EventKind.REMARK, message=message, origin=origin))
        for origin in [*self.connected]:
            if before.closed_for(origin) and not switches.closed_for(origin):
                await self.refresh(origin.label)

    # What can be asked about them

    def source(self, origin: Origin) -> Source:
        """Where the skills of an origin are read from; `ApprovalRequired` when it is disabled."""
        place = self.connected.get(origin) or self.opened.get(origin)
        if place is None:
            raise SourceError(f"{origin} is not part of this host")
        if closed := self.rules.switches.closed_for(origin):
            raise ApprovalRequired(
                f"{origin} is not read from: {closed}", reason=Reason.DENIED, origin=origin.label, uri=""
            )
        return place.source

    def local_path(self, origin: Origin, uri: SkillUri) -> str:
        """Where a file of a local skill is on disk; empty for a server's."""
        place = self.opened.get(origin)
        return (place.source.local_path(uri) or "") if place else ""

    def listed_files(self, origin: Origin, uri: SkillUri) -> tuple[SkillUri, ...]:
        """The supporting files that a server is known to list for the skill at a URI."""
        server = self.connected.get(origin)
        return server.source.listed_files(uri) if server else ()

    async def list_resources(self, server: str) -> tuple[ListedResource, ...]:
        """Every resource that a server lists, skills or not. The strings are the server's own."""
        return await self.resources_of(self.server(server))

    async def resources_of(self, origin: Origin) -> tuple[ListedResource, ...]:
        """Every resource of a server, skills or not."""
        self.source(origin)  # Refused when it is disabled.
        return await self.connected[origin].source.list_resources()

    async def servers_listing(self, uri: SkillUri) -> tuple[Origin, ...]:
        """The servers whose resources have this URI. A server that does not answer is skipped."""
        found: list[Origin] = []

        async def look(origin: Origin) -> None:
            with suppress(SkillwireError):
                if any(resource.uri == uri for resource in await self.resources_of(origin)):
                    found.append(origin)

        async with anyio.create_task_group() as tasks:
            for origin in self.connected:
                tasks.start_soon(look, origin)
        return tuple(found)

    def templates(self) -> tuple[ServedTemplate, ...]:
        """Every template of the enabled servers."""
        return tuple(
            ServedTemplate(origin, template)
            for origin, server in self.connected.items()
            if not self.rules.switches.closed_for(origin)
            for template in server.source.templates
        )

    async def complete(
        self, template: str, argument: str, prefix: str = "", *, server: str | None = None
    ) -> tuple[str, ...]:
        """The values that a server suggests for an argument of a template, given the start of a value."""
        found = find_template(template, self.templates(), server)
        if argument not in found.arguments:
            known = ", ".join(found.arguments)
            raise SkillNotFound(f"{found.name} has no argument {shown(argument)}; known: {known}")
        return await self.suggestions(found, argument, prefix)

    async def suggestions(self, served: ServedTemplate, argument: str, prefix: str = "") -> tuple[str, ...]:
        """Values that a server suggests, fit for one line; none when it does not say."""
        try:
            self.source(served.origin)  # Refused when it is disabled.
            source = self.connected[served.origin].source
            values = await source.complete(served.template, argument, prefix)
        except SourceError:
            return ()
        return tuple(clean_line(value, limit=100).text for value in values)

    def remaining_seconds(self, origin: Origin) -> float | None:
        """How long the listing of a server may still be cached; `None` for a directory, which is watched."""
        if origin in self._listed_before:
            return 0.0
        server = self.connected.get(origin)
        if server is None:
            return None if origin not in self.configs else 0.0
        listing = server.source.listing
        if listing is None:
            return 0.0
        # A server may allow less than the minimum time that a listing is cached.
        longer = max(0.0, self.limits.min_ttl_seconds - listing.ttl_seconds)
        return max(0.0, listing.good_until - longer - anyio.current_time())

    def is_unavailable(self, origin: Origin) -> bool:
        """Whether an origin is a server that cannot be reached now."""
        server = self.connected.get(origin)
        return server is not None and server.connection.status is not ConnectionStatus.READY

    def is_awaited(self, origin: Origin) -> bool:
        """Whether an origin is a server that cannot be reached now, or of which nothing is known yet."""
        return self.is_unavailable(origin) or not (origin.is_local or self.is_known(origin))

    def retry_seconds(self, origin: Origin) -> float:
        """In how many seconds a server that is unavailable is connected to again; 0 while that is tried."""
        server = self.connected.get(origin)
        return 0.0 if server is None else server.connection.retry_seconds

    def server(self, label: str) -> Origin:
        """The server of this label, or a `SkillNotFound` that names the known ones."""
        for origin in self.configs:
            if origin.label == label:
                return origin
        known = ", ".join(origin.label for origin in self.configs) or "none"
        raise SkillNotFound(f"no server is called {shown(label)}; known: {known}")

    def server_origins(self) -> tuple[Origin, ...]:
        """The servers of this host, connected or not."""
        return tuple(self.configs)

    def origins(self) -> tuple[Origin, ...]:
        """Every server, directory and other source of this host."""
        return (*self.configs, *self.opened)

    def require_label(self, label: str) -> None:
        """Raise `SkillNotFound` when neither a server nor another source has this label."""
        known = [origin.label for origin in (*self.configs, *self.opened)]
        if label not in known:
            there = ", ".join(known) or "none"
            raise SkillNotFound(f"no server or directory is called {shown(label)}; known: {there}")

    def only_server(self, uri: SkillUri, candidates: Collection[Origin]) -> Origin:
        """The one server that a URI without a server can be on."""
        possible = sorted(candidates or self.configs)
        if not possible:
            raise SkillNotFound(f"no server is configured that could serve {shown(uri, 200)}", uri=uri)
        if len(possible) > 1:
            raise AmbiguousName(shown(uri, 200), [origin.label for origin in possible])
        return possible[0]

    def servers(self) -> tuple[ServerState, ...]:
        """The state of every server."""
        skills = groupby(self.table.skills(disabled=True), lambda skill: skill.origin)
        dialects = {origin: {skill.entry.dialect for skill in group} for origin, group in skills}
        return tuple(
            self._state(origin, config, dialects.get(origin, ())) for origin, config in self.configs.items()
        )

    def _state(self, origin: Origin, config: ServerConfig, dialects: Iterable[Dialect]) -> ServerState:
        if (place := self.connected.get(origin)) is not None:
            state = replace(place.state(dialects), excluded=self.registration.excluded.get(origin, 0))
            return replace(state, cached=True) if origin in self._listed_before else state
        return ServerState(
            origin=origin,
            place=config.place,
            status=ConnectionStatus.CONNECTING,
            reason="",
            era="",
            declares_skills=False,
            dialects=tuple(sorted(dialects, reverse=True)),
            approval_mode=config.approval,
            cached=origin in self._listed_before,
        )


def _shown(origin: Origin) -> str:
    """An origin for telemetry, where the name of a directory does not belong."""
    return "local" if origin.is_local else origin.label
