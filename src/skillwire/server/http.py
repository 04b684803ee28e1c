"""Streamable HTTP: the ASGI application, what protects it, and the running of it."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.auth import BearerAuth
from skillwire.server.streams import EventStreams

MCP_PATH = "/mcp"
HEALTH_PATH = "/healthz"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_GRACE_SECONDS = 2
_BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> Address:
    """An address from `8000`, `:8000`, `host:8000` or `[::1]:8000`, or a `SourceError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise SourceError(f"{shown(text)!r} is not an address; write HOST:PORT, such as 127.0.0.1:8000")
    return Address(host or "127.0.0.1", int(port))


def http_app(
    server: Server[Any],
    *,
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
    stateless: bool = False,
) -> ASGIApp:
    """The application at `/mcp`, with `/healthz` beside it.

    `Host` and `Origin` must name loopback or one of `allowed_hosts`: a page in somebody's browser must not
    reach a server on their machine by giving it a name of its own.
    """

    async def health(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    names = (*_LOOPBACK, *allowed_hosts)
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[spelling for name in names for spelling in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{spelling}"
            for scheme in ("http", "https")
            for name in names
            for spelling in (name, f"{name}:*")
        ],
    )
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=stateless,
        transport_security=security,
        max_request_body_size=DEFAULT_LIMITS.http_body_bytes,
        custom_starlette_routes=[Route(HEALTH_PATH, health)],
    )
    return app if token is None else BearerAuth(app, token, open_paths=frozenset({HEALTH_PATH}))


class _Uvicorn(uvicorn.Server):
    """Uvicorn that leaves signals to its caller, so that ending on one is no failure."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class HttpServer:
    """A bound socket and the server on it. `url` is known before the first request."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":  # Elsewhere it would let two servers share a port.
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address.host, address.port))
            # Listening from here on: whoever reads the URL may connect at once.
            self._socket.listen(_BACKLOG)
        except (OSError, UnicodeError, TypeError) as error:
            self._socket.close()
            reason = (error.strerror if isinstance(error, OSError) else "no such host") or error
            raise SourceError(f"cannot listen on {address.shown_host}:{address.port}: {reason}") from None
        self.url = f"http://{address.shown_host}:{self._socket.getsockname()[1]}{MCP_PATH}"
        self._streams = EventStreams(app)
        config = uvicorn.Config(
            self._streams,
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._uvicorn = _Uvicorn(config)

    async def serve(self) -> None:
        """Serve until `stop` is called."""
        with self._socket:
            await self._uvicorn.serve(sockets=[self._socket])

    def stop(self) -> None:
        """End the event streams, let other requests be answered, then stop."""
        self._streams.end()
        self._uvicorn.should_exit = True
