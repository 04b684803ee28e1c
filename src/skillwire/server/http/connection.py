"""Connections with limits in number and in time, as a subclass of uvicorn's protocol.

Uvicorn takes such a class by its `http=` option. The subclass parses nothing: it closes connections that are
too many, that do not send their request, and that do not read their response (SEC-9).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from skillwire.limits import Limits

# Within each `http_write_seconds`, a client that does not keep up must take at least this much.
_LEAST_PROGRESS: Final = 64 * 1024


class ConnectionCounter:
    """The open connections of a server, in all and by address."""

    def __init__(self, limits: Limits) -> None:
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
    """A protocol for uvicorn whose connections keep the limits."""
    base: Any = AutoHTTPProtocol
    limits = counter.limits

    class LimitedConnection(base):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            peer = transport.get_extra_info("peername")
            self._address = str(peer[0]) if isinstance(peer, tuple) else ""
            self._reading: tuple[str, asyncio.TimerHandle] | None = None
            self._writing: asyncio.TimerHandle | None = None
            if counter.add(self._address):
                self._await_request("head", limits.http_head_seconds)
            else:
                self._refuse(b"503 Service Unavailable", b"Too many connections; try again later.\n")

        def connection_lost(self, exc: Exception | None) -> None:
            counter.remove(self._address)
            self._await_request("", 0)
            self.resume_writing()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                self._await_request("head", limits.http_head_seconds)
            elif cycle.more_body:
                self._await_request("body", limits.http_body_seconds)
            elif self._reading is not None:
                self._await_request("", 0)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._await_progress()

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._writing is not None:
                self._writing.cancel()
                self._writing = None

        def _await_request(self, part: str, seconds: float) -> None:
            """Give the client this long for a part of its request; further bytes of it do not extend that."""
            if self._reading is not None:
                if self._reading[0] == part:
                    return
                self._reading[1].cancel()
            late = (b"408 Request Timeout", b"The request did not arrive in time.\n")
            self._reading = (part, self.loop.call_later(seconds, self._refuse, *late)) if part else None

        def _await_progress(self) -> None:
            before = self.transport.get_write_buffer_size()

            def check() -> None:
                if before - self.transport.get_write_buffer_size() < _LEAST_PROGRESS:
                    self.transport.abort()
                else:
                    self._await_progress()

            self._writing = self.loop.call_later(limits.http_write_seconds, check)

        def _refuse(self, status: bytes, text: bytes) -> None:
            head = (
                b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head % (status, len(text)) + text)
            self.transport.close()

    return LimitedConnection
