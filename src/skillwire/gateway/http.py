"""GatewayHttp: the ASGI application of a gateway, with a server of its own for each caller."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Final

from skillwire.errors import SkillwireError
from skillwire.gateway.audit import CLIENT
from skillwire.gateway.callers import Caller
from skillwire.gateway.options import GatewayOptions
from skillwire.gateway.rates import RateLimit
from skillwire.gateway.server import CallerServer
from skillwire.issues import shown
from skillwire.server.http.app import HEALTH_PATH, MCP_PATH, METRICS_PATH, HostNames, McpEndpoint
from skillwire.server.http.asgi import Headers, Receive, Scope, Send, refuse_method, respond
from skillwire.server.http.auth import CHALLENGE, INVALID_TOKEN, bearer_token
from skillwire.server.http.telemetry import METRICS_TYPE, ObservedApp, Request
from skillwire.version import VERSION

_JSON: Final = b"application/json"
_REFRESH_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 900.0
_MOST_ENDPOINTS: Final = 1_000

_USER: Final = Caller()

_log = logging.getLogger("skillwire.gateway")


@dataclass(slots=True, eq=False)
class _Endpoint:
    """What one caller talks to, from their first request on."""

    caller: Caller
    server: CallerServer
    app: McpEndpoint
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    open_requests: int = 0
    last_used: float = 0.0


class GatewayHttp(ObservedApp):
    """Serves a gateway. Each request passes these steps in order:

    1. the health check, which without a token only says that the gateway is up,
    2. the token, which says who the caller is,
    3. the caller's rate and their number of open requests,
    4. the metrics,
    5. the path and the `Host` header,
    6. the server of this caller.
    """

    def __init__(
        self,
        options: GatewayOptions,
        *,
        running: AbstractAsyncContextManager[object],
        make_server: Callable[[Caller, Headers], CallerServer],
        health: Callable[[Caller], dict[str, object]],
        gauges: Callable[[], dict[str, tuple[str, float]]],
        allowed_hosts: Iterable[str] = (),
        stateless: bool = False,
    ) -> None:
        """`running` keeps the gateway open, and `make_server` makes the server of a caller."""
        super().__init__()
        self._running = running
        self._make_server = make_server
        self._health = health
        self._gauges = gauges
        self._callers = options.callers
        self._hosts = HostNames(allowed_hosts)
        self._stateless = stateless
        self._rates = RateLimit(options.requests_per_minute, options.requests_at_once)
        self._endpoints: dict[tuple[str, ...], _Endpoint] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def end_streams(self) -> None:
        for endpoint in self._endpoints.values():
            endpoint.app.end_streams()

    async def _serve(self, scope: Scope, receive: Receive, request: Request) -> None:
        path, send = scope["path"], request.observe
        caller = self._caller(scope)
        request.user = caller.name if caller else ""
        if path == HEALTH_PATH:
            await self._report_health(scope, send, caller)
            return
        if caller is None:
            await self._refuse_token(scope, send)
            return
        if seconds := self._rates.wait_seconds(caller.name):
            await self._refuse_rate(scope, send, caller, seconds)
            return
        if path == METRICS_PATH:
            await self._report_metrics(scope, send)
        elif path != MCP_PATH:
            await respond(scope, send, 404, "Not Found\n")
        elif not self._hosts.match(scope):
            text = "This gateway is not known under the name in the Host header; allow it with --allow-host"
            await respond(scope, send, 421, f"{text}\n")
        else:
            with self._rates.serving(caller.name) as is_allowed:
                if is_allowed:
                    await self._pass_on(caller, scope, receive, send)
                else:
                    await self._refuse_rate(scope, send, caller, 1)

    async def _pass_on(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        CLIENT.set(str((scope.get("client") or ("unknown",))[0]))
        try:
            endpoint = await self._endpoint(caller, scope)
        except SkillwireError as error:
            _log.error("%s: %s", caller.name or "the user", error)
            await respond(scope, send, 503, "The gateway cannot serve this caller now.\n")
            return
        endpoint.open_requests += 1
        try:
            await endpoint.app(scope, receive, send)
        finally:
            endpoint.open_requests -= 1
            endpoint.last_used = time.monotonic()

    def _caller(self, scope: Scope) -> Caller | None:
        if self._callers is None:
            return _USER
        token = bearer_token(scope["headers"])
        return None if token is None else self._callers.find(token)

    # A server for each caller

    async def _endpoint(self, caller: Caller, scope: Scope) -> _Endpoint:
        key = (caller.name, *_passed(caller, scope))
        endpoint = self._endpoints.get(key)
        if endpoint is not None and endpoint.caller is not caller and endpoint.caller != caller:
            self._close(key)  # Different permissions: a different view.
            endpoint = None
        if endpoint is None:
            endpoint = self._endpoints[key] = self._open(caller, scope)
        if not endpoint.started.is_set():
            await endpoint.started.wait()
        return endpoint

    def _open(self, caller: Caller, scope: Scope) -> _Endpoint:
        server = self._make_server(caller, scope["headers"])
        # Streamed: on the 2025 revisions, a question goes to the client on its response.
        app = server.endpoint(self._hosts.all, stateless=self._stateless, streamed=True)
        endpoint = _Endpoint(caller, server, app)
        endpoint.last_used = time.monotonic()
        endpoint.task = asyncio.create_task(self._run(endpoint))
        return endpoint

    async def _run(self, endpoint: _Endpoint) -> None:
        try:
            await endpoint.app.run(endpoint.stopping, endpoint.started)
        except Exception as error:  # This affects only this caller, until the next request.
            _log.error("the server of %s ended: %s", endpoint.caller.name or "the user", error)
            for key, known in list(self._endpoints.items()):
                if known is endpoint:
                    del self._endpoints[key]
        finally:
            endpoint.started.set()

    def _close(self, key: tuple[str, ...]) -> None:
        endpoint = self._endpoints.pop(key)
        endpoint.app.end_streams()
        endpoint.stopping.set()
        if endpoint.task is not None:
            self._closing.add(endpoint.task)
            endpoint.task.add_done_callback(self._closing.discard)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._running:
            keeping = asyncio.create_task(self._keep())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            keeping.cancel()
            for key in list(self._endpoints):
                self._close(key)
            if self._closing:
                await asyncio.wait(self._closing, timeout=5)
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep(self) -> None:
        """Read the callers again when they change, and close what nobody uses any longer."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            if self._callers is not None:
                with suppress(OSError):
                    await asyncio.to_thread(self._callers.refresh)
            self._close_unused()

    def _close_unused(self) -> None:
        now = time.monotonic()
        by_age = sorted(self._endpoints, key=lambda key: self._endpoints[key].last_used)
        surplus = len(by_age) - _MOST_ENDPOINTS
        for number, key in enumerate(by_age):
            endpoint = self._endpoints[key]
            is_idle = not endpoint.open_requests and now - endpoint.last_used > _IDLE_SECONDS
            is_surplus = not endpoint.open_requests and number < surplus
            # Streams and sessions of a caller who is revoked end at once.
            known = endpoint.caller if self._callers is None else self._callers.get(endpoint.caller.name)
            if is_idle or is_surplus or known != endpoint.caller:
                self._close(key)

    # Responses of the gateway itself

    async def _refuse_token(self, scope: Scope, send: Send) -> None:
        is_given = any(name == b"authorization" for name, _ in scope["headers"])
        client = (scope.get("client") or ("an unknown address",))[0]
        reason = "the token is not valid" if is_given else "there is no token"
        self.telemetry.warn(_log, "token", f"401 for {client}: {reason}")
        challenge = INVALID_TOKEN if is_given else CHALLENGE
        await respond(
            scope, send, 401, "A bearer token is required.\n", headers=[(b"www-authenticate", challenge)]
        )

    async def _refuse_rate(self, scope: Scope, send: Send, caller: Caller, seconds: float) -> None:
        name = shown(caller.name or "the user")
        self.telemetry.warn(_log, f"rate {name}", f"429 for {name}: too many requests")
        headers = [(b"retry-after", b"%d" % math.ceil(seconds))]
        await respond(scope, send, 429, "Too many requests; try again later.\n", headers=headers)

    async def _report_health(self, scope: Scope, send: Send, caller: Caller | None) -> None:
        """Up or not; with `?detail`, for those who have a token, what works and what does not."""
        if await refuse_method(scope, send):
            return
        health: dict[str, object] = {"status": "ok"}
        if caller is not None and scope["query_string"].startswith(b"detail"):
            health |= {"version": VERSION, **self._health(caller)}
        await respond(scope, send, 200, json.dumps(health, ensure_ascii=False) + "\n", media=_JSON)

    async def _report_metrics(self, scope: Scope, send: Send) -> None:
        gauges = self._gauges() | {
            "callers": ("Callers with a server of their own.", float(len(self._endpoints))),
            "connections": ("Open HTTP connections.", float(self.connections())),
            "start_time_seconds": ("When the gateway started.", self.telemetry.started),
        }
        await respond(scope, send, 200, self.telemetry.render(gauges), media=METRICS_TYPE)


def _passed(caller: Caller, scope: Scope) -> list[str]:
    """What a request passes on to servers. Requests that pass on other credentials share nothing."""
    wanted = {credential.header.encode("ascii") for credential in caller.credentials.values()} - {b""}
    return [f"{name!r}={value!r}" for name, value in scope["headers"] if name in wanted]
