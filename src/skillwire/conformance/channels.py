"""Channel: the way to a server, as raw as it comes; and the one over lines to a process.

The MCP SDK's client is not used: it repairs, sieves and refuses what it reads, and a judge has to see it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio

from skillwire.conformance.responses import Failure, Reply, parse_message
from skillwire.errors import LimitExceeded
from skillwire.issues import shown
from skillwire.json_types import JsonObject, is_object
from skillwire.sources.process import ServerProcess, running

_NOISE_KEPT: Final = 3
_PING: Final = "ping"


class Channel(Protocol):
    """Carries one message there and its answer back. Whoever calls sets the deadline."""

    @property
    def is_one_pipe(self) -> bool:
        """Whether everything goes through one connection, so that nothing follows when it breaks."""
        ...

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

    async def end(self, headers: Mapping[str, str]) -> None:
        """Say goodbye, where the transport has a word for it."""
        ...


class ProcessChannel:
    """JSON lines over a server's standard input and output. Any number of requests may be under way."""

    is_one_pipe = True

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

    async def end(self, headers: Mapping[str, str]) -> None:
        pass  # Whoever started the process stops it.

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
