"""The SDK's own client, with the methods of the extension."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from skillwire.wire import EXTENSION_ID

ERAS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
"""Protocol versions, and the mode in which the client comes to speak them."""

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What every request of 2026-07-28 says about its client."""

both_eras = pytest.mark.parametrize("version", ERAS)


class Ask(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


class Answer(types.Result):
    model_config = ConfigDict(extra="allow")


@asynccontextmanager
async def connected(target: Any, version: str) -> AsyncGenerator[Client]:
    """A client that speaks a protocol version to a server object, a URL or stdio parameters."""
    mode: Any = ERAS[version]
    async with Client(target, mode=mode, extensions=[advertise(EXTENSION_ID)]) as client:
        assert client.protocol_version == version
        yield client


def modern_request(method: str, **params: Any) -> dict[str, Any]:
    """A request of 2026-07-28 as the arguments of `httpx`."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if name := params.get("uri") or params.get("name"):
        headers["Mcp-Name"] = name
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    return {"json": body, "headers": headers}


async def call(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """The result of any method, as it came."""
    answer = await client.session.send_request(Ask(method=method, params=params), Answer)  # pyright: ignore[reportArgumentType]
    return answer.model_dump(by_alias=True, exclude_unset=True, mode="json")


async def refusal(client: Client, method: str, **params: Any) -> types.ErrorData:
    """The error that a method answers with."""
    with pytest.raises(MCPError) as refused:
        await call(client, method, **params)
    return refused.value.error
