"""HttpApp: the ASGI application of a skill server, with `/mcp`, `/healthz` and `/metrics`."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Final

from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.http.asgi import (
    Asgi,
    EventStreams,
    LazyApp,
    LifespanApp,
    OpenRequest,
    Receive,
    Scope,
    Send,
    refuse_method,
    respond,
)
from skillwire.server.http.auth import CHALLENGE, DEFAULT_NAME, INVALID_TOKEN, Tokens
from skillwire.server.http.telemetry import METRICS_TYPE, ObservedApp, Request
from skillwire.server.library import SkillLibrary
from skillwire.version import VERSION

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

MCP_PATH: Final = "/mcp"
HEALTH_PATH: Final = "/healthz"
METRICS_PATH: Final = "/metrics"
SITE_PATH: Final = "/.well-known/agent-skills/"
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_JSON: Final = b"application/json"
_REFRESH_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class HttpApp(ObservedApp):
    """Serves a library. Each request passes these steps in order:

    1. the health check, which only says that the server is up unless there is a valid token,
    2. the token,
    3. the metrics,
    4. the path and the `Host` header, which must name this server,
    5. the fast path,
    6. the SDK.

    With `well_known`, the skills are also served under `/.well-known/agent-skills/`, at step 5.

    `server` creates the SDK's server when it is first needed. `around` is open while the application runs.
    """

    def __init__(
        self,
        library: SkillLibrary,
        mcp: McpEndpoint,
        *,
        token: str | Tokens | None = None,
        well_known: bool = False,
    ) -> None:
        super().__init__()
        self._library = library
        self._mcp = mcp
        self._hosts = HostNames(mcp.names)
        self._tokens = Tokens({DEFAULT_NAME: token}) if isinstance(token, str) else token
        self._site: Asgi | None = None
        if well_known:
            from skillwire.server.http.wellknown import SkillSite

            self._site = SkillSite(library)

    def end_streams(self) -> None:
        """End the event streams that clients keep open."""
        self._mcp.end_streams()

    async def _serve(self, scope: Scope, receive: Receive, request: Request) -> None:
        path, send = scope["path"], request.observe
        user = "" if self._tokens is None else self._tokens.name_for(scope["headers"])
        request.user = user or ""
        if path == HEALTH_PATH:
            await self._report_health(scope, send, is_known=user is not None)
        elif user is None:
            await self._refuse_token(scope, send)
        elif path == METRICS_PATH:
            await self._report_metrics(scope, send)
        elif (app := self._app_at(path)) is None:
            await respond(scope, send, 404, "Not Found\n")
        elif not self._hosts.match(scope):
            await self._refuse_host(scope, send)
        else:
            await app(scope, receive, send)

    def _app_at(self, path: str) -> Asgi | None:
        if path == MCP_PATH:
            return self._mcp
        return self._site if path.startswith(SITE_PATH) else None

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

    async def _refuse_token(self, scope: Scope, send: Send) -> None:
        is_given = any(name == b"authorization" for name, _ in scope["headers"])
        reason = "the token is not valid" if is_given else "there is no token"
        self.telemetry.warn(_log, "token", f"401 for {_client(scope)}: {reason}")
        challenge = INVALID_TOKEN if is_given else CHALLENGE
        text = "A bearer token is required.\n"
        await respond(scope, send, 401, text, headers=[(b"www-authenticate", challenge)])

    async def _report_health(self, scope: Scope, send: Send, *, is_known: bool) -> None:
        if await refuse_method(scope, send):
            return
        status, health = 200, {"status": "ok"}
        try:
            skills = await self._library.count()
            problems = sum(problem.is_left_out for problem in await self._library.problems())
        except Exception as error:  # Whatever a source raises, the server itself is up.
            _log.error("the skills cannot be listed: %s", error)
            status, health = 503, {"status": "error"}
        else:
            if is_known:
                health |= {"version": VERSION, "skills": skills, "left_out": problems}
                health |= {"uptime_seconds": round(time.time() - self.telemetry.started)}
        await respond(scope, send, status, json.dumps(health) + "\n", media=_JSON)

    async def _report_metrics(self, scope: Scope, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        skills = await self._library.count()
        left_out = sum(problem.is_left_out for problem in await self._library.problems())
        gauges = {
            "skills": ("Skills served.", float(skills)),
            "skills_left_out": ("Files and skills left out.", float(left_out)),
            "connections": ("Open HTTP connections.", float(self.connections())),
            "start_time_seconds": ("When the server started.", self.telemetry.started),
        }
        await respond(scope, send, 200, self.telemetry.render(gauges), media=METRICS_TYPE)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        refreshing = asyncio.ensure_future(self._refresh_tokens())
        try:
            await self._mcp.run_lifespan(receive, send)
        finally:
            refreshing.cancel()

    async def _refresh_tokens(self) -> None:
        while self._tokens is not None:
            await asyncio.sleep(_REFRESH_SECONDS)
            with suppress(OSError):
                await asyncio.to_thread(self._tokens.refresh)


class McpEndpoint:
    """The application at `/mcp`: the fast path, and the SDK's application for all other requests.

    `server` creates the SDK's server when it is first needed; `fast_path` wraps its application; `around` is
    open while the endpoint runs. `names` are the host names that it responds to. With `streamed`, each
    response of a 2025 revision is a stream, so that the server can send requests to the client.
    """

    def __init__(
        self,
        server: Callable[[], Server[Any]],
        *,
        fast_path: Callable[[Asgi], Asgi] | None,
        around: Callable[[], AbstractAsyncContextManager[object]],
        names: Iterable[str],
        stateless: bool = False,
        streamed: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.names = tuple(names)

        def load() -> LifespanApp:
            return _SdkApp(server(), names=self.names, stateless=stateless, streamed=streamed, limits=limits)

        self._sdk = LazyApp(load, around)
        self._streams = EventStreams(self._sdk)
        self._app: Asgi = self._streams if fast_path is None else fast_path(self._streams)

    async def run_lifespan(self, receive: Receive, send: Send) -> None:
        """The ASGI lifespan protocol."""
        await self._sdk.run_lifespan(receive, send)

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        """Run without the ASGI lifespan protocol until `stopping` is set. `started` is set once it runs."""
        await self._sdk.run(stopping, started)

    def end_streams(self) -> None:
        """End the event streams that clients keep open."""
        self._streams.end()

    def open_requests(self) -> list[OpenRequest]:
        """The requests that are not over, event streams above all; those of the fast path are none."""
        return list(self._streams.requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class _SdkApp:
    """The SDK's application for Streamable HTTP."""

    def __init__(
        self,
        server: Server[Any],
        *,
        names: Iterable[str],
        stateless: bool,
        streamed: bool,
        limits: Limits,
    ) -> None:
        from mcp.server.transport_security import TransportSecuritySettings

        hosts = [spelling for name in names for spelling in (name, f"{name}:*")]
        self._app = server.streamable_http_app(
            streamable_http_path=MCP_PATH,
            json_response=not streamed,
            stateless_http=stateless,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=hosts,
                allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
            ),
            max_request_body_size=limits.http_body_bytes,
            session_idle_timeout=limits.session_idle_seconds,
            max_sessions=limits.sessions,
        )

    def lifespan(self) -> AbstractAsyncContextManager[object]:
        return self._app.router.lifespan_context(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class HostNames:
    """The names that a server answers to: those of this machine itself, and those that were allowed."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.all: tuple[str, ...] = (*LOOPBACK, *allowed)
        self._encoded = frozenset(name.encode("ascii") for name in self.all)

    def match(self, scope: Scope) -> bool:
        """Whether the single `Host` header has one of them, with or without a port: no DNS rebinding."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return False
        name, _, port = hosts[0].rpartition(b":")
        return (name in self._encoded and port.isdigit()) or hosts[0] in self._encoded


def _client(scope: Scope) -> str:
    return str((scope.get("client") or ("an unknown address",))[0])
