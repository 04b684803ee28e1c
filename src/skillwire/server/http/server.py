"""HttpServer: an ASGI application on a socket, run by uvicorn."""

from __future__ import annotations

import ipaddress
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.http.app import MCP_PATH
from skillwire.server.http.asgi import Asgi, StoppableApp

if TYPE_CHECKING:
    from collections.abc import Generator

_GRACE_SECONDS: Final = 2
"""How long open requests may take once the server was told to stop."""
_BACKLOG: Final = 2048
"""How many connections may wait to be accepted."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen on."""

    host: str
    """A name or an IP address. IPv6 has no brackets around it here; `shown_host` has them, as they are part
    of a URL."""
    port: int
    """0 lets the system choose one."""

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
        """The host as it is written in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> Address:
    """An address from `8000`, `:8000`, `host:8000` or `[::1]:8000`, or a `SourceError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise SourceError(f"{shown(text)!r} is not an address: write HOST:PORT, a port is 0 to 65535")
    return Address(host or "127.0.0.1", int(port))


@runtime_checkable
class HasStreams(Protocol):
    """An application with event streams, which must end before it can stop."""

    def end_streams(self) -> None: ...


class HttpServer:
    """A listening socket and the server on it. `url` is known before the first request."""

    def __init__(
        self,
        app: Asgi,
        address: Address,
        *,
        listening: socket.socket | None = None,
        path: str = MCP_PATH,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`listening` is a socket from `listen`, for a caller that needs to know the port in advance."""
        import uvicorn

        from skillwire.server.http.connection import ConnectionCounter, limited_protocol

        class Uvicorn(uvicorn.Server):
            """Uvicorn without signal handlers, so that its caller can stop it without an error."""

            @contextmanager
            def capture_signals(self) -> Generator[None]:
                yield

        self._counter = counter = ConnectionCounter(limits)
        if isinstance(app, StoppableApp):
            app.connections = lambda: counter.open
        self._socket = listening or listen(address)
        self.url = f"http://{address.shown_host}:{self._socket.getsockname()[1]}{path}"
        self._app = app
        config = uvicorn.Config(
            app,
            http=limited_protocol(counter),
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=round(limits.http_idle_seconds),
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._uvicorn = Uvicorn(config)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return self._counter.open

    async def serve(self) -> None:
        """Serve until `stop` is called."""
        with self._socket:
            await self._uvicorn.serve(sockets=[self._socket])

    def stop(self) -> None:
        """End the event streams, finish the other requests, then stop."""
        if isinstance(self._app, HasStreams):
            self._app.end_streams()
        self._uvicorn.should_exit = True


def listen(address: Address) -> socket.socket:
    """A listening socket, so that a client can connect as soon as it knows the URL."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # With an explicit protocol: asyncio sets TCP_NODELAY only if it knows that this is TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # On other systems it would let two servers share a port.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError, TypeError) as error:
        listening.close()
        reason = (error.strerror if isinstance(error, OSError) else "no such host") or error
        raise SourceError(
            f"cannot listen on {address.shown_host}:{address.port}: {reason}; "
            "choose another port, or 0 for a free one"
        ) from None
    return listening
