"""LoopbackListener: a small HTTP server on this machine that a browser is sent to when a login is over.

It answers one kind of request: a GET of its one path, with the `state` of the login that is under way. Any
other request is refused and changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from skillwire.errors import SourceError

PATH: Final = "/callback"
_MOST_HEAD_BYTES: Final = 32 * 1024
_HEAD_SECONDS: Final = 10.0
_BROKEN: Final = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.BrokenResourceError,
    OSError,
)
_PAGE: Final = (
    '<!doctype html><meta charset="utf-8"><title>Skillwire</title>'
    '<body style="font: 1rem system-ui; margin: 4rem auto; max-width: 32rem"><h1>{}</h1><p>{}</p>'
)


class LoopbackListener:
    """Waits for the browser. `redirect_uri` is where it has to be sent."""

    def __init__(self, listener: anyio.abc.Listener[anyio.abc.SocketStream], port: int) -> None:
        self._listener = listener
        self.redirect_uri = redirect_uri(port)
        self._state = ""
        self._address = ""
        self._came = anyio.Event()

    def expect(self, authorization_url: str) -> None:
        """Wait for the end of this login, and of no other."""
        self._state = (parse_qs(urlsplit(authorization_url).query).get("state") or [""])[0]

    async def wait(self, seconds: float) -> str:
        """The address that the browser was sent to."""
        with anyio.move_on_after(seconds):
            await self._came.wait()
            return self._address
        raise SourceError(f"the login was not finished within {seconds:g} s: run the command again")

    async def serve(self) -> None:
        await self._listener.serve(self._answer)

    async def _answer(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(_HEAD_SECONDS), suppress(*_BROKEN):
                received = BufferedByteReceiveStream(stream)
                head = await received.receive_until(b"\r\n\r\n", _MOST_HEAD_BYTES)
                status, title, text = self._take(head.partition(b"\r\n")[0].decode("latin-1"))
                body = _PAGE.format(title, text).encode()
                await stream.send(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
                    "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n".encode()
                    + body
                )

    def _take(self, request_line: str) -> tuple[str, str, str]:
        """The status, title and text of the answer to a request."""
        method, _, rest = request_line.partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or urlsplit(target).path != PATH:
            return "404 Not Found", "Nothing here", "This address is only for the end of a login."
        values = parse_qs(urlsplit(target).query)
        state = (values.get("state") or [""])[0]
        if not self._state or not secrets.compare_digest(state.encode(), self._state.encode()):
            return "400 Bad Request", "Not this login", "This is not the login that is under way."
        self._address = target
        self._came.set()
        if "error" in values:
            return "200 OK", "Not signed in", "The terminal says why. You can close this page."
        return "200 OK", "Almost done", "Go back to the terminal. You can close this page."


def redirect_uri(port: int) -> str:
    """Where a browser is sent to. By address: `localhost` may be another program's (RFC 8252, 8.3)."""
    return f"http://127.0.0.1:{port}{PATH}"


@asynccontextmanager
async def listening(port: int) -> AsyncGenerator[LoopbackListener]:
    """Listen on a port of this machine; 0 is any free one."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError as error:
        raise SourceError(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another with --port"
        ) from None
    chosen = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no Django
    async with listener, anyio.create_task_group() as tasks:
        server = LoopbackListener(listener, chosen)
        tasks.start_soon(server.serve)
        try:
            yield server
        finally:
            tasks.cancel_scope.cancel()


def callback_values(address: str) -> dict[str, str]:
    """What the address says that a browser is sent to at the end: a code, or why there is none."""
    text = address.strip()
    query = urlsplit(text).query if "?" in text else text
    values = {name: given[0] for name, given in parse_qs(query).items()}
    if "error" in values:
        said = ": ".join(values[name] for name in ("error", "error_description") if name in values)
        raise SourceError("the authorization server refused", said=said)
    if "code" not in values:
        raise SourceError(
            "that address has no code in it: paste the whole address that the browser was sent to, "
            "including everything after the question mark"
        )
    return values
