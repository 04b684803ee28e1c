"""`skillwire serve --http` on a free port, whose answers come late.

    python -m benchmarks.late_server FOLDER [--delay SECONDS] [--method METHOD]

Prints its URL on standard error, as the command does.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from skillwire import SkillServer
from skillwire.server.http.server import HttpServer, parse_address


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.late_server")
    parser.add_argument("folder")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--method", default="")
    given = parser.parse_args()
    app = SkillServer(given.folder).http_app()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and given.delay:
            headers = dict(scope["headers"])
            if not given.method or headers.get(b"mcp-method", b"").decode() == given.method:
                await asyncio.sleep(given.delay)
        await app(scope, receive, send)

    http = HttpServer(late, parse_address("127.0.0.1:0"))
    print(http.url, file=sys.stderr, flush=True)
    asyncio.run(http.serve())


if __name__ == "__main__":
    main()
