"""Channels: how messages get to a server and back, without anything in between that would repair them.

The MCP SDK's client is not used: it corrects, filters and rejects what it reads, and a conformance check has
to see what was sent. `ProcessChannel` is JSON lines over the standard input and output of a server that we
started.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from skillwire.conformance.messages import Reply, RequestFailure, TooManyValues, describe, parse_message
from skillwire.documents import JsonObject, is_object
from skillwire.errors import LimitExceeded
from skillwire.sources.process import ServerProcess, running
from skillwire.text import shown

_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message that the server sent on its own: a notification, or a request of its own.

    `uri` is the one in its parameters, as in a notification about one resource; empty if there is none.
    """

    method: str
    is_request: bool
    uri: str = ""


@dataclass(slots=True)
class Unsolicited:
    """Messages of a server besides answers, as much of them as a report needs."""

    incoming: list[Incoming] = field(default_factory=list[Incoming])
    stray_output: list[str] = field(default_factory=list[str])
    """Lines on standard output that are not messages."""
    stray_answers: list[str] = field(default_factory=list[str])
    """Answers to no request, or to one that was answered already."""
    accepted: list[int] = field(default_factory=list[int])
    """The HTTP statuses of notifications that we sent, other than 202."""

    def note_message(self, message: Mapping[str, object]) -> None:
        params = message.get("params")
        uri = params.get("uri") if isinstance(params, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if len(self.incoming) < _KEPT:
            self.incoming.append(
                Incoming(
                    shown(str(message.get("method")), 80),
                    "id" in message,
                    uri if isinstance(uri, str) else "",
                )
            )

    def note_output(self, line: bytes) -> None:
        if len(self.stray_output) < _KEPT:
            self.stray_output.append(shown(line[:400].decode("utf-8", "replace"), 80))

    def note_answer(self, what: str) -> None:
        if len(self.stray_answers) < _KEPT:
            self.stray_answers.append(what)


class Trace(Protocol):
    """Records traffic as it is. `kind` is `sent`, `received` or `http`."""

    def __call__(self, kind: str, text: bytes) -> None: ...


def no_trace(kind: str, text: bytes) -> None:
    """Record nothing."""


class Channel(Protocol):
    """Carries one message to the server and its answer back. The caller sets the deadline."""

    @property
    def is_one_pipe(self) -> bool:
        """Whether everything goes through one connection, so that nothing can follow once it breaks."""
        ...

    @property
    def unsolicited(self) -> Unsolicited: ...

    @property
    def error_output(self) -> tuple[str, ...]:
        """The last lines that the server wrote to standard error."""
        ...

    async def exchange(
        self, message: JsonObject, headers: Mapping[str, str], *, fresh: bool = False
    ) -> Reply:
        """The reply to one request, over a new connection with `fresh` where there are several."""
        ...

    async def notify(self, message: JsonObject, headers: Mapping[str, str]) -> None: ...

    async def end(self, headers: Mapping[str, str]) -> None:
        """End the session, where the transport has a message for it."""
        ...


_PING: Final = "ping"
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,18})')
_ID_WITHIN: Final = 4096
_ANSWERED: Final = 10_000


class ProcessChannel:
    """Any number of requests may be in flight."""

    is_one_pipe = True

    def __init__(self, process: ServerProcess, trace: Trace = no_trace) -> None:
        self._process = process
        self._trace = trace
        self._waiting: dict[object, tuple[anyio.Event, list[Reply]]] = {}
        self._answered: set[object] = set()
        self._late: set[object] = set()
        self._ended = ""
        self._end = RequestFailure.CONNECTION
        self._lock = anyio.Lock()
        self.unsolicited = Unsolicited()

    @property
    def error_output(self) -> tuple[str, ...]:
        return self._process.last_lines

    async def exchange(
        self, message: JsonObject, headers: Mapping[str, str], *, fresh: bool = False
    ) -> Reply:
        arrived = anyio.Event()
        slot: list[Reply] = []
        self._waiting[message["id"]] = arrived, slot
        try:
            if not self._ended:
                await self.notify(message, headers)
            if not self._ended:
                await arrived.wait()
        finally:
            del self._waiting[message["id"]]
            if not slot:
                self._late.add(message["id"])
        return slot[0] if slot else Reply(failure=self._end, reason=self._ended)

    async def notify(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        line = json.dumps(message).encode()
        self._trace("sent", line)
        try:
            async with self._lock:
                await self._process.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await self._finish_with_exit_code("closed its standard input")

    async def end(self, headers: Mapping[str, str]) -> None:
        pass  # Whoever started the process stops it.

    async def listen(self) -> None:
        """Receive what the server sends. Runs beside the conversation."""
        try:
            async for line in self._process.lines():
                if line.strip():
                    self._trace("received", line)
                    await self._receive(line)
                line = b""  # A long one is not held while the next one arrives.
            await self._finish_with_exit_code("closed its standard output")
        except LimitExceeded as error:
            self._finish(RequestFailure.TOO_LARGE, str(error))

    async def _finish_with_exit_code(self, closed: str) -> None:
        """A server that ends closes its pipes one by one: its exit code says more than the first of them."""
        code = await self._process.exit_code()
        ended = closed if code is None else f"exited with code {code}"
        self._finish(RequestFailure.CONNECTION, f"the server {ended}")

    def _finish(self, failure: RequestFailure, reason: str) -> None:
        if not self._ended:
            self._end, self._ended = failure, reason
        for arrived, _ in self._waiting.values():
            arrived.set()

    async def _receive(self, line: bytes) -> None:
        try:
            message, values = parse_message(line)
        except ValueError as error:
            if not self._fail(line, error):
                self.unsolicited.note_output(line)
            return
        if not is_object(message):
            if not self._fail(line, ValueError("the message is not an object")):
                self.unsolicited.note_output(line)
        elif "method" in message:
            self.unsolicited.note_message(message)
            await self._serve(message)
        elif _hashable(message.get("id")) in self._late:
            self._late.discard(_hashable(message.get("id")))  # Slow, and reported as that.
        elif not self._deliver(message.get("id"), Reply(message=message, size=len(line), values=values)):
            again = "a second answer" if _hashable(message.get("id")) in self._answered else "an answer"
            self.unsolicited.note_answer(f"{again} with the id {describe(message.get('id'))}")

    def _fail(self, line: bytes, error: ValueError) -> bool:
        """Fail the request that a broken answer belongs to. Returns whether there is one."""
        if not line.lstrip().startswith((b"{", b"[")):
            return False  # A log line, not an answer.
        found = _ID.search(line[:_ID_WITHIN]) or _ID.search(line[-_ID_WITHIN:])
        id: object = int(found[1]) if found else None
        if id not in self._waiting and len(self._waiting) == 1:
            id = next(iter(self._waiting))
        failure = RequestFailure.TOO_LARGE if isinstance(error, TooManyValues) else RequestFailure.MALFORMED
        return self._deliver(id, Reply(failure=failure, reason=str(error)))

    def _deliver(self, id: object, reply: Reply) -> bool:
        waiting = self._waiting.get(_hashable(id))
        if waiting is None or waiting[1]:
            return False
        arrived, slot = waiting
        slot.append(reply)
        arrived.set()
        if len(self._answered) < _ANSWERED:
            self._answered.add(_hashable(id))
        return True

    async def _serve(self, message: Mapping[str, object]) -> None:
        """Answer a ping. No other request of a server is supported."""
        id = message.get("id")
        if isinstance(id, str | int):
            outcome: JsonObject = {"error": {"code": -32601, "message": "not supported by this client"}}
            if message["method"] == _PING:
                outcome = {"result": {}}
            await self.notify({"jsonrpc": "2.0", "id": id, **outcome}, {})


def _hashable(id: object) -> object:
    return id if isinstance(id, str | int | float | None) else None


@asynccontextmanager
async def open_process(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    directory: str = "",
    answer_bytes: int,
    trace: Trace = no_trace,
) -> AsyncGenerator[ProcessChannel]:
    """Start a server and connect to its standard input and output."""
    async with running(command, env=env, directory=directory, line_bytes=answer_bytes) as process:
        channel = ProcessChannel(process, trace)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(channel.listen)
            try:
                yield channel
            finally:
                tasks.cancel_scope.cancel()
