"""add_skills: one line that gives any MCP server in Python its skills.

The handlers go onto the low-level server that every framework stands on. Resources that the server already
has stay where they are: ours are listed after them, and what is not a skill is read as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from skillwire.server.answers import CacheAdvice
from skillwire.server.library import SkillLibrary
from skillwire.server.methods import Context, Handler, SkillMethods
from skillwire.sources.base import Source
from skillwire.sources.directory import DirectorySource
from skillwire.sources.roots import Root
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID

SETTINGS: dict[str, Any] = {DIRECTORY_READ_SETTING: True}

# Where the frameworks keep the low-level server they are built on.
_INNER_SERVER = ("_lowlevel_server", "_mcp_server")


def make_library(
    sources: Iterable[Source | Root | str | Path], *, page_size: int = 100, unlisted: Iterable[str] = ()
) -> SkillLibrary:
    """A library over sources and directories. Directories are walked together and come first."""
    made: list[Source] = []
    roots: list[Root | str | Path] = []
    for source in sources:
        if isinstance(source, Root | str | Path):
            roots.append(source)
        else:
            made.append(source)
    if roots:
        made.insert(0, DirectorySource(roots))
    return SkillLibrary(made, page_size=page_size, unlisted=unlisted)


def add_skills(
    server: object,
    *sources: Source | Root | str | Path,
    ttl_ms: int = 60_000,
    cache_scope: Literal["public", "private"] = "public",
    page_size: int = 100,
    unlisted: Iterable[str] = (),
) -> SkillLibrary:
    """Serve skills from `server`, a low-level `Server`, an `MCPServer` or a FastMCP server.

    Sources are directories, `prefix=directory` strings or `Source` objects.
    """
    library = make_library(sources, page_size=page_size, unlisted=unlisted)
    attach(_low_level(server), SkillMethods(library, CacheAdvice(ttl_ms, cache_scope)))
    return library


def attach(server: Server[Any], methods: SkillMethods) -> None:
    """Put the methods onto a low-level server and declare the extension (CAP-1, CAP-2)."""
    if EXTENSION_ID in server.extensions:
        raise ValueError(
            f"this server already declares {EXTENSION_ID}; pass all sources to one add_skills call"
        )
    for method, params, handler in methods.extension_methods():
        server.add_request_handler(method, params, handler)
    lists = {"resources/list": methods.list_resources, "resources/templates/list": methods.list_templates}
    for method, ours in lists.items():
        server.add_request_handler(
            method, types.PaginatedRequestParams, list_after(_present(server, method), ours)
        )
    read = read_first(methods.read_resource, _present(server, "resources/read"))
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read)
    server.extensions[EXTENSION_ID] = dict(SETTINGS)
    server.middleware.append(declare_on_handshake)


async def declare_on_handshake(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware: keep the declaration in the `initialize` answer of the 2025 era (CAP-4).

    That era's schema knows no `extensions`, so the SDK drops them on the way out.
    """
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        capabilities: dict[str, Any] = result.setdefault("capabilities", {})
        capabilities.setdefault("extensions", {})[EXTENSION_ID] = dict(SETTINGS)
    return result


def _as_wire(result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        return cast("dict[str, Any]", result)
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def _low_level(server: object) -> Server[Any]:
    if isinstance(server, Server):
        return cast("Server[Any]", server)
    for name in _INNER_SERVER:
        inner = getattr(server, name, None)
        if isinstance(inner, Server):
            return cast("Server[Any]", inner)
    raise TypeError(
        f"{type(server).__name__} is no MCP server; pass a Server, an MCPServer or a FastMCP server"
    )


def _present(server: Server[Any], method: str) -> Handler | None:
    entry = server.get_request_handler(method)
    return entry.handler if entry else None


def list_after(theirs: Handler | None, ours: Handler) -> Handler:
    """List what the server has, then what we have."""
    if theirs is None:
        return ours

    async def both(ctx: Context, params: types.PaginatedRequestParams) -> Any:
        cursor = params.cursor
        if cursor is not None:
            try:
                return await ours(ctx, params)
            except MCPError:
                pass  # Not one of our cursors, so it is one of theirs.
        first = await theirs(ctx, params)
        result = _as_wire(first)
        if result.get("nextCursor") is not None:
            return result
        rest: dict[str, Any] = await ours(ctx, params.model_copy(update={"cursor": None}))
        key = "resources" if "resources" in rest else "resourceTemplates"
        return {**result, **rest, **_stricter(result, rest), key: [*result[key], *rest[key]]}

    return both


def _stricter(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """How long both halves may be kept and by whom: ours must not make theirs public."""
    if "ttlMs" not in ours:
        return {}
    is_public = theirs.get("cacheScope") == ours["cacheScope"] == "public"
    ttl = min(theirs.get("ttlMs", 0), ours["ttlMs"])
    return {"ttlMs": ttl, "cacheScope": "public" if is_public else "private"}


def read_first(ours: Handler, theirs: Handler | None) -> Handler:
    """Read a skill's file, or else what the server has under that URI."""
    if theirs is None:
        return ours

    async def either(ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        try:
            return await ours(ctx, params)
        except MCPError as not_ours:
            if not_ours.error.code != types.INVALID_PARAMS:
                raise
            try:
                return await theirs(ctx, params)
            except MCPError as not_theirs:
                raise (not_ours if not_theirs.error.code == types.INVALID_PARAMS else not_theirs) from None

    return either
