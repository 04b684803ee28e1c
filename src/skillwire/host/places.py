"""Places: where the skills of a host come from. A server has a connection; everything else is only opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from skillwire.host.config.server import ServerConfig
from skillwire.host.listings import ListingCache
from skillwire.host.state import ServerState, Status
from skillwire.host.styles.base import Style
from skillwire.limits import Limits
from skillwire.skill.dialects import Dialect
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.sources.base import Source
from skillwire.sources.mcp import McpSource
from skillwire.trust.approval import Policy
from skillwire.trust.origin import Origin

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
        """Hear of changes to what is in use, and to the index where there is one."""
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
        accept_drafts=config.accept_drafts,
        bare_scan=config.bare_scan or style.bare_scan,
        peek=_peek(config, style),
        ask_everyone=style.asks_everyone,
        on_remark=on_remark,
        limits=limits,
    )
    if cached is not None:
        source.preset(cached)
    return ServerPlace(origin, source, config, connection, is_cached=cached is not None)


def _peek(config: ServerConfig, style: Style) -> Callable[[SkillEntry], bool] | None:
    """Of which skills the frontmatter is read early: of a server with policy `never`, none (VER-5)."""
    if config.approval is Policy.NEVER:
        return None

    def wanted(entry: SkillEntry) -> bool:
        if not config.selection.admits(entry):
            return False
        if entry.dialect is Dialect.BARE_SCAN:
            return True  # Nothing else says what it is.
        if entry.dialect is Dialect.MANIFEST:
            return style.peek
        return style.peek_index or (style.peek and not entry.description)

    return wanted
