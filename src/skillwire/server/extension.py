"""SkillsExtension: skills for an `MCPServer`, declared where the server is made.

    skills = SkillsExtension("./skills")
    server = MCPServer("shop", extensions=[skills], middleware=[skills])

As an extension it brings the methods and the declaration. As middleware it adds the files to the server's
resources and keeps the declaration on the 2025 era; an SDK extension alone can do neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillwire.server.answers import CacheAdvice
from skillwire.server.attach import SETTINGS, declare_on_handshake, list_after, make_library, read_first
from skillwire.server.methods import Context, Handler, SkillMethods
from skillwire.sources.base import Source
from skillwire.sources.roots import Root
from skillwire.wire.v1 import EXTENSION_ID


class SkillsExtension(Extension):
    """Skills from directories or sources. Pass it as an extension and as middleware."""

    identifier = EXTENSION_ID

    def __init__(
        self,
        *sources: Source | Root | str | Path,
        ttl_ms: int = 60_000,
        cache_scope: Literal["public", "private"] = "public",
        page_size: int = 100,
        unlisted: Iterable[str] = (),
    ) -> None:
        self.library = make_library(sources, page_size=page_size, unlisted=unlisted)
        self._methods = SkillMethods(self.library, CacheAdvice(ttl_ms, cache_scope))
        self._is_middleware = False

    def settings(self) -> dict[str, Any]:
        return dict(SETTINGS)

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding(method, params, self._guarded(handler))
            for method, params, handler in self._methods.extension_methods()
        ]

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The middleware half: the SDK calls it with every message."""
        self._is_middleware = True
        is_ready = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.client_params is not None
        if not is_ready:
            return await declare_on_handshake(ctx, call_next)

        async def theirs(ctx: Context, _params: object) -> Any:
            return await call_next(ctx)

        match ctx.method:
            case "resources/read":
                read = read_first(self._methods.read_resource, theirs)
                return await read(ctx, types.ReadResourceRequestParams.model_validate(ctx.params))
            case "resources/list" | "resources/templates/list" as method:
                is_list = method == "resources/list"
                ours = self._methods.list_resources if is_list else self._methods.list_templates
                return await list_after(theirs, ours)(
                    ctx, types.PaginatedRequestParams.model_validate(ctx.params or {})
                )
            case _:
                return await call_next(ctx)

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(ctx: Context, params: Any) -> Any:
            if not self._is_middleware:
                raise MCPError(
                    types.INTERNAL_ERROR,
                    "SkillsExtension is not complete: pass it to MCPServer as middleware=[skills] too",
                )
            return await handler(ctx, params)

        return guarded
