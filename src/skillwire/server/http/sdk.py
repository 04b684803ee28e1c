"""SdkApp: the SDK's own application for Streamable HTTP, for all that the fast lane does not answer."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.http.lazy import Receive, Scope, Send


class SdkApp:
    """Serves `server` at one path.

    `Host` and `Origin` must name one of `names`: a page in somebody's browser must not reach a server on
    their machine by giving it a name of its own.
    """

    def __init__(self, server: Server[Any], *, path: str, names: Iterable[str], stateless: bool) -> None:
        hosts = [spelling for name in names for spelling in (name, f"{name}:*")]
        self._app = server.streamable_http_app(
            streamable_http_path=path,
            json_response=True,
            stateless_http=stateless,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=True,
                allowed_hosts=hosts,
                allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
            ),
            max_request_body_size=DEFAULT_LIMITS.http_body_bytes,
        )

    def lifespan(self) -> AbstractAsyncContextManager[object]:
        return self._app.router.lifespan_context(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
