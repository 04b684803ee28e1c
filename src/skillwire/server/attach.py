"""add_skills: adds skills to any Python MCP server with one call.

The handlers are registered on the low-level server that every framework is built on. The server's own
resources, tools and prompts are kept and listed first. `SdkSession` is the SDK's server for one client over
stdio.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from skillwire.server.handlers import (
    Context,
    Handler,
    PromptMethods,
    SkillMethods,
    ToolMethods,
    Wrap,
    both_of,
    call_theirs_first,
    complete_ours_first,
    list_after,
    read_first,
)
from skillwire.server.library import DEFAULT_OPTIONS, ServerOptions, SkillLibrary
from skillwire.server.notifications import (
    PROMPTS_CHANGED,
    TOOLS_CHANGED,
    Notifier,
    can_be_notified,
    connection_of,
)
from skillwire.server.results import SkillResults
from skillwire.server.watcher import Watcher, with_lifespan
from skillwire.sources import Root, Source
from skillwire.wire import DIRECTORY_READ_SETTING, EXTENSION_ID

SETTINGS: Final[dict[str, Any]] = {DIRECTORY_READ_SETTING: True}
LISTEN: Final = "subscriptions/listen"
SUBSCRIBE: Final = "resources/subscribe"
# The attributes in which frameworks keep their low-level server.
_INNER_SERVER: Final = ("_lowlevel_server", "_mcp_server")


def add_skills(
    server: object, *sources: Source | Root | str | Path, options: ServerOptions = DEFAULT_OPTIONS
) -> SkillLibrary:
    """Serve skills from `server`, a low-level `Server`, an `MCPServer` or a FastMCP server.

    Sources are directories, `prefix=directory` strings or `Source` objects. They are opened when the server
    starts.
    """
    low_level = _low_level(server)
    library = SkillLibrary(sources, options)
    watcher = Watcher(library) if options.watch else None
    attach(low_level, SkillService(SkillResults(library, options), watcher))
    return library


class SkillService:
    """Everything that is added to a server. Without a watcher, no client is notified of changes."""

    def __init__(self, results: SkillResults, watcher: Watcher | None) -> None:
        library, limits = results.library, results.options.limits
        self.library = library
        self.extensions = results.options.extensions
        self.methods = SkillMethods(results)
        self.tools = results.tools
        self.prompts = results.prompts
        self.notifier: Notifier | None = None
        self.watcher = watcher
        self._limits = limits
        if watcher is not None:
            self.notifier = Notifier(
                library, results.legacy_resources, bus=InMemorySubscriptionBus(), limits=limits
            )
            if self.tools is not None:
                self.notifier.lists[TOOLS_CHANGED] = self.tools.differs
            if self.prompts is not None:
                # Every prompt is a skill, so the prompts change with the skills.
                self.notifier.lists[PROMPTS_CHANGED] = lambda _before, _after: True
            watcher.notifier = self.notifier

    @property
    def bus(self) -> SubscriptionBus | None:
        """The bus on which changes are published for clients of 2026-07-28."""
        return None if self.notifier is None else self.notifier.bus

    def bindings(self) -> dict[str, tuple[type[types.RequestParams], Wrap]]:
        """The methods that a server may already have: their parameters, and how to merge the handlers."""
        page, methods = types.PaginatedRequestParams, self.methods
        listed: list[tuple[str, str, Handler]] = [
            ("resources/list", "resources", methods.list_resources),
            ("resources/templates/list", "resourceTemplates", methods.list_templates),
        ]
        bindings: dict[str, tuple[type[types.RequestParams], Wrap]] = {
            method: (page, list_after(method, key, ours)) for method, key, ours in listed
        }
        read = "resources/read"
        bindings[read] = (types.ReadResourceRequestParams, read_first(read, methods.read_resource))
        complete = "completion/complete"
        bindings[complete] = (types.CompleteRequestParams, complete_ours_first(complete, methods.complete))
        if self.tools is not None:
            listing, call, tools = "tools/list", "tools/call", ToolMethods(self.tools)
            wrap = list_after(listing, "tools", tools.list_tools, by_name=True)
            bindings[listing] = (page, wrap)
            wrap = call_theirs_first(call, listing, "tools", tools.call_tool, self.tools.knows)
            bindings[call] = (types.CallToolRequestParams, wrap)
        if self.prompts is not None:
            listing, get, prompts = "prompts/list", "prompts/get", PromptMethods(self.prompts)
            wrap = list_after(listing, "prompts", prompts.list_prompts, by_name=True)
            bindings[listing] = (page, wrap)
            wrap = call_theirs_first(get, listing, "prompts", prompts.get_prompt, self.prompts.knows)
            bindings[get] = (types.GetPromptRequestParams, wrap)
        if self.notifier is not None:
            bindings[SUBSCRIBE] = (
                types.SubscribeRequestParams,
                both_of(SUBSCRIBE, self.notifier.subscribe),
            )
            end = "resources/unsubscribe"
            bindings[end] = (types.UnsubscribeRequestParams, both_of(end, self.notifier.unsubscribe))
        return bindings

    def listen(self, theirs: Handler | None) -> Handler | None:
        """The handler of `subscriptions/listen`. `theirs` must publish the events of our bus."""
        if self.notifier is None:
            return theirs
        # Large enough for all subscriptions of one client, so that a burst does not end a stream.
        room = self._limits.subscriptions_per_client + 16
        ours = ListenHandler(
            self.notifier.bus, max_subscriptions=self._limits.listeners, max_buffered_events=room
        )
        return self.notifier.listening(theirs or ours)

    async def on_handshake(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: complete the `initialize` result of the 2025 revisions (CAP-4).

        Their schema has no `extensions`, so the SDK drops them. Change notifications are declared only if
        they can be delivered.
        """
        result = await call_next(ctx)
        if ctx.method != "initialize" or not isinstance(result, dict):
            return result
        capabilities: dict[str, Any] = result.setdefault("capabilities", {})
        capabilities.setdefault("extensions", {}).update(self.extensions)
        if self.notifier is not None and self.watcher is not None:
            is_notified = can_be_notified(ctx) and self.watcher.is_running
            if is_notified:
                await self.notifier.join(connection_of(ctx))
            capabilities.setdefault("resources", {})["subscribe"] = is_notified
            for kind, is_ours in {"resources": True, "tools": self.tools, "prompts": self.prompts}.items():
                if is_ours and kind in capabilities:
                    capabilities[kind]["listChanged"] = is_notified
        return result


def attach(server: Server[Any], service: SkillService) -> None:
    """Add a service to a low-level server and declare the extension (CAP-1, CAP-2)."""
    if EXTENSION_ID in server.extensions:
        raise ValueError(
            f"this server already declares {EXTENSION_ID}; pass all sources to one add_skills call"
        )
    for method, params, handler in service.methods.extension_methods():
        server.add_request_handler(method, params, handler)
    present = {method: _handler_of(server, method) for method in (*service.bindings(), LISTEN)}
    for method, (params, wrap) in service.bindings().items():
        server.add_request_handler(method, params, wrap(present.get))
    _attach_listening(server, service, present[LISTEN])
    if service.tools is not None and present.get("tools/list") is None:
        server.get_tool_input_schema = service.tools.schema_of
    run = service.library.opened if service.watcher is None else service.watcher.running
    server.lifespan = with_lifespan(server.lifespan, run)
    server.extensions.update(service.extensions)
    server.middleware.append(service.on_handshake)


def _attach_listening(server: Server[Any], service: SkillService, theirs: Handler | None) -> None:
    """Publish on the streams of 2026-07-28, on the server's own bus if it has one."""
    if service.notifier is None:
        return
    if isinstance(theirs, ListenHandler):
        service.notifier.bus = theirs._bus  # pyright: ignore[reportPrivateUsage] - there is no public way
    elif theirs is not None:
        return  # Another kind of handler, on whose streams we cannot publish.
    handler = service.listen(theirs)
    if handler is not None:
        server.add_request_handler(LISTEN, types.SubscriptionsListenRequestParams, handler)


def _low_level(server: object) -> Server[Any]:
    if isinstance(server, Server):
        return cast("Server[Any]", server)
    for name in _INNER_SERVER:
        inner = getattr(server, name, None)
        if isinstance(inner, Server):
            return cast("Server[Any]", inner)
    raise TypeError(
        f"{type(server).__name__} is not an MCP server; pass a Server, an MCPServer or a FastMCP server"
    )


def _handler_of(server: Server[Any], method: str) -> Handler | None:
    entry = server.get_request_handler(method)
    return entry.handler if entry else None


# An MCPServer never has its own handlers for these.
_OURS_ALONE = (SUBSCRIBE, "resources/unsubscribe")


class SkillsExtension(Extension):
    """Skills from directories or sources. Pass it as an extension and as middleware."""

    identifier = EXTENSION_ID

    def __init__(
        self, *sources: Source | Root | str | Path, options: ServerOptions = DEFAULT_OPTIONS
    ) -> None:
        self.library = SkillLibrary(sources, options)
        watcher = Watcher(self.library) if options.watch else None
        self._service = SkillService(SkillResults(self.library, options), watcher)
        self._bindings = self._service.bindings()
        self._unused_bus = InMemorySubscriptionBus()
        self._is_middleware = False

    @property
    def bus(self) -> SubscriptionBus:
        """The bus on which changes are published, for `MCPServer(subscriptions=...)`."""
        return self._service.bus or self._unused_bus

    @asynccontextmanager
    async def lifespan(self, _server: object) -> AsyncGenerator[dict[str, Any]]:
        """Keep the sources open and watch for changes. Enter it in your own lifespan, if you have one."""
        watcher = self._service.watcher
        async with self.library.opened() if watcher is None else watcher.running():
            yield {}

    def settings(self) -> dict[str, Any]:
        return dict(SETTINGS)

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding(method, params, self._guarded(handler))
            for method, params, handler in self._service.methods.extension_methods()
        ]

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The middleware part: the SDK calls it for every message."""
        self._is_middleware = True
        is_ready = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None
        if not is_ready:
            return await self._service.on_handshake(ctx, call_next)

        def theirs(method: str) -> Handler | None:
            return None if method in _OURS_ALONE else _passed_on(method, call_next)

        binding = self._bindings.get(ctx.method)
        if binding is not None:
            params, wrap = binding
            return await wrap(theirs)(ctx, params.model_validate(ctx.params or {}))
        if ctx.method == LISTEN and (listen := self._service.listen(theirs(LISTEN))) is not None:
            return await listen(ctx, types.SubscriptionsListenRequestParams.model_validate(ctx.params or {}))
        return await call_next(ctx)

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(ctx: Context, params: Any) -> Any:
            if not self._is_middleware:
                raise MCPError(
                    types.INTERNAL_ERROR,
                    "SkillsExtension is incomplete: pass it to MCPServer as middleware=[skills] too",
                )
            return await handler(ctx, params)

        return guarded


def _passed_on(method: str, call_next: CallNext) -> Handler:
    """The handler of the server behind the middleware."""

    async def handler(ctx: Context, params: Any) -> Any:
        if ctx.method == method and getattr(params, "cursor", None) == (ctx.params or {}).get("cursor"):
            return await call_next(ctx)
        # Another method, or another page: use the envelope of this request.
        wire = {"cursor": params.cursor} if params.cursor is not None else {}
        meta = (ctx.params or {}).get("_meta")
        if meta is not None:
            wire["_meta"] = meta
        return await call_next(replace(ctx, method=method, params=wire))

    return handler


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
