"""Streamable HTTP: the application in its layers, and the running of it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from skillwire.errors import SourceError
from skillwire.server.doorway import VISIT, Door, Doorway
from skillwire.server.fastpath.parse import FastPath
from skillwire.server.heads import HeadRules
from skillwire.server.http.address import Address
from skillwire.server.http.auth import BearerAuth, BearerToken
from skillwire.server.http.front import FastPathMiddleware
from skillwire.server.http.lazy import Asgi, LazyApp, LifespanApp, Message, Receive, Scope, Send
from skillwire.server.http.streams import EventStreams

if TYPE_CHECKING:
    from collections.abc import Generator

    from mcp.server.lowlevel import Server

MCP_PATH: Final = "/mcp"
HEALTH_PATH: Final = "/healthz"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_GRACE_SECONDS: Final = 2
_BACKLOG: Final = 2048


def http_app(
    lane: FastPath | None,
    server: Callable[[], Server[Any]],
    *,
    around: Callable[[], AbstractAsyncContextManager[object]],
    allowed_hosts: Iterable[str] = (),
    token: str | None = None,
    stateless: bool = False,
) -> HttpApp:
    """The application at `/mcp`, with `/healthz` beside it. From the outside in: token, fast lane, SDK.

    `server` gives the SDK's server when it is first needed; `around` is open as long as the application is.
    """
    names = (*_LOOPBACK, *allowed_hosts)

    def load() -> LifespanApp:
        from skillwire.server.http.sdk import SdkApp

        return SdkApp(server(), path=MCP_PATH, names=names, stateless=stateless)

    secret = None if token is None else BearerToken(token)
    rules = HeadRules(path=MCP_PATH, hosts=names, token=secret)
    front = FastPathMiddleware(lane, LazyApp(load, around), rules=rules, health=HEALTH_PATH)
    guarded = front if secret is None else BearerAuth(front, secret, open_paths=frozenset({HEALTH_PATH}))
    return HttpApp(guarded, None if lane is None else Door(lane, rules))


class HttpApp:
    """An ASGI application, and the door that a server of ours may put before it."""

    def __init__(self, app: Asgi, door: Door | None) -> None:
        self._app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = VISIT.get()
        if visit is None or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def send_and_see(message: Message) -> None:
            nonlocal is_answered
            await send(message)
            is_answered = message["type"] == "http.response.body" and not message.get("more_body", False)

        await self._app(scope, receive, send_and_see)
        if is_answered:
            visit.is_answered()


class HttpServer:
    """A bound socket and the server on it. `url` is known before the first request."""

    def __init__(self, app: Asgi, address: Address) -> None:
        import uvicorn
        from uvicorn.protocols.http.auto import AutoHTTPProtocol

        class Uvicorn(uvicorn.Server):
            """Uvicorn that leaves signals to its caller, so that ending on one is no failure."""

            @contextmanager
            def capture_signals(self) -> Generator[None]:
                yield

        door = app.door if isinstance(app, HttpApp) else None

        def connection(config: uvicorn.Config, server_state: Any, **more: Any) -> asyncio.Protocol:
            make: Any = partial(AutoHTTPProtocol, config=config, server_state=server_state, **more)
            return make() if door is None else Doorway(door, make, server_state, config.timeout_keep_alive)

        self._socket = _listen(address)
        self.url = f"http://{address.shown_host}:{self._socket.getsockname()[1]}{MCP_PATH}"
        self._streams = EventStreams(app)
        config = uvicorn.Config(
            self._streams,
            http=cast(type[asyncio.Protocol], connection),
            log_config=None,
            access_log=False,
            lifespan="on",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._uvicorn = Uvicorn(config)

    async def serve(self) -> None:
        """Serve until `stop` is called."""
        with self._socket:
            await self._uvicorn.serve(sockets=[self._socket])

    def stop(self) -> None:
        """End the event streams, let other requests be answered, then stop."""
        self._streams.end()
        self._uvicorn.should_exit = True


def _listen(address: Address) -> socket.socket:
    """A socket that listens: whoever reads the URL may connect at once."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Named by its protocol: asyncio turns off the delay of small packets only where it knows it is TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # Elsewhere it would let two servers share a port.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError, TypeError) as error:
        listening.close()
        reason = (error.strerror if isinstance(error, OSError) else "no such host") or error
        raise SourceError(f"cannot listen on {address.shown_host}:{address.port}: {reason}") from None
    return listening
