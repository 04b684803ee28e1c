"""Connection: one MCP server, in a task of its own, whose failures stay inside.

It connects within its own deadline, reconnects with growing pauses, and turns whatever goes wrong into one
line. Requests come from any task and end in an answer or a `SourceError`. How the server is reached is in
`transports.py`, and what it says has changed in `subscriptions.py`. All three import the MCP SDK, so they are
imported when the first server is connected.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import mcp_types as types
from mcp import Client
from mcp.client import advertise
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict

from skillwire.errors import SkillwireError, SourceError
from skillwire.host.config.server import ServerConfig
from skillwire.host.http.direct import DirectRequests
from skillwire.host.sdk import filter_sdk_logs
from skillwire.host.state import Status
from skillwire.host.subscriptions import Subscriptions
from skillwire.host.transports import ServerTransport
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.trust.origin import Origin
from skillwire.version import VERSION
from skillwire.wire.declaration import Declaration, declaration_in
from skillwire.wire.v1 import EXTENSION_ID

MODERN: Final = "2026-07-28"
_CLIENT_INFO: Final = types.Implementation(name="skillwire", version=VERSION)
_CAPABILITIES: Final = types.ClientCapabilities(extensions={EXTENSION_ID: {}})
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


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
        origin: Origin,
        config: ServerConfig,
        *,
        limits: Limits,
        on_change: Callable[[Connection], Awaitable[None]],
        listen_after: anyio.Event | None = None,
        is_lazy: bool = False,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """`on_change` is called when the connection is made or lost.

        With `is_lazy` the server is connected when something is asked of it. `listen_after` holds the
        subscription back until it is set.
        """
        self.origin = origin
        self.config = config
        self.status = Status.IDLE if is_lazy else Status.CONNECTING
        self.reason = ""
        self.last_output: tuple[str, ...] = ()
        self.instructions = ""
        self.era = ""
        self.declaration: Declaration | None = None
        self.serves_resources = False
        self.capabilities: tuple[str, ...] = ()
        self.revisions: tuple[str, ...] = ()
        self._limits = limits
        self._on_change = on_change
        self._sleep = sleep
        self._subscriptions = Subscriptions(limits=limits, listen_after=listen_after, sleep=sleep)
        self._client: Client | None = None
        self._direct: DirectRequests | None = None
        self._transport = self._new_transport()
        self._needed = anyio.Event()
        if not is_lazy:
            self._needed.set()
        self._settled = anyio.Event()
        self._retry = anyio.Event()
        self._lost = anyio.Event()
        self._fault: SkillwireError | None = None
        self._calls: set[anyio.CancelScope] = set()
        filter_sdk_logs()

    @property
    def label(self) -> str:
        return self.origin.label

    async def settled(self) -> None:
        """Connect, and wait until the server is ready or has failed once, at most until its deadline."""
        self._needed.set()
        if self.status is Status.IDLE:
            self.status = Status.CONNECTING
        with anyio.move_on_after(self.config.connect_seconds):
            await self._settled.wait()
        if self.status is Status.CONNECTING:
            self.status = Status.FAILED
            self.reason = self._no_answer()

    async def run(self) -> None:
        """Connect, stay connected, connect again. Ends only by cancellation."""
        pause = _FIRST_PAUSE
        try:
            await self._needed.wait()
            while True:
                started = anyio.current_time()
                try:
                    await self._converse()
                    self.reason = self._transport.explain(str(self._fault or "the connection was lost"))
                except Exception as error:  # Whatever a server can cause ends here, as one line.
                    self.reason = self._transport.reason(error, self._fault)
                self._hang_up()
                self.last_output = self._transport.last_output
                self.status = Status.FAILED
                self._settled.set()
                await self._on_change(self)
                if anyio.current_time() - started > _LONGEST_PAUSE:
                    # It worked for a while; one that dies at once is tried less often.
                    pause = _FIRST_PAUSE
                await self._pause(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            self._hang_up()
            self.status = Status.CLOSED

    def retry(self) -> None:
        """Connect again now if the connection was lost, and not only after the pause."""
        self._needed.set()
        self._retry.set()

    async def _pause(self, seconds: float) -> None:
        self._retry = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def end_early() -> None:
                await self._retry.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_early)
            await self._sleep(seconds)
            tasks.cancel_scope.cancel()

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """The result of one request, within the time and size limits."""
        if self.status is Status.IDLE:
            await self.settled()
        client = self._client
        if client is None:
            said = self.reason or "it has not answered yet"
            raise SourceError(f"{self.label} is not connected", said=said)
        call = anyio.CancelScope(deadline=anyio.current_time() + self.config.call_seconds)
        self._calls.add(call)
        try:
            with call:
                if self._direct is not None:
                    result = await self._direct.request(method, params)
                    if result is not None:
                        return result
                request = _AnyRequest(method=method, params=dict(params))
                return (await client.session.send_request(request, _AnyResult)).model_extra
        except MCPError as error:
            raise self._refused(method, error) from None
        except ValueError:
            raise SourceError(f"{self.label} answered {method} with something that is not MCP") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError, RuntimeError):
            # The SDK says RuntimeError of a client that is being closed.
            self._lost.set()
            raise SourceError(f"{self.label} went away during {method}") from None
        finally:
            self._calls.discard(call)
        if self._client is not client:
            raise SourceError(f"{self.label} went away during {method}")
        raise SourceError(f"{self.label} did not answer {method} within {self.config.call_seconds:g} s")

    def _hang_up(self) -> None:
        """The connection is over: nothing waits for an answer anymore."""
        self._client = self._direct = None
        for call in self._calls:
            call.cancel()

    def _refused(self, method: str, error: MCPError) -> SkillwireError:
        """What an error response means: for this request alone, or for the connection."""
        refusal, is_lost = self._transport.refusal(method, error, self._fault)
        if is_lost:
            self._lost.set()
        return refusal

    async def _converse(self) -> None:
        """Connect once, and stay connected until the connection is lost."""
        self._lost = anyio.Event()
        self._subscriptions.disconnected()
        self._fault = None
        self._transport = self._new_transport()
        connected = anyio.Event()
        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
            tasks.start_soon(self._give_up, connected, tasks.cancel_scope)
            client = await stack.enter_async_context(
                Client(
                    await self._transport.open(stack),
                    mode=self.config.era,
                    client_info=_CLIENT_INFO,
                    extensions=[advertise(EXTENSION_ID)],  # CAP-4: the host advertises the extension too.
                    cache=None,
                    message_handler=self._subscriptions.on_message,
                )
            )
            if self.config.era == MODERN:
                # A client that is given the protocol revision sends no request, so it knows no capabilities.
                found = await client.session.send_discover(MODERN)
                client.session.adopt(types.DiscoverResult.model_validate(found))
            connected.set()
            self._client = client
            self.era = client.protocol_version
            if self.era >= MODERN:
                self._direct = self._transport.direct_requests(
                    revision=self.era, client_info=_CLIENT_INFO, capabilities=_CAPABILITIES
                )
            self.instructions = client.instructions or ""
            capabilities = client.server_capabilities
            declared = capabilities.model_dump(by_alias=True, exclude_none=True)
            self.declaration = declaration_in(declared)
            self.capabilities = _capability_names(declared)
            found = client.session.discover_result
            self.revisions = tuple(found.supported_versions) if found else (self.era,)
            self.serves_resources = capabilities.resources is not None
            self.status = Status.READY
            self.reason = ""
            self.last_output = ()
            self._settled.set()
            await self._on_change(self)
            resources = capabilities.resources
            if (
                resources is not None
                and self.era >= MODERN
                and (resources.list_changed or resources.subscribe)
            ):
                tasks.start_soon(self._listen, client)
            elif resources is not None and resources.subscribe:
                tasks.start_soon(self._subscriptions.subscribe, self.request)
            await self._lost.wait()
            tasks.cancel_scope.cancel()
        if not connected.is_set():
            raise SourceError(self._no_answer())

    def changes(self) -> AsyncGenerator[Collection[str | None]]:
        """The URIs that the server says have changed, and `None` for its listing."""
        return self._subscriptions.changes()

    def follow(self, uris: Collection[str]) -> None:
        """Receive changes at and below these URIs, from now on and after every reconnection."""
        self._subscriptions.follow(uris)

    async def _listen(self, client: Client) -> None:
        try:
            await self._subscriptions.listen(client)
        except SubscriptionLost:
            self._lost.set()  # Nobody knows what was missed: connect again and catch up.
        except MCPError as error:
            # A server that refuses is asked again when its listing expires; one that is gone, at once.
            self._refused("subscriptions/listen", error)
        except (ListenNotSupportedError, TimeoutError):
            pass

    async def _give_up(self, connected: anyio.Event, everything: anyio.CancelScope) -> None:
        """Our own deadline: the SDK waits ten seconds for a silent server, regardless of its settings."""
        with anyio.move_on_after(self.config.connect_seconds):
            await connected.wait()
        if not connected.is_set():
            everything.cancel()

    def _new_transport(self) -> ServerTransport:
        return ServerTransport(self.config, self.label, limits=self._limits, on_lost=self._line_lost)

    def _no_answer(self) -> str:
        return self._transport.explain(f"no answer within {self.config.connect_seconds:g} s")

    def _line_lost(self, fault: SkillwireError | None) -> None:
        self._fault = fault
        self._lost.set()


def _capability_names(declared: Mapping[str, Any]) -> tuple[str, ...]:
    """What a server declares, each with the switches that are on, for a person."""
    names: list[str] = []
    for name, settings in declared.items():
        switches = [key for key, value in settings.items() if value is True] if settings else []
        names.append(f"{name} ({', '.join(switches)})" if switches else name)
    return tuple(shown(name, 200) for name in names)
