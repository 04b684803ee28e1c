"""Telemetry: the access log and the metrics of an HTTP server."""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Final

from skillwire.issues import shown
from skillwire.json_types import is_object
from skillwire.server.http.asgi import Message, Receive, Scope, Send, StoppableApp

METRICS_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
# The methods that have their own label. All others share one, so that clients cannot create labels.
_METHODS: Final = frozenset(
    {
        "initialize",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        "subscriptions/listen",
        "tools/call",
        "tools/list",
    }
)
_MOST_BODY: Final = 65_536
_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

access_log = logging.getLogger("skillwire.access")


class Request:
    """One request in progress. `user` is the name of its token."""

    __slots__ = ("_body", "_header", "_receive", "bytes", "send", "started", "status", "user")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._header = dict(scope["headers"]).get(b"mcp-method", b"").decode("latin-1")
        self._receive = receive
        self._body = bytearray()
        self.send = send
        self.started = time.perf_counter()
        self.status = 0
        self.bytes = 0
        self.user = ""

    @property
    def receive(self) -> Receive:
        """Receives the messages of the request. Without an `Mcp-Method` header, the body is remembered."""
        return self._receive if self._header else self._remember

    @property
    def method(self) -> str:
        """The MCP method: that of the header, or in requests of 2025 that of the body; empty if unknown."""
        if self._header or not self._body or len(self._body) > _MOST_BODY:
            return self._header
        try:
            message: object = json.loads(self._body)
        except (ValueError, RecursionError):
            return ""
        method = message.get("method") if is_object(message) else None
        return method if isinstance(method, str) else ""

    async def _remember(self) -> Message:
        message = await self._receive()
        if len(self._body) <= _MOST_BODY:
            self._body += message.get("body", b"")[: _MOST_BODY + 1]
        return message

    def observe(self, message: Message) -> Awaitable[None]:
        """Send a message of the response and record its status and size."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.bytes += len(message.get("body", b""))
        return self.send(message)


class Telemetry:
    """Counts requests, and logs them if the logger `skillwire.access` is enabled."""

    def __init__(self) -> None:
        self.started = time.time()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets = [0] * (len(_BUCKETS) + 1)
        self._seconds = 0.0
        self._warned: dict[str, tuple[float, int]] = {}

    def finish(self, scope: Scope, request: Request) -> None:
        """Count and log a completed request."""
        seconds = time.perf_counter() - request.started
        method = request.method
        self._requests[method if method in _METHODS else "other", request.status] += 1
        self._buckets[bisect_left(_BUCKETS, seconds)] += 1
        self._seconds += seconds
        if access_log.isEnabledFor(logging.INFO):
            fields = {
                "client": (scope.get("client") or ("-",))[0],
                "user": request.user or "-",
                "method": scope["method"],
                "path": shown(scope["path"], 200),
                "mcp_method": shown(method, 100) or "-",
                "status": request.status,
                "bytes": request.bytes,
                "ms": round(seconds * 1000, 2),
            }
            access_log.info("%s %s %s %s %s %s %s bytes %s ms", *fields.values(), extra={"fields": fields})

    def warn(self, log: logging.Logger, kind: str, text: str) -> None:
        """Log a warning, but only one of a kind per second, so that nobody can fill the disk."""
        now = time.monotonic()
        last, held = self._warned.get(kind, (-1.0, 0))
        if now - last < 1:
            self._warned[kind] = (last, held + 1)
            return
        self._warned[kind] = (now, 0)
        log.warning("%s%s", text, f" ({held} more like it)" if held else "")

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """The metrics in the Prometheus text format. `gauges` are further values, with their help texts."""
        lines: list[str] = []
        for name, (help_text, value) in gauges.items():
            lines += [f"# HELP skillwire_{name} {help_text}", f"# TYPE skillwire_{name} gauge"]
            lines.append(f"skillwire_{name} {value:g}" if value < 1e6 else f"skillwire_{name} {value:.0f}")
        lines += [
            "# HELP skillwire_http_requests_total HTTP requests by MCP method and status.",
            "# TYPE skillwire_http_requests_total counter",
        ]
        for (method, status), count in sorted(self._requests.items()):
            lines.append(f'skillwire_http_requests_total{{method="{method}",status="{status}"}} {count}')
        lines += [
            "# HELP skillwire_http_request_seconds Time from a request's head to the end of its response.",
            "# TYPE skillwire_http_request_seconds histogram",
        ]
        total = 0
        for bound, count in zip((*_BUCKETS, "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'skillwire_http_request_seconds_bucket{{le="{bound}"}} {total}')
        lines.append(f"skillwire_http_request_seconds_sum {self._seconds:.6f}")
        lines.append(f"skillwire_http_request_seconds_count {total}")
        return "\n".join([*lines, ""])


class ObservedApp(StoppableApp):
    """An application whose requests are logged and counted. `_serve` sets the request's `user`."""

    def __init__(self) -> None:
        super().__init__()
        self.telemetry = Telemetry()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            request = Request(scope, receive, send)
            try:
                await self._serve(scope, request.receive, request)
            finally:
                self.telemetry.finish(scope, request)
        else:
            await send({"type": "websocket.close"})

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        raise NotImplementedError

    async def _serve(self, scope: Scope, receive: Receive, request: Request) -> None:
        raise NotImplementedError
