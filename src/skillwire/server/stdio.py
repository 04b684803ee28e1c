"""MCP over this process's standard input and output.

Ours rather than the SDK's for three reasons: a signal ends it at once, although a thread still waits for
input; a line that is no JSON-RPC gets an error instead of silence; and small messages need no thread to be
written. Whatever else prints to standard output goes to standard error, so that nothing tears the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import cast

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from skillwire.limits import DEFAULT_LIMITS

_CHUNK = 1 << 16
# What POSIX promises that a pipe takes whole when it is ready.
_PIPE_BUF = getattr(select, "PIPE_BUF", 0)


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
    writing = anyio.Lock()

    async def write(data: bytes) -> None:
        async with writing:  # A refusal must not land in the middle of an answer.
            await _write(wire_out, data)

    async def take_in(lines: list[bytes]) -> None:
        for line in lines:
            if not line.strip():
                continue
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                await write(_refusal(line))
                continue
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
                    await write(text.encode("utf-8") + b"\n")

    threading.Thread(target=read_wire, name="skillwire-stdin", daemon=True).start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_wire)
        try:
            yield from_client, to_client
        finally:
            to_client.close()


def _lines(descriptor: int) -> Iterator[list[bytes]]:
    """Whole lines as they arrive, several at a time. A line beyond the limit is dropped, not gathered."""
    held = bytearray()
    dropping = False
    while chunk := os.read(descriptor, _CHUNK):
        first_end = chunk.find(b"\n")
        if dropping:
            if first_end < 0:
                continue
            chunk, dropping = chunk[first_end + 1 :], False
        held += chunk
        *lines, rest = held.split(b"\n")
        held = rest
        if len(held) > DEFAULT_LIMITS.message_bytes:
            lines.append(bytearray(b"{"))
            held, dropping = bytearray(), True
        if lines:
            yield [bytes(line) for line in lines]
    if held:
        yield [bytes(held)]


def _refusal(line: bytes) -> bytes:
    """The JSON-RPC error for a line that is no message."""
    identity: object = None
    try:
        value = json.loads(line)
        error = {"code": types.INVALID_REQUEST, "message": "Not a JSON-RPC 2.0 message"}
        if isinstance(value, dict):
            given = cast("dict[str, object]", value).get("id")
            identity = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    except (ValueError, RecursionError):
        error = {"code": types.PARSE_ERROR, "message": "Not valid JSON"}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n"


async def _write(descriptor: int, data: bytes) -> None:
    if len(data) <= _PIPE_BUF and select.select([], [descriptor], [], 0)[1]:
        _write_all(descriptor, data)
    else:
        # A client that does not read must hold up itself, not every other task.
        await anyio.to_thread.run_sync(_write_all, descriptor, data, abandon_on_cancel=True)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
