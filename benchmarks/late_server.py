"""`skillwire serve --http` on free ports, one for each folder, in one process; answers can come late.

    python -m benchmarks.late_server [--delay SECONDS] [--method METHOD] FOLDER...

With `--method`, only the first server is late, and only for that method. Prints the URLs on standard error,
in one line.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from skillwire import SkillServer
from skillwire.server import HttpServer, parse_address


def late_app(folder: str, delay: float, method: str) -> Any:
    app = SkillServer(folder).http_app()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and delay:
            asked = dict(scope["headers"]).get(b"mcp-method", b"").decode()
            if not method or asked == method:
                await asyncio.sleep(delay)
        await app(scope, receive, send)

    return late


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.late_server")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--method", default="")
    given = parser.parse_args()
    servers: list[HttpServer] = []
    for number, folder in enumerate(given.folders):
        delay = given.delay if number == 0 or not given.method else 0.0
        servers.append(HttpServer(late_app(folder, delay, given.method), parse_address("127.0.0.1:0")))
    print(" ".join(server.url for server in servers), file=sys.stderr, flush=True)

    async def serve() -> None:
        await asyncio.gather(*(server.serve() for server in servers))

    asyncio.run(serve())


if __name__ == "__main__":
    main()
