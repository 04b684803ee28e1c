"""Load over standard input and output: JSON lines, a number of requests in flight, every answer checked."""

from __future__ import annotations

import gc
import os
import select
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.calls import FIRST_ID, Call, WrongAnswer
from benchmarks.http_load import Load
from benchmarks.processes import ServerFailed, ServerProcess, TooSlow

_PIECE: Final = 1 << 16  # More would be mapped and unmapped by the system each time.
_SILENCE_SECONDS: Final = 60


class Wire:
    """The client's end of a server's standard input and output."""

    def __init__(self, server: ServerProcess, timeout: float = _SILENCE_SECONDS) -> None:
        self._server = server
        self._timeout = timeout
        self._held = b""

    def send(self, call: Call, identity: int) -> None:
        os.write(self._server.stdin, call.line(identity))

    def lines(self) -> list[bytes]:
        """The complete lines that have arrived, at least one."""
        while True:
            if not select.select([self._server.stdout], [], [], self._timeout)[0]:
                raise TooSlow(f"no answer for {self._timeout:.0f} seconds")
            piece = os.read(self._server.stdout, _PIECE)
            if not piece:
                raise ServerFailed(f"the server ended: {self._server.last_words()}")
            *lines, self._held = (self._held + piece).split(b"\n")
            if lines:
                return lines

    def ask(self, call: Call, identity: int = FIRST_ID) -> bytes:
        """Send one request and wait for its answer."""
        self.send(call, identity)
        [line] = self.lines()
        if not call.is_right(line, identity):
            raise WrongAnswer(f"to {call.tail[:120]!r} came {line[:600]!r}")
        return line

    def drive(self, calls: Sequence[Call], *, window: int, seconds: float) -> Load:
        """Send `calls` in turn, at most `window` of them unanswered, for so long."""
        order: list[tuple[Call, int]] = []
        answers, sent, number = 0, 0, len(calls)
        cpu = self._server.cpu_seconds
        gc.collect()
        gc.disable()
        try:
            used, start = cpu(), time.perf_counter()
            deadline = start + seconds
            now = start
            while sent < window:
                order.append((calls[sent % number], FIRST_ID + sent))
                self.send(*order[-1])
                sent += 1
            while answers < sent:
                lines = self.lines()
                now = time.perf_counter()
                for line in lines:
                    self._match(order, line)
                    answers += 1
                    if now < deadline:
                        order.append((calls[sent % number], FIRST_ID + sent))
                        self.send(*order[-1])
                        sent += 1
            return Load(answers, now - start, cpu() - used)
        finally:
            gc.enable()

    def _match(self, order: list[tuple[Call, int]], line: bytes) -> None:
        """Remove the request that a line answers. Servers may answer out of order; most do not."""
        for at, (call, identity) in enumerate(order):
            if call.is_right(line, identity):
                del order[at]
                return
        raise WrongAnswer(f"an answer to nothing that was asked: {line[:600]!r}")
