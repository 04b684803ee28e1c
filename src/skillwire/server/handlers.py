"""Handlers for the MCP SDK: the methods of the extension, and how ours are merged with a server's own.

Lists have the server's items first, then ours. Resources are looked up in skills first, because their URIs
are unique. Tools and prompts of the server take precedence over ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillwire.documents import JsonObject
from skillwire.errors import Refusal
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.results import SkillPrompts, SkillResults
from skillwire.server.tools import SkillTools
from skillwire.wire import (
    EXTENSION_ID,
    METHOD_GET,
    METHOD_LIST,
    METHOD_READ_DIRECTORY,
    QUERY_ID,
    declaration_in,
)

Context: TypeAlias = ServerRequestContext[Any, Any]
Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]
Theirs: TypeAlias = Callable[[str], Handler | None]
"""Returns the handler that the server itself has for a method."""
Wrap: TypeAlias = Callable[[Theirs], Handler]
"""Creates the merged handler of a method from that of the server."""


class ListParams(types.PaginatedRequestParams):
    query: str | None = None
    limit: int | None = None


class UriParams(types.RequestParams):
    uri: str


class DirectoryParams(types.RequestParams):
    uri: str
    cursor: str | None = None


class SkillMethods:
    """The handlers. Each returns the result in the form of the client's protocol revision."""

    def __init__(self, results: SkillResults) -> None:
        self.results = results

    def extension_methods(self) -> tuple[tuple[str, type[types.RequestParams], Handler], ...]:
        """The methods that the extension requires (CAP-2), and the directory method."""
        return (
            (METHOD_LIST, ListParams, self.list_skills),
            (METHOD_GET, UriParams, self.get_skill),
            (METHOD_READ_DIRECTORY, DirectoryParams, self.read_directory),
        )

    async def list_skills(self, ctx: Context, params: ListParams) -> JsonObject:
        if params.query is not None and self.results.options.query and knows_extension(ctx, QUERY_ID):
            found = self.results.find_skills(params.query, params.limit, modern=is_modern(ctx))
            return await _result(found)
        return await _result(self.results.list_skills(params.cursor, modern=is_modern(ctx)))

    async def get_skill(self, ctx: Context, params: UriParams) -> JsonObject:
        return await _result(self.results.get_skill(params.uri, modern=is_modern(ctx)))

    async def read_directory(self, ctx: Context, params: DirectoryParams) -> JsonObject:
        return await _result(self.results.read_directory(params.uri, params.cursor, modern=is_modern(ctx)))

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        return await _result(self.results.list_resources(cursor, modern=is_modern(ctx)))

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        return await _result(self.results.list_templates(cursor, modern=is_modern(ctx)))

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> JsonObject | None:
        """Completion values for one of our templates; `None` for other templates."""
        if not isinstance(params.ref, types.ResourceTemplateReference):
            return None
        known = (params.context.arguments if params.context else None) or {}
        asked, argument = params.ref.uri, params.argument
        return await self.results.complete(
            str(asked), argument.name, argument.value, known, modern=is_modern(ctx)
        )

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> JsonObject:
        return await _result(self.results.read_resource(str(params.uri), modern=is_modern(ctx)))


class ToolMethods:
    """The handlers of our tools."""

    def __init__(self, tools: SkillTools) -> None:
        self._tools = tools

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        modern, extension = is_modern(ctx), knows_extension(ctx)
        return await _result(self._tools.list_tools(cursor, modern=modern, has_extension=extension))

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> JsonObject:
        arguments = params.arguments or {}
        return await _result(self._tools.call_tool(params.name, arguments, modern=is_modern(ctx)))


class PromptMethods:
    """The handlers of our prompts."""

    def __init__(self, prompts: SkillPrompts) -> None:
        self._prompts = prompts

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        return await _result(self._prompts.list_prompts(cursor, modern=is_modern(ctx)))

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> JsonObject:
        arguments = params.arguments or {}
        return await _result(self._prompts.get_prompt(params.name, arguments, modern=is_modern(ctx)))


def knows_extension(ctx: Context, extension: str = EXTENSION_ID) -> bool:
    """Whether the client declared an extension, at the handshake or with this request (CAP-4)."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None:
        return False
    return declaration_in(capabilities.model_dump(by_alias=True), extension) is not None


def is_modern(ctx: Context) -> bool:
    """Whether the client uses 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _result(result: Awaitable[JsonObject]) -> JsonObject:
    """The result; a refusal is raised as an error of the SDK."""
    try:
        return await result
    except Refusal as refusal:
        raise MCPError(refusal.code, str(refusal), refusal.data) from None


def _beside(method: str, ours: Handler, combine: Callable[[Handler], Handler]) -> Wrap:
    """Our handler if the server has none for a method; otherwise the two combined."""

    def wrap(theirs_for: Theirs) -> Handler:
        theirs = theirs_for(method)
        return ours if theirs is None else combine(theirs)

    return wrap


def list_after(method: str, key: str, ours: Handler, *, by_name: bool = False) -> Wrap:
    """List the server's items, then ours; with `by_name`, skip ours whose names are taken."""

    def combine(theirs: Handler) -> Handler:
        async def rest(ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
            result: dict[str, Any] = await ours(ctx, params)
            if by_name and result[key]:
                taken = await names_in(theirs, ctx, key)
                return {**result, key: [item for item in result[key] if item["name"] not in taken]}
            return result

        async def both(ctx: Context, params: types.PaginatedRequestParams) -> Any:
            if params.cursor is not None:
                try:
                    return await rest(ctx, params)
                except MCPError:
                    pass  # Not our cursor, so it is the server's.
            first = _as_wire(await theirs(ctx, params))
            if first.get("nextCursor") is not None:
                return first
            second = await rest(ctx, params.model_copy(update={"cursor": None}))
            return {**first, **second, **_stricter(first, second), key: [*first[key], *second[key]]}

        return both

    return _beside(method, ours, combine)


def read_first(method: str, ours: Handler) -> Wrap:
    """Read a file of a skill; otherwise call the server's handler."""

    def combine(theirs: Handler) -> Handler:
        async def either(ctx: Context, params: types.ReadResourceRequestParams) -> Any:
            try:
                return await ours(ctx, params)
            except MCPError as not_ours:
                if not_ours.error.code != types.INVALID_PARAMS:
                    raise
                try:
                    return await theirs(ctx, params)
                except MCPError as not_theirs:
                    is_same = not_theirs.error.code == types.INVALID_PARAMS
                    raise (not_ours if is_same else not_theirs) from None

        return either

    return _beside(method, ours, combine)


def call_theirs_first(
    method: str, list_method: str, key: str, ours: Handler, is_ours: Callable[[str], Awaitable[bool]]
) -> Wrap:
    """Call the server's item with this name; otherwise ours."""

    def wrap(theirs_for: Theirs) -> Handler:
        theirs, their_list = theirs_for(method), theirs_for(list_method)
        if theirs is None:
            return ours

        async def either(
            ctx: Context, params: types.CallToolRequestParams | types.GetPromptRequestParams
        ) -> Any:
            if not await is_ours(params.name):
                return await theirs(ctx, params)
            if their_list is not None and params.name in await names_in(their_list, ctx, key):
                return await theirs(ctx, params)
            return await ours(ctx, params)

        return either

    return wrap


def complete_ours_first(method: str, ours: Handler) -> Wrap:
    """Complete an argument of our templates; otherwise call the server's handler."""

    def wrap(theirs_for: Theirs) -> Handler:
        theirs = theirs_for(method)

        async def either(ctx: Context, params: types.CompleteRequestParams) -> Any:
            result = await ours(ctx, params)
            if result is not None:
                return result
            if theirs is not None:
                return await theirs(ctx, params)
            # The same as for a template or prompt without suggestions; it is not an error.
            nothing: JsonObject = {"completion": {"values": [], "total": 0, "hasMore": False}}
            return {**nothing, **({"resultType": "complete"} if is_modern(ctx) else {})}

        return either

    return wrap


def both_of(method: str, ours: Handler) -> Wrap:
    """Use our handler for skill URIs and the server's for all others."""

    def combine(theirs: Handler) -> Handler:
        async def both(
            ctx: Context, params: types.SubscribeRequestParams | types.UnsubscribeRequestParams
        ) -> Any:
            if str(params.uri).startswith("skill:"):
                return await ours(ctx, params)
            return await theirs(ctx, params)

        return both

    return _beside(method, ours, combine)


async def names_in(listing: Handler, ctx: Context, key: str) -> set[str]:
    """The names of all items of a server, over all pages."""
    names: set[str] = set()
    cursor: str | None = None
    for _ in range(DEFAULT_LIMITS.pages):
        result = _as_wire(await listing(ctx, types.PaginatedRequestParams(cursor=cursor)))
        names.update(item["name"] for item in result.get(key, ()))
        cursor = result.get("nextCursor")
        if not cursor:
            break
    return names


def _as_wire(result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        return cast("dict[str, Any]", result)
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


def _stricter(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Cache advice for merged lists: ours must not make the server's public or last longer."""
    if "ttlMs" not in ours:
        return {}
    is_public = theirs.get("cacheScope") == ours["cacheScope"] == "public"
    ttl = min(theirs.get("ttlMs", 0), ours["ttlMs"])
    return {"ttlMs": ttl, "cacheScope": "public" if is_public else "private"}
