"""The clean server with switches: each defect breaks one rule, and is known by the rule that it breaks.

`python defective_server.py NAME` serves a defect over stdio, `NAME --http` over HTTP; `clean` has none.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio

from conformance.clean_server import LEGACY, MODERN, CleanServer, Json, plant
from conformance.defects_content import content_defects
from conformance.defects_entries import entry_defects
from conformance.defects_loose import loose_defects
from conformance.defects_methods import method_defects
from conformance.defects_protocol import protocol_defects
from conformance.switches import Defect

__all__ = ["DEFECTS", "LEGACY", "MODERN", "make_server"]

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


if __name__ == "__main__":
    wanted = make_server(sys.argv[1])
    if "--http" in sys.argv:
        import uvicorn

        class Announcing(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets)
                port = self.servers[0].sockets[0].getsockname()[1]
                print(f"http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)

        Announcing(uvicorn.Config(wanted, port=0, log_level="critical", lifespan="off")).run()
    else:
        anyio.run(serve_stdio, wanted)
