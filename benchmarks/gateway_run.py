"""What a gateway costs: 50 upstreams with 10,000 skills, beside one direct server with the same skills.

    python -m benchmarks.gateway_run [UPSTREAMS [SKILLS]]

Prints when the first page came, how long a cached read takes directly and through the gateway (p50), how many
reads a second each serves at 16 connections, and how much memory each has used at most. One of the upstreams
takes three seconds for its first listing: nobody can have the first page sooner.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.calls import FIRST_ID, Call, list_call, make_call, result_of
from benchmarks.http_load import Connection, drive
from benchmarks.processes import Cores, ServerProcess
from benchmarks.tree import Skill, make_skill, write_tree

DELAY = 3.0
READS = 64
TURNS = 2_000
CONNECTIONS = 16
SECONDS = 5.0
SKILLWIRE = [sys.executable, "-m", "skillwire"]


def under(skill: Skill, label: str) -> Skill:
    return replace(skill, path=f"{label}/{skill.path}")


def reads(skills: list[Skill], host: str) -> list[Call]:
    made: list[Call] = []
    for skill in skills:
        content = skill.files["SKILL.md"].decode("ascii").splitlines()[1].encode()
        made.append(make_call("resources/read", {"uri": skill.uri}, [content]).over_http(host))
    return made


def median_ms(server: ServerProcess, calls: list[Call]) -> float:
    """The p50 of one read after another, when all have been read before."""
    connection = Connection(server.address)
    for call in calls:
        connection.ask(call)
    time.sleep(2.2)  # Files that changed a moment ago are not answered from memory.
    for call in calls:
        connection.ask(call)
    taken: list[float] = []
    for turn in range(TURNS):
        started = time.perf_counter()
        connection.ask(calls[turn % len(calls)], FIRST_ID + turn)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def main() -> None:
    upstreams = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    each = size // upstreams
    cores = Cores()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(upstreams):
            write_tree(folder / "all" / f"up-{number}", each, first=number * each)
        home = {"HOME": name, "XDG_CACHE_HOME": f"{name}/cache", "XDG_STATE_HOME": f"{name}/state"}
        env = {**os.environ, **home}
        behind = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.gateway_upstreams",
                str(folder / "all"),
                str(upstreams),
                str(DELAY),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        try:
            assert behind.stdout is not None
            urls = [behind.stdout.readline().strip() for _ in range(upstreams)]
            chosen = [
                (number, make_skill(number * each + turn))
                for turn in range(READS // upstreams + 1)
                for number in range(upstreams)
            ][:READS]
            measure(folder, urls, chosen, size, cores, home)
        finally:
            behind.kill()
            behind.wait()


def measure(
    folder: Path,
    urls: list[str],
    chosen: list[tuple[int, Skill]],
    size: int,
    cores: Cores,
    home: dict[str, str],
) -> None:
    servers = [f"--server=up-{number}={url}" for number, url in enumerate(urls)]
    options = ["--no-config", "--approval", "listed", "--http", "127.0.0.1:0", "--rate", "0"]
    gateway_command = [*SKILLWIRE, "gateway", *options, *servers]
    prefixes = [f"up-{number}={folder / 'all' / f'up-{number}'}" for number in range(len(urls))]
    direct_command = [*SKILLWIRE, "serve", "--http", "127.0.0.1:0", *prefixes]
    found: dict[str, tuple[float, float, int]] = {}
    for kind, command in (("gateway", gateway_command), ("direct", direct_command)):
        with ServerProcess(command, over_http=True, cores=cores, environment=home) as server:
            server.await_url(120)
            host = f"{server.address[0]}:{server.address[1]}"
            first = result_of(Connection(server.address, timeout=120).ask(list_call().over_http(host)))
            taken = time.perf_counter() - server.started
            count, cursor = len(first["skills"]), first.get("nextCursor")
            while cursor:
                page = result_of(Connection(server.address).ask(list_call(cursor).over_http(host)))
                count, cursor = count + len(page["skills"]), page.get("nextCursor")
            if count != size:
                raise SystemExit(f"{kind} lists {count} skills, not {size}")
            if kind == "gateway":
                print(
                    f"first page: {taken:.2f} s after the start of the process; the slowest upstream takes "
                    f"{DELAY:.1f} s ({taken / DELAY:.2f} of it); {server.cpu_seconds():.1f} s of CPU"
                )
            calls = reads([under(skill, f"up-{number}") for number, skill in chosen], host)
            p50 = median_ms(server, calls)
            load = drive(
                server.address, calls, connections=CONNECTIONS, seconds=SECONDS, cpu=server.cpu_seconds
            )
            found[kind] = (p50, load.rate, server.peak_bytes())
            print(
                f"{kind:>8}: p50 {p50:.3f} ms, {load.rate:,.0f} reads/s at {CONNECTIONS} connections "
                f"({load.cpu_per_thousand * 1000:.0f} µs of CPU each), "
                f"peak {server.peak_bytes() / 2**20:,.0f} MiB"
            )
    gateway, direct = found["gateway"], found["direct"]
    print(
        f"through the gateway: {gateway[0] - direct[0]:+.3f} ms at p50, "
        f"{gateway[1] / direct[1]:.2f} of the rate, {gateway[2] / direct[2]:.2f} of the memory"
    )


if __name__ == "__main__":
    main()
