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

from benchmarks.contestants import script
from benchmarks.measure_host import ALL, SKILLS, SLOWEST, delay
from skillwire.host.config import ServerConfig
from skillwire.host.host import SkillHost

_REPEATS: Final = 50


async def main(trees: list[Path], state: Path, urls: list[str]) -> None:
    running = {f"s{number:02}": ServerConfig(url=url) for number, url in enumerate(urls)}
    for who, servers in ((SLOWEST, _slowest(running)), (ALL, running)):
        _say("host-discovery http", who, await _discover(servers, state), "s")
    children = {f"s{number:02}": _child(number, tree) for number, tree in enumerate(trees)}
    for who, servers in ((SLOWEST, _slowest(children)), (ALL, children)):
        _say("host-discovery stdio", who, await _discover(servers, state), "s")
    await _use(running, state)


async def _discover(servers: Mapping[str, ServerConfig], state: Path) -> float:
    start = time.perf_counter()
    async with _host(servers, state) as host:
        seconds = time.perf_counter() - start
        found = len(host.skills())
    if found != len(servers) * SKILLS:
        raise SystemExit(f"{found} skills were found, {len(servers) * SKILLS} are there")
    return seconds


async def _use(servers: Mapping[str, ServerConfig], state: Path) -> None:
    """What an agent does with an open host: load again what it had, show the catalogue, search."""
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
        _say("host-load cached", "skillwire", median(seconds) * 1000, "ms")
        _say("host-catalogue", "skillwire", await _time(host.catalog), "ms")
        search = getattr(host, "search", None)
        if search is None:
            print(json.dumps({"note": "host-search was left out: SkillHost has no search yet"}), flush=True)
        else:
            _say("host-search", "skillwire", await _time(lambda: search("approve a refund")), "ms")


def _host(servers: Mapping[str, ServerConfig], state: Path) -> SkillHost:
    async def yes(_request: object) -> bool:
        return True

    place = Path(tempfile.mkdtemp(dir=state, prefix="host-"))
    return SkillHost(
        servers=dict(servers),
        usual=False,
        ask=yes,
        cache_directory=place / "cache",
        approvals_file=place / "approvals.sqlite",
    )


def _child(number: int, tree: Path) -> ServerConfig:
    """A stdio server: the first is the plain one and late, the others are ours."""
    if number == 0:
        command = script("plain_server", tree, "--delay", delay(number))
    else:
        command = [str(Path(sys.executable).parent / "skillwire"), "serve", str(tree)]
    return ServerConfig(command=tuple(command), connect_seconds=60, call_seconds=60)


def _slowest(servers: Mapping[str, ServerConfig]) -> dict[str, ServerConfig]:
    return {"s00": servers["s00"]}


async def _time(work: Callable[[], object]) -> float:
    """The median time of a call, awaited where it wants to be, in milliseconds."""
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
