"""BearerAuth: an ASGI layer that lets requests with the right token through, and no others."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from skillwire.server.http.lazy import Asgi, Receive, Scope, Send

_CHALLENGE = b'Bearer realm="skillwire"'
_INVALID = b'Bearer realm="skillwire", error="invalid_token"'


class BearerToken:
    """A secret that whoever asks must give, as `Authorization: Bearer TOKEN`."""

    def __init__(self, token: str) -> None:
        if not token:
            raise ValueError("the token is empty")
        self._token = token.encode("utf-8")

    def is_in(self, fields: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether the fields of a request, their names in lower case, hold it, and hold it once."""
        given = [value for name, value in fields if name == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        # Constant time: how long the comparison takes says nothing about the token.
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


class BearerAuth:
    """Wants the token on every request but those to `open_paths`."""

    def __init__(self, app: Asgi, token: BearerToken, *, open_paths: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan" or (kind == "http" and scope["path"] in self._open_paths):
            await self._app(scope, receive, send)
            return
        if kind != "http":
            await send({"type": "websocket.close"})
            return
        if self._token.is_in(scope["headers"]):
            await self._app(scope, receive, send)
            return
        given = any(name == b"authorization" for name, _ in scope["headers"])
        body = b"A bearer token is required.\n"
        headers = [
            (b"www-authenticate", _INVALID if given else _CHALLENGE),
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})
