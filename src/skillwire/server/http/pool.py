"""ViewPool: one MCP endpoint for each view, and SharedPool: what several of them use together.

A view is what a caller sees. The product chooses the key: a gateway has one for each caller and what they
pass on, a registry one for each set of permissions, a server of folders a single one. Nothing of another view
is in an endpoint, so nothing of it can leak: not from a cache, not to a session, not in a notification.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from skillwire.access import C
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.http.asgi import Headers, OpenRequest

if TYPE_CHECKING:
    from skillwire.server.http.asgi import Receive, Scope, Send

_RETRY_SECONDS: Final = 5
_CLOSE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Endpoint(Protocol):
    """The endpoint of a view: an ASGI application that runs in a task of its own."""

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None: ...
    def end_streams(self) -> None: ...
    def open_requests(self) -> list[OpenRequest]: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class PoolFull(Exception):
    """There is no room for another view: all are in use. `retry_seconds` is when to try again."""

    retry_seconds = _RETRY_SECONDS


@dataclass(slots=True, eq=False)
class RunningView(Generic[K]):
    """An endpoint that runs, and how it is used."""

    key: K
    app: Endpoint
    owner: str
    """The name of the caller whose share of the pool it takes; empty for none."""
    on_close: Callable[[], None] | None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    open: int = 0
    """The requests and streams that are not over."""
    last_used: float = 0.0
    is_revoked: bool = False
    """Whether its callers may no longer use it. Requests that are open may finish, streams end."""
    failure: Exception | None = None


class ViewPool(Generic[K]):
    """The endpoints of all views. A view with an open request or stream is never evicted.

    `make` makes the endpoint of a key; it may return a function to be called when the endpoint was closed.
    """

    def __init__(
        self,
        make: Callable[[K], tuple[Endpoint, Callable[[], None] | None]],
        *,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._limits = limits
        self._clock = clock
        self._views: OrderedDict[K, RunningView[K]] = OrderedDict()
        self._leaving: set[RunningView[K]] = set()
        """Those that are revoked and still have open requests."""
        self._closing: set[asyncio.Task[None]] = set()
        self._is_ending = False

    def __len__(self) -> int:
        return len(self._views)

    @property
    def streams(self) -> int:
        """The requests and streams that are not over."""
        return sum(view.open for view in self._all())

    @property
    def limits_of_next(self) -> Limits:
        """The limits of the next view: it caches its share of what all of them may cache."""
        share = self._limits.http_cache_bytes // (len(self._views) + 1)
        return replace(self._limits, response_cache_bytes=min(share, self._limits.response_cache_bytes))

    async def acquire(self, key: K, *, owner: str = "") -> RunningView[K]:
        """The running view of a key, which stays open until `release`. Raises `PoolFull`, or the reason why
        it does not start.

        `owner` is the name of the caller whose number of views is limited.
        """
        view = self._views.get(key)
        if view is None:
            self._make_room(owner)
            view = self._open(key, owner)
        view.open += 1
        if not view.started.is_set():
            try:
                await view.started.wait()
            except asyncio.CancelledError:
                self.release(view)
                raise
        if view.failure is not None:
            self.release(view)
            raise view.failure
        return view

    def release(self, view: RunningView[K]) -> None:
        """A request that `acquire` counted is over."""
        view.open -= 1
        view.last_used = self._clock()
        if view.is_revoked:
            if not view.open:
                self._stop(view)
        elif view.key in self._views:
            self._views.move_to_end(view.key)

    def revoke(self, view: RunningView[K]) -> None:
        """Take a view out of the pool and end its streams. Open requests may finish."""
        if self._views.get(view.key) is view:
            del self._views[view.key]
        view.is_revoked = True
        view.app.end_streams()
        if view.open:
            self._leaving.add(view)
        else:
            self._stop(view)

    def close_idle(self) -> None:
        """Close the views that nobody used for a while."""
        before = self._clock() - self._limits.http_view_idle_seconds
        for view in list(self._views.values()):
            if not view.open and view.last_used < before:
                self.revoke(view)

    async def end_stale(
        self,
        recheck: Callable[[Sequence[C]], Awaitable[Sequence[C | None]]],
        key_of: Callable[[C, Headers], K],
        owner_of: Callable[[K], C | None],
    ) -> int:
        """End the streams of callers who were revoked, and of those who may see something else now. Returns
        how many.

        `recheck` gives callers as they are now. A view that belongs to one caller alone, its `owner_of`, is
        closed as a whole.
        """
        requests = [(view, request) for view in self._all() for request in view.app.open_requests()]
        owned = [(view, owner) for view in self._views.values() if (owner := owner_of(view.key)) is not None]
        callers = [cast("C", request.caller) for _, request in requests] + [owner for _, owner in owned]
        if not callers:
            return 0
        current = await recheck(callers)
        ended = 0
        for (view, request), caller in zip(requests, current, strict=False):
            if caller is None or key_of(caller, request.headers) != view.key:
                ended += not request.ending.is_set()
                request.end()
        for (view, owner), caller in zip(owned, current[len(requests) :], strict=True):
            if caller != owner and self._views.get(view.key) is view:
                self.revoke(view)
        return ended

    def end_streams(self) -> None:
        """End the event streams that clients keep open, and those that begin later."""
        self._is_ending = True
        for view in self._all():
            view.app.end_streams()

    async def aclose(self) -> None:
        """Close every view."""
        for view in list(self._all()):
            view.app.end_streams()
            self._views.pop(view.key, None)
            self._stop(view)
        if self._closing:
            await asyncio.wait(self._closing, timeout=_CLOSE_SECONDS)

    def _all(self) -> list[RunningView[K]]:
        return [*self._views.values(), *self._leaving]

    def _make_room(self, owner: str) -> None:
        """Evict the view that was idle for longest, if there are too many; those in use are never evicted."""
        own = [view for view in self._views.values() if owner and view.owner == owner]
        if len(own) >= self._limits.http_views_per_caller:
            self._evict(own)
        if len(self._views) >= self._limits.http_views:
            self._evict(list(self._views.values()))

    def _evict(self, views: list[RunningView[K]]) -> None:
        idle = next((view for view in views if not view.open), None)
        if idle is None:
            raise PoolFull
        self.revoke(idle)

    def _open(self, key: K, owner: str) -> RunningView[K]:
        app, on_close = self._make(key)
        view = RunningView(key, app, owner, on_close, last_used=self._clock())
        if self._is_ending:
            app.end_streams()
        self._views[key] = view
        view.task = asyncio.create_task(self._run(view))
        return view

    async def _run(self, view: RunningView[K]) -> None:
        try:
            await view.app.run(view.stopping, view.started)
        except Exception as error:  # This affects only this view, until the next request.
            view.failure = error
            _log.error("the server of a view ended: %s", error)
        finally:
            if self._views.get(view.key) is view:
                del self._views[view.key]
            self._leaving.discard(view)
            view.started.set()
            self._tell(view)

    def _tell(self, view: RunningView[K]) -> None:
        on_close, view.on_close = view.on_close, None
        if on_close is not None:
            on_close()

    def _stop(self, view: RunningView[K]) -> None:
        self._leaving.discard(view)
        view.stopping.set()
        self._tell(view)  # Nobody uses it: what it holds is free at once, for the next view.
        if view.task is not None and not view.task.done():
            self._closing.add(view.task)
            view.task.add_done_callback(self._closing.discard)


@dataclass(slots=True, eq=False)
class _Shared(Generic[V]):
    value: V
    holders: set[object]
    owners: set[str]
    idle_since: float = 0.0


class SharedPool(Generic[K, V]):
    """Values that several holders use at once, such as a connection for a server and a credential.

    A value is made for its first holder and closed some time after its last one released it. Each owner has a
    limited number of them: beyond it, the oldest one that nobody holds is closed first.
    """

    def __init__(
        self,
        close: Callable[[V], None],
        *,
        most_per_owner: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._close = close
        self._most = most_per_owner
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._values: OrderedDict[K, _Shared[V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[V]:
        """Everything that is open."""
        return [shared.value for shared in self._values.values()]

    def acquire(self, key: K, holder: object, make: Callable[[], V], *, owner: str) -> V:
        """The value of a key, for a holder, until it calls `release`. Raises `PoolFull` if its owner has too
        many that are held."""
        shared = self._values.get(key)
        if shared is None:
            self._make_room(owner)
            shared = self._values[key] = _Shared(make(), set(), set())
        shared.holders.add(holder)
        shared.owners.add(owner)
        return shared.value

    def release(self, holder: object) -> None:
        """A holder needs none of its values any longer."""
        now = self._clock()
        for key, shared in list(self._values.items()):
            if holder in shared.holders:
                shared.holders.discard(holder)
                if not shared.holders:
                    shared.idle_since = now
                    self._values.move_to_end(key)

    def close_idle(self) -> None:
        """Close what nobody held for a while."""
        before = self._clock() - self._idle_seconds
        for key, shared in list(self._values.items()):
            if not shared.holders and shared.idle_since < before:
                self._drop(key)

    def close(self) -> None:
        """Close everything."""
        for key in list(self._values):
            self._drop(key)

    def _make_room(self, owner: str) -> None:
        own = [key for key, shared in self._values.items() if owner in shared.owners]
        if len(own) < self._most:
            return
        idle = next((key for key in own if not self._values[key].holders), None)
        if idle is None:
            raise PoolFull
        self._drop(idle)

    def _drop(self, key: K) -> None:
        self._close(self._values.pop(key).value)
