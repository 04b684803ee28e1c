"""HttpFrontend: the ASGI application of every product that serves over HTTP, with one order of checks."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeAlias

from skillwire.access import METADATA_PATH, AccessRefusal, C, Identity, RateLimit
from skillwire.errors import SkillwireError, SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.http.asgi import (
    CALLER,
    METRICS_TYPE,
    Headers,
    Receive,
    Request,
    Scope,
    Send,
    StoppableApp,
    Telemetry,
    refuse_method,
    respond,
    respond_json,
)
from skillwire.server.http.pool import K, PoolFull, ViewPool
from skillwire.text import shown
from skillwire.version import VERSION

MCP_PATH: Final = "/mcp"
LIVE_PATH: Final = "/livez"
READY_PATH: Final = "/readyz"
HEALTH_PATH: Final = "/healthz"
METRICS_PATH: Final = "/metrics"
HEALTH_PATHS: Final = frozenset({LIVE_PATH, READY_PATH, HEALTH_PATH})
PATHS: Final = (MCP_PATH, *sorted(HEALTH_PATHS), METRICS_PATH)
"""The paths that every frontend has."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_REALM: Final = 'Bearer realm="skillwire"'
_AWAY: Final = "This server cannot respond right now; try again later.\n"

_log = logging.getLogger(__name__)

State: TypeAlias = Literal["ok", "degraded", "error"]
"""Degraded: requests are served, but not everything works. Error: send no requests."""
Gauges: TypeAlias = Mapping[str, tuple[str, float]]
"""Values for the metrics, each with its help text."""


@dataclass(frozen=True, slots=True)
class Route(Generic[C]):
    """The handler of a path, or with `is_prefix` everything below it."""

    path: str
    serve: Callable[[C, Scope, Receive, Send], Awaitable[None]]
    is_prefix: bool = False

    def matches(self, path: str) -> bool:
        return path.startswith(self.path) if self.is_prefix else path == self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """How a product is, for its operator."""

    state: Callable[[], Awaitable[State]]
    """Whether it can serve requests now. It may take long: it is asked once a second at most, and its answer
    has a time limit."""
    health: Callable[[], Awaitable[Mapping[str, object]]]
    """The health report: what works and what does not."""
    gauges: Callable[[], Awaitable[Gauges]]


class HttpFrontend(StoppableApp, Generic[C, K]):
    """Serves the views of a pool at `/mcp`, and other routes. Each request passes these steps in order:

    1. bare health, for everybody: `/livez` says that the process runs, `/readyz` and `/healthz` that it can
       serve requests, and nothing else,
    2. `Host` and `Origin`, which must name this server,
    3. what anybody may read: how to sign in, where that is possible (RFC 9728), and `open_paths`,
    4. the identity of the caller,
    5. the caller's rate and their number of open requests,
    6. the route. The metrics, and the health with `?detail`, are for operators.

    The product gives the key of a caller's view, `view_of`, and the caller that a view belongs to alone, if
    there is one, `owner_of`. `running` is open while the application runs, and `tick` is called about once a
    second.
    """

    def __init__(
        self,
        identity: Identity[C],
        pool: ViewPool[K],
        routes: Iterable[Route[C]] = (),
        *,
        view_of: Callable[[C, Headers], K],
        status: ServiceStatus,
        running: Callable[[], AbstractAsyncContextManager[object]],
        allowed_hosts: Iterable[str] = (),
        open_paths: Mapping[str, Callable[[Scope, Send], Awaitable[None]]] = MappingProxyType({}),
        owner_of: Callable[[K], C | None] = lambda _key: None,
        tick: Callable[[], None] = lambda: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__()
        self.telemetry = Telemetry()
        self.hosts = HostNames(allowed_hosts)
        self._identity = identity
        self._pool = pool
        self._routes: tuple[Route[C], ...] = (Route(MCP_PATH, self.serve_view), *routes)
        self._view_of = view_of
        self._open_paths = open_paths
        self._owner_of = owner_of
        self._running = running
        self._tick = tick
        self._limits = limits
        self._rates = RateLimit(limits.http_requests_per_minute, limits.http_requests_at_once)
        self._status = _BoundedStatus(status, limits.http_health_seconds)
        self._ended = 0

    def end_streams(self) -> None:
        """End the event streams that clients keep open."""
        self._pool.end_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            request = Request(scope, receive, send)
            try:
                await self._serve(scope, request)
            finally:
                self.telemetry.finish(scope, request)
        else:
            await send({"type": "websocket.close"})

    # The order of the checks

    async def _serve(self, scope: Scope, request: Request) -> None:
        path, send = scope["path"], request.observe
        is_detailed = scope["query_string"].startswith(b"detail")
        if path in HEALTH_PATHS and not is_detailed:
            await self._report_bare_health(scope, send)
            return
        if not self.hosts.match(scope):
            await self._refuse_host(scope, send)
            return
        if not self.hosts.match_origin(scope):
            self.telemetry.warn(_log, "origin", f"403 for {_client(scope)}: the Origin is another site")
            await respond(scope, send, 403, "Requests of other sites are refused.\n")
            return
        metadata = self._identity.sign_in_metadata
        if metadata is not None and _is_metadata_path(path, self._identity.metadata_url):
            if not await refuse_method(scope, send):
                await respond_json(scope, send, 200, metadata)
            return
        if (serve := self._open_paths.get(path)) is not None:
            if not await refuse_method(scope, send):
                await serve(scope, send)
            return
        try:
            caller = await self._identity.identify(scope["headers"], _client(scope))
        except SourceError as error:
            await self._report_outage(scope, send, error)
            return
        if isinstance(caller, AccessRefusal):
            await self.refuse(scope, send, caller)
            return
        scope[CALLER] = caller
        request.user = name = caller.name
        if not caller.credential:
            await self._route(caller, path, scope, request.receive, send)
            return
        if seconds := self._rates.wait_seconds(name):
            await self._refuse_rate(scope, send, caller, seconds)
        elif not self._rates.begin(name):
            await self._refuse_rate(scope, send, caller, 1)
        else:
            try:
                await self._route(caller, path, scope, request.receive, send)
            finally:
                self._rates.end(name)

    async def _route(self, caller: C, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            for route in self._routes:
                if route.matches(path):
                    await route.serve(caller, scope, receive, send)
                    return
        except SkillwireError as error:
            await self._report_outage(scope, send, error)
            return
        if path == METRICS_PATH or path in HEALTH_PATHS:
            await self._serve_operator(caller, path, scope, send)
        else:
            await respond(scope, send, 404, "Not Found\n")

    async def serve_view(self, caller: C, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the view of its caller."""
        try:
            key = self._view_of(caller, scope["headers"])
            owner = self._owner_of(key)
            view = await self._pool.acquire(key, owner="" if owner is None else owner.name)
        except PoolFull as error:
            who = shown(caller.name) or _client(scope)
            self.telemetry.warn(_log, "views", f"503 for {who}: all {len(self._pool):,} views are in use")
            headers = [(b"retry-after", b"%d" % error.retry_seconds)]
            await respond(scope, send, 503, "Too many clients; try again later.\n", headers=headers)
            return
        try:
            if view.is_revoked:  # While it started, or while this request came in.
                await self.refuse(scope, send, AccessRefusal(status=401, reason="the caller was revoked"))
            else:
                await view.app(scope, receive, send)
        finally:
            self._pool.release(view)

    # While it runs

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._pool.aclose)
            try:
                await stack.enter_async_context(self._running())
            except SkillwireError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            checking = asyncio.create_task(self._check_regularly())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            checking.cancel()
            await self._pool.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _check_regularly(self) -> None:
        """Read the callers again when they change, end what they may no longer see, and close what nobody
        uses."""
        while True:
            await asyncio.sleep(self._limits.http_revoke_seconds)
            try:
                await self.check_callers()
                self._tick()
            except SkillwireError as error:  # Callers cannot be checked now; the next time is soon.
                self.telemetry.warn(_log, "callers", f"callers cannot be checked: {error}")
            except Exception:  # Whatever it was, streams must still end when their callers are revoked.
                _log.exception("callers cannot be checked")

    async def check_callers(self) -> None:
        """Read the callers again if they changed, end the streams of those who were revoked or may see
        something else now, and close the views that nobody used for a while."""
        await self._identity.refresh()
        ended = await self._pool.end_stale(self._identity.recheck, self._view_of, self._owner_of)
        if ended:
            self._ended += ended
            _log.warning("%d streams ended: their callers were revoked, or may see something else now", ended)
        self._pool.close_idle()

    # Responses of the frontend itself

    async def refuse(self, scope: Scope, send: Send, refusal: AccessRefusal) -> None:
        """Respond to a request of somebody who is not known, and say how to sign in."""
        self.telemetry.warn(
            _log, f"token {refusal.status}", f"{refusal.status} for {_client(scope)}: {refusal.reason}"
        )
        if refusal.status == 429:
            headers = [(b"retry-after", b"%d" % math.ceil(refusal.retry_seconds))]
            await respond(scope, send, 429, "Too many tokens that are not valid.\n", headers=headers)
            return
        challenge = _REALM + (', error="invalid_token"' if refusal.is_given else "")
        if self._identity.metadata_url:
            challenge += f', resource_metadata="{self._identity.metadata_url}"'
        text = "A bearer token is required.\n"
        await respond(scope, send, 401, text, headers=[(b"www-authenticate", challenge.encode())])

    async def _refuse_rate(self, scope: Scope, send: Send, caller: C, seconds: float) -> None:
        name = shown(caller.name) or "the user"
        self.telemetry.warn(_log, f"rate {name}", f"429 for {name}: too many requests")
        headers = [(b"retry-after", b"%d" % math.ceil(seconds))]
        await respond(scope, send, 429, "Too many requests; try again later.\n", headers=headers)

    async def _refuse_host(self, scope: Scope, send: Send) -> None:
        given = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        host = shown(given.rpartition(":")[0] or given, 100) or "another name"
        text = f"This server is not known as {host}. If it should be, start it with --allow-host {host}"
        self.telemetry.warn(
            _log,
            "host",
            f"421 for {_client(scope)}: the request is addressed to {host}; "
            f"allow it with --allow-host {host}",
        )
        await respond(scope, send, 421, f"{text}\n")

    async def _report_outage(self, scope: Scope, send: Send, error: SkillwireError) -> None:
        # For the operator alone: the message may name a database.
        self.telemetry.warn(_log, "outage", f"503 for {_client(scope)}: {error}")
        await respond(scope, send, 503, _AWAY, headers=[(b"retry-after", b"1")])

    async def _report_bare_health(self, scope: Scope, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        state = "ok" if scope["path"] == LIVE_PATH else await self._status.state()
        await respond_json(scope, send, 503 if state == "error" else 200, {"status": state})

    async def _serve_operator(self, caller: C, path: str, scope: Scope, send: Send) -> None:
        if caller.is_operator:
            await self.report(path, scope, send)
        elif not caller.credential and self._identity.metadata_url:
            await self.refuse(
                scope, send, AccessRefusal(status=401, reason="there is no token", is_given=False)
            )
        else:
            text = "This is for operators: use a token with that permission, or the listener of --metrics.\n"
            await respond(scope, send, 403, text)

    async def report(self, path: str, scope: Scope, send: Send) -> None:
        """Respond with the metrics, or with the health in detail, to somebody who may read them."""
        if await refuse_method(scope, send):
            return
        if path == METRICS_PATH:
            gauges = {
                **await self._status.gauges(),
                "views": ("Servers for callers with the same permissions.", float(len(self._pool))),
                "open_requests": ("Open requests at /mcp, streams included.", float(self._pool.streams)),
                "streams_ended": ("Streams that ended with their permissions.", float(self._ended)),
                "connections": ("Open HTTP connections.", float(self.connections())),
                "start_time_seconds": ("When the server started.", self.telemetry.started),
            }
            await respond(scope, send, 200, self.telemetry.render(gauges), media=METRICS_TYPE)
            return
        state = await self._status.state()
        health = {
            "status": state,
            "version": VERSION,
            "uptime_seconds": round(time.time() - self.telemetry.started),
            **({} if state == "error" else await self._status.health()),
        }
        await respond_json(scope, send, 503 if state == "error" else 200, health)


class OperatorApp(StoppableApp):
    """The metrics and the health of a frontend for a listener of their own: `--metrics 127.0.0.1:9100`.

    Whoever reaches that address may read them, except for web pages: `Host` must be an IP address or a name
    of the server.
    """

    def __init__(self, frontend: HttpFrontend[Any, Any]) -> None:
        super().__init__()
        self._frontend = frontend

    def end_streams(self) -> None:
        """There are none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for outcome in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{outcome}.complete"})
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif not self._frontend.hosts.match(scope, any_address=True):
            await respond(scope, send, 421, "This server is not known by that name.\n")
        elif scope["path"] not in (METRICS_PATH, *HEALTH_PATHS):
            await respond(scope, send, 404, "Not Found\n")
        else:
            await self._frontend.report(scope["path"], scope, send)


class HostNames:
    """The names that a server answers to: those of this machine itself, and those that were allowed."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.all: tuple[str, ...] = (*LOOPBACK, *allowed)
        self._encoded = frozenset(name.encode("ascii", "replace") for name in self.all)

    def match(self, scope: Scope, *, any_address: bool = False) -> bool:
        """Whether the single `Host` header has one of them, with or without a port: no DNS rebinding.

        With `any_address`, any IP address is accepted too: no page can have one for its name.
        """
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        return len(hosts) == 1 and (
            self._is_known(hosts[0]) or (any_address and _is_address(hosts[0].decode("latin-1")))
        )

    def match_origin(self, scope: Scope) -> bool:
        """Whether there is no `Origin` header, or a single one that names this server."""
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if not origins:
            return True
        scheme, separator, host = origins[0].partition(b"://")
        return (
            len(origins) == 1 and bool(separator) and scheme in (b"http", b"https") and self._is_known(host)
        )

    def _is_known(self, host: bytes) -> bool:
        name, _, port = host.rpartition(b":")
        return (name in self._encoded and port.isdigit()) or host in self._encoded


class _BoundedStatus:
    """A status whose readiness is asked once a second at most, and for a limited time."""

    def __init__(self, status: ServiceStatus, seconds: float) -> None:
        self.health = status.health
        self.gauges = status.gauges
        self._status = status
        self._seconds = seconds
        self._asking: asyncio.Task[None] | None = None
        self._asked = float("-inf")
        self._state: State = "error"

    async def state(self) -> State:
        if self._asking is None and time.monotonic() - self._asked < 1:
            return self._state
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        # What is asked may hang. Whoever comes meanwhile waits for the same answer, and not longer.
        done, _ = await asyncio.wait([self._asking], timeout=self._seconds)
        return self._state if done else "error"

    async def _ask(self) -> None:
        try:
            self._state = await self._status.state()
        except Exception as error:  # Whatever it raises, the process itself is up.
            _log.error("this server is not ready: %s", error)
            self._state = "error"
        finally:
            self._asked = time.monotonic()
            self._asking = None


def _is_metadata_path(path: str, url: str) -> bool:
    return path == METADATA_PATH or (path.startswith(f"{METADATA_PATH}/") and url.endswith(path))


def _is_address(host: str) -> bool:
    bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    try:
        ipaddress.ip_address(bare.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("an unknown address",))[0])
