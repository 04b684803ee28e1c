"""Channel: the way to a server, as raw as it comes. One for lines over a process, one for HTTP.

The MCP SDK's client is not used: it repairs, sieves and refuses what it reads, and a judge has to see it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import anyio
import httpx2

from skillwire.errors import LimitExceeded
from skillwire.issues import shown
from skillwire.judge.answers import Failure, Reply, is_object, parse_message
from skillwire.skill.entries import JsonObject
from skillwire.transport.processes import ServerProcess, running

_NOISE_KEPT: Final = 3
_PING: Final = "ping"


class Channel(Protocol):
    """Carries one message there and its answer back. Whoever calls sets the deadline."""

    @property
    def noise(self) -> Sequence[str]:
        """Lines that were no messages, the first few."""
        ...

    @property
    def last_words(self) -> str:
        """What the server said outside the protocol, last."""
        ...

    async def exchange(self, message: JsonObject, headers: Mapping[str, str]) -> Reply: ...
    async def tell(self, message: JsonObject, headers: Mapping[str, str]) -> None: ...


class ProcessChannel:
    """JSON lines over a server's standard input and output. Any number of requests may be under way."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._waiting: dict[object, tuple[anyio.Event, list[Reply]]] = {}
        self._ended = ""
        self._end = Failure.LOST
        self._lock = anyio.Lock()
        self.noise: list[str] = []

    @property
    def last_words(self) -> str:
        return self._process.last_words

    async def exchange(self, message: JsonObject, headers: Mapping[str, str]) -> Reply:
        arrived = anyio.Event()
        slot: list[Reply] = []
        self._waiting[message["id"]] = arrived, slot
        try:
            if not self._ended:
                await self.tell(message, headers)
            if not self._ended:
                await arrived.wait()
        finally:
            del self._waiting[message["id"]]
        return slot[0] if slot else Reply(failure=self._end, reason=self._ended)

    async def tell(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        try:
            async with self._lock:
                await self._process.send(json.dumps(message).encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._finish(Failure.LOST, "the server closed its input")

    async def listen(self) -> None:
        """Take in what the server says. Runs beside the conversation."""
        try:
            async for line in self._process.lines():
                if line.strip():
                    await self._take(line)
            self._finish(Failure.LOST, "the server ended")
        except LimitExceeded as error:
            self._finish(Failure.TOO_LARGE, str(error))

    def _finish(self, failure: Failure, reason: str) -> None:
        if not self._ended:
            self._end, self._ended = failure, reason
        for arrived, _ in self._waiting.values():
            arrived.set()

    async def _take(self, line: bytes) -> None:
        try:
            message = parse_message(line)
        except ValueError:
            message = None
        if not is_object(message):
            if len(self.noise) < _NOISE_KEPT:
                self.noise.append(shown(line.decode("utf-8", "replace"), 80))
            return
        if "method" in message:
            await self._serve(message)
            return
        waiting = self._waiting.get(_hashable(message.get("id")))
        if waiting is not None:
            arrived, slot = waiting
            slot.append(Reply(message=message, size=len(line)))
            arrived.set()

    async def _serve(self, message: Mapping[str, object]) -> None:
        """A server may ask as well. A ping is answered; nothing else is on offer."""
        id = message.get("id")
        if isinstance(id, str | int):
            outcome: JsonObject = {"error": {"code": -32601, "message": "not offered by this client"}}
            if message["method"] == _PING:
                outcome = {"result": {}}
            await self.tell({"jsonrpc": "2.0", "id": id, **outcome}, {})


def _hashable(id: object) -> object:
    return id if isinstance(id, str | int | float | None) else None


class HttpChannel:
    """Streamable HTTP: each request is a POST, answered by JSON or by an event stream."""

    noise: Sequence[str] = ()
    last_words = ""

    def __init__(self, client: httpx2.AsyncClient, url: str, *, answer_bytes: int) -> None:
        self._client = client
        self._url = url
        self._answer_bytes = answer_bytes

    async def exchange(self, message: JsonObject, headers: Mapping[str, str]) -> Reply:
        try:
            async with self._client.stream("POST", self._url, json=message, headers=headers) as response:
                return await self._reply(response, message["id"])
        except httpx2.ConnectError:
            return Reply(failure=Failure.LOST, reason="nothing listens there")
        except httpx2.TransportError as error:
            reason = f"the connection broke: {type(error).__name__}"
            return Reply(failure=Failure.LOST, reason=reason)

    async def tell(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        with suppress(httpx2.TransportError):
            async with self._client.stream("POST", self._url, json=message, headers=headers):
                pass

    async def end_session(self, headers: Mapping[str, str]) -> None:
        with suppress(httpx2.TransportError):
            async with self._client.stream("DELETE", self._url, headers=headers):
                pass

    async def _reply(self, response: httpx2.Response, id: object) -> Reply:
        status = response.status_code
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            return Reply(failure=Failure.HTTP, status=status, reason="a compressed answer, not asked for")
        session = response.headers.get("mcp-session-id", "")
        if kind == "text/event-stream":
            return await self._from_events(response, id, session)
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._answer_bytes:
                return self._too_large()
        if kind != "application/json":
            return Reply(failure=Failure.HTTP, status=status, reason=f"HTTP {status} {_kind(kind)}")
        try:
            message = parse_message(body)
        except ValueError as error:
            return Reply(failure=Failure.MALFORMED, status=status, reason=f"HTTP {status}: {error}")
        return Reply(message=message, size=len(body), status=status, session=session)

    async def _from_events(self, response: httpx2.Response, id: object, session: str) -> Reply:
        """The event that answers us; all that goes before it counts towards the limit."""
        taken = 0
        held = bytearray()
        data: list[bytes] = []
        async for chunk in response.aiter_raw():
            taken += len(chunk)
            if taken > self._answer_bytes:
                return self._too_large()
            held += chunk
            if b"\n" not in chunk and b"\r" not in chunk:
                continue
            *lines, held = held.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(bytes(line[5:].removeprefix(b" ")))
                elif not line and data:
                    event, data = b"\n".join(data), []
                    try:
                        message = parse_message(event) if event else None
                    except ValueError as error:
                        return Reply(failure=Failure.MALFORMED, reason=str(error))
                    if is_object(message) and "method" not in message:
                        return Reply(
                            message=message, size=taken, status=response.status_code, session=session
                        )
        return Reply(failure=Failure.LOST, reason="the event stream ended without an answer")

    def _too_large(self) -> Reply:
        reason = f"more than {self._answer_bytes:,} bytes: cut off"
        return Reply(failure=Failure.TOO_LARGE, reason=reason)


def _kind(kind: str) -> str:
    return f"with {shown(kind, 60)}" if kind else "without a Content-Type"


@asynccontextmanager
async def open_process(
    command: Sequence[str], *, env: Mapping[str, str], answer_bytes: int
) -> AsyncGenerator[ProcessChannel]:
    """Start a server and speak to it over its standard input and output."""
    async with running(command, env=env, directory="", line_bytes=answer_bytes) as process:
        channel = ProcessChannel(process)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.listen)
            try:
                yield channel
            finally:
                tasks.cancel_scope.cancel()
