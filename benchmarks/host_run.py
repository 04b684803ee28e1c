"""The host's side, in a process of its own: one JSON line per value on standard output.

python -m benchmarks.host_run FOLDER_OF_TREES STATE_FOLDER URL...
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from inspect import isawaitable
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.bare_host import time_listings
from benchmarks.contestants import script
from benchmarks.measure_host import ALL, BARE, SKILLS, SLOWEST, delay, record
from skillwire.host import ServerConfig, SkillHost

_REPEATS: Final = 50
_US: Final = "skillwire"


async def main(trees: list[Path], state: Path, urls: list[str]) -> None:
    running = {f"s{number:02}": ServerConfig(url=url) for number, url in enumerate(urls)}
    recorded = {
        f"s{number:02}": _child(script("recorded_server", record(tree), delay(number), isolated=True))
        for number, tree in enumerate(trees)
    }
    # Imports on first use are not caused by a server.
    await _discover({"s01": running["s01"]}, state)
    for measure, servers in (("http", running), ("stdio", recorded)):
        await _compare(measure, SLOWEST, {"s00": servers["s00"]}, state)
        await _compare(measure, ALL, servers, state)
    await _start_real(trees, state)
    await _use(running, state)


async def _compare(measure: str, who: str, servers: Mapping[str, ServerConfig], state: Path) -> None:
    seconds, cpu = await _discover(servers, state)
    _say(f"host-discovery {measure}", who, seconds, "s")
    _say(f"host-work {measure}", who, cpu * 1000, "CPU ms")


async def _start_real(trees: list[Path], state: Path) -> None:
    """Real servers that have to be started; the slowest of them is the least that any client waits for."""
    program = str(Path(sys.executable).parent / _US)
    commands = [[program, "serve", str(tree)] for tree in trees]
    seconds, found = time_listings(commands, _homes(state))
    _expect(found, len(trees))
    _say("host-discovery start", BARE, seconds, "s")
    homes = _homes(state)
    children = {f"s{number:02}": _child(command, homes) for number, command in enumerate(commands)}
    seconds, cpu = await _discover(children, state)
    _say("host-discovery start", ALL, seconds, "s")
    _say("host-work start", ALL, cpu * 1000, "CPU ms")


async def _discover(servers: Mapping[str, ServerConfig], state: Path) -> tuple[float, float]:
    """How long it takes until the skills of all servers are listed, and the processor time of the host."""
    start, used = time.perf_counter(), time.process_time()
    async with _host(servers, state) as host:
        seconds, cpu = time.perf_counter() - start, time.process_time() - used
        _expect(len(host.skills()), len(servers))
    return seconds, cpu


async def _use(servers: Mapping[str, ServerConfig], state: Path) -> None:
    """What an agent does with an open host: load again what it had, show the catalog, search."""
    async with _host(servers, state) as host:
        name = host.skills()[0].handle
        text = (await host.load(name)).text
        seconds: list[float] = []
        for _ in range(_REPEATS):
            host.release(name)
            start = time.perf_counter()
            loaded = await host.load(name)
            seconds.append(time.perf_counter() - start)
            if len(loaded.text) != len(text):
                raise SystemExit("a cached load gave another text")
        _say("host-load cached", _US, median(seconds) * 1000, "ms")
        # A different budget each time, so that it is rendered; then one that was requested before.
        budgets = iter(range(20_000, 20_000 + _REPEATS))
        _say("host-catalog", _US, await _time(lambda: host.catalog(budget=next(budgets))), "ms")
        _say("host-catalog again", _US, await _time(host.catalog), "ms")
        start = time.perf_counter()
        await host.search("approve a refund")
        _say("host-search first", _US, (time.perf_counter() - start) * 1000, "ms")
        _say("host-search", _US, await _time(lambda: host.search("approve a refund")), "ms")


def _host(servers: Mapping[str, ServerConfig], state: Path) -> SkillHost:
    async def yes(_request: object) -> bool:
        return True

    place = Path(tempfile.mkdtemp(dir=state, prefix="host-"))
    return SkillHost(
        servers=dict(servers),
        ask=yes,
        cache_directory=place / "cache",
        approvals_file=place / "approvals.sqlite",
    )


def _child(command: list[str], environment: Mapping[str, str] | None = None) -> ServerConfig:
    return ServerConfig(
        command=tuple(command), env=dict(environment or {}), connect_seconds=60, call_seconds=60
    )


def _homes(state: Path) -> dict[str, str]:
    """Empty directories for what servers keep."""
    home = tempfile.mkdtemp(dir=state, prefix="home-")
    return dict.fromkeys(("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"), home)


def _expect(found: int, servers: int) -> None:
    if found != servers * SKILLS:
        raise SystemExit(f"{found} skills were found, {servers * SKILLS} are there")


async def _time(work: Callable[[], object]) -> float:
    """The median time of a call, awaited if necessary, in milliseconds."""
    seconds: list[float] = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        done = work()
        if isawaitable(done):
            await done
        seconds.append(time.perf_counter() - start)
    return median(seconds) * 1000


def _say(measure: str, contestant: str, value: float, unit: str) -> None:
    print(
        json.dumps({"measure": measure, "contestant": contestant, "value": value, "unit": unit}), flush=True
    )


if __name__ == "__main__":
    folder, state, *urls = sys.argv[1:]
    trees = sorted(path for path in Path(folder).iterdir() if path.is_dir())
    asyncio.run(main(trees, Path(state), urls))
