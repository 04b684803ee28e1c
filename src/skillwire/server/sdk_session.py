"""SdkSession: the SDK's server for one client over stdio."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_OPENING_ID: Final = "skillwire-opening"
_ENDLESS: Final = frozenset({"subscriptions/listen"})
_PATIENCE_SECONDS: Final = 5.0


Write: TypeAlias = Callable[[bytes], Awaitable[None]]


class SdkSession:
    """Passes lines to the SDK, and its messages to `write`."""

    def __init__(self, server: Server[Any], write: Write) -> None:
        self._server = server
        self._write = write
        self._to_server, self._from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._unanswered: set[str | int] = set()
        self._all_answered = anyio.Event()
        self._is_greeted = anyio.Event()

    def start(self, tasks: anyio.abc.TaskGroup) -> None:
        """Run the server in this task group until its input is closed."""
        tasks.start_soon(self._run)
        tasks.start_soon(self._write_messages)

    async def open_modern(self, meta: dict[str, object]) -> None:
        """Tell the SDK that the connection uses 2026-07-28, because it has not seen the first requests."""
        request = types.JSONRPCRequest(
            jsonrpc="2.0", id=_OPENING_ID, method="server/discover", params={"_meta": meta}
        )
        await self._to_server.send(SessionMessage(request))

    async def resume(self, lines: Sequence[bytes]) -> None:
        """Tell the SDK what a client of a 2025 revision sent first: `initialize`, which has been answered,
        and perhaps that it is initialized.
        """
        for line in lines:
            message = _message(line)
            if isinstance(message, types.JSONRPCRequest):
                message = message.model_copy(update={"id": _OPENING_ID})
            elif message is not None:
                await self._is_greeted.wait()
            if message is not None:
                await self._to_server.send(SessionMessage(message))
        await self._is_greeted.wait()

    async def feed(self, line: bytes) -> bool:
        """Pass a line to the SDK; false if it is not a JSON-RPC message."""
        message = _message(line)
        if message is None:
            return False
        if isinstance(message, types.JSONRPCRequest) and message.method not in _ENDLESS:
            self._unanswered.add(message.id)
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._to_server.send(SessionMessage(message))
        return True

    async def end(self) -> None:
        """End the input. Requests that are being served still get their responses, within a time limit."""
        with anyio.move_on_after(_PATIENCE_SECONDS):
            while self._unanswered:
                self._all_answered = anyio.Event()
                await self._all_answered.wait()
        await self._to_server.aclose()

    async def _run(self) -> None:
        options = self._server.create_initialization_options()
        await self._server.run(self._from_client, self._to_client, options)

    async def _write_messages(self) -> None:
        with suppress(BrokenPipeError):
            async with self._from_server:
                async for sent in self._from_server:
                    message = sent.message
                    identity = getattr(message, "id", None)
                    if identity == _OPENING_ID:
                        self._is_greeted.set()
                    else:
                        text = message.model_dump_json(by_alias=True, exclude_unset=True)
                        await self._write(text.encode("utf-8") + b"\n")
                    self._unanswered.discard(identity)
                    if not self._unanswered:
                        self._all_answered.set()


def _message(line: bytes) -> types.JSONRPCMessage | None:
    """The message in a line, or `None`."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        # A request whose id has a wrong type would count as a notification, and its sender would wait.
        if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
            return None
    except (ValidationError, ValueError):
        return None
    return message
