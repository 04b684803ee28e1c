"""SkillMethods: the answers of a library as handlers of the MCP SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillwire.errors import Refusal
from skillwire.json_types import JsonObject
from skillwire.server.results import SkillResults
from skillwire.wire.v1 import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY

Context: TypeAlias = ServerRequestContext[Any, Any]
Handler: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


class UriParams(types.RequestParams):
    uri: str


class DirectoryParams(types.RequestParams):
    uri: str
    cursor: str | None = None


class SkillMethods:
    """The handlers. Each asks for the answer in the protocol era that the client speaks."""

    def __init__(self, answers: SkillResults) -> None:
        self.answers = answers

    def extension_methods(self) -> tuple[tuple[str, type[types.RequestParams], Handler], ...]:
        """What declaring the extension commits a server to (CAP-2), and the directory method."""
        return (
            (METHOD_LIST, types.PaginatedRequestParams, self.list_skills),
            (METHOD_GET, UriParams, self.get_skill),
            (METHOD_READ_DIRECTORY, DirectoryParams, self.read_directory),
        )

    async def list_skills(self, ctx: Context, params: types.PaginatedRequestParams) -> JsonObject:
        return await _told(self.answers.list_skills(params.cursor, modern=is_modern(ctx)))

    async def get_skill(self, ctx: Context, params: UriParams) -> JsonObject:
        return await _told(self.answers.get_skill(params.uri, modern=is_modern(ctx)))

    async def read_directory(self, ctx: Context, params: DirectoryParams) -> JsonObject:
        return await _told(self.answers.read_directory(params.uri, params.cursor, modern=is_modern(ctx)))

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        return await _told(self.answers.list_resources(cursor, modern=is_modern(ctx)))

    async def list_templates(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        cursor = params.cursor if params else None
        return await _told(self.answers.list_templates(cursor, modern=is_modern(ctx)))

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> JsonObject:
        return await _told(self.answers.read_resource(str(params.uri), modern=is_modern(ctx)))


def is_modern(ctx: Context) -> bool:
    """Whether the client speaks 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _told(answer: Awaitable[JsonObject]) -> JsonObject:
    """The answer, or its refusal in the SDK's words."""
    try:
        return await answer
    except Refusal as refusal:
        raise MCPError(refusal.code, str(refusal), refusal.data) from None
