"""Discovery: the servers and directories of a host, and the registry that their skills go into.

Opening takes these steps: every server is connected in a task of its own; each that declares the extension is
asked for its listing; local directories are walked; and when all have answered or used up their time, the
registry takes everything in at once, so that no server is first. Nothing but entries has been fetched by then
(VER-5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio
import anyio.abc

from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.config.server import ServerConfig
from skillwire.host.directories import LocalDirectory
from skillwire.host.events import EventKind
from skillwire.host.intake import Intake
from skillwire.host.mentions import mentioned_skills
from skillwire.host.sessions import Connection, Status
from skillwire.host.styles.base import Style
from skillwire.host.styles.ranks import Layer
from skillwire.host.styles.switches import Switches
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.skill.drafts import Dialect
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, parse_uri, skill_root
from skillwire.sources.base import Source
from skillwire.sources.command_files import CommandFiles
from skillwire.sources.directory.source import DirectorySource
from skillwire.sources.mcp import McpSource
from skillwire.trust.approval import Policy, Reason
from skillwire.trust.origin import Origin


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server stands, for a person to look at."""

    label: str
    place: str
    status: Status
    reason: str
    era: str
    declares_skills: bool
    dialects: tuple[Dialect, ...]
    """The dialects that its skills came in; none when it has no skills."""
    policy: Policy


class Discovery:
    """Finds skills, and hands what it finds to the intake."""

    def __init__(
        self,
        *,
        servers: Mapping[Origin, ServerConfig],
        directories: Iterable[LocalDirectory],
        registry: Registry,
        intake: Intake,
        approvals: ApprovalStore,
        style: Style,
        limits: Limits,
    ) -> None:
        self._configs = dict(servers)
        self._directories = tuple(directories)
        self._registry = registry
        self._intake = intake
        self._approvals = approvals
        self._style = style
        self._limits = limits
        self._connections: dict[Origin, Connection] = {}
        self._sources: dict[Origin, Source] = {}
        self._listed: dict[Origin, anyio.Event] = {}
        self._mentioned: dict[Origin, dict[SkillUri, SkillEntry]] = {}
        self._reasons: dict[Origin, str] = {}
        # Servers that were quick are asked for nothing more while others still start: on a small machine
        # they would take their time from them.
        self._opened = anyio.Event()

    async def open(self, tasks: anyio.abc.TaskGroup) -> None:
        """Connect, list and walk, side by side; ends when everybody has answered or used up their time."""
        for origin, config in self._configs.items():
            connection = Connection(
                origin.label,
                config,
                limits=self._limits,
                on_change=self._connection_changed,
                on_followed=self._catch_up,
                listen_after=self._opened,
            )
            self._connections[origin] = connection
            self._sources[origin] = McpSource(
                origin.label,
                connection,
                accept_drafts=config.accept_drafts,
                bare_scan=config.bare_scan or self._style.bare_scan,
                peek=self._peek(config),
                ask_everyone=self._style.asks_everyone,
                limits=self._limits,
            )
            self._listed[origin] = anyio.Event()
            tasks.start_soon(connection.run)
        async with anyio.create_task_group() as finding:
            for directory in self._directories:
                finding.start_soon(self._walk, directory)
            for origin in self._connections:
                finding.start_soon(self._await_listing, origin)
        self._intake.open()
        self._opened.set()

    async def refresh(self, label: str | None = None, *, expired_only: bool = False) -> None:
        """Ask the servers, or one, for their listings again; without a label, walk the directories too."""
        connections = (
            [*self._connections.values()] if label is None else [self._connections[self.server(label)]]
        )
        async with anyio.create_task_group() as tasks:
            for connection in connections:
                tasks.start_soon(self._list_again, connection, not expired_only)
        if label is not None:
            return
        for directory in self._directories:
            source = self._sources.get(directory.origin)
            if source is None:
                continue
            before = await source.list_entries()
            await source.refresh()
            if (entries := await source.list_entries()) is not before:
                self._intake.take(directory.origin, entries)

    async def look_up(self, uri: SkillUri, origin: Origin) -> RegisteredSkill:
        """Ask a server for a skill that it may not list (LST-3)."""
        entry = await self.source(origin).get_entry(uri)
        self._intake.take_one(origin, entry)
        return self._registry.find_uri(uri, origin.label)

    def source(self, origin: Origin) -> Source:
        source = self._sources.get(origin)
        if source is None:
            raise SourceError(f"{origin} is not part of this host")
        if closed := self._intake.gates.closed_for(origin):
            raise ApprovalRequired(
                f"{origin} is not read from: {closed}", reason=Reason.DENIED, origin=origin.label, uri=""
            )
        return source

    def path_of(self, skill: RegisteredSkill) -> str:
        """Where a local skill's file is on disk; empty for a server's."""
        source = self._sources.get(skill.origin)
        return "" if source is None else source.local_path(skill.uri) or ""

    def set_switches(self, gates: Switches) -> tuple[Origin, ...]:
        """Close and open gates. The slots behind closed ones are empty when this returns.

        Gives the servers whose gates were closed and are open now.
        """
        before, self._intake.gates = self._intake.gates, gates
        for origin in self._connections:
            if closed := gates.closed_for(origin):
                self._intake.empty(origin)
                if not before.closed_for(origin):
                    self._intake.tell(EventKind.REMARK, f"{origin}: {closed}", origin)
        return tuple(
            origin
            for origin in self._connections
            if before.closed_for(origin) and not gates.closed_for(origin)
        )

    def _peek(self, config: ServerConfig) -> Callable[[SkillEntry], bool] | None:
        """Which skills the style may peek at: of a server that nothing is taken from, none."""
        if not self._style.peek or config.approval is Policy.NEVER:
            return None
        return config.selection.admits

    def server(self, label: str) -> Origin:
        """The server of this label, or `SkillNotFound` that names those there are."""
        for origin in self._connections:
            if origin.label == label:
                return origin
        known = ", ".join(origin.label for origin in self._connections) or "none"
        raise SkillNotFound(f"no server is called {shown(label)}; there is {known}")

    def require_label(self, label: str) -> None:
        """Raise `SkillNotFound` when neither a server nor a directory has this label."""
        origins = [*self._connections, *(directory.origin for directory in self._directories)]
        known = [origin.label for origin in origins]
        if label not in known:
            there = ", ".join(known) or "none"
            raise SkillNotFound(f"no server or directory is called {shown(label)}; there is {there}")

    def only_server(self, uri: SkillUri, candidates: Collection[Origin]) -> Origin:
        """The one server that a URI without a server can be on."""
        possible = sorted(candidates or self._connections)
        if not possible:
            raise SkillNotFound(f"no server is there that could serve {shown(uri, 200)}", uri=uri)
        if len(possible) > 1:
            raise AmbiguousName(shown(uri, 200), [origin.label for origin in possible])
        return possible[0]

    def states(self) -> tuple[ServerState, ...]:
        return tuple(
            ServerState(
                label=connection.label,
                place=connection.config.place,
                status=connection.status,
                reason=connection.reason,
                era=connection.era,
                declares_skills=connection.declaration is not None,
                dialects=self._dialects(Origin.mcp(connection.label)),
                policy=connection.config.approval,
            )
            for connection in self._connections.values()
        )

    def _dialects(self, origin: Origin) -> tuple[Dialect, ...]:
        found = {
            skill.entry.dialect for skill in self._registry.skills(disabled=True) if skill.origin == origin
        }
        return tuple(sorted(found, reverse=True))

    def follow(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Hear of changes to these skills while they are in use."""
        connection = self._connections.get(origin)
        if connection is not None:
            connection.follow([skill_root(uri) for uri in uris])

    async def _catch_up(self, connection: Connection, roots: Collection[str]) -> None:
        """Ask again for skills whose changes are told only from now on."""
        origin = Origin.mcp(connection.label)
        for uri in self._registry.uris(origin):
            if skill_root(uri) in roots:
                with suppress(SkillwireError):  # A load will tell what is wrong with it.
                    self._intake.take_one(origin, await self.source(origin).get_entry(uri))

    async def _await_listing(self, origin: Origin) -> None:
        """Wait for one server, for no longer than its own deadline: the others are not held up."""
        connection = self._connections[origin]
        with anyio.CancelScope() as waiting:
            until = anyio.current_time() + connection.config.connect_seconds
            await connection.settled()
            if connection.status is Status.READY:
                waiting.deadline = until
                await self._listed[origin].wait()
        if connection.status is not Status.READY:
            self._offline(origin, f"cannot be reached: {connection.reason}")
        elif waiting.cancelled_caught:
            late = f"has not listed its skills within {connection.config.connect_seconds:g} s"
            self._offline(origin, f"{late}; they are added when they come")

    async def _connection_changed(self, connection: Connection) -> None:
        """Runs in the connection's own task, whenever it is made or lost."""
        origin = Origin.mcp(connection.label)
        if connection.status is not Status.READY:
            if not self._intake.collecting:
                self._offline(origin, f"cannot be reached: {connection.reason}")
            return
        if self._reasons.pop(origin, None) is not None:
            self._intake.tell(EventKind.RECOVERED, f"{origin} is connected", origin)
        try:
            await self._list_again(connection)
        finally:
            self._listed[origin].set()

    async def _list_again(self, connection: Connection, afresh: bool = True) -> None:
        origin = Origin.mcp(connection.label)
        source = self._sources[origin]
        if self._intake.gates.closed_for(origin):
            return
        if afresh:
            await source.refresh()
        try:
            listed = await self._listing(source, origin)
            self._intake.take(origin, _with(listed, self._mentioned.get(origin, {})))
            self._intake.remark(origin, [issue for problem in source.problems() for issue in problem.issues])
            if await self._look_up_mentioned(connection, source, {entry.uri for entry in listed}):
                self._intake.take(origin, _with(listed, self._mentioned[origin]))
        except SkillwireError as error:
            self._intake.tell(EventKind.FAILURE, f"{origin} gave no listing: {error}", origin)

    async def _listing(self, source: Source, origin: Origin) -> Sequence[SkillEntry]:
        """A server's listing, in no more time than the style gives it."""
        seconds = self._style.listing_seconds
        try:
            with anyio.fail_after(seconds):
                return await source.list_entries()
        except TimeoutError:
            raise SourceError(
                f"{origin} did not list its skills within {seconds:g} s (listing_seconds)"
            ) from None

    async def _look_up_mentioned(
        self, connection: Connection, source: Source, listed: Collection[SkillUri]
    ) -> bool:
        """Confirm the skills that a server's instructions name, with that server alone (LST-3, SEC-3)."""
        origin = Origin.mcp(connection.label)
        before = self._mentioned.get(origin, {})
        confirmed: dict[SkillUri, SkillEntry] = {}
        if connection.declaration is not None:  # CAP-3: else there is no way to ask for one skill.
            for text in mentioned_skills(connection.instructions, self._limits):
                try:
                    uri = parse_uri(text)
                    if uri not in listed:
                        confirmed[uri] = await source.get_entry(uri)
                except SkillwireError as error:
                    self._intake.tell(
                        EventKind.REMARK, f"{origin} names a skill that it does not serve: {error}", origin
                    )
        self._mentioned[origin] = confirmed
        return confirmed != before

    async def _walk(self, directory: LocalDirectory) -> None:
        source: Source
        if directory.layer is Layer.COMMANDS:
            source = CommandFiles(directory.path, limits=self._limits)
        else:
            source = DirectorySource([directory.path], limits=self._limits)
        try:
            await source.open()
        except SkillwireError as error:
            self._intake.tell(EventKind.FAILURE, str(error), directory.origin)
            return
        self._sources[directory.origin] = source
        for problem in source.problems():
            self._intake.tell(EventKind.REMARK, f"left out: {problem}", directory.origin)
        self._intake.take(directory.origin, await source.list_entries())

    def _offline(self, origin: Origin, reason: str) -> None:
        """Say once why a server is away, and fall back to what was approved before and may be cached."""
        if self._reasons.get(origin) != reason:
            self._reasons[origin] = reason
            self._intake.tell(EventKind.FAILURE, f"{origin} {reason}", origin)
        if not self._style.keeps_offline:
            self._intake.empty(origin)
            return
        if self._registry.uris(origin):
            return
        try:
            self._intake.take(origin, [stored.entry for stored in self._approvals.all(origin)])
        except SkillwireError as error:
            self._intake.tell(EventKind.FAILURE, str(error), origin)


def _with(listed: Sequence[SkillEntry], mentioned: Mapping[SkillUri, SkillEntry]) -> list[SkillEntry]:
    return [*listed, *(entry for uri, entry in mentioned.items() if all(uri != one.uri for one in listed))]
