"""HTTP load: a number of connections, each with one request in flight, every answer checked.

Plain sockets, because the client must cost less than the servers that it measures. For the same reason an
answer is parsed only the first time that a call is answered. From then on the answers to that call must equal
the first one byte for byte, but for the id and for headers that say nothing of the body; one that does not is
taken apart again.
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
_GOOD: Final = b"HTTP/1.1 200"
_PIECE: Final = 1 << 16  # More would be mapped and unmapped by the system each time.
_SILENCE_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a load: answers, time and processor time."""

    answers: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def cpu_per_thousand(self) -> float:
        return self.cpu_seconds / self.answers * 1000


@dataclass(frozen=True, slots=True)
class Pattern:
    """An answer that was found right: the header with its length, and its body around the id."""

    length: bytes
    before: bytes
    digits: int
    """How long the id is; 0 for an answer without one."""
    after: bytes

    def fits(self, data: bytes, identity: int) -> bool:
        """Whether this is the same answer with this id."""
        start = data.find(b"\r\n\r\n") + 4
        at = start + len(self.before)
        end = at + self.digits
        return (
            len(data) == end + len(self.after)
            and data.startswith(self.before, start)
            and data.endswith(self.after)
            and (not self.digits or data[at:end] == b"%d" % identity)
            and data.startswith(_GOOD)
            and data.find(self.length, 0, start) > 0
        )


def pattern_of(data: bytes, call: Call, identity: int) -> Pattern | None:
    """What the next answer to a call must equal, from one that was right; `None` for one in chunks."""
    start = data.find(b"\r\n\r\n") + 4
    found = _LENGTH.search(data, 0, start)
    if found is None:
        return None
    length = found[0] + b"\r\n"
    if not call.is_echoed:
        return Pattern(length, data[start:], 0, b"")
    digits = b"%d" % identity
    before, _, after = data[start:].partition(b'"id":' + digits)
    return Pattern(length, before + b'"id":', len(digits), after)


class Connection:
    """One keep-alive connection with at most one request in flight.

    `patterns` are those of answers, by the tail of their call; connections to one server may share them.
    """

    __slots__ = ("_held", "_patterns", "call", "identity", "socket")

    def __init__(
        self,
        address: tuple[str, int],
        timeout: float = _SILENCE_SECONDS,
        patterns: dict[bytes, Pattern] | None = None,
    ) -> None:
        self.socket = socket.create_connection(address, timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.call: Call | None = None
        self.identity = 0
        self._held = b""
        self._patterns = {} if patterns is None else patterns

    def send(self, call: Call, identity: int) -> None:
        self.call, self.identity = call, identity
        self.socket.sendall(call.line(identity))

    def is_answered(self) -> bool:
        """Read what has arrived; returns whether the answer is complete. A wrong one raises an error."""
        data = self._read()
        call = self.call
        assert call is not None
        known = self._patterns.get(call.tail)
        if known is not None and known.fits(data, self.identity):
            self._held = b""
            return True
        if self._checked(data, call) is None:
            return False
        if (pattern := pattern_of(data, call, self.identity)) is not None:
            self._patterns[call.tail] = pattern
        return True

    def ask(self, call: Call, identity: int = FIRST_ID) -> bytes:
        """Send one request and wait for its answer; the body of it."""
        self.send(call, identity)
        while (body := self._checked(self._read(), call)) is None:
            pass
        return body

    def _read(self) -> bytes:
        try:
            piece = self.socket.recv(_PIECE)
        except TimeoutError:
            raise TooSlow(f"no answer for {self.socket.gettimeout():.0f} seconds") from None
        if not piece:
            raise ServerFailed("the server closed a connection")
        return self._held + piece if self._held else piece

    def _checked(self, data: bytes, call: Call) -> bytes | None:
        """The body of the answer once all of it is here."""
        body = parse_answer(data)
        if body is None:
            self._held = data
            return None
        self._held = b""
        if not data.startswith(_GOOD) or not call.is_right(body, self.identity):
            raise WrongAnswer(f"to {call.tail[:120]!r} came {data[:600]!r}")
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
    patterns: dict[bytes, Pattern] = {}
    opened = [Connection(address, patterns=patterns) for _ in range(connections)]
    await_ready = _waiter(opened)
    answers, sent, number = 0, 0, len(calls)
    gc.collect()
    gc.disable()  # A pause of the client does not count for the server.
    try:
        used, start = cpu(), time.perf_counter()
        deadline = start + seconds
        for connection in opened:
            connection.send(calls[sent % number], FIRST_ID + sent)
            sent += 1
        now = start
        while answers < sent:
            ready = await_ready()
            now = time.perf_counter()
            for connection in ready:
                if not connection.is_answered():
                    continue
                answers += 1
                if now < deadline and (at_most is None or sent < at_most):
                    connection.send(calls[sent % number], FIRST_ID + sent)
                    sent += 1
        return Load(answers, now - start, cpu() - used)
    finally:
        gc.enable()
        for connection in opened:
            connection.close()


def _waiter(connections: Sequence[Connection]) -> Callable[[], Sequence[Connection]]:
    """A function that waits until something arrives, and returns the connections where it did."""
    if len(connections) == 1:
        return lambda: connections  # Its read waits.
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)

    def wait() -> list[Connection]:
        ready = selector.select(_SILENCE_SECONDS)
        if not ready:
            raise TooSlow(f"no answer for {_SILENCE_SECONDS} seconds")
        return [key.data for key, _ in ready]

    return wait
