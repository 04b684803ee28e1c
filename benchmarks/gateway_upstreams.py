"""Many skill servers in one process, for the benchmark of the gateway.

    python -m benchmarks.gateway_upstreams FOLDER COUNT DELAY

Serves `FOLDER/up-0`, `FOLDER/up-1` and so on over HTTP, each on a port of its own, and prints their URLs. The
first one takes DELAY seconds for the first page of its listing, whoever asks.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import urllib.request
from pathlib import Path

from skillwire import SkillServer
from skillwire.server import Address, Asgi, HttpServer, Message, Receive, Scope, Send, ServerOptions


def slowed(app: Asgi, seconds: float) -> Asgi:
    """The application, which takes a while for the first page of a listing."""

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") != b"skills/list":
            await app(scope, receive, send)
            return
        message = await receive()
        if b'"cursor"' not in message.get("body", b""):
            await asyncio.sleep(seconds)
        waiting = [message]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await app(scope, replay, send)

    return slow


async def main() -> None:
    # Gateways are stopped while they still list.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
    folder, count, delay = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    servers: list[HttpServer] = []
    for number in range(count):
        app = SkillServer(folder / f"up-{number}", options=ServerOptions(ttl_ms=600_000)).http_app()
        servers.append(HttpServer(slowed(app, delay) if not number else app, Address("127.0.0.1", 0)))
    running = [asyncio.ensure_future(server.serve()) for server in servers]
    for server in servers:
        await asyncio.to_thread(urllib.request.urlopen, server.url.replace("/mcp", "/healthz"))
    print("\n".join(server.url for server in servers), flush=True)
    await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(main())
