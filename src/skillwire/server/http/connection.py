"""Limits on the number and duration of connections, as a subclass of uvicorn's protocol.

Uvicorn accepts such a class in its `http=` option. The subclass parses nothing: it closes excess connections,
and those that do not send their request or read their response in time (SEC-9).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

from skillwire.limits import DEFAULT_LIMITS, Limits

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
        self.transport.write(f"{head}connection: close\r\n\r\n{text}".encode("ascii"))
        self.transport.close()
