"""Notifier: tells clients what changed, on both eras of the protocol.

On the 2025 era a connection subscribes with `resources/subscribe`, and every connection that can be written
to hears of changed lists. On 2026-07-28 a client listens with `subscriptions/listen`, and hears what it asked
for on that stream. Events say that something changed, not how often: what waits to be sent is sent once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillwire.errors import FormatError, LimitExceeded
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.catalog import Catalog
from skillwire.server.difference import difference
from skillwire.server.handlers import Context, Handler
from skillwire.server.legacy.resources import LegacyResources
from skillwire.server.library import SkillLibrary
from skillwire.server.subscriptions import Subscriptions, canonical
from skillwire.skill.digests import Digest, digest_of
from skillwire.skill.uris import SkillUri
from skillwire.wire.legacy import is_legacy_resource

RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
UPDATED: Final = "notifications/resources/updated"
_LIST_EVENTS: Final = {
    RESOURCES_CHANGED: ResourcesListChanged(),
    TOOLS_CHANGED: ToolsListChanged(),
    PROMPTS_CHANGED: PromptsListChanged(),
}

Notice: TypeAlias = tuple[str, str | None]
"""A notification: its method, and the URI that it names."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Session:
    """A connection of the 2025 era, and what it has yet to be told."""

    connection: Connection
    pending: dict[Notice, None] = field(default_factory=dict[Notice, None])
    is_sending: bool = False


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream of the 2026-07-28 era."""


class Notifier:
    """Knows who wants to hear of what, and tells them.

    `lists` are the other lists that are made from the skills: by the notification for each, whether it
    differs between two catalogs whose skills or metadata do.
    """

    def __init__(
        self,
        library: SkillLibrary,
        legacy_resources: LegacyResources,
        *,
        bus: SubscriptionBus | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.bus: SubscriptionBus = bus or InMemorySubscriptionBus()
        self.lists: dict[str, Callable[[Catalog, Catalog], bool]] = {}
        self._library = library
        self._legacy_resources = legacy_resources
        self._limits = limits
        self._subscriptions: Subscriptions[_Session | _Stream] = Subscriptions(limits=limits)
        self._sessions: dict[Connection, _Session] = {}
        self._streams: set[_Stream] = set()
        self._told: Catalog | None = None
        self._made: dict[SkillUri, Digest | None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether nobody is left to be told anything, and nothing is kept for anybody."""
        return not (self._sessions or self._streams or len(self._subscriptions) or self._made)

    # Who is there.

    async def join(self, connection: Connection) -> None:
        """A connection of the 2025 era has begun. It is forgotten when it ends."""
        await self._begin()
        if connection not in self._sessions:
            self._sessions[connection] = _Session(connection)
            connection.exit_stack.callback(self._leave, connection)

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        session = self._session(ctx)
        with _refusing():
            await self._add(session, [str(params.uri)])
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        session = self._session(ctx)
        self._subscriptions.remove(session, str(params.uri))
        self._forget_unwanted()
        return types.EmptyResult()

    def listening(self, serve: Handler) -> Handler:
        """`subscriptions/listen`: `serve` runs the stream on our bus, and we keep what it asks for."""

        async def listen(ctx: Context, params: types.SubscriptionsListenRequestParams) -> Any:
            stream = _Stream()
            if len(self._streams) >= self._limits.listeners:
                raise MCPError(types.INTERNAL_ERROR, "Too many streams are open; try again later")
            self._streams.add(stream)
            try:
                await self._begin()
                with _refusing():
                    await self._add(stream, _skill_uris(params.notifications.resource_subscriptions or ()))
                return await serve(ctx, params)
            finally:
                self._streams.discard(stream)
                self._subscriptions.drop(stream)
                self._forget_unwanted()

        return listen

    # What there is to tell.

    async def announce(self, tasks: TaskGroup) -> None:
        """Tell everybody what changed since the last time; the first time there is nothing to tell.

        A slow client keeps nobody else waiting.
        """
        before, after = self._told, await self._library.catalog()
        self._told = after
        if before is None or before is after:
            return
        found = difference(before, after)
        changed = {*found.changed, *self._made_anew(after)}
        lists: list[str] = []
        if found.is_list_changed:
            lists = [
                RESOURCES_CHANGED,
                *(method for method, differs in self.lists.items() if differs(before, after)),
            ]
        updates = self._subscriptions.concerned(changed)
        for session in self._sessions.values():
            notices: list[Notice] = [(method, None) for method in lists]
            notices += [(UPDATED, uri) for uri in sorted(updates.get(session, ()))]
            self._send(session, notices, tasks)
        for method in lists:
            await self.bus.publish(_LIST_EVENTS[method])
        streams = (uris for subscriber, uris in updates.items() if isinstance(subscriber, _Stream))
        for uri in sorted({uri for uris in streams for uri in uris}):
            await self.bus.publish(ResourceUpdated(uri))

    async def _begin(self) -> None:
        """Somebody is there: what differs from now on is news, though nothing was announced yet."""
        if self._told is None:
            try:
                self._told = await self._library.catalog()
            except Exception:  # A source in trouble keeps nobody from connecting.
                _log.debug("the skills cannot be listed now", exc_info=True)

    async def _add(self, subscriber: _Session | _Stream, spellings: Iterable[str]) -> None:
        wanted = tuple(spellings)
        self._subscriptions.add(subscriber, wanted)
        # Bookkeeping begins with the first subscriber. What is made from the catalog has no digest there.
        for uri in map(canonical, wanted):
            if is_legacy_resource(uri) and uri not in self._made:
                self._made[uri] = self._digest(self._told or await self._library.catalog(), uri)

    def _made_anew(self, catalog: Catalog) -> list[SkillUri]:
        """The subscribed resources that are made from the catalog and have other bytes now."""
        digests = {uri: self._digest(catalog, uri) for uri in self._made}
        differing = [uri for uri, digest in digests.items() if digest != self._made[uri]]
        self._made = digests
        return differing

    def _digest(self, catalog: Catalog, uri: SkillUri) -> Digest | None:
        content = self._legacy_resources.content(catalog, uri)
        return None if content is None else digest_of(content)

    def _send(self, session: _Session, notices: list[Notice], tasks: TaskGroup) -> None:
        # Before `notifications/initialized` nothing may be sent, and there is no list that could be old.
        if not session.connection.initialized.is_set():
            return
        session.pending.update(dict.fromkeys(notices))
        if session.pending and not session.is_sending:
            session.is_sending = True
            tasks.start_soon(self._drain, session)

    async def _drain(self, session: _Session) -> None:
        try:
            while session.pending:
                method, uri = next(iter(session.pending))
                del session.pending[method, uri]
                await session.connection.notify(method, None if uri is None else {"uri": uri})
        except Exception:  # One connection in trouble must not silence the others.
            _log.debug("a client could not be told", exc_info=True)
        finally:
            session.is_sending = False

    def _session(self, ctx: Context) -> _Session:
        session = self._sessions.get(connection_of(ctx))
        if session is None:
            # Never advertised here, and yet clients ask: an error is better than silence for ever.
            message = "This connection cannot deliver notifications; use a server that keeps sessions"
            raise MCPError(types.METHOD_NOT_FOUND, message)
        return session

    def _leave(self, connection: Connection) -> None:
        session = self._sessions.pop(connection, None)
        if session is not None:
            session.pending.clear()
            self._subscriptions.drop(session)
            self._forget_unwanted()

    def _forget_unwanted(self) -> None:
        if self._made:
            wanted = frozenset(self._subscriptions.uris)
            for uri in [uri for uri in self._made if uri not in wanted]:
                del self._made[uri]


def can_be_told(ctx: Context) -> bool:
    """Whether a 2025-era connection has a way for what nobody asked for; stateless HTTP has none."""
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and connection_of(ctx).has_standalone_channel


def connection_of(ctx: Context) -> Connection:
    """The connection behind a request, to which the SDK has no public way; a session is one request's."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def _skill_uris(spellings: Iterable[str]) -> list[str]:
    """What can be one of ours. A stream may ask for resources of the server beside the skills, too."""
    found: list[str] = []
    for text in spellings:
        try:
            canonical(text)
        except FormatError:
            continue
        found.append(text)
    return found


@contextmanager
def _refusing() -> Generator[None]:
    """Turn what a subscription is refused for into the error that the client gets."""
    try:
        yield
    except LimitExceeded as error:
        raise MCPError(types.INVALID_PARAMS, f"Too many subscriptions: {error}") from None
    except FormatError as error:
        raise MCPError(types.INVALID_PARAMS, error.issues[0].message) from None
