"""SkillsExtension: skills for an `MCPServer`, as an SDK extension.

    skills = SkillsExtension("./skills")
    server = MCPServer("shop", extensions=[skills], middleware=[skills])

As an extension it adds the methods and the declaration. As middleware it adds files, tools and prompts to the
server's own and keeps the declaration on the 2025 revisions, which an SDK extension cannot do. Pass
`lifespan=skills.lifespan` to watch for changes while the server runs, and `subscriptions=skills.bus` to
notify clients of 2026-07-28.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.server.subscriptions import InMemorySubscriptionBus, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillwire.server.attach import LISTEN, SETTINGS, SUBSCRIBE, SkillService
from skillwire.server.handlers import Context, Handler
from skillwire.server.library import SkillLibrary
from skillwire.server.options import DEFAULT_OPTIONS, ServerOptions
from skillwire.server.results import SkillResults
from skillwire.server.watcher import Watcher
from skillwire.sources.base import Source
from skillwire.sources.directory.roots import Root
from skillwire.wire.v1 import EXTENSION_ID

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
