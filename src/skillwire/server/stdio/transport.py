"""MCP over this process's standard input and output.

It replaces the SDK's transport for four reasons: a signal ends it at once, even if the client does not read;
a line that is not JSON-RPC gets an error; small messages are written without a thread; and the fast path
responds before the SDK is imported. Everything else that the process prints to standard output goes to
standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from skillwire.json_types import is_object
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.fastpath.answer import FastPath
from skillwire.server.fastpath.parse import ENVELOPE, VERSION_KEY
from skillwire.server.stdio.lines import LineWriter, lines_from

if TYPE_CHECKING:
    from skillwire.server.stdio.sdk_session import SdkSession

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

SessionFactory: TypeAlias = Callable[[Callable[[bytes], Awaitable[None]]], "SdkSession"]
"""Creates an SDK session, given the function that writes its messages."""


async def serve_stdio(fast_path: FastPath | None, make_session: SessionFactory) -> None:
    """Serve one client over descriptors 0 and 1 until it disconnects."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - opening the null device does not wait
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):
        async with AsyncExitStack() as stack:
            conversation = _Conversation(fast_path, make_session, LineWriter(wire_out), stack)
            async for lines in lines_from(wire_in, conversation.respond_now):
                for line in lines:
                    await conversation.take(line)
            await conversation.end()


@dataclass(eq=False)
class _Conversation:
    """One client. Its first request determines the protocol revision; the fast path is for 2026-07-28."""

    fast_path: FastPath | None
    make_session: SessionFactory
    writer: LineWriter
    stack: AsyncExitStack
    _sdk_session: SdkSession | None = field(default=None, init=False)
    _is_modern: bool = field(default=False, init=False)

    async def take(self, line: bytes | None) -> None:
        if line is None:
            await self.writer.write(_refusal(None))
        elif line.strip() and not await self._respond(line):
            sdk_session = self._sdk_session or await self._open()
            if self.fast_path is not None and not self._is_modern:
                self._decide_era(line)
            if not await sdk_session.feed(line):
                await self.writer.write(_refusal(line))

    def respond_now(self, chunk: bytes) -> bytes:
        """Send cached responses to the first requests of a chunk. Returns the rest of the chunk."""
        start = 0
        while self.fast_path is not None and (end := chunk.find(b"\n", start)) >= 0:
            found = self.fast_path.cached(chunk[start:end])
            if found is None:
                break
            id_json, cached = found
            try:
                if not self.writer.write_now(cached.to(id_json) + b"\n"):
                    break
            except BrokenPipeError:
                break  # The next write raises it again, and ends the connection.
            start = end + 1
        return chunk[start:] if start else chunk

    async def end(self) -> None:
        if self._sdk_session is not None:
            await self._sdk_session.end()

    async def _respond(self, line: bytes) -> bool:
        """Respond from the fast path; false if the request is for the SDK."""
        if self.fast_path is None:
            return False
        request = self.fast_path.parse(line)
        response = None if request is None else await self.fast_path.respond(request)
        if response is None:
            return False
        self._is_modern = True
        await self.writer.write(response + b"\n")
        return True

    async def _open(self) -> SdkSession:
        # Importing the SDK takes a while; in a thread, signals are handled meanwhile.
        sdk_session = await asyncio.to_thread(self.make_session, self.writer.write)
        self._sdk_session = sdk_session
        # Entered by the task that will exit it, and only now, because most connections need no task group.
        sdk_session.start(await self.stack.enter_async_context(anyio.create_task_group()))
        if self._is_modern:
            await sdk_session.open_modern(dict(ENVELOPE))
        return sdk_session

    def _decide_era(self, line: bytes) -> None:
        """The SDK determines the revision. The 2025 revisions have no fast path."""
        try:
            message: object = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not is_object(message) or "method" not in message or "id" not in message:
            return
        params = message.get("params")
        meta = params.get("_meta") if is_object(params) else None
        self._is_modern = message["method"] != "initialize" and is_object(meta) and VERSION_KEY in meta
        if not self._is_modern:
            self.fast_path = None


def _refusal(line: bytes | None) -> bytes:
    """The JSON-RPC error for a line that is not a message; `None` stands for one that is too long."""
    identity: object = None
    code, message = INVALID_REQUEST, "Not a JSON-RPC 2.0 message"
    if line is None:
        message = f"The message has more than {DEFAULT_LIMITS.message_bytes} bytes"
    else:
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError):
            code, message = PARSE_ERROR, "Not valid JSON"
        else:
            if is_object(value):
                given = value.get("id")
                identity = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n"
