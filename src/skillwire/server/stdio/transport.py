"""MCP over this process's standard input and output.

Ours rather than the SDK's for four reasons: a signal ends it at once, although a thread may still wait for
a client that does not read; a line that is no JSON-RPC gets an error instead of silence; small messages
need no thread to be written; and what the fast lane can answer does not wait for the SDK to be imported. From
here to the end of the process, whatever else prints to standard output goes to standard error, so that
nothing tears the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from skillwire.json_types import is_object
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.fastpath.parse import ENVELOPE, VERSION_KEY, FastPath
from skillwire.server.stdio.line_reader import lines_from
from skillwire.server.stdio.line_writer import LineWriter

if TYPE_CHECKING:
    from skillwire.server.stdio.sdk_session import SdkSession

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

BackstageMaker = Callable[[Callable[[bytes], Awaitable[None]]], "SdkSession"]


async def serve_stdio(lane: FastPath | None, make_backstage: BackstageMaker) -> None:
    """Serve one client over descriptors 0 and 1 until it goes away."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - opening the null device does not wait
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    with suppress(BrokenPipeError):
        async with AsyncExitStack() as stack:
            conversation = _Conversation(lane, make_backstage, LineWriter(wire_out), stack)
            async for lines in lines_from(wire_in, conversation.answer_at_once):
                for line in lines:
                    await conversation.take(line)
            await conversation.end()


class _Conversation:
    """One client. Its first request decides the era; the lane answers on the modern one alone."""

    def __init__(
        self,
        lane: FastPath | None,
        make_backstage: BackstageMaker,
        outlet: LineWriter,
        stack: AsyncExitStack,
    ) -> None:
        self._lane = lane
        self._make_backstage = make_backstage
        self._outlet = outlet
        self._stack = stack
        self._sdk_session: SdkSession | None = None
        self._is_modern = False

    async def take(self, line: bytes | None) -> None:
        if line is None:
            await self._outlet.write(_refusal(None))
        elif line.strip() and not await self._answer(line):
            sdk_session = self._sdk_session or await self._open()
            if self._lane is not None and not self._is_modern:
                self._decide_era(line)
            if not await sdk_session.feed(line):
                await self._outlet.write(_refusal(line))

    def answer_at_once(self, chunk: bytes) -> bytes:
        """Answer the requests that were answered before, from the first on; what is left is returned."""
        start = 0
        while self._lane is not None and (end := chunk.find(b"\n", start)) >= 0:
            again = self._lane.again(chunk[start:end])
            if again is None:
                break
            id_json, kept = again
            try:
                if not self._outlet.write_at_once(kept.to(id_json) + b"\n"):
                    break
            except BrokenPipeError:
                break  # Whoever writes next will meet it too, where it ends the conversation.
            start = end + 1
        return chunk[start:] if start else chunk

    async def end(self) -> None:
        if self._sdk_session is not None:
            await self._sdk_session.end()

    async def _answer(self, line: bytes) -> bool:
        """Answer from the lane; false when the SDK has to."""
        request = self._lane.match(line) if self._lane is not None else None
        answer = await self._lane.answer(request) if self._lane is not None and request is not None else None
        if answer is None:
            return False
        self._is_modern = True
        await self._outlet.write(answer + b"\n")
        return True

    async def _open(self) -> SdkSession:
        # Importing the SDK takes a while; signals are heard meanwhile.
        sdk_session = await asyncio.to_thread(self._make_backstage, self._outlet.write)
        self._sdk_session = sdk_session
        # Entered by the task that will leave it, and not before: most conversations need no group of tasks.
        sdk_session.start(await self._stack.enter_async_context(anyio.create_task_group()))
        if self._is_modern:
            await sdk_session.open_modern(dict(ENVELOPE))
        return sdk_session

    def _decide_era(self, line: bytes) -> None:
        """The SDK decides by the first request; on the 2025 era the lane is closed."""
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
            self._lane = None


def _refusal(line: bytes | None) -> bytes:
    """The JSON-RPC error for a line that is no message; `None` stands for one that is too long."""
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
