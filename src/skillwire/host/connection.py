"""Connection: one MCP server, in a task of its own, whose failures stay inside.

It connects within its own deadline, reconnects with growing pauses, and turns whatever goes wrong into one
line. Requests come from any task and end in an answer or a `SourceError`.

How the server is reached is in `transports.py`. `ServerSubscriptions` is what the server says has changed. On
2026-07-28 a client opens a stream of changes and names what it follows; before, it subscribes to each URI,
and notifications arrive as messages. Both end in the same `changes`. This module imports the MCP SDK, so it
is imported when the first server is connected.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, TypeVar

import anyio
import mcp_types as types
from mcp import Client, ClientSession
from mcp.client import advertise
from mcp.client.subscriptions import ListenNotSupportedError, ResourceUpdated, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict

from skillwire.errors import SkillwireError, SourceError
from skillwire.host.config.server import ServerConfig
from skillwire.host.http_client import DirectRequests
from skillwire.host.sdk import filter_sdk_logs
from skillwire.host.state import ConnectionStatus
from skillwire.host.transports import ServerTransport
from skillwire.limits import Limits
from skillwire.text import shown
from skillwire.trust import Origin
from skillwire.version import VERSION
from skillwire.wire import EXTENSION_ID, Declaration, declaration_in

_MOST_CHANGES: Final = 100
_MOST_LOOKED_AT: Final = 8


class ServerSubscriptions:
    """The changes of one server. They outlast its connections: what is followed is subscribed to again."""

    def __init__(
        self,
        *,
        limits: Limits,
        listen_after: anyio.Event | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """No stream is opened before `listen_after` is set."""
        self._limits = limits
        self._listen_after = listen_after
        self._sleep = sleep
        self._changed: dict[str | None, None] = {}
        self._was_notified = False
        self._has_changes = anyio.Event()
        self._followed: frozenset[str] = frozenset()
        self._resubscribe: Callable[[], None] = _nothing
        self.is_accepted = False
        """Whether the server accepted a subscription on the present connection."""

    async def changes(self) -> AsyncGenerator[Collection[str | None]]:
        """The URIs that the server says have changed, and `None` for its listing.

        They come together, and no more often than the limit, so that a server cannot keep the host busy.
        What the host looks at by itself, after it subscribed, does not count toward the limit: the first edit
        after a connection is seen at once.
        """
        while True:
            await self._has_changes.wait()
            self._has_changes = anyio.Event()
            changed, self._changed = self._changed, {}
            was_notified, self._was_notified = self._was_notified, False
            yield tuple(changed) if len(changed) <= _MOST_CHANGES else (None,)
            if was_notified:
                await self._sleep(self._limits.change_seconds)

    def follow(self, uris: Collection[str]) -> None:
        """Receive changes at and below these URIs, from now on and after every reconnection."""
        if self._followed != frozenset(uris):
            self._followed = frozenset(uris)
            self._resubscribe()

    def disconnected(self) -> None:
        """There is no connection to subscribe on; `listen` or `subscribe` is called on the next one."""
        self.is_accepted = False
        self._resubscribe = _nothing

    async def on_message(self, message: object) -> None:
        """Note what changed. Anything else that a server sends unasked is ignored."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self._notify(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            self._notify(None)

    async def listen(self, client: Client) -> None:
        """On 2026-07-28: keep a stream of changes open until the server ends it."""
        if self._listen_after is not None:
            await self._listen_after.wait()
        subscribed: frozenset[str] | None = None
        refused: frozenset[str] = frozenset()
        while True:
            wanted = self._followed
            try:
                async with client.listen(
                    resources_list_changed=True, resource_subscriptions=sorted(wanted - refused)
                ) as changes:
                    with anyio.CancelScope() as stream:
                        self._resubscribe = stream.cancel
                        self.is_accepted = bool(changes.honored.resource_subscriptions)
                        if self._followed != wanted:
                            stream.cancel()  # Something else is followed since the stream was opened.
                        self._look_again_at_new(wanted - refused, subscribed)
                        subscribed = wanted - refused
                        async for change in changes:
                            self._notify(change.uri if isinstance(change, ResourceUpdated) else None)
            except MCPError as error:
                if error.code != types.INVALID_PARAMS or not wanted - refused:
                    raise
                refused = wanted  # It has a limit, or knows no directories: its list is followed anyway.
                continue
            if not stream.cancelled_caught:
                return

    async def subscribe(self, request: Callable[[str, Mapping[str, object]], Awaitable[object]]) -> None:
        """On the 2025 era: subscribe to each URI by itself. Notifications go to `on_message`."""
        subscribed: frozenset[str] = frozenset()
        while True:
            again = anyio.Event()
            self._resubscribe = again.set
            wanted = self._followed
            for method, uris in (
                ("resources/subscribe", wanted - subscribed),
                ("resources/unsubscribe", subscribed - wanted),
            ):
                for uri in uris:
                    with suppress(SkillwireError):  # One that refuses is listed when its listing expires.
                        await request(method, {"uri": uri})
                        self.is_accepted = True
            self._look_again_at_new(wanted, subscribed)
            subscribed = wanted
            await again.wait()

    def _look_again_at_new(self, wanted: frozenset[str], subscribed: frozenset[str] | None) -> None:
        """Nobody was notified of what changed before a subscription: look at it once.

        With the listing, what it has is not looked at again: many are one request, and not one each.
        """
        new = wanted - (subscribed or frozenset())
        with_listing = subscribed is None or len(new) > _MOST_LOOKED_AT
        self._look_again(*([None] if with_listing else []), *sorted(new))

    def _notify(self, *uris: str | None) -> None:
        """The server says that these have changed."""
        self._was_notified = True
        self._look_again(*uris)

    def _look_again(self, *uris: str | None) -> None:
        if len(self._changed) <= _MOST_CHANGES:  # Beyond that, everything is listed again.
            self._changed.update(dict.fromkeys(uris))
        self._has_changes.set()


def _nothing() -> None:
    """Used while there is no connection."""


MODERN: Final = "2026-07-28"
_CLIENT_INFO: Final = types.Implementation(name="skillwire", version=VERSION)
_CAPABILITIES: Final = types.ClientCapabilities(extensions={EXTENSION_ID: {}})
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0

Result = TypeVar("Result")


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
        self.status = ConnectionStatus.IDLE if is_lazy else ConnectionStatus.CONNECTING
        self.reason = ""
        self.last_output: tuple[str, ...] = ()
        self.instructions = ""
        self.era = ""
        self.declaration: Declaration | None = None
        self.serves_resources = self.serves_tools = False
        self.capabilities: tuple[str, ...] = ()
        self.revisions: tuple[str, ...] = ()
        self._limits = limits
        self._on_change = on_change
        self._sleep = sleep
        self._subscriptions = ServerSubscriptions(limits=limits, listen_after=listen_after, sleep=sleep)
        self.session: ClientSession | None = None
        self._direct: DirectRequests | None = None
        self._transport = self._new_transport()
        self._needed = anyio.Event()
        if not is_lazy:
            self._needed.set()
        self._settled = anyio.Event()
        self._retry = anyio.Event()
        self._retries_at: float | None = None
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
        if self.status is ConnectionStatus.IDLE:
            self.status = ConnectionStatus.CONNECTING
        with anyio.move_on_after(self.config.connect_seconds):
            await self._settled.wait()
        if self.status is ConnectionStatus.CONNECTING:
            self.status = ConnectionStatus.FAILED
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
                self.status = ConnectionStatus.FAILED
                self._settled.set()
                await self._on_change(self)
                if anyio.current_time() - started > _LONGEST_PAUSE:
                    # It worked for a while; one that dies at once is tried less often.
                    pause = _FIRST_PAUSE
                await self._pause(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            self._hang_up()
            self.status = ConnectionStatus.CLOSED

    def retry(self) -> None:
        """Connect again now if the connection was lost, and not only after the pause."""
        self._needed.set()
        self._retry.set()

    @property
    def retry_seconds(self) -> float:
        """In how many seconds a server that failed is connected to again; 0 while that is being tried."""
        return 0.0 if self._retries_at is None else max(0.0, self._retries_at - anyio.current_time())

    async def _pause(self, seconds: float) -> None:
        self._retry = anyio.Event()
        self._retries_at = anyio.current_time() + seconds
        async with anyio.create_task_group() as tasks:

            async def end_early() -> None:
                await self._retry.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_early)
            await self._sleep(seconds)
            tasks.cancel_scope.cancel()
        self._retries_at = None

    async def request(self, method: str, params: Mapping[str, object]) -> object:
        """The result of one request, within the time and size limits."""

        async def send(session: ClientSession) -> object:
            if self._direct is not None:
                result = await self._direct.request(method, params)
                if result is not None:
                    return result
            request = _AnyRequest(method=method, params=dict(params))
            return (await session.send_request(request, _AnyResult)).model_extra

        return await self.call(method, send)

    async def call(self, method: str, action: Callable[[ClientSession], Awaitable[Result]]) -> Result:
        """Run an action with the session, within the time limit of a request."""
        if self.status is ConnectionStatus.IDLE:
            await self.settled()
        session = self.session
        if session is None:
            said = self.reason or "it has not answered yet"
            raise SourceError(f"{self.label} is not connected", said=said)
        call = anyio.CancelScope(deadline=anyio.current_time() + self.config.call_seconds)
        self._calls.add(call)
        try:
            with call:
                return await action(session)
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
        if self.session is not session:
            raise SourceError(f"{self.label} went away during {method}")
        raise SourceError(f"{self.label} did not answer {method} within {self.config.call_seconds:g} s")

    async def list_tools(
        self, cursor: str | None
    ) -> tuple[list[tuple[str, str, dict[str, Any]]], str | None]:
        """One page of the tools, each with its description and schema, and the cursor of the next page."""

        async def send(session: ClientSession) -> types.ListToolsResult:
            return await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))

        page = await self.call("tools/list", send)
        return [(one.name, one.description or "", one.input_schema) for one in page.tools], page.next_cursor

    async def call_tool(self, name: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        """Call a tool; return its answer as text, and whether that is an error."""

        async def send(session: ClientSession) -> types.CallToolResult | types.InputRequiredResult:
            return await session.call_tool(name, dict(arguments), allow_input_required=True)

        result = await self.call("tools/call", send)
        if isinstance(result, types.InputRequiredResult):
            return "the tool asks for more input while it runs, which this host does not give", True
        text = "\n".join(_block_text(block) for block in result.content)
        if not text and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        return text, result.is_error

    def _hang_up(self) -> None:
        """The connection is over: nothing waits for an answer anymore."""
        self.session = self._direct = None
        for call in self._calls:
            call.cancel()

    def _refused(self, method: str, error: MCPError) -> SkillwireError:
        """Return the exception of an error response: for this request alone, or for the connection."""
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
            client, session = await self._connect(stack)
            connected.set()
            self.session = session
            self.era = session.protocol_version or ""
            if self.era >= MODERN:
                self._direct = self._transport.direct_requests(
                    revision=self.era, client_info=_CLIENT_INFO, capabilities=_CAPABILITIES
                )
            self.instructions = session.instructions or ""
            capabilities = session.server_capabilities or types.ServerCapabilities()
            declared = capabilities.model_dump(by_alias=True, exclude_none=True)
            self.declaration = declaration_in(declared)
            self.capabilities = _capability_names(declared)
            found = session.discover_result
            self.revisions = tuple(found.supported_versions) if found else (self.era,)
            self.serves_resources = capabilities.resources is not None
            self.serves_tools = capabilities.tools is not None
            self.status = ConnectionStatus.READY
            self.reason = ""
            self.last_output = ()
            self._settled.set()
            await self._on_change(self)
            resources = capabilities.resources
            if client is None or resources is None:
                pass  # What a session of the caller's is notified of goes to the caller.
            elif self.era >= MODERN and (resources.list_changed or resources.subscribe):
                tasks.start_soon(self._listen, client)
            elif resources.subscribe:
                tasks.start_soon(self._subscriptions.subscribe, self.request)
            await self._lost.wait()
            tasks.cancel_scope.cancel()
        if not connected.is_set():
            raise SourceError(self._no_answer())

    async def _connect(self, stack: AsyncExitStack) -> tuple[Client | None, ClientSession]:
        """A client of our own with its session, or the session that the caller has already."""
        if (session := open_session(self.config.instance)) is not None:
            return None, session
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
        return client, client.session

    def changes(self) -> AsyncGenerator[Collection[str | None]]:
        """The URIs that the server says have changed, and `None` for its listing."""
        return self._subscriptions.changes()

    @property
    def notifies(self) -> bool:
        """Whether the server accepted a subscription on this connection."""
        return self._subscriptions.is_accepted

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


def _block_text(block: types.ContentBlock) -> str:
    """A block of a tool's result as text. What is not text is only named."""
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return resource.text
        case types.ResourceLink():
            return f"({block.uri})"
        case _:
            return f"({block.type}: not shown as text)"


def open_session(given: object) -> ClientSession | None:
    """The session of a client that the caller connected, of the SDK or of FastMCP; `None` for a server."""
    if isinstance(given, ClientSession):
        return given
    try:
        session = getattr(given, "session", None)
    except RuntimeError:
        raise SourceError("the client is not connected: open it with `async with` first") from None
    return session if isinstance(session, ClientSession) else None


def _capability_names(declared: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the capabilities of a server, each with the switches that are on, for a person."""
    names: list[str] = []
    for name, settings in declared.items():
        switches = [key for key, value in settings.items() if value is True] if settings else []
        names.append(f"{name} ({', '.join(switches)})" if switches else name)
    return tuple(shown(name, 200) for name in names)
