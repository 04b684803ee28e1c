"""A bare client: lists all skills of one server with the SDK, and prints how many there are.

    python -m benchmarks.gateway_client URL

The benchmark of the gateway compares the time of this process with that of a gateway's first page.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict


class _Request(types.Request[dict[str, Any], str]):
    method: str
    params: dict[str, Any]


class _Result(types.Result):
    model_config = ConfigDict(extra="allow")


async def main() -> None:
    count, cursor = 0, ""
    async with Client(streamable_http_client(sys.argv[1])) as client:
        while not count or cursor:
            params = {"cursor": cursor} if cursor else {}
            request: Any = _Request(method="skills/list", params=params)
            page = (await client.session.send_request(request, _Result)).model_extra or {}
            count, cursor = count + len(page["skills"]), page.get("nextCursor", "")
        print(count, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
