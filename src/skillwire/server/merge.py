"""How our answers and those of a server that was there before are joined: what it has, it keeps.

Lists are theirs, then ours. A resource is read from a skill first, since a skill's URI is ours alone. A tool
or a prompt is theirs first, since names are anybody's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.handlers import Context, Handler

Theirs: TypeAlias = Callable[[str], Handler | None]
"""The handler that a server has for a method, apart from ours."""
Wrap: TypeAlias = Callable[[Theirs], Handler]
"""Makes our handler of a method, given those of the server."""


def list_after(method: str, key: str, ours: Handler, *, by_name: bool = False) -> Wrap:
    """List what the server has, then what we have; with `by_name`, without what it has by the same name."""

    def wrap(theirs_for: Theirs) -> Handler:
        theirs = theirs_for(method)
        if theirs is None:
            return ours

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
                    pass  # Not one of our cursors, so it is one of theirs.
            first = _as_wire(await theirs(ctx, params))
            if first.get("nextCursor") is not None:
                return first
            second = await rest(ctx, params.model_copy(update={"cursor": None}))
            return {**first, **second, **_stricter(first, second), key: [*first[key], *second[key]]}

        return both

    return wrap


def read_first(method: str, ours: Handler) -> Wrap:
    """Read a skill's file, or else what the server has under that URI."""

    def wrap(theirs_for: Theirs) -> Handler:
        theirs = theirs_for(method)
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
                    is_same = not_theirs.error.code == types.INVALID_PARAMS
                    raise (not_ours if is_same else not_theirs) from None

        return either

    return wrap


def call_theirs_first(
    method: str, list_method: str, key: str, ours: Handler, is_ours: Callable[[str], Awaitable[bool]]
) -> Wrap:
    """Call what the server has by a name, or else what we have."""

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


def both_of(method: str, ours: Handler) -> Wrap:
    """Do it with the skills, and with the server's own resources when the URI may be one of them."""

    def wrap(theirs_for: Theirs) -> Handler:
        theirs = theirs_for(method)
        if theirs is None:
            return ours

        async def both(
            ctx: Context, params: types.SubscribeRequestParams | types.UnsubscribeRequestParams
        ) -> Any:
            if str(params.uri).startswith("skill:"):
                return await ours(ctx, params)
            return await theirs(ctx, params)

        return both

    return wrap


async def names_in(listing: Handler, ctx: Context, key: str) -> set[str]:
    """The names of everything that a server lists, all pages of it."""
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
    """How long both halves may be kept and by whom: ours must not make theirs public."""
    if "ttlMs" not in ours:
        return {}
    is_public = theirs.get("cacheScope") == ours["cacheScope"] == "public"
    ttl = min(theirs.get("ttlMs", 0), ours["ttlMs"])
    return {"ttlMs": ttl, "cacheScope": "public" if is_public else "private"}
