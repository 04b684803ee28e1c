"""Notifier: notifies clients of changes, on the 2025 revisions and on 2026-07-28.

On the 2025 revisions, a connection subscribes with `resources/subscribe`, and every writable connection is
notified of changed lists. On 2026-07-28, a client opens a stream with `subscriptions/listen` and gets what it
requested there. Pending notifications are merged.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import anyio
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
from skillwire.server.handlers import Context, Handler
from skillwire.server.library import Catalog, SkillLibrary, difference
from skillwire.server.results import LegacyResources
from skillwire.skill import Digest, SkillUri, digest_of, parse_uri
from skillwire.sources.base import directories_down_to
from skillwire.wire import is_legacy_resource

RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
UPDATED: Final = "notifications/resources/updated"
_LIST_EVENTS: Final = {
    RESOURCES_CHANGED: ResourcesListChanged(),
    TOOLS_CHANGED: ToolsListChanged(),
    PROMPTS_CHANGED: PromptsListChanged(),
}

_PATIENCE_SECONDS: Final = 1.0

Notice: TypeAlias = tuple[str, str | None]
"""A notification: its method and URI."""

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=Hashable)


class Subscriptions(Generic[S]):
    """Subscribers by URI. A subscription to a directory covers everything below it.

    Notifications use the subscriber's spelling of the URI.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._by_uri: dict[SkillUri, dict[S, set[str]]] = {}
        self._by_subscriber: dict[S, set[str]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def uris(self) -> Sequence[SkillUri]:
        """Every URI with a subscriber."""
        return tuple(self._by_uri)

    def add(self, subscriber: S, spellings: Iterable[str]) -> None:
        """Subscribe to all of them, or to none and raise `FormatError`, or `LimitExceeded` for too many."""
        own = self._by_subscriber.get(subscriber, set())
        fresh = {text: canonical(text) for text in spellings if text not in own}
        if len(own) + len(fresh) > self._limits.subscriptions_per_client:
            raise LimitExceeded(
                f"a client can have {self._limits.subscriptions_per_client}: unsubscribe from some first, "
                "or subscribe to a directory, which covers everything below it"
            )
        if self._count + len(fresh) > self._limits.subscriptions:
            raise LimitExceeded("all clients together have too many subscriptions: try again later")
        for text, uri in fresh.items():
            self._by_uri.setdefault(uri, {}).setdefault(subscriber, set()).add(text)
        if fresh:
            self._by_subscriber[subscriber] = own | fresh.keys()
        self._count += len(fresh)

    def remove(self, subscriber: S, spelling: str) -> None:
        """Unsubscribe. Without a subscription, does nothing."""
        own = self._by_subscriber.get(subscriber)
        if own is None or spelling not in own:
            return
        own.discard(spelling)
        if not own:
            del self._by_subscriber[subscriber]
        self._count -= 1
        uri = canonical(spelling)
        subscribers = self._by_uri[uri]
        subscribers[subscriber].discard(spelling)
        if not subscribers[subscriber]:
            del subscribers[subscriber]
        if not subscribers:
            del self._by_uri[uri]

    def drop(self, subscriber: S) -> None:
        """Remove all subscriptions of a subscriber that disconnected."""
        for spelling in tuple(self._by_subscriber.get(subscriber, ())):
            self.remove(subscriber, spelling)

    def concerned(self, changed: Iterable[SkillUri]) -> dict[S, set[str]]:
        """The subscribers to notify, each with the URIs to name, after these URIs changed."""
        found: defaultdict[S, set[str]] = defaultdict(set)
        if not self._by_uri:
            return found
        for at in {at for uri in changed for at in directories_down_to(uri)}:
            for subscriber, spellings in self._by_uri.get(at, {}).items():
                found[subscriber] |= spellings
        return found


def canonical(spelling: str) -> SkillUri:
    """The URI that a subscription is for, or a `FormatError`. A directory may end in a slash."""
    return parse_uri(spelling.removesuffix("/"))


@dataclass(slots=True, eq=False)
class _Session:
    """A connection of a 2025 revision, and its pending notifications."""

    connection: Connection
    pending: dict[Notice, None] = field(default_factory=dict[Notice, None])
    is_sending: bool = False


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream of 2026-07-28."""


class Notifier:
    """Keeps track of subscriptions, and notifies clients.

    `lists` are the other lists that depend on the skills: for each notification, a function that tells
    whether the list differs between two catalogs.
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
        self._announced: Catalog | None = None
        self._legacy_digests: dict[SkillUri, Digest | None] = {}

    @property
    def is_idle(self) -> bool:
        """Whether there are no clients and no state for any."""
        return not (self._sessions or self._streams or len(self._subscriptions) or self._legacy_digests)

    async def join(self, connection: Connection) -> None:
        """Notify this connection of a 2025 revision until it ends."""
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
        """The handler of `subscriptions/listen`: `serve` runs the stream on our bus."""

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

    async def announce(self, tasks: TaskGroup) -> None:
        """Notify all clients of what changed since the last call. A slow client delays nobody else."""
        before, after = self._announced, await self._library.catalog()
        self._announced = after
        if before is None or before is after:
            return
        found = difference(before, after)
        changed = {*found.changed, *self._changed_legacy_resources(after)}
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

    def begin_with(self, catalog: Catalog) -> None:
        """Announce what changed since this catalog, which a client has seen."""
        self._announced = self._announced or catalog

    async def _begin(self) -> None:
        """Remember the catalog of this moment: later changes are relative to it."""
        if self._announced is None:
            try:
                # A gateway may still be waiting for its servers; the client does not wait for them.
                with anyio.move_on_after(_PATIENCE_SECONDS):
                    self._announced = await self._library.catalog()
            except Exception:  # A failing source must not prevent clients from connecting.
                _log.debug("the skills cannot be listed", exc_info=True)

    async def _add(self, subscriber: _Session | _Stream, spellings: Iterable[str]) -> None:
        wanted = tuple(spellings)
        self._subscriptions.add(subscriber, wanted)
        if wanted:
            self._library.follow(self._subscriptions.uris)
        # Legacy resources have no digest in the catalog; theirs are computed while there are subscribers.
        for uri in map(canonical, wanted):
            if is_legacy_resource(uri) and uri not in self._legacy_digests:
                self._legacy_digests[uri] = self._digest(
                    self._announced or await self._library.catalog(), uri
                )

    def _changed_legacy_resources(self, catalog: Catalog) -> list[SkillUri]:
        """The subscribed legacy resources whose bytes changed."""
        digests = {uri: self._digest(catalog, uri) for uri in self._legacy_digests}
        differing = [uri for uri, digest in digests.items() if digest != self._legacy_digests[uri]]
        self._legacy_digests = digests
        return differing

    def _digest(self, catalog: Catalog, uri: SkillUri) -> Digest | None:
        content = self._legacy_resources.content(catalog, uri)
        return None if content is None else digest_of(content)

    def _send(self, session: _Session, notices: list[Notice], tasks: TaskGroup) -> None:
        session.pending.update(dict.fromkeys(notices))
        if session.pending and not session.is_sending:
            session.is_sending = True
            tasks.start_soon(self._drain, session)

    async def _drain(self, session: _Session) -> None:
        try:
            # Nothing may be sent before `notifications/initialized`.
            await session.connection.initialized.wait()
            while session.pending:
                method, uri = next(iter(session.pending))
                del session.pending[method, uri]
                await session.connection.notify(method, None if uri is None else {"uri": uri})
        except Exception:  # One failing connection must not affect the others.
            _log.debug("a client could not be notified", exc_info=True)
        finally:
            session.is_sending = False

    def _session(self, ctx: Context) -> _Session:
        session = self._sessions.get(connection_of(ctx))
        if session is None:
            # Not declared, but clients may subscribe anyway; an error is better than silence.
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
        self._library.follow(self._subscriptions.uris)
        if self._legacy_digests:
            wanted = frozenset(self._subscriptions.uris)
            for uri in [uri for uri in self._legacy_digests if uri not in wanted]:
                del self._legacy_digests[uri]


def can_be_notified(ctx: Context) -> bool:
    """Whether a connection of a 2025 revision can deliver notifications; stateless HTTP cannot."""
    return ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and connection_of(ctx).has_standalone_channel


def connection_of(ctx: Context) -> Connection:
    """The connection of a request. The SDK has no public access to it; a session belongs to one request."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def _skill_uris(spellings: Iterable[str]) -> list[str]:
    """The URIs that may be ours. A stream can also subscribe to other resources of the server."""
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
    """Turn a refused subscription into the error for the client."""
    try:
        yield
    except LimitExceeded as error:
        raise MCPError(types.INVALID_PARAMS, f"Too many subscriptions: {error}") from None
    except FormatError as error:
        raise MCPError(types.INVALID_PARAMS, error.issues[0].message) from None
