"""Connection: one MCP server, in a task of its own, whose failures stay inside.

It connects within its own deadline, reconnects with growing pauses, and turns whatever goes wrong into one
line. Requests come from any task and end in an answer or a `SourceError`. This module and `sdk.py` import the
MCP SDK, so they are imported when the first server is connected.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.to_thread
import mcp_types as types
from mcp import Client
from mcp.client import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, ResourceUpdated, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, ValidationError

from skillwire.errors import LimitExceeded, RequestRefused, SkillwireError, SourceError
from skillwire.host.config.server import ServerConfig
from skillwire.host.directories import state_places
from skillwire.host.http.client import CappedClient, Trouble
from skillwire.host.http.direct import DirectRequests
from skillwire.host.login.store import LoginStore
from skillwire.host.sdk import MessageBudget, filter_sdk_logs, over_lines, within_budget
from skillwire.host.state import Status
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.sources.process import ServerProcess, running, safe_directory
from skillwire.text import redact
from skillwire.trust.origin import Origin
from skillwire.version import VERSION
from skillwire.wire.declaration import Declaration, declaration_in
from skillwire.wire.v1 import EXTENSION_ID

if TYPE_CHECKING:
    from skillwire.host.login.tokens import LoginTokens

MODERN: Final = "2026-07-28"
_CLIENT_INFO: Final = types.Implementation(name="skillwire", version=VERSION)
_CAPABILITIES: Final = types.ClientCapabilities(extensions={EXTENSION_ID: {}})
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_CLOSED: Final = (types.CONNECTION_CLOSED, "Connection closed")  # The SDK's own words for it.
_REASON_CHARS: Final = 800
_SAID_CHARS: Final = 10_000
_OUTPUT_LINES: Final = 8
_MOST_CHANGES: Final = 100


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
        self._listen_after = listen_after
        self._sleep = sleep
        self._client: Client | None = None
        self._http: CappedClient | None = None
        self._direct: DirectRequests | None = None
        self._budget = MessageBudget(limits)
        self._login: LoginTokens | None = None
        self._process: ServerProcess | None = None
        self._needed = anyio.Event()
        if not is_lazy:
            self._needed.set()
        self._settled = anyio.Event()
        self._retry = anyio.Event()
        self._lost = anyio.Event()
        self._fault: SkillwireError | None = None
        self._calls: set[anyio.CancelScope] = set()
        self._changed: dict[str | None, None] = {}
        self._was_told = False
        self._has_changes = anyio.Event()
        self._followed: frozenset[str] = frozenset()
        self._refollow: Callable[[], None] = _nothing
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
                    self.reason = self._fit(str(self._fault or "the connection was lost"))
                except Exception as error:  # Whatever a server can cause ends here, as one line.
                    self.reason = self._reason(error)
                self._hang_up()
                self.last_output = self._output()
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
            raise self._refusal(method, error) from None
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
        """The connection is over: nobody waits for an answer any longer."""
        self._client = self._direct = None
        for call in self._calls:
            call.cancel()

    def _refusal(self, method: str, error: MCPError) -> SkillwireError:
        """What an error answer means: for this request alone, or for the connection."""
        code, said = error.error.code, error.error.message
        problem = self._http.problem_in(said) if self._http else None
        if problem is not None:
            if problem.trouble is Trouble.GONE:
                self._lost.set()
            wording = f"{self.label} gave no answer to {method}: {problem.words}"
            return LimitExceeded(wording) if problem.trouble is Trouble.LIMIT else SourceError(wording)
        if (code, said) == _CLOSED:
            self._lost.set()
            if self._fault is not None:
                return self._fault
            return SourceError(f"{self.label} went away during {method}")
        said = redact(said[:_SAID_CHARS], self._secrets)
        return RequestRefused(f"{self.label} refused {method}", code=code, said=said)

    async def _converse(self) -> None:
        """One life of the connection, from the first word until it is lost."""
        self._lost = anyio.Event()
        self._refollow = _nothing
        self._fault = None
        self._http = None
        self._process = None
        connected = anyio.Event()
        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
            tasks.start_soon(self._give_up, connected, tasks.cancel_scope)
            client = await stack.enter_async_context(
                Client(
                    await self._transport(stack),
                    mode=self.config.era,
                    client_info=_CLIENT_INFO,
                    extensions=[advertise(EXTENSION_ID)],  # CAP-4: the host advertises the extension too.
                    cache=None,
                    message_handler=self._heard,
                )
            )
            if self.config.era == MODERN:
                # A client that is told the era asks nothing, and so knows of no capabilities.
                found = await client.session.send_discover(MODERN)
                client.session.adopt(types.DiscoverResult.model_validate(found))
            connected.set()
            self._client = client
            self.era = client.protocol_version
            if self._http is not None and self.era >= MODERN:
                self._direct = self._direct_requests(self._http)
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
                tasks.start_soon(self._subscribe)
            await self._lost.wait()
            tasks.cancel_scope.cancel()
        if not connected.is_set():
            raise SourceError(self._no_answer())

    async def changes(self) -> AsyncGenerator[Collection[str | None]]:
        """The URIs that the server says have changed, and `None` for its listing.

        They come together, and no more often than the limit: a server cannot make us ask it all the time.
        What the host looks at on its own account, after it subscribed, does not count toward the limit: the
        first edit after a connection is seen at once.
        """
        while True:
            await self._has_changes.wait()
            self._has_changes = anyio.Event()
            changed, self._changed = self._changed, {}
            was_told, self._was_told = self._was_told, False
            yield tuple(changed) if len(changed) <= _MOST_CHANGES else (None,)
            if was_told:
                await self._sleep(self._limits.change_seconds)

    def _note_changes(self, *uris: str | None) -> None:
        """The server says that these have changed."""
        self._was_told = True
        self._look_again(*uris)

    def _look_again(self, *uris: str | None) -> None:
        if len(self._changed) <= _MOST_CHANGES:  # Beyond that, everything is listed again.
            self._changed.update(dict.fromkeys(uris))
        self._has_changes.set()

    async def _heard(self, message: object) -> None:
        """Note what changed. Anything else that a server sends unasked is ignored."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self._note_changes(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            self._note_changes(None)

    def follow(self, uris: Collection[str]) -> None:
        """Hear of changes at and below these URIs, from now on and after every reconnection."""
        if self._followed != frozenset(uris):
            self._followed = frozenset(uris)
            self._refollow()

    async def _listen(self, client: Client) -> None:
        """On 2026-07-28 changes are sent only to clients that open a stream for them."""
        if self._listen_after is not None:
            await self._listen_after.wait()
        heard_of: frozenset[str] = frozenset()
        is_first = True
        try:
            while True:
                wanted = self._followed
                async with client.listen(
                    resources_list_changed=True, resource_subscriptions=sorted(wanted)
                ) as changes:
                    with anyio.CancelScope() as hearing:
                        self._refollow = hearing.cancel
                        if self._followed != wanted:
                            hearing.cancel()  # Another skill was loaded while the stream was being opened.
                        # What changed before the stream was open was told to nobody.
                        self._look_again(*([None] if is_first else []), *sorted(wanted - heard_of))
                        is_first = False
                        heard_of = wanted
                        async for change in changes:
                            self._note_changes(change.uri if isinstance(change, ResourceUpdated) else None)
                if not hearing.cancelled_caught:
                    return  # The server has ended the stream.
        except SubscriptionLost:
            self._lost.set()  # Nobody knows what was missed: connect again and catch up.
        except MCPError as error:
            # A server that will not tell is asked again when its listing expires; one that is gone, at once.
            self._refusal("subscriptions/listen", error)
        except (ListenNotSupportedError, TimeoutError):
            pass

    async def _subscribe(self) -> None:
        """On the 2025 era each URI is subscribed to by itself; what changes is told to `_heard`."""
        subscribed: frozenset[str] = frozenset()
        while True:
            again = anyio.Event()
            self._refollow = again.set
            wanted = self._followed
            for uri in wanted - subscribed:
                await self._quietly("resources/subscribe", uri)
            for uri in subscribed - wanted:
                await self._quietly("resources/unsubscribe", uri)
            # What changed before the subscription was told to nobody.
            self._look_again(*sorted(wanted - subscribed))
            subscribed = wanted
            await again.wait()

    async def _quietly(self, method: str, uri: str) -> None:
        """A subscription that the server refuses costs its notifications, nothing else."""
        with suppress(SkillwireError):
            await self.request(method, {"uri": uri})

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
        budget = self._budget = MessageBudget(self._limits)
        if config.url:
            self._login = await self._stored_login()
            http = CappedClient(
                config.headers,
                config.token,
                limit=limit,
                seconds=config.call_seconds,
                label=self.label,
                login=self._login,
            )
            self._http = await stack.enter_async_context(http)
            # Of a stream that stays open, each event has the limit; of any other, all of it.
            transport = streamable_http_client(config.url, http_client=http, max_sse_event_size=limit)
            return within_budget(transport, budget, self._line_lost)
        process = await stack.enter_async_context(
            running(
                config.command,
                env=config.env,
                directory=config.directory or safe_directory(),
                line_bytes=limit,
            )
        )
        self._process = process
        return over_lines(process, budget, self._line_lost)

    def _direct_requests(self, http: CappedClient) -> DirectRequests:
        def spend(message: object) -> None:
            try:
                self._budget.spend(message)
            except LimitExceeded as error:
                self._line_lost(error)
                raise

        return DirectRequests(
            http,
            self.config.url,
            revision=self.era,
            client_info=_CLIENT_INFO,
            capabilities=_CAPABILITIES,
            event_bytes=self._limits.answer_bytes,
            on_message=spend,
        )

    async def _stored_login(self) -> LoginTokens | None:
        """The tokens of the user's login at this server, unless the configuration has a token for it."""
        config = self.config
        if config.token or any(name.lower() == "authorization" for name in config.headers):
            return None
        store = LoginStore(state_places().logins)
        if not await anyio.to_thread.run_sync(store.has, config.identity):
            return None
        # Here: the SDK's OAuth client takes long to import, and most servers need no login.
        from skillwire.host.login.tokens import LoginTokens

        return LoginTokens(store, config.identity, seconds=config.call_seconds)

    @property
    def _secrets(self) -> tuple[str, ...]:
        """What the server was given that nobody else may see."""
        return (*self.config.secrets, *(self._login.secrets if self._login is not None else ()))

    def _line_lost(self, fault: SkillwireError | None) -> None:
        self._fault = fault
        self._lost.set()

    def _reason(self, error: BaseException) -> str:
        """Why a connection failed, on one line, without the wrapping of task groups."""
        if isinstance(error, BaseExceptionGroup):
            return self._reason(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
        match error:
            case SkillwireError():
                text = str(error)
            case TimeoutError():
                text = "no answer in time"
            case MCPError() if self._fault is not None:
                text = str(self._fault)
            case MCPError() if (error.error.code, error.error.message) == _CLOSED:
                text = "it exited" if self._process else "it closed the connection"
            case MCPError():
                said = error.error.message
                problem = self._http.problem_in(said) if self._http else None
                text = problem.words if problem else f'it says "{said}"'
            case ValidationError():
                text = "it does not speak MCP"
            case _:
                text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return self._fit(text)

    def _no_answer(self) -> str:
        return self._fit(f"no answer within {self.config.connect_seconds:g} s")

    def _output(self) -> tuple[str, ...]:
        """The last lines that a started server wrote to standard error, without its secrets."""
        lines = self._process.last_lines[-_OUTPUT_LINES:] if self._process else ()
        return tuple(redact(line, self._secrets) for line in lines)

    def _fit(self, text: str) -> str:
        """A reason with what the server wrote before it failed."""
        stray = self._process.stray_line if self._process else ""
        if stray:
            text += f'; it wrote "{stray}" to standard output, which is only for MCP: log to standard error'
        output = " | ".join(line for line in self._output() if line not in text)
        text = f"{text}; last output: {output}" if output else text
        withheld = self._process.withheld if self._process else ()
        if withheld:
            text += (
                f"; {', '.join(withheld)} is set here, but a server gets only what env names: add "
                f'env = {{ {withheld[0]} = "${{{withheld[0]}}}" }}'
            )
        return shown(redact(text, self._secrets), _REASON_CHARS)


def _capability_names(declared: Mapping[str, Any]) -> tuple[str, ...]:
    """What a server declares, each with the switches that are on, for a person."""
    names: list[str] = []
    for name, settings in declared.items():
        switches = [key for key, value in settings.items() if value is True] if settings else []
        names.append(f"{name} ({', '.join(switches)})" if switches else name)
    return tuple(shown(name, 200) for name in names)


def _nothing() -> None:
    """Nobody listens yet."""
