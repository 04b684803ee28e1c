"""The SDK's streams of messages over a process that speaks JSON lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

from skillwire.errors import SkillwireError
from skillwire.sources.process import ServerProcess


@asynccontextmanager
async def over_lines(
    process: ServerProcess, lost: Callable[[SkillwireError | None], None]
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """Streams to and from a process. `lost` hears when it stops, and why."""
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def take_in() -> None:
        fault: SkillwireError | None = None
        # Told before the stream is closed: whoever waits for an answer then wants to know the reason.
        async with to_client:
            try:
                async for line in process.lines():
                    if not line.strip():
                        continue
                    try:
                        # Parsed once: `validate_json` would parse it for each kind of message that it tries.
                        message = types.jsonrpc_message_adapter.validate_python(
                            from_json(line), by_name=False
                        )
                    except ValueError as error:
                        await to_client.send(error)
                        continue
                    await to_client.send(SessionMessage(message))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass
            except SkillwireError as error:
                fault = error
            finally:
                lost(fault)

    async def give_out() -> None:
        try:
            async with from_client:
                async for message in from_client:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.send(text.encode("utf-8"))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            lost(None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_in)
        tasks.start_soon(give_out)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()
