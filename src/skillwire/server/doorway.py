"""Doorway: a connection on which the fast lane answers before any HTTP server comes into it.

Most of what a small answer costs over HTTP is the server: parsing, a task, the messages of ASGI. A request of
the most ordinary form, whose head and body are known from before, needs none of it. So the doorway stands
between the socket and uvicorn's own protocol. It answers what it understands whole. Any other request it
gives to a protocol of uvicorn's, from its first byte, and takes the connection back when that has answered.
Where it is not plain to see that a request ends, it steps aside for as long as the connection lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Protocol, cast

from skillwire.server.fastpath.cache import ResponseCache
from skillwire.server.fastpath.parse import FastPath, FastRequest
from skillwire.server.heads import END_OF_HEAD, MOST_BODY, Fields, HeadRules, RequestHead
from skillwire.server.tap import Tap

_KEPT_HEAD_BYTES: Final = 4 << 20
_MOST_HEAD: Final = 16_384


class HttpProtocol(Protocol):
    """A connection as uvicorn knows it."""

    def connection_made(self, transport: asyncio.Transport, /) -> None: ...
    def connection_lost(self, exc: Exception | None, /) -> None: ...
    def data_received(self, data: bytes, /) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def shutdown(self) -> None: ...


class State(Protocol):
    """What uvicorn's connections share: who they are, and the fields that begin every answer."""

    connections: set[object]
    default_headers: Fields


class Door:
    """What all doorways of a server share."""

    def __init__(self, lane: FastPath, rules: HeadRules) -> None:
        self.lane = lane
        self._rules = rules
        self._heads: ResponseCache[RequestHead] = ResponseCache(_KEPT_HEAD_BYTES)
        self._fields: Fields | None = None
        self._beginning = b""

    def read_head(self, raw: bytes) -> RequestHead | None:
        """The head of a request. Clients send the same few again and again."""
        head = self._heads.get(raw)
        if head is None:
            head = self._rules.read(raw)
            if head is not None:
                self._heads.put(raw, head)
        return head

    def answer(self, body: bytes, fields: Fields) -> bytes:
        """An answer as it goes out. `fields` come first; they are a new list when they change."""
        if fields is not self._fields:
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in fields)
            self._beginning = b"HTTP/1.1 200 OK\r\n" + lines
            self._beginning += b"content-type: application/json\r\ncontent-length: "
            self._fields = fields
        return b"%b%d%b%b" % (self._beginning, len(body), END_OF_HEAD, body)


class Visit:
    """One request that was given to a protocol of uvicorn's. The application finds it in `VISIT`."""

    def __init__(self, doorway: Doorway, protocol: HttpProtocol, tap: Tap) -> None:
        self._doorway = doorway
        self.protocol = protocol
        self.tap = tap

    def is_answered(self) -> None:
        """To be called when the answer is out, whole."""
        self._doorway.take_back(self)


VISIT: Final[ContextVar[Visit | None]] = ContextVar("skillwire-visit", default=None)


class Doorway(asyncio.Protocol):
    """One connection. `make_protocol` makes what answers the rest of the requests on it."""

    def __init__(
        self, door: Door, make_protocol: Callable[[], HttpProtocol], state: State, keep_alive: float
    ) -> None:
        self._door = door
        self._make_protocol = make_protocol
        self._state = state
        self._keep_alive = keep_alive
        self._loop = asyncio.get_running_loop()
        self._held = b""
        self._is_full = self._is_choked = self._is_ending = False
        self._answering: asyncio.Task[None] | None = None
        self._visit: Visit | None = None
        self._is_aside = False
        self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asked by its type: the transports of other event loops do not inherit from it.
        self._transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._visit is not None:
            self._is_aside = True  # More than one request at once is not our business.
            self._visit.protocol.data_received(data)
            return
        if self._held:
            data = self._held + data
        if self._answering is None:
            self._held = b""
            self._take(data)
        else:
            self._held = data  # It comes before its turn.
            self._is_full = len(data) > _MOST_HEAD + MOST_BODY
            self._settle_reading()

    def eof_received(self) -> bool | None:
        return None if self._visit is None else self._visit.protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        if self._visit is not None:
            self._visit.protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read. Then nothing more is read from it either."""
        self._is_choked = True
        self._settle_reading()
        if self._visit is not None:
            self._visit.protocol.pause_writing()

    def resume_writing(self) -> None:
        self._is_choked = False
        self._settle_reading()
        if self._visit is not None:
            self._visit.protocol.resume_writing()

    # What uvicorn asks for.

    def shutdown(self) -> None:
        """End the connection, after the answer that is under way."""
        if self._answering is not None:
            self._is_ending = True
        elif self._visit is not None:
            self._visit.protocol.shutdown()
        else:
            self._transport.close()

    # Requests and answers.

    def _take(self, data: bytes) -> None:
        """Answer the one request that this is, or wait for the rest of it, or give it away."""
        end = data.find(END_OF_HEAD, 0, _MOST_HEAD)
        start = end + len(END_OF_HEAD)
        head = self._door.read_head(data[:start]) if end > 0 else None
        if head is None or len(data) > start + head.length:
            self._give_away(data, for_good=True)
        elif len(data) < start + head.length:
            self._held = data
        elif not head.is_for_lane or not self._take_whole(head, data, start):
            self._give_away(data)

    def _take_whole(self, head: RequestHead, data: bytes, start: int) -> bool:
        """Answer a request from the lane, now or in a moment; false when it is not for the lane."""
        lane = self._door.lane
        body = data[start:]
        again = lane.again(body)
        if again is not None:
            id_json, kept = again
            if not head.fits(kept.method, kept.name):
                return False
            self._write(kept.to(id_json))
            return True
        request = lane.match(body)
        if request is None or not head.fits(request.method.encode("ascii"), request.name):
            return False
        self._answering = self._loop.create_task(self._answer(request, data))
        return True

    async def _answer(self, request: FastRequest, data: bytes) -> None:
        """Give an answer that takes a moment. What the client sends meanwhile waits."""
        try:
            answer = await self._door.lane.answer(request)
        except Exception:
            answer = None  # Whatever it is, the SDK has a way to tell it.
        self._answering = None
        held, self._held = self._held, b""
        if self._transport.is_closing():
            return
        self._is_full = False
        self._settle_reading()
        if answer is None:
            self._give_away(data + held, for_good=bool(held))
        else:
            self._write(answer)
            if held:
                self._take(held)
        if self._is_ending and self._answering is None:
            self.shutdown()

    def _write(self, answer: bytes) -> None:
        self._transport.write(self._door.answer(answer, self._state.default_headers))
        self._rest()

    # The connection between requests.

    def _rest(self) -> None:
        """Begin to wait for the next request."""
        self._last = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._keep_alive, self._look_at_the_clock)

    def _look_at_the_clock(self) -> None:
        """Close a connection on which nothing has come for a while. One timer does, however many answers."""
        self._timer = None
        if self._visit is not None or self._transport.is_closing():
            return
        left = self._last + self._keep_alive - self._loop.time()
        if left <= 0 and not self._held and self._answering is None:
            self._transport.close()
        else:
            self._timer = self._loop.call_later(
                left if left > 0 else self._keep_alive, self._look_at_the_clock
            )

    def _settle_reading(self) -> None:
        if self._visit is not None:
            return  # Then it is the matter of who has it.
        if self._is_full or self._is_choked:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # Requests that are given away.

    def _give_away(self, data: bytes, *, for_good: bool = False) -> None:
        tap = Tap(self._transport)
        protocol = self._make_protocol()
        visit = self._visit = Visit(self, protocol, tap)
        self._is_aside = for_good
        self._transport.resume_reading()
        protocol.connection_made(tap)
        # Whoever ends all connections must ask this one.
        self._state.connections.discard(protocol)
        if self._is_choked:
            protocol.pause_writing()
        # The task that uvicorn makes for the request takes this along.
        token = VISIT.set(visit)
        try:
            protocol.data_received(data)
        finally:
            VISIT.reset(token)

    def take_back(self, visit: Visit) -> None:
        """The request was answered: what comes next comes to the doorway again."""
        if self._visit is not visit or self._is_aside or self._transport.is_closing():
            return
        # It may still have a timer that would close the connection.
        visit.tap.shut()
        self._visit = None
        self._settle_reading()
        self._rest()
