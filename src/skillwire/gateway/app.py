"""Gateway: the skills of many servers as one server, verified, approved, for any MCP client.

gateway = Gateway({"servers": {"docs": "https://docs.example/mcp"}})
await gateway.run_stdio()
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import anyio
import anyio.abc

from skillwire.errors import SkillwireError, SourceError
from skillwire.gateway.approvals import Approvals
from skillwire.gateway.callers import Caller, resolve
from skillwire.gateway.options import GatewayOptions
from skillwire.gateway.server import CallerServer, CommonParts, caller_options
from skillwire.gateway.upstreams import FileMemory, Upstream
from skillwire.gateway.uris import label_segment
from skillwire.gateway.view import CallerSource
from skillwire.host.config.server import ServerConfig, parse_server
from skillwire.host.directories import state_places
from skillwire.host.host import SkillHost
from skillwire.host.styles import DEFAULT, find_style
from skillwire.limits import Limits
from skillwire.server.app import SkillServer
from skillwire.server.fastpath.answer import EntryCache
from skillwire.server.options import DEFAULT_OPTIONS, ServerOptions

if TYPE_CHECKING:
    from skillwire.gateway.asking import ApprovalDesk
    from skillwire.server.http.asgi import Asgi

_REFRESH_SECONDS: Final = 1.0
# A gateway runs for months: the limits are for one answer, not for all answers together.
_BYTES_PER_SERVER: Final = 1 << 50
_CHANGE_SECONDS: Final = 0.25
# The first pages. A gateway already holds every entry twice: as received, and as served.
_ENTRY_BYTES: Final = 2 << 20

_log = logging.getLogger("skillwire.gateway")


class Gateway:
    """Upstreams, and a server for each caller. Use it as a context manager, or run it.

    `host_options` are the arguments of `SkillHost`; `server_options` say how skills are served.
    """

    def __init__(
        self,
        host_options: Mapping[str, Any],
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
        limits: Limits = host_options.get("limits") or server_options.limits
        self._limits = replace(limits, bytes_per_server=_BYTES_PER_SERVER, change_seconds=_CHANGE_SECONDS)
        # An entry of the final extension has the whole frontmatter. Servers of earlier dialects leave most of
        # it out, so their SKILL.md is read early.
        style = replace(find_style(host_options.get("style", DEFAULT)), peek=True, peek_index=True)
        self._host_options: dict[str, Any] = {**host_options, "limits": self._limits, "style": style}
        self.server_options = caller_options(server_options)
        self._memory = FileMemory()
        self._common = CommonParts(
            name=name,
            instructions=instructions,
            options=self.server_options,
            make_desk=lambda: self._desk,
            entries=EntryCache(_ENTRY_BYTES),
            audit=self.options.audit,
        )
        self._shared = self._upstream(self._host_options)
        self._approvals = Approvals(self._shared.host.admin.approvals)
        self._own: dict[tuple[str, str], _Pooled] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._stopping = anyio.Event()
        self._servers: dict[str, CallerServer] = {}

    @property
    def limits(self) -> Limits:
        return self._limits

    @cached_property
    def _desk(self) -> ApprovalDesk:
        """Where callers are asked. Imported when the SDK is."""
        from skillwire.gateway.asking import ApprovalDesk

        options = self.options
        return ApprovalDesk(self._approvals, page=options.page, answer_seconds=options.answer_seconds)

    async def __aenter__(self) -> Self:
        """Start to connect. Requests for skills wait until every server has answered or failed once."""
        self._stopping = anyio.Event()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run_host, self._shared, self._stopping)
        self._tasks.start_soon(self._refresh)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks, self._tasks = self._tasks, None
        self._stopping.set()
        for pooled in self._own.values():
            pooled.stopping.set()
        self._own.clear()
        if tasks is not None:
            # Without the error of the block, which the task group would wrap.
            await tasks.__aexit__(None, None, None)

    async def run_stdio(self) -> None:
        """Serve the user's one client over standard input and output until it disconnects."""
        async with self:
            await self.server().run_stdio()

    def http_app(self, *, allowed_hosts: Iterable[str] = (), stateless: bool = False) -> Asgi:
        """An ASGI application for any number of callers at `/mcp`. The ASGI server must support lifespans."""
        from skillwire.gateway.http import GatewayHttp

        return GatewayHttp(
            self.options,
            running=self,
            make_server=self._make_server,
            health=self.health,
            gauges=self._gauges,
            allowed_hosts=allowed_hosts,
            stateless=stateless,
        )

    @property
    def host(self) -> SkillHost:
        """The host with every server and folder, and the configured credentials."""
        return self._shared.host

    def server(self, caller: Caller | None = None) -> SkillServer:
        """A server for one caller, by default the user, while the gateway is open."""
        return self._make_server(caller or Caller(), ())

    def _make_server(self, who: Caller, headers: Iterable[tuple[bytes, bytes]]) -> CallerServer:
        own, hidden = self._own_upstreams(who, headers)
        source = CallerSource(
            who,
            (*own, self._shared),
            self._approvals,
            mode=self.options.approval,
            lock=self.options.locked,
            hidden=hidden,
        )
        server = CallerServer(source, self._common)
        source.on_read = server.record_read
        return server

    def health(self, caller: Caller | None = None) -> dict[str, object]:
        """What works and what does not, as far as a caller may know."""
        who = caller or Caller()
        host = self._shared.host
        reasons = [
            {"server": origin.label, "reason": reason}
            for origin, reason in self._shared.reasons()
            if who.sees_label(origin.label)
        ]
        counts: dict[str, int] = {}
        for offer in self._shared.offers().values():
            if who.allows(offer.root):
                label = offer.skill.origin.label
                counts[label] = counts.get(label, 0) + 1
        servers = [
            {
                "label": state.label,
                "status": state.status.value,
                "skills": counts.get(state.label, 0),
                **({"reason": state.reason} if state.reason else {}),
            }
            for state in host.admin.servers()
            if who.sees_label(state.label)
        ]
        failures = [
            failure.message
            for failure in host.log.failures()
            if failure.origin is None or who.sees_label(failure.origin.label)
        ]
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

    def _gauges(self) -> dict[str, tuple[str, float]]:
        """The current values for the metrics."""
        servers = self.host.admin.servers()
        ready = sum(server.status == "ready" for server in servers)
        return {
            "skills": ("Skills offered.", float(len(self._shared.offers()))),
            "upstreams": ("Servers behind the gateway.", float(len(servers))),
            "upstreams_ready": ("Servers that answer.", float(ready)),
        }

    # Upstreams

    def _upstream(self, host_options: Mapping[str, Any]) -> Upstream:
        return Upstream(SkillHost(**host_options), limits=self._limits, memory=self._memory)

    def _own_upstreams(
        self, caller: Caller, headers: Iterable[tuple[bytes, bytes]]
    ) -> tuple[list[Upstream], frozenset[str]]:
        """The upstreams with credentials of this caller, and the labels that are reached only through them.

        They are shared by all callers with the same credential for the same server, and by nobody else.
        """
        servers: Mapping[str, object] = self._host_options.get("servers") or {}
        by_segment = {label_segment(label): label for label in servers}
        found: list[Upstream] = []
        given = tuple(headers)
        for segment, credential in caller.credentials.items():
            label = by_segment.get(label_segment(segment))
            token = resolve(credential, given)
            if label is None or not token:
                continue  # Without a credential the server is hidden: nobody uses that of another caller.
            key = (label, hashlib.sha256(token.encode()).hexdigest())
            if key not in self._own:
                self._own[key] = self._connect(label, parse_server(servers[label]), token)
            found.append(self._own[key].upstream)
        return found, frozenset(map(label_segment, caller.credentials))

    def _connect(self, label: str, config: ServerConfig, token: str) -> _Pooled:
        if not config.url:
            raise SourceError(f"{label} is started by a command: a caller cannot have a credential for it")
        path = self._approvals.store.path or state_places().approvals
        upstream = self._upstream(
            {
                "servers": {label: replace(config, token=token)},
                "limits": self._limits,
                "cache_directory": self._shared.host.admin.cache.directory,
                # What others approved must not be listed to this caller while the server is unavailable.
                "approvals_file": path.with_name(f"{path.name}.none"),
                "publishers": self._host_options.get("publishers", ()),
                "style": self._host_options["style"],
            }
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
            upstream.ready.set()

    async def _refresh(self) -> None:
        """List servers again whose listings have expired, if somebody asked for a listing since."""
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_when_stopping, scope)
                while True:
                    await anyio.sleep(_REFRESH_SECONDS)
                    for upstream in (self._shared, *(pooled.upstream for pooled in self._own.values())):
                        feed = upstream.host.feed
                        is_expired = any(
                            feed.remaining_seconds(origin) == 0 and not feed.is_unavailable(origin)
                            for origin in upstream.origins.values()
                        )
                        if upstream.is_wanted and is_expired and upstream.ready.is_set():
                            upstream.is_wanted = False
                            tasks.start_soon(upstream.refresh_expired)

    async def _cancel_when_stopping(self, scope: anyio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()


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
