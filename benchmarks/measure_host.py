"""Measures of the host's side. They run in a process of their own, on all cores, as a host would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.bench import Bench
from benchmarks.calls import list_call, make_call, result_of
from benchmarks.contestants import script
from benchmarks.http_load import Connection
from benchmarks.processes import ServerFailed, ServerProcess
from benchmarks.samples import Series
from benchmarks.tree import write_tree

SERVERS: Final = 20
SKILLS: Final = 100
DELAY_SECONDS: Final = 2.0
ALL: Final = "20 servers"
SLOWEST: Final = "the slowest alone"
BARE: Final = "a bare client"
_PATIENCE_SECONDS: Final = 300
_ROOT: Final = Path(__file__).parent.parent


def host(bench: Bench) -> None:
    """Discovery of twenty servers, a cached load, the catalog and a search."""
    trees = bench.work / "servers"
    for number in range(SERVERS):
        write_tree(trees / f"{number:02}", SKILLS, first=number * SKILLS)
    with ExitStack() as stack:
        # Servers of the first kind are up beforehand: what is measured is the host, not their start.
        servers = [
            stack.enter_context(
                ServerProcess(
                    script("plain_server", trees / f"{number:02}", "--http", 0, "--delay", delay(number)),
                    over_http=True,
                    cores=bench.cores,
                )
            )
            for number in range(SERVERS)
        ]
        for number, server in enumerate(servers):
            server.await_url(_PATIENCE_SECONDS)
            record(trees / f"{number:02}").write_text(_answers(server))
        _run(bench, trees, [f"{server.url}/mcp" for server in servers])


def delay(number: int) -> float:
    """How long a server takes for its listing: the first one is slow."""
    return DELAY_SECONDS if number == 0 else 0


def record(tree: Path) -> Path:
    """Where the answers are that a recorded server of this tree gives."""
    return tree.with_suffix(".record")


def _answers(server: ServerProcess) -> str:
    host = server.url.removeprefix("http://")
    connection = Connection(server.address)
    calls = {"server/discover": make_call("server/discover", {}), "skills/list": list_call()}
    lines = [
        line
        for method, call in calls.items()
        for line in (method, json.dumps(result_of(connection.ask(call.over_http(host)))))
    ]
    connection.close()
    return "\n".join(lines)


def _run(bench: Bench, trees: Path, urls: list[str]) -> None:
    def run(turn: int) -> None:
        if bench.cores.are_apart:
            os.sched_setaffinity(0, bench.cores.server | bench.cores.client)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.host_run", str(trees), str(bench.work), *urls],
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
                capture_output=True,
                text=True,
                timeout=_PATIENCE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"the host was not done in {_PATIENCE_SECONDS} seconds") from None
        finally:
            bench.cores.pin_client()
        if done.returncode:
            raise ServerFailed(f"the host failed: {done.stderr[-300:]}")
        for line in done.stdout.splitlines():
            said = json.loads(line)
            bench.record(
                said["measure"], said["contestant"], SERVERS * SKILLS, turn, said["value"], said["unit"]
            )

    bench.take_turns({Series("host", "skillwire", SERVERS * SKILLS): run})
