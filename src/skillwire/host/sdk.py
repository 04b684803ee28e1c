"""The layer between a connection and the MCP SDK: its streams, its log records, and a budget.

Streams over a process that writes JSON lines; a budget for unsolicited messages; and a filter that
keeps what the SDK logs about servers off the terminal (SEC-9, SEC-11).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

from skillwire.documents import check_json
from skillwire.errors import LimitExceeded, SkillwireError
from skillwire.limits import Limits
from skillwire.sources.process import ServerProcess
from skillwire.text import safe_line

Streams: TypeAlias = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]
Lost: TypeAlias = Callable[[SkillwireError | None], None]

_TOO_DEEP: Final = "recursion limit"
_LONGEST: Final = 300
# The loggers of the SDK's client side. Records are filtered where they are made, so each is named.
_LOGGERS: Final = (
    "client",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.client",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
    "mcp.shared.direct_dispatcher",
)


class MessageBudget:
    """How many unsolicited messages a server may send (SEC-9).

    A burst is allowed, and so many a second after it. Each message costs the host time and memory, and a
    server that keeps asking is cut off.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.unasked_messages
        self._per_second = limits.unasked_messages_per_second
        self._left = float(self._most)
        self._since = anyio.current_time()

    def spend(self, message: object) -> None:
        """Count a message; `LimitExceeded` when there were too many. Answers are free."""
        if not isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
            return
        now = anyio.current_time()
        self._left = min(self._left + (now - self._since) * self._per_second, self._most)
        self._since = now
        self._left -= 1
        if self._left < 0:
            raise LimitExceeded(f"it sent more than {self._most:,} unsolicited messages: it is cut off")


@asynccontextmanager
async def over_lines(process: ServerProcess, budget: MessageBudget, lost: Lost) -> AsyncGenerator[Streams]:
    """Streams to and from a process. `lost` is called when it stops, with the reason."""
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        fault: SkillwireError | None = None
        messages = (_parsed(line, process) async for line in process.lines() if line.strip())
        # `lost` comes before the stream is closed: whoever waits for an answer then wants to know the reason.
        async with to_client:
            try:
                fault = await _forward(messages, to_client, budget)
            finally:
                lost(fault)

    async def send() -> None:
        try:
            async with from_client:
                async for message in from_client:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.send(text.encode("utf-8"))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            lost(None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def within_budget(
    transport: AbstractAsyncContextManager[Any], budget: MessageBudget, lost: Lost
) -> AsyncGenerator[Streams]:
    """The streams of a transport of the SDK, ended when the server sends too many unsolicited messages."""
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with transport as (received, to_server), anyio.create_task_group() as tasks:

        async def receive() -> None:
            async with to_client:
                if fault := await _forward(received, to_client, budget):
                    lost(fault)

        tasks.start_soon(receive)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()


async def _forward(
    messages: AsyncIterable[SessionMessage | Exception],
    to_client: MemoryObjectSendStream[SessionMessage | Exception],
    budget: MessageBudget,
) -> SkillwireError | None:
    """Pass messages on until one side closes. Returns why the server is cut off, if it is."""
    try:
        async for message in messages:
            if not isinstance(message, Exception):
                budget.spend(message.message)
            await to_client.send(message)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass
    except SkillwireError as error:
        return error
    return None


def _parsed(line: bytes, process: ServerProcess) -> SessionMessage | Exception:
    check_json(line)
    try:
        # Parsed once: `validate_json` would parse it for each kind of message that it tries.
        parsed = from_json(line)
    except ValueError as error:
        if _TOO_DEEP in str(error):
            raise LimitExceeded("it sent JSON that is nested too deeply: it is cut off") from None
        process.note_stray(line)
        return error
    try:
        message = types.jsonrpc_message_adapter.validate_python(parsed, by_name=False)
    except ValidationError as error:
        process.note_stray(line)
        return error
    return SessionMessage(message)


class _Clean(logging.Filter):
    """Drops the SDK's records unless the program debugs `skillwire.sdk`; then each is one clean line.

    They quote what a server sent, and what matters about a server is among the host's failures.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not logging.getLogger("skillwire.sdk").isEnabledFor(logging.DEBUG):
            return False
        record.msg = safe_line(record.getMessage(), limit=_LONGEST)
        record.args = None
        record.exc_info = None
        record.exc_text = None
        return True


_CLEAN: Final = _Clean()
_NOWHERE: Final = logging.NullHandler()


def filter_sdk_logs() -> None:
    """Keep the SDK's records to programs that debug, and away from the terminal."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.addFilter(_CLEAN)
        logger.addHandler(_NOWHERE)
