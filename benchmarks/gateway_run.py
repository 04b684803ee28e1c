"""What a gateway costs: 50 upstreams with 10,000 skills, beside one direct server with the same skills.

    python -m benchmarks.gateway_run [UPSTREAMS [SKILLS]]

Three things are measured, each as a ratio of two runs beside each other, so that a busy machine slows both:

- The first page. One upstream takes three seconds for the first page of its listing. A bare client of the SDK
  lists that upstream alone; the gateway lists all of them. Both times begin with the start of the process and
  end with the listing, of the gateway with the response to a client that has asked since it accepts
  connections. They take turns, and the medians are compared.
- Cached reads: one after another (p50), and over 16 connections, by the clock and by CPU time. The gateway
  and the direct server take turns.
- Peak memory, after all that.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.calls import FIRST_ID, Call, list_call, make_call, result_of
from benchmarks.http_load import Connection, drive
from benchmarks.processes import Cores, ServerProcess
from benchmarks.tree import Skill, make_skill, write_tree

DELAY = 3.0
ROUNDS = 3
READS = 64
TURNS = 700
CONNECTIONS = 16
SECONDS = 3.0
SKILLWIRE = [sys.executable, "-m", "skillwire"]


def main() -> None:
    upstreams = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    each = size // upstreams
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "all"
        for number in range(upstreams):
            write_tree(folder / f"up-{number}", each, first=number * each)
        home = {"HOME": name, "XDG_CACHE_HOME": f"{name}/cache", "XDG_STATE_HOME": f"{name}/state"}
        command = [sys.executable, "-m", "benchmarks.gateway_upstreams", folder, str(upstreams), str(DELAY)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **home}
        ) as behind:
            try:
                assert behind.stdout is not None
                urls = [behind.stdout.readline().strip() for _ in range(upstreams)]
                measure(folder, urls, size, home)
            finally:
                behind.kill()


def measure(folder: Path, urls: Sequence[str], size: int, home: dict[str, str]) -> None:
    cores = Cores()
    servers = [f"--server=up-{number}={url}" for number, url in enumerate(urls)]
    options = ["--no-config", "--approval", "listed", "--http", "127.0.0.1:0", "--rate", "0"]
    folders = [f"up-{number}={folder / f'up-{number}'}" for number in range(len(urls))]
    commands = {
        "gateway": [*SKILLWIRE, "gateway", *options, *servers],
        "direct": [*SKILLWIRE, "serve", "--http", "127.0.0.1:0", *folders],
    }
    bare, ours = zip(
        *[
            # Each with a cache of its own: a gateway that ran before begins with the last listings.
            (
                bare_listing(urls[0]),
                first_page(commands["gateway"], cores, {**home, **cache_in(home, number)}),
            )
            for number in range(ROUNDS)
        ],
        strict=True,
    )
    ratio = statistics.median(page for page, _ in ours) / statistics.median(bare)
    print(
        f"first page: {spread([page for page, _ in ours])} s, of a bare client at the slowest upstream "
        f"{spread(bare)} s: {ratio:.2f} of it; {spread([cpu for _, cpu in ours])} s of CPU",
        flush=True,
    )
    with ExitStack() as stack:
        running = {
            kind: stack.enter_context(ServerProcess(command, over_http=True, cores=cores, environment=home))
            for kind, command in commands.items()
        }
        calls: dict[str, list[Call]] = {}
        for kind, server in running.items():
            server.await_url(120)
            host = f"{server.address[0]}:{server.address[1]}"
            until = time.monotonic() + 120  # A gateway answers before the slowest of its servers has.
            while (count := listed(server, host)) != size:
                if time.monotonic() > until:
                    raise SystemExit(f"{kind} lists {count} skills, not {size}")
                time.sleep(0.2)
            calls[kind] = reads(len(urls), size, host)
            warm(server, calls[kind])
        compare_reads(running, calls)
        peaks = {kind: server.peak_bytes() for kind, server in running.items()}
    print(
        f"memory: {peaks['gateway'] / 2**20:,.0f} MiB and {peaks['direct'] / 2**20:,.0f} MiB, "
        f"{peaks['gateway'] / peaks['direct']:.2f} of the direct server's"
    )


def cache_in(home: dict[str, str], number: int) -> dict[str, str]:
    return {"XDG_CACHE_HOME": f"{home['HOME']}/cache-{number}"}


def bare_listing(url: str) -> float:
    """How long a process takes that lists one server."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "benchmarks.gateway_client", url], check=True, capture_output=True)
    return time.perf_counter() - started


def first_page(command: Sequence[str], cores: Cores, home: dict[str, str]) -> tuple[float, float]:
    """The seconds from the start of a gateway to its first page, and those of CPU."""
    with ServerProcess(command, over_http=True, cores=cores, environment=home) as server:
        server.await_url(120)
        host = f"{server.address[0]}:{server.address[1]}"
        result_of(Connection(server.address, timeout=120).ask(list_call().over_http(host)))
        return time.perf_counter() - server.started, server.cpu_seconds()


def listed(server: ServerProcess, host: str) -> int:
    """How many skills a server lists."""
    count, cursor = 0, None
    while not count or cursor:
        connection = Connection(server.address, timeout=120)
        page = result_of(connection.ask(list_call(cursor).over_http(host)))
        count, cursor = count + len(page["skills"]), page.get("nextCursor")
    return count


def reads(upstreams: int, size: int, host: str) -> list[Call]:
    """Requests for skills of all upstreams in turn."""
    each = size // upstreams
    chosen = [
        (number, make_skill(number * each + turn))
        for turn in range(READS // upstreams + 1)
        for number in range(upstreams)
    ][:READS]
    return [read(replace(skill, path=f"up-{number}/{skill.path}"), host) for number, skill in chosen]


def read(skill: Skill, host: str) -> Call:
    content = skill.files["SKILL.md"].decode("ascii").splitlines()[1].encode()
    return make_call("resources/read", {"uri": skill.uri}, [content]).over_http(host)


def warm(server: ServerProcess, calls: Sequence[Call]) -> None:
    connection = Connection(server.address)
    for call in calls:
        connection.ask(call)
    time.sleep(2.2)  # Files that changed a moment ago are not answered from memory.
    for call in calls:
        connection.ask(call)


def compare_reads(running: dict[str, ServerProcess], calls: dict[str, list[Call]]) -> None:
    p50: dict[str, list[float]] = {kind: [] for kind in running}
    rate: dict[str, list[float]] = {kind: [] for kind in running}
    cpu: dict[str, list[float]] = {kind: [] for kind in running}
    for _ in range(ROUNDS):
        for kind, server in running.items():
            p50[kind].append(median_ms(server, calls[kind]))
    for _ in range(ROUNDS):
        for kind, server in running.items():
            load = drive(
                server.address,
                calls[kind],
                connections=CONNECTIONS,
                seconds=SECONDS,
                cpu=server.cpu_seconds,
            )
            rate[kind].append(load.rate)
            cpu[kind].append(load.cpu_per_thousand * 1000)
    for kind in running:
        print(
            f"{kind:>8}: p50 {spread(p50[kind], 3)} ms, {spread(rate[kind], 0)} reads/s at {CONNECTIONS} "
            f"connections, {spread(cpu[kind], 0)} µs of CPU each"
        )
    middle = {
        name: {kind: statistics.median(values) for kind, values in found.items()}
        for name, found in (("p50", p50), ("rate", rate), ("cpu", cpu))
    }
    print(
        f"through the gateway: {middle['p50']['gateway'] - middle['p50']['direct']:+.3f} ms at p50, "
        f"{middle['rate']['gateway'] / middle['rate']['direct']:.2f} of the rate by the clock, "
        f"{middle['cpu']['direct'] / middle['cpu']['gateway']:.2f} by CPU",
        flush=True,
    )


def median_ms(server: ServerProcess, calls: Sequence[Call]) -> float:
    """The p50 of one read after another."""
    connection = Connection(server.address)
    taken: list[float] = []
    for turn in range(TURNS):
        started = time.perf_counter()
        connection.ask(calls[turn % len(calls)], FIRST_ID + turn)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and the least and the greatest value."""
    least, middle, most = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


if __name__ == "__main__":
    main()
