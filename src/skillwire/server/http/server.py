"""HttpServer: an ASGI application on a socket, run by uvicorn."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, runtime_checkable

from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.http.asgi import Asgi, StoppableApp
from skillwire.server.http.frontend import MCP_PATH
from skillwire.text import shown

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Base
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as Base

# A slow client must read at least this much within each `http_write_seconds`.
_LEAST_PROGRESS: Final = 64 * 1024


class ConnectionCounter:
    """The open connections of a server, in total and by address."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.open = 0
        self._by_address: Counter[str] = Counter()

    def add(self, address: str) -> bool:
        """Count a connection; false if there are too many."""
        self.open += 1
        self._by_address[address] += 1
        return (
            self.open <= self.limits.http_connections
            and self._by_address[address] <= self.limits.http_connections_per_address
        )

    def remove(self, address: str) -> None:
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


def limited_protocol(counter: ConnectionCounter) -> type[asyncio.Protocol]:
    """A protocol class for uvicorn whose connections respect the limits of a counter."""
    return type("LimitedConnection", (LimitedConnection,), {"counter": counter})


class LimitedConnection(Base):
    """One connection."""

    counter: ClassVar = ConnectionCounter()
    _address = ""
    _reading: tuple[str, asyncio.TimerHandle] | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = str((transport.get_extra_info("peername") or ("",))[0])
        if self.counter.add(self._address):
            self._await_request("head", self.counter.limits.http_head_seconds)
        else:
            self._refuse("503 Service Unavailable", "Too many connections; try again later.\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self.counter.remove(self._address)
        self._await_request("", 0)
        self._stop_writing_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self._await_request("head", self.counter.limits.http_head_seconds)
        elif cycle.more_body:
            self._await_request("body", self.counter.limits.http_body_seconds)
        elif self._reading is not None:
            self._await_request("", 0)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_progress()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_writing_timer()

    def _await_request(self, part: str, seconds: float) -> None:
        """Set a deadline for a part of the request. Further bytes do not extend it."""
        if self._reading is not None:
            if self._reading[0] == part:
                return
            self._reading[1].cancel()
        late = ("408 Request Timeout", "The request did not arrive in time.\n")
        self._reading = (part, self.loop.call_later(seconds, self._refuse, *late)) if part else None

    def _await_progress(self) -> None:
        before = self.transport.get_write_buffer_size()

        def check() -> None:
            if before - self.transport.get_write_buffer_size() < _LEAST_PROGRESS:
                self.transport.abort()
            else:
                self._await_progress()

        self._stop_writing_timer()
        self._writing = self.loop.call_later(self.counter.limits.http_write_seconds, check)

    def _stop_writing_timer(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _refuse(self, status: str, text: str) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
        if status.startswith("503"):
            head += "retry-after: 5\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n{text}".encode("ascii"))
        self.transport.close()


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
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """`listening` is a socket from `listen`, for a caller that needs to know the port in advance.
        `certificate` are the files of a certificate and of its key, for https.
        """
        import uvicorn

        class Uvicorn(uvicorn.Server):
            """Uvicorn without signal handlers, so that its caller can stop it without an error."""

            @contextmanager
            def capture_signals(self) -> Generator[None]:
                yield

        self._counter = counter = ConnectionCounter(limits)
        if isinstance(app, StoppableApp):
            app.connections = lambda: counter.open
        self._socket = listening or listen(address)
        self.url = f"{'https' if certificate else 'http'}://{address.shown_host}:{self._socket.getsockname()[1]}{path}"
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
            ssl_certfile=certificate[0] if certificate else None,
            ssl_keyfile=certificate[1] if certificate else None,
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
