"""Connection: one MCP server, in a task of its own, whose failures stay inside.

It connects within its own deadline, reconnects with growing pauses, and turns whatever goes wrong into one
line. Requests come from any task and end in an answer or a `SourceError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from importlib.metadata import version
from typing import Any, Final, cast

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.client import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ConfigDict, ValidationError

from skillwire.errors import LimitExceeded, RequestRefused, SkillwireError, SourceError
from skillwire.host.capped_http import capped_client
from skillwire.host.config import ServerConfig
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.transport.processes import ServerProcess, running
from skillwire.wire.declaration import Declaration, declaration_in
from skillwire.wire.v1 import EXTENSION_ID

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_CONNECTION_GONE: Final = frozenset({types.CONNECTION_CLOSED})


class Status(StrEnum):
    """How a connection stands."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


class _AnyRequest(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


class _AnyResult(BaseModel):
    """A result as it came: what it must hold is for `wire/` to say."""

    model_config = ConfigDict(extra="allow")


class Connection:
    """The connection to one server. `run` is its task; everything else may be called from any other."""

    def __init__(
        self,
        label: str,
        config: ServerConfig,
        *,
        limits: Limits,
        on_change: Callable[[Connection], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.label = label
        self.config = config
        self.status = Status.CONNECTING
        self.reason = ""
        self.instructions = ""
        self.era = ""
        self.declaration: Declaration | None = None
        self.serves_resources = False
        self._limits = limits
        self._on_change = on_change
        self._sleep = sleep
        self._client: Client | None = None
        self._settled = anyio.Event()
        self._lost = anyio.Event()
        self._last_words: Callable[[], str] = lambda: ""

    async def settled(self) -> None:
        """Wait until the server is ready or has failed for the first time, at most until its deadline."""
        with anyio.move_on_after(self.config.connect_seconds):
            await self._settled.wait()
        if self.status is Status.CONNECTING:
            self.status = Status.FAILED
            self.reason = f"no answer within {self.config.connect_seconds:g} s"

    async def run(self) -> None:
        """Connect, stay connected, connect again. Ends only by cancellation."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._converse()
                self.reason = self._last_words() or "the connection was lost"
                pause = _FIRST_PAUSE
            except Exception as error:  # Whatever a server can cause ends here, as one line.
                self.reason = _reason(error, self._last_words())
            self._client = None
            self.status = Status.FAILED
            self._settled.set()
            await self._on_change(self)
            await self._sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """The result of one request, within the time and size limits."""
        client = self._client
        if client is None:
            raise SourceError(f"{self.label} is not connected: {self.reason or 'it has not answered yet'}")
        try:
            with anyio.fail_after(self.config.call_seconds):
                request = _AnyRequest(method=method, params=dict(params))
                return (await client.session.send_request(request, _AnyResult)).model_extra
        except TimeoutError:
            raise SourceError(
                f"{self.label} did not answer {method} within {self.config.call_seconds:g} s"
            ) from None
        except MCPError as error:
            if error.error.code in _CONNECTION_GONE:
                self._lost.set()
                raise SourceError(f"{self.label} went away during {method}") from None
            raise RequestRefused(
                f"{self.label} refused {method}: {shown(error.error.message)}", code=error.error.code
            ) from None
        except ValidationError:
            raise SourceError(f"{self.label} answered {method} with something that is not MCP") from None
        except SkillwireError:
            raise
        except Exception as error:
            self._lost.set()
            raise SourceError(f"{self.label} failed during {method}: {_reason(error, '')}") from None

    async def _converse(self) -> None:
        """One life of the connection, from the first word until it is lost."""
        self._lost = anyio.Event()
        connected = anyio.Event()
        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
            tasks.start_soon(self._give_up, connected, tasks.cancel_scope)
            client = await stack.enter_async_context(
                Client(
                    await self._transport(stack),
                    mode=self.config.era,
                    client_info=types.Implementation(name="skillwire", version=version("skillwire")),
                    extensions=[advertise(EXTENSION_ID)],  # CAP-4: the host advertises the extension too.
                    cache=None,
                )
            )
            connected.set()
            self._client = client
            self.era = client.protocol_version
            self.instructions = client.instructions or ""
            capabilities = client.server_capabilities
            self.declaration = declaration_in(capabilities.model_dump(by_alias=True))
            self.serves_resources = capabilities.resources is not None
            self.status = Status.READY
            self.reason = ""
            self._settled.set()
            await self._on_change(self)
            await self._lost.wait()
            tasks.cancel_scope.cancel()
        if not connected.is_set():
            raise SourceError(f"no answer within {self.config.connect_seconds:g} s")

    async def _give_up(self, connected: anyio.Event, everything: anyio.CancelScope) -> None:
        """Our own deadline. The SDK waits ten seconds for a mute server, whatever it was told."""
        with anyio.move_on_after(self.config.connect_seconds):
            await connected.wait()
        if not connected.is_set():
            everything.cancel()

    async def _transport(self, stack: AsyncExitStack) -> Any:
        config = self.config
        if config.instance is not None:
            return config.instance
        limit = self._limits.answer_bytes
        if config.url:
            http = capped_client(config.headers, config.token, limit=limit, seconds=config.call_seconds)
            await stack.enter_async_context(http)
            return streamable_http_client(config.url, http_client=http, max_sse_event_size=limit)
        process = await stack.enter_async_context(
            running(config.command, env=config.env, directory=config.directory, line_bytes=limit)
        )
        self._last_words = lambda: process.last_words
        return _over_lines(process, self._lost)


@asynccontextmanager
async def _over_lines(
    process: ServerProcess, lost: anyio.Event
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """The SDK's streams over a process that speaks JSON lines. `lost` is set when it stops speaking."""
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def take_in() -> None:
        try:
            async with to_client:
                async for line in process.lines():
                    if not line.strip():
                        continue
                    try:
                        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValidationError as error:
                        await to_client.send(error)
                        continue
                    await to_client.send(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        finally:
            lost.set()

    async def give_out() -> None:
        try:
            async with from_client:
                async for message in from_client:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.send(text.encode("utf-8"))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            lost.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_in)
        tasks.start_soon(give_out)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()


def _reason(error: BaseException, last_words: str) -> str:
    """Why a connection failed, on one line, without the wrapping of task groups."""
    if isinstance(error, BaseExceptionGroup):
        return _reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0], last_words)
    match error:
        case LimitExceeded() | SourceError():
            text = str(error)
        case TimeoutError():
            text = "no answer in time"
        case httpx2.ConnectError():
            text = "nothing listens there"
        case MCPError():
            text = error.error.message
        case ValidationError():
            text = "it does not speak MCP"
        case _:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    said = f"{text} ({last_words})" if last_words and last_words not in text else text
    return shown(said, 300)
