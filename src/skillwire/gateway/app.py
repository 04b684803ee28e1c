"""Gateway: the skills of many servers as one server, verified, approved, for any MCP client.

gateway = Gateway(HostSettings(servers={"docs": "https://docs.example/mcp"}))
await gateway.run_stdio()
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.abc

from skillwire.access import Caller, Headers, Identity, OpenIdentity, credentials_of
from skillwire.errors import SkillwireError, SourceError
from skillwire.gateway.records import CLIENT, Approvals, Audit
from skillwire.gateway.server import CallerServer, CommonParts, caller_options
from skillwire.gateway.upstreams import FileMemory, Upstream, label_segment
from skillwire.gateway.view import CallerSource, GatewayApproval
from skillwire.host import HostConfig, HostSettings, Scans, ServerConfig, SkillHost, state_paths
from skillwire.host.config.file import ConfigWatch
from skillwire.host.styles import find_style
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server import (
    DEFAULT_OPTIONS,
    EntryCache,
    HostNames,
    HttpFrontend,
    McpEndpoint,
    OpenRequest,
    Receive,
    Scope,
    Send,
    ServerOptions,
    ServiceStatus,
    SharedPool,
    SkillServer,
    ViewPool,
)

if TYPE_CHECKING:
    from skillwire.gateway.elicitation import ApprovalElicitor, ApprovalPage
    from skillwire.gateway.view import LockedSkills
    from skillwire.server import State


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """The options of a gateway beyond those of a server."""

    approval: GatewayApproval = "required"
    """Who approves skills: each caller, the host behind the gateway (`listed`), or the lock (`locked`)."""
    locked: LockedSkills | None = None
    """All that is served in the mode `locked`."""
    callers: Identity[Caller] | None = None
    """Those who may use the gateway over HTTP; without them there is one caller, the user."""
    audit: Audit | None = None
    page: ApprovalPage | None = None
    """The page on which callers approve skills, where one runs."""
    run: bool = False
    """Whether callers get the tool that runs scripts of skills in the sandbox: see `gateway.scripts`."""
    answer_seconds: float = 300.0
    """A question without an answer by then counts as a no."""
    clock: Callable[[], float] = time.monotonic
    """In seconds: tells how soon an answer came, and how old a question is."""


@dataclass(frozen=True, slots=True)
class CallerView:
    """A caller, and the credentials for servers that a request has. Requests with others share nothing."""

    caller: Caller
    credentials: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def gateway_app(
    options: GatewayOptions,
    *,
    running: Callable[[], AbstractAsyncContextManager[object]],
    make_server: Callable[[CallerView, object, int], CallerServer],
    release: Callable[[object], None],
    status: ServiceStatus,
    tick: Callable[[], None],
    limits: Limits,
    allowed_hosts: Iterable[str] = (),
    stateless: bool = False,
) -> HttpFrontend[Caller, CallerView]:
    """The frontend of a gateway. `running` keeps the gateway open, `make_server` makes the server of a view
    for a holder of connections, with a cache of a size, and `release` gets the holder at the end."""
    names = tuple(allowed_hosts)

    def make(view: CallerView) -> tuple[_Endpoint, Callable[[], None]]:
        holder = object()
        server = make_server(view, holder, pool.limits_of_next.response_cache_bytes)
        # Streamed: on the 2025 revisions, a question goes to the client on its response.
        app = server.endpoint(HostNames(names).all, stateless=stateless, streamed=True)
        return _Endpoint(app), lambda: release(holder)

    pool: ViewPool[CallerView] = ViewPool(make, limits=limits)
    return HttpFrontend(
        options.callers or OpenIdentity(),
        pool,
        view_of=_view_of,
        owner_of=lambda view: view.caller,
        status=status,
        running=running,
        tick=tick,
        allowed_hosts=names,
        limits=limits,
    )


class _Endpoint:
    """The endpoint of a caller. The audit log finds the address of the client."""

    def __init__(self, app: McpEndpoint) -> None:
        self._app = app

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        await self._app.run(stopping, started)

    def end_streams(self) -> None:
        self._app.end_streams()

    def open_requests(self) -> list[OpenRequest]:
        return self._app.open_requests()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        CLIENT.set(str((scope.get("client") or ("unknown",))[0]))
        await self._app(scope, receive, send)


def _view_of(caller: Caller, headers: Headers) -> CallerView:
    return CallerView(caller, credentials_of(caller, headers))


# A gateway runs for months: the limits are for one answer, not for all answers together.
_BYTES_PER_SERVER: Final = 1 << 50
_CHANGE_SECONDS: Final = 0.25
_FIRST_LIST_SECONDS: Final = 2.0
"""How long the connections wait for the first list of a client over stdio."""
_FURTHER_LISTS_SECONDS: Final = 0.1
"""And then for those that it asks for next."""
# The first pages. A gateway already holds every entry twice: as received, and as served.
_ENTRY_BYTES: Final = 2 << 20
_CACHE_BYTES: Final = 4 << 20

_log = logging.getLogger("skillwire.gateway")


class Gateway:
    """Upstreams, and a server for each caller. Use it as a context manager, or run it.

    `settings` are those of its host; `server_options` say how skills are served.
    """

    def __init__(
        self,
        settings: HostSettings,
        server_options: ServerOptions = DEFAULT_OPTIONS,
        *,
        options: GatewayOptions | None = None,
        name: str = "skillwire-gateway",
        instructions: str | None = None,
    ) -> None:
        """Nothing is opened yet: no file, no connection."""
        self.options = options or GatewayOptions()
        if (self.options.approval == "locked") != (self.options.locked is not None):
            raise ValueError("a lock and the mode locked go together")
        limits = server_options.limits if settings.limits == DEFAULT_LIMITS else settings.limits
        self._limits = replace(limits, bytes_per_server=_BYTES_PER_SERVER, change_seconds=_CHANGE_SECONDS)
        # An entry of the final extension has the whole frontmatter. Servers of earlier dialects leave most of
        # it out, so their SKILL.md is read early.
        style = replace(find_style(settings.style), peek=True, peek_index=True)
        self._settings = replace(settings, limits=self._limits, style=style, scans=settings.scans or Scans())
        self._needed = anyio.Event()
        self._is_stdio = False
        self.server_options = caller_options(server_options)
        self._memory = FileMemory()
        self._common = CommonParts(
            name=name,
            instructions=instructions,
            options=self.server_options,
            make_elicitor=lambda: self._elicitor,
            entries=EntryCache(_ENTRY_BYTES),
            audit=self.options.audit,
            runs_scripts=self.options.run,
            is_local=lambda: self._is_stdio,
        )
        self._shared = self._upstream(replace(self._settings, connect_after=self._connect_after))
        self._approvals = Approvals(self._shared.host.consent)
        servers = settings.servers or {}
        self._own: SharedPool[tuple[str, str], _Pooled] = SharedPool(
            lambda pooled: pooled.stopping.set(),
            most_per_owner=self._limits.http_views_per_caller * max(1, len(servers)),
            idle_seconds=self._limits.upstream_idle_seconds,
        )
        self._tasks: anyio.abc.TaskGroup | None = None
        self._stopping = anyio.Event()
        self._servers: dict[str, CallerServer] = {}

    @property
    def limits(self) -> Limits:
        return self._limits

    @cached_property
    def _elicitor(self) -> ApprovalElicitor:
        """Where callers are asked. Imported when the SDK is."""
        from skillwire.gateway.elicitation import ApprovalElicitor

        options = self.options
        return ApprovalElicitor(
            self._approvals, page=options.page, answer_seconds=options.answer_seconds, now=options.clock
        )

    async def __aenter__(self) -> Self:
        """Begin with what the servers listed the last time, and connect. A request for a skill waits until
        its server has answered or failed.
        """
        self._stopping = anyio.Event()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run_host, self._shared, self._stopping)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        self._stopping.set()
        self._own.close()
        if tasks is not None:
            # Without the error of the block, which the task group would wrap.
            await tasks.__aexit__(None, None, None)

    async def run_stdio(self) -> None:
        """Serve the user's one client over standard input and output until it disconnects."""
        self._is_stdio = True
        async with self:
            await self.server().run_stdio()

    def http_app(
        self, *, allowed_hosts: Iterable[str] = (), stateless: bool = False
    ) -> HttpFrontend[Caller, CallerView]:
        """An ASGI application for any number of callers at `/mcp`. The ASGI server must support lifespans."""

        return gateway_app(
            self.options,
            running=lambda: self,
            make_server=lambda view, holder, room: self._make_server(
                view.caller, view.credentials, holder, cache_bytes=room
            ),
            release=self._own.release,
            status=ServiceStatus(state=self._state, health=self._health, gauges=self._gauges),
            tick=self._own.close_idle,
            limits=self.server_options.limits,
            allowed_hosts=allowed_hosts,
            stateless=stateless,
        )

    @property
    def host(self) -> SkillHost:
        """The host with every server and folder, and the configured credentials."""
        return self._shared.host

    def server(self, caller: Caller | None = None) -> SkillServer:
        """A server for one caller, by default the user, while the gateway is open."""
        who = caller or Caller()
        return self._make_server(who, credentials_of(who, ()), object())

    def _make_server(
        self,
        who: Caller,
        credentials: Iterable[tuple[str, str]],
        holder: object,
        *,
        cache_bytes: int = _CACHE_BYTES,
    ) -> CallerServer:
        own, hidden = self._own_upstreams(who, credentials, holder)
        source = CallerSource(
            who,
            (*own, self._shared),
            self._approvals,
            mode=self.options.approval,
            lock=self.options.locked,
            hidden=hidden,
            begin_with_last=self._is_stdio,
            on_needed=self._needed.set,
            limits=self._limits,
        )
        server = CallerServer(source, self._common, cache_bytes=min(cache_bytes, _CACHE_BYTES))
        source.on_read = server.record_read
        return server

    def health(self) -> dict[str, object]:
        """The state of the gateway, for its operator."""
        host = self._shared.host
        reasons = [{"server": origin.label, "reason": reason} for origin, reason in self._shared.reasons()]
        counts: dict[str, int] = {}
        for offer in self._shared.offers().values():
            label = offer.skill.origin.label
            counts[label] = counts.get(label, 0) + 1
        servers = [
            {
                "label": state.label,
                "status": state.status.value,
                "skills": counts.get(state.label, 0),
                **({"reason": state.reason} if state.reason else {}),
                **({"listed": "last run"} if state.cached else {}),
            }
            for state in host.places.servers()
        ]
        failures = [failure.message for failure in host.log.failures()]
        audit = self.options.audit
        if audit is not None and audit.problem:
            failures.append(audit.problem)
        if self._approvals.problem:
            failures.append(self._approvals.problem)
        return {
            "ready": self._shared.ready.is_set(),
            "skills": sum(counts.values()),
            "servers": servers,
            "failures": failures,
            "not_served": reasons,
        }

    async def _state(self) -> State:
        """Not ready until every server has answered or failed once."""
        return "ok" if self._shared.ready.is_set() else "error"

    async def _health(self) -> dict[str, object]:
        return self.health()

    async def _gauges(self) -> dict[str, tuple[str, float]]:
        """The current values for the metrics."""
        servers = self.host.places.servers()
        audit = self.options.audit
        ready = sum(server.status == "ready" for server in servers)
        return {
            "skills": ("Skills offered.", float(len(self._shared.offers()))),
            "upstreams": ("Servers behind the gateway.", float(len(servers))),
            "upstreams_ready": ("Servers that answer.", float(ready)),
            "upstreams_of_callers": (
                "Connections with credentials of callers.",
                float(len(self._own)),
            ),
            "audit_waiting": (
                "Lines of the audit log that are not written yet.",
                float(0 if audit is None else audit.waiting),
            ),
            "audit_lost": (
                "Lines of the audit log that could not be written.",
                float(0 if audit is None else audit.lost),
            ),
        }

    # Upstreams

    async def _connect_after(self) -> None:
        """Over stdio, connect when the client has its first lists, which are those of the last time: on a
        small machine the import of the MCP SDK would delay them.
        """
        if self._is_stdio:
            with anyio.move_on_after(_FIRST_LIST_SECONDS):
                await self._needed.wait()
            await anyio.sleep(_FURTHER_LISTS_SECONDS)

    def _upstream(self, settings: HostSettings) -> Upstream:
        return Upstream(SkillHost(settings), limits=self._limits, memory=self._memory)

    def _own_upstreams(
        self, caller: Caller, credentials: Iterable[tuple[str, str]], holder: object
    ) -> tuple[list[Upstream], frozenset[str]]:
        """The upstreams with credentials of this caller, and the labels that are reached only through them.

        They are shared by all callers with the same credential for the same server, and by nobody else.
        """
        servers = {origin.label: one for origin, one in self._shared.host.places.configs.items()}
        by_segment = {label_segment(label): label for label in servers}
        found: list[Upstream] = []
        try:
            for segment, token in credentials:
                label = by_segment.get(label_segment(segment))
                if label is None:
                    continue
                key = (label, hashlib.sha256(token.encode()).hexdigest())
                connect = partial(self._connect, label, servers[label], token)
                found.append(self._own.acquire(key, holder, connect, owner=caller.name).upstream)
        except BaseException:
            self._own.release(holder)
            raise
        # Without a credential the server is hidden: nobody uses that of another caller.
        return found, frozenset(map(label_segment, caller.credentials))

    def _connect(self, label: str, config: ServerConfig, token: str) -> _Pooled:
        if not config.url:
            raise SourceError(f"{label} is started by a command: a caller cannot have a credential for it")
        path = self._approvals.store.path or state_paths().approvals
        upstream = self._upstream(
            HostSettings(
                servers={label: replace(config, token=token)},
                config=_with_one_server(self._settings.config, label, token),
                limits=self._limits,
                cache_directory=self._shared.host.cache.directory,
                # What others approved must not be listed to this caller while the server is unavailable.
                approvals_file=path.with_name(f"{path.name}.none"),
                publishers=self._settings.publishers,
                policy=self._settings.policy,
                scans=self._settings.scans,
                usage_file=self._settings.usage_file,
                style=self._settings.style,
            )
        )
        pooled = _Pooled(upstream)
        if self._tasks is None:
            raise RuntimeError("the gateway is not running")
        self._tasks.start_soon(self._run_host, upstream, pooled.stopping)
        return pooled

    async def _run_host(self, upstream: Upstream, stopping: anyio.Event) -> None:
        """Keep a host open. If it cannot be opened, the reason is logged, and its skills are not served."""
        try:
            with anyio.CancelScope() as opening:
                if self._tasks is not None:
                    self._tasks.start_soon(_end_opening, upstream, stopping, opening)
                async with upstream.host:
                    upstream.ready.set()
                    await stopping.wait()
        except SkillwireError as error:
            _log.error("the skills cannot be loaded: %s", error)
        finally:
            upstream.close()
            upstream.host.places.stop_waiting()
            upstream.ready.set()


def _with_one_server(config: ConfigWatch | None, label: str, token: str) -> ConfigWatch | None:
    """The configuration of a host for one server and one credential: it is closed when the server is."""
    if config is None:
        return None

    def narrowed(whole: HostConfig) -> HostConfig:
        servers = {name: replace(one, token=token) for name, one in whole.servers.items() if name == label}
        return HostConfig(
            servers=servers, configured=whole.configured, disabled=whole.disabled, publishers=whole.publishers
        )

    return replace(
        config,
        loaded=narrowed(config.loaded),
        load=lambda: narrowed(config.load()),
        directories=(),
        default_directories=False,
    )


async def _end_opening(upstream: Upstream, stopping: anyio.Event, opening: anyio.CancelScope) -> None:
    """A server that has not answered yet does not delay the shutdown of a gateway."""
    await stopping.wait()
    if not upstream.ready.is_set():
        opening.cancel()


@dataclass(slots=True)
class _Pooled:
    """An upstream of callers with a credential of their own."""

    upstream: Upstream
    stopping: anyio.Event = field(default_factory=anyio.Event)
