"""Places: where the skills of a host come from. A server has a connection; everything else is only opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from skillwire.catalog.registry import Registry
from skillwire.collector import collector_paused
from skillwire.errors import AmbiguousName, ApprovalRequired, SkillNotFound, SkillwireError, SourceError
from skillwire.host.config.server import ServerConfig
from skillwire.host.listings import ListingCache
from skillwire.host.state import ServerState, Status, Switches
from skillwire.host.styles.base import Style
from skillwire.host.templates import ServedTemplate
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.skill.dialects import Dialect
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.sources.base import Source
from skillwire.sources.legacy import DialectOptions
from skillwire.sources.mcp import McpSource
from skillwire.trust.approval import Policy, Reason
from skillwire.trust.origin import Origin
from skillwire.wire.legacy import ListedResource

if TYPE_CHECKING:
    from skillwire.host.sessions import Connection


@dataclass(slots=True)
class Place:
    """A directory, or a source of the user's own."""

    origin: Origin
    source: Source
    is_open: bool = False
    is_followed: bool = False


@dataclass(slots=True)
class ServerPlace:
    """An MCP server, with its connection."""

    origin: Origin
    source: McpSource
    config: ServerConfig
    connection: Connection
    is_cached: bool = False
    """Whether its skills come from a listing that was cached by an earlier host."""
    listed: anyio.Event = field(default_factory=anyio.Event)
    held: tuple[SkillUri, ...] = ()
    """The directories of the skills that are in use."""

    def follow(self) -> None:
        """Subscribe to changes of what is in use, and of the index if there is one."""
        self.connection.follow([*self.held, *self.source.followed])

    def state(self, dialects: Iterable[Dialect]) -> ServerState:
        """The server for a person to look at, with the dialects that its skills came in."""
        connection = self.connection
        return ServerState(
            origin=self.origin,
            place=self.config.place,
            status=connection.status,
            reason=connection.reason,
            last_output=connection.last_output,
            era=connection.era,
            declares_skills=connection.declaration is not None,
            declared_in=connection.declaration.place if connection.declaration else "",
            directory_read=connection.declaration is not None and connection.declaration.directory_read,
            capabilities=connection.capabilities,
            revisions=connection.revisions,
            explanation=self.source.explanation if connection.status is Status.READY else "",
            dialects=tuple(sorted(dialects, reverse=True)),
            policy=self.config.approval,
            cached=self.is_cached,
        )


@dataclass(kw_only=True, eq=False)
class Places:
    """The places of a host, and what can be asked about them."""

    configs: Mapping[Origin, ServerConfig]
    registry: Registry
    switches: Callable[[], Switches]
    limits: Limits
    opened: dict[Origin, Place] = field(default_factory=dict[Origin, Place])
    """Directories and sources of the user's own that are part of the host."""
    connected: dict[Origin, ServerPlace] = field(default_factory=dict[Origin, ServerPlace])
    """The servers, since the host was opened."""

    def source(self, origin: Origin) -> Source:
        """Where the skills of an origin are read from; `ApprovalRequired` when it is disabled."""
        place = self.connected.get(origin) or self.opened.get(origin)
        if place is None:
            raise SourceError(f"{origin} is not part of this host")
        if closed := self.switches().closed_for(origin):
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

    async def list_resources(self, origin: Origin) -> tuple[ListedResource, ...]:
        """Every resource of a server, skills or not."""
        self.source(origin)  # Refused when it is disabled.
        return await self.connected[origin].source.list_resources()

    async def servers_listing(self, uri: SkillUri) -> tuple[Origin, ...]:
        """The servers whose resources have this URI. A server that does not answer is skipped."""
        found: list[Origin] = []

        async def look(origin: Origin) -> None:
            with suppress(SkillwireError):
                if any(resource.uri == uri for resource in await self.list_resources(origin)):
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
            if not self.switches().closed_for(origin)
            for template in server.source.templates
        )

    async def complete(self, served: ServedTemplate, argument: str, prefix: str) -> tuple[str, ...]:
        """The values that a server suggests for an argument of its template."""
        self.source(served.origin)
        return await self.connected[served.origin].source.complete(served.template, argument, prefix)

    def remaining_seconds(self, origin: Origin) -> float | None:
        """How long the listing of a server may still be cached; `None` for a directory, which is watched."""
        server = self.connected.get(origin)
        if server is None:
            return None
        listing = server.source.listing
        if listing is None:
            return 0.0
        # A server may allow less than the minimum time that a listing is cached.
        longer = max(0.0, self.limits.min_ttl_seconds - listing.ttl_seconds)
        return max(0.0, listing.good_until - longer - anyio.current_time())

    def is_unavailable(self, origin: Origin) -> bool:
        """Whether an origin is a server that cannot be reached now."""
        server = self.connected.get(origin)
        return server is not None and server.connection.status is not Status.READY

    def server(self, label: str) -> Origin:
        """The server of this label, or a `SkillNotFound` that names the known ones."""
        for origin in self.configs:
            if origin.label == label:
                return origin
        known = ", ".join(origin.label for origin in self.configs) or "none"
        raise SkillNotFound(f"no server is called {shown(label)}; known: {known}")

    def servers(self) -> tuple[Origin, ...]:
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

    def states(self) -> tuple[ServerState, ...]:
        """The state of every server."""
        dialects: dict[Origin, set[Dialect]] = {}
        for skill in self.registry.skills(disabled=True):
            dialects.setdefault(skill.origin, set()).add(skill.entry.dialect)
        return tuple(place.state(dialects.get(origin, ())) for origin, place in self.connected.items())


async def server_place(
    origin: Origin,
    config: ServerConfig,
    *,
    style: Style,
    limits: Limits,
    listings: ListingCache | None,
    on_change: Callable[[Connection], Awaitable[None]],
    listen_after: anyio.Event | None,
    discover: bool,
    on_remark: Callable[[str], None],
) -> ServerPlace:
    """A server that is not connected yet, with its cached listing if there is one."""
    # Imported now: the MCP SDK takes a second of processor time, and local skills do without it.
    with collector_paused():
        from skillwire.host.sessions import Connection

    cached = None
    if listings is not None and discover:
        cached = await listings.get(config, clock=anyio.current_time)
    connection = Connection(
        origin,
        config,
        limits=limits,
        on_change=on_change,
        listen_after=listen_after,
        is_lazy=cached is not None or not discover,
    )
    source = McpSource(
        origin.label,
        connection,
        options=DialectOptions(
            accept_drafts=config.accept_drafts,
            bare_scan=config.bare_scan or style.bare_scan,
            peek=_peek(config, style),
            ask_everyone=style.asks_everyone,
        ),
        on_remark=on_remark,
        limits=limits,
    )
    if cached is not None:
        source.preset(cached)
    return ServerPlace(origin, source, config, connection, is_cached=cached is not None)


def _peek(config: ServerConfig, style: Style) -> Callable[[SkillEntry], bool]:
    """For which skills the frontmatter is read early: for a server with policy `never`, none (VER-5)."""

    def wanted(entry: SkillEntry) -> bool:
        if config.approval is Policy.NEVER or not config.selection.admits(entry):
            return False
        if entry.dialect is Dialect.BARE_SCAN:
            return True  # Nothing else says what it is.
        if entry.dialect is Dialect.MANIFEST:
            return style.peek
        return style.peek_index or (style.peek and not entry.description)

    return wanted
