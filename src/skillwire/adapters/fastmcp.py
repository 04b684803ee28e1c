"""Skills through a FastMCP client that you have, with its transport, login and settings.

client = fastmcp.Client("https://shop.example/mcp", auth="oauth") async with SkillHost(servers={"shop":
server_behind(client)}) as host: ...

A host connects to servers itself; use this where only the FastMCP client knows how. The host asks, verifies
and fences as ever. Sizes are limited by what it reads, not by the connection, which is the client's own.
Changes are noticed when the host lists the server again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict

from skillwire.errors import SourceError
from skillwire.host import ServerConfig
from skillwire.lazy import missing_package
from skillwire.trust import ApprovalMode
from skillwire.version import VERSION
from skillwire.wire import (
    DIRECTORY_READ_SETTING,
    EXTENSION_ID,
    METHOD_GET,
    METHOD_LIST,
    METHOD_READ_DIRECTORY,
    declaration_in,
)

try:
    from fastmcp import Client
except ModuleNotFoundError as error:
    raise missing_package(error, "fastmcp") from None

_TOOLS: Final = ("tools/list", "tools/call")
_RESOURCES: Final = ("resources/list", "resources/read", "resources/templates/list")
_SKILLS: Final = (METHOD_LIST, METHOD_GET, METHOD_READ_DIRECTORY)


class _AnyParams(types.RequestParams):
    model_config = ConfigDict(extra="allow")


class _AnyRequest(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


class _AnyResult(BaseModel):
    model_config = ConfigDict(extra="allow")


def server_behind(client: Client[Any], *, approval: ApprovalMode = ApprovalMode.PROMPT) -> ServerConfig:
    """A server for `SkillHost(servers=...)` that is reached through a FastMCP client.

    The client is cloned: one that you have open is not disturbed. `approval` is the server's approval mode.
    """
    passed_on: list[Client[Any]] = []

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncGenerator[None]:
        try:
            async with client.new() as connected:
                capabilities = connected.server_capabilities
                declared = declaration_in(capabilities.model_dump(by_alias=True) if capabilities else {})
                if declared is not None:
                    settings = {DIRECTORY_READ_SETTING: True} if declared.directory_read else {}
                    server.extensions[EXTENSION_ID] = settings
                if capabilities is not None and capabilities.tools is not None:
                    for method in _TOOLS:
                        server.add_request_handler(method, _AnyParams, _unreachable)
                passed_on.append(connected)
                yield
        finally:
            passed_on.clear()

    server: Server[Any] = Server("fastmcp-client", version=VERSION, lifespan=lifespan)
    server.add_request_handler("resources/list", types.PaginatedRequestParams, _unreachable)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, _unreachable)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, _unreachable)
    for method in _SKILLS:
        server.add_request_handler(method, _AnyParams, _unreachable)

    async def pass_on(ctx: Any, call_next: CallNext) -> HandlerResult:
        if ctx.method not in (*_RESOURCES, *_SKILLS, *_TOOLS):
            return await call_next(ctx)
        if not passed_on:
            raise MCPError(types.INTERNAL_ERROR, "the FastMCP client is closed")
        params = {key: value for key, value in dict(ctx.params or {}).items() if key != "_meta"}
        request = _AnyRequest(method=ctx.method, params=params)
        result = await passed_on[-1].session.send_request(request, _AnyResult)
        return dict(result.model_extra or {})

    server.middleware.append(pass_on)
    return ServerConfig(instance=server, approval=approval)


async def _unreachable(ctx: Any, params: Any) -> Any:
    raise SourceError("a request of a FastMCP client was not passed on")
