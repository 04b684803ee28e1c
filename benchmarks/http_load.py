"""HTTP load: so many connections, each with one request under way, every answer checked.

Plain sockets and a selector, because the client must cost less than the servers that it measures.
"""

from __future__ import annotations

import gc
import re
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.calls import FIRST_ID, Call, WrongAnswer
from benchmarks.processes import ServerFailed, TooSlow

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_PIECE: Final = 1 << 18
_SILENCE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Load:
    """What a server did: answers, the time it took and what it cost."""

    answers: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def cpu_per_thousand(self) -> float:
        return self.cpu_seconds / self.answers * 1000


class Connection:
    """One keep-alive connection with at most one request under way."""

    __slots__ = ("_held", "call", "identity", "socket")

    def __init__(self, address: tuple[str, int], timeout: float = _SILENCE_SECONDS) -> None:
        self.socket = socket.create_connection(address, timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.call: Call | None = None
        self.identity = 0
        self._held = b""

    def send(self, call: Call, identity: int) -> None:
        self.call, self.identity = call, identity
        self.socket.sendall(call.line(identity))

    def receive(self) -> bytes | None:
        """The body of the answer once all of it is here, checked."""
        try:
            piece = self.socket.recv(_PIECE)
        except TimeoutError:
            raise TooSlow(f"no answer for {self.socket.gettimeout():.0f} seconds") from None
        if not piece:
            raise ServerFailed("the server closed a connection")
        data = self._held + piece if self._held else piece
        body = parse_answer(data)
        if body is None:
            self._held = data
            return None
        self._held = b""
        call = self.call
        if call is None or not data.startswith(b"HTTP/1.1 200") or not call.is_right(body, self.identity):
            raise WrongAnswer(f"to {call and call.tail[:120]!r} came {data[:600]!r}")
        return body

    def ask(self, call: Call, identity: int = FIRST_ID) -> bytes:
        """Send one request and wait for its answer."""
        self.send(call, identity)
        while (body := self.receive()) is None:
            pass
        return body

    def close(self) -> None:
        self.socket.close()


def parse_answer(data: bytes) -> bytes | None:
    """The body of an HTTP answer, or `None` while part of it is missing."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    found = _LENGTH.search(data, 0, end + 2)
    if found is not None:
        length = int(found[1])
        return data[end + 4 : end + 4 + length] if len(data) - end - 4 >= length else None
    if _CHUNKED.search(data, 0, end + 2) is None:
        raise WrongAnswer(f"an answer without a length: {data[:300]!r}")
    return _join_chunks(data, end + 4)


def _join_chunks(data: bytes, at: int) -> bytes | None:
    parts: list[bytes] = []
    while (line := data.find(b"\r\n", at)) >= 0:
        length = int(data[at:line].partition(b";")[0], 16)
        at = line + 2 + length + 2
        if at > len(data):
            return None
        if length == 0:
            return b"".join(parts)
        parts.append(data[line + 2 : line + 2 + length])
    return None


def drive(
    address: tuple[str, int],
    calls: Sequence[Call],
    *,
    connections: int,
    seconds: float,
    cpu: Callable[[], float],
    at_most: int | None = None,
) -> Load:
    """Send `calls` in turn over so many connections for so long, or until there were `at_most`."""
    selector = selectors.DefaultSelector()
    opened = [Connection(address) for _ in range(connections)]
    for connection in opened:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    answers, sent, number = 0, 0, len(calls)
    gc.collect()
    gc.disable()  # A pause of the client is none of the server's.
    try:
        used, start = cpu(), time.perf_counter()
        deadline = start + seconds
        for connection in opened:
            connection.send(calls[sent % number], FIRST_ID + sent)
            sent += 1
        now = start
        while answers < sent:
            ready = selector.select(_SILENCE_SECONDS)
            if not ready:
                raise TooSlow(f"no answer for {_SILENCE_SECONDS} seconds")
            now = time.perf_counter()
            for key, _ in ready:
                connection = key.data
                if connection.receive() is None:
                    continue
                answers += 1
                if now < deadline and (at_most is None or sent < at_most):
                    connection.send(calls[sent % number], FIRST_ID + sent)
                    sent += 1
        return Load(answers, now - start, cpu() - used)
    finally:
        gc.enable()
        selector.close()
        for connection in opened:
            connection.close()
