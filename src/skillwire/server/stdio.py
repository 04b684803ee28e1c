"""MCP over this process's standard input and output.

Ours rather than the SDK's for three reasons: a signal ends it at once, although a thread still waits for
input or for a client that does not read; a line that is no JSON-RPC gets an error instead of silence; and
small messages need no thread to be written. From here to the end of the process, whatever else prints to
standard output goes to standard error, so that nothing tears the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import select
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from skillwire.limits import DEFAULT_LIMITS

_CHUNK: Final = 1 << 16
# What POSIX promises that a pipe takes whole when it is ready.
_PIPE_BUF: Final = getattr(select, "PIPE_BUF", 0)
# `select` knows no descriptor beyond this.
_SELECTABLE: Final = 1024


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """The two streams that `Server.run` wants, tied to descriptors 0 and 1."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - opening the null device does not wait
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    loop = asyncio.get_running_loop()
    outlet = _Outlet(wire_out, loop)

    async def take_in(lines: list[bytes | None]) -> None:
        for line in lines:
            if line is not None and not line.strip():
                continue
            message = None if line is None else _message(line)
            if message is None:
                await outlet.write(_refusal(line))
            else:
                await to_server.send(SessionMessage(message))

    async def end() -> None:
        await to_server.aclose()

    def read_wire() -> None:
        # A thread of our own, not one of the pool: nobody waits for it, so a signal need not either.
        with suppress(RuntimeError, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            for lines in _lines(wire_in):
                asyncio.run_coroutine_threadsafe(take_in(lines), loop).result()
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(end(), loop)

    async def write_wire() -> None:
        with suppress(BrokenPipeError):
            async with from_server:
                async for message in from_server:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await outlet.write(text.encode("utf-8") + b"\n")

    threading.Thread(target=read_wire, name="skillwire-stdin", daemon=True).start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_wire)
        try:
            yield from_client, to_client
        finally:
            to_client.close()


class _Outlet:
    """Writes whole messages to a descriptor, one after the other."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._turn = anyio.Lock()
        self._is_torn = False
        self._work: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def write(self, data: bytes) -> None:
        async with self._turn:  # A refusal must not land in the middle of an answer.
            if self._is_torn:
                return
            if self._takes_at_once(len(data)):
                _write_all(self._descriptor, data)
                return
            # A client that does not read must hold up itself, not every other task, nor the end of them.
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="skillwire-stdout", daemon=True)
                self._thread.start()
            done: asyncio.Future[None] = self._loop.create_future()
            self._work.put((data, done))
            try:
                await done
            except asyncio.CancelledError:
                self._is_torn = True  # Who knows how much of it went out.
                raise

    def _takes_at_once(self, size: int) -> bool:
        if size > _PIPE_BUF or self._descriptor >= _SELECTABLE:
            return False
        return bool(select.select([], [self._descriptor], [], 0)[1])

    def _run(self) -> None:
        while True:
            data, done = self._work.get()
            error: OSError | None = None
            try:
                _write_all(self._descriptor, data)
            except OSError as failure:
                error = failure
            with suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(_conclude, done, error)


def _conclude(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _lines(descriptor: int) -> Iterator[list[bytes | None]]:
    """Whole lines as they arrive, several at a time; `None` for one beyond the limit, never gathered."""
    held = bytearray()
    dropping = False
    while chunk := os.read(descriptor, _CHUNK):
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            if not dropping:
                lines.append(bytes(held) + end)
            held.clear()
            dropping = False
        if not dropping:
            held += rest
        if len(held) > DEFAULT_LIMITS.message_bytes:
            lines.append(None)
            held.clear()
            dropping = True
        if lines:
            yield lines
    if held:
        yield [bytes(held)]


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """The message that a line is, or `None`."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        # A request whose id has a wrong type would pass for a notification, and its sender wait for ever.
        if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
            return None
    except (ValidationError, ValueError):
        return None
    return message


def _refusal(line: bytes | None) -> bytes:
    """The JSON-RPC error for a line that is no message; `None` stands for one that is too long."""
    identity: object = None
    error = {"code": types.INVALID_REQUEST, "message": "Not a JSON-RPC 2.0 message"}
    if line is None:
        error["message"] = f"The message has more than {DEFAULT_LIMITS.message_bytes} bytes"
    else:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            error = {"code": types.PARSE_ERROR, "message": "Not valid JSON"}
        else:
            if isinstance(value, dict):
                given = cast("dict[str, object]", value).get("id")
                identity = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n"
