"""The clean server with switches: each defect breaks one rule, and is known by the rule that it breaks.

`python -m conformance.defective_server NAME` serves a defect over stdio, and `clean` has none. `serving_http`
serves one over HTTP, in the event loop of the test.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from conformance.clean_server import LEGACY, MODERN, CleanServer, Json, plant
from conformance.defects_content import content_defects
from conformance.defects_entries import entry_defects
from conformance.defects_loose import loose_defects
from conformance.defects_methods import method_defects
from conformance.defects_protocol import protocol_defects
from conformance.switches import Defect

__all__ = ["DEFECTS", "LEGACY", "MODERN", "make_server", "serve_stdio", "serving_http"]

DEFECTS: dict[str, Defect] = {
    defect.name: defect
    for defects in (protocol_defects, method_defects, entry_defects, content_defects, loose_defects)
    for defect in defects()
}


def make_server(name: str = "clean") -> CleanServer:
    """A server with one defect, or with none."""
    tree = plant()
    server = CleanServer(tree)
    if name != "clean":
        DEFECTS[name].switch_on(server)
    return server


async def serve_stdio(server: CleanServer) -> None:
    """One message a line. A bent answer may carry `stdout`, raw lines to write first."""

    def write(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    async def answer(message: Json) -> None:
        reply = await server.handle(message)
        if reply is None:
            return
        for line in reply.pop("stdout", []):
            write(line)
        if reply.pop("http", {}).get("dies"):
            sys.exit(1)
        write(json.dumps(reply))

    async with anyio.create_task_group() as tasks:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            message = json.loads(line)
            if "id" in message:
                tasks.start_soon(answer, message)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def serving_http(server: CleanServer) -> AsyncGenerator[str]:
    """The URL of a server until the end of the block. uvicorn runs it, without anything of Skillwire."""
    import uvicorn

    class Uvicorn(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    # With an explicit protocol: asyncio sets TCP_NODELAY only if it knows that this is TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        running = Uvicorn(uvicorn.Config(server, log_level="critical", lifespan="off", ws="none"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.serve, [listening])
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            running.should_exit = True


if __name__ == "__main__":
    anyio.run(serve_stdio, make_server(sys.argv[1]))
