"""Measures of starting: from nothing to the first lists, and from there through all pages.

Over stdio both eras are measured: `start` is the first page of `skills/list` on 2026-07-28, `start-2025` what
agent clients do today, `initialize` and the lists of 2025-06-18.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.bench import CRAWL_SECONDS, PATIENCE_SECONDS, Bench, check_enumeration
from benchmarks.calls import (
    FIRST_ID,
    GREETED,
    Call,
    WrongAnswer,
    check_entry,
    greeting_call,
    list_call,
    plain_call,
    read_call,
    result_of,
)
from benchmarks.contestants import PLAIN, Contestant, script
from benchmarks.http_load import Connection
from benchmarks.processes import ServerProcess, TooSlow
from benchmarks.samples import Series
from benchmarks.stdio_load import Wire
from benchmarks.tree import SkillTree

TRANSPORTS: Final = ("stdio", "http")
FLOORS: Final = {
    "imports": "imports",
    "imports + scan": "scan",
    "imports + stat": "stat",
    "walk + hash": "hash",
}
DUMPS: Final = "one json.dumps"
_CURSOR: Final = re.compile(rb'"nextCursor":"([^"]*)"')
_READ: Final = 20
_DROP: Final = Path("/proc/sys/vm/drop_caches")


def warm(bench: Bench) -> None:
    """Start with the files in memory and no cache of an earlier start, then once more with that cache."""
    runners: dict[Series, Callable[[int], None]] = {}
    for transport in TRANSPORTS:
        for contestant, tree in bench.entrants(transport):
            runners[Series(f"start {transport}", contestant.name, tree.size)] = _starter(
                bench, contestant, tree, transport
            )
    for contestant, tree in bench.entrants("stdio"):
        series = Series("start-2025 stdio", contestant.name, tree.size)
        runners[series] = _client_starter(bench, contestant, tree)
    for size, tree in bench.trees.items():
        for name, mode in FLOORS.items():
            runners[Series("start stdio", name, size)] = _floor(bench, name, mode, tree)
    bench.take_turns(runners)


def cold(bench: Bench) -> None:
    """Start after the system has dropped every file from its page cache."""

    def runner(contestant: Contestant, tree: SkillTree, transport: str) -> Callable[[int], None]:
        def run(turn: int) -> None:
            if not drop_caches():
                bench.samples.note("start-cold is a first run: the page cache could not be dropped")
            seconds, _ = _START[transport](bench, contestant, tree, bench.fresh_homes())
            bench.record(f"start-cold {transport}", contestant.name, tree.size, turn, seconds, "s")

        return run

    bench.take_turns(
        {
            Series(f"start-cold {transport}", who.name, tree.size): runner(who, tree, transport)
            for transport in TRANSPORTS
            for who, tree in bench.entrants(transport)
        },
        rounds=None if drop_caches() else 1,
    )


def drop_caches() -> bool:
    try:
        _DROP.write_text("3\n")
    except OSError:
        return False
    return True


def enumeration(bench: Bench) -> None:
    """All pages, one after the other; and the most memory that it took."""
    bench.take_turns(
        {
            Series(f"enumerate {transport}", who.name, tree.size): _enumerator(bench, who, tree, transport)
            for transport in TRANSPORTS
            for who, tree in bench.entrants(transport)
        }
    )


def _starter(bench: Bench, contestant: Contestant, tree: SkillTree, transport: str) -> Callable[[int], None]:
    def run(turn: int) -> None:
        homes = bench.fresh_homes()
        # A server without a cache starts a second time as it did the first time.
        for kind in ("start", "start-again") if contestant.keeps_index else ("start",):
            measure = f"{kind} {transport}"
            seconds, cpu = _START[transport](bench, contestant, tree, homes)
            bench.record(measure, contestant.name, tree.size, turn, seconds, "s")
            bench.record(f"{measure} cpu", contestant.name, tree.size, turn, cpu, "CPU s")

    return run


def _client_starter(bench: Bench, contestant: Contestant, tree: SkillTree) -> Callable[[int], None]:
    """Start a server as an agent client does: greet it, then ask for its tools, if any, and resources."""

    def run(turn: int) -> None:
        command, homes = contestant.stdio(tree.root), bench.fresh_homes()
        with ServerProcess(command, over_http=False, cores=bench.cores, environment=homes) as server:
            wire = Wire(server, PATIENCE_SECONDS)
            greeted = result_of(wire.ask(greeting_call()))
            os.write(server.stdin, GREETED)
            if "tools" in greeted["capabilities"]:
                wire.ask(plain_call("tools/list", {}, [b'"tools"']), FIRST_ID + 1)
            # The plain server has the methods of the extension, and lists no resources.
            has_list = contestant.name != PLAIN
            page = (
                wire.ask(plain_call("resources/list", {}, [b'"resources"']), FIRST_ID + 2)
                if has_list
                else b""
            )
            seconds, cpu = time.perf_counter() - server.started, server.cpu_seconds()
        if has_list and tree.skill(0).uri.encode() not in page:
            raise WrongAnswer("the first skill is not on the first page")
        bench.record("start-2025 stdio", contestant.name, tree.size, turn, seconds, "s")
        bench.record("start-2025 stdio cpu", contestant.name, tree.size, turn, cpu, "CPU s")

    return run


def _floor(bench: Bench, name: str, mode: str, tree: SkillTree) -> Callable[[int], None]:
    def run(turn: int) -> None:
        command = script("floor", mode, tree.root)
        with ServerProcess(command, over_http=False, cores=bench.cores) as server:
            Wire(server, PATIENCE_SECONDS).ask(list_call())
            seconds, cpu = time.perf_counter() - server.started, server.cpu_seconds()
        bench.record("start stdio", name, tree.size, turn, seconds, "s")
        bench.record("start stdio cpu", name, tree.size, turn, cpu, "CPU s")

    return run


def _start_stdio(
    bench: Bench, contestant: Contestant, tree: SkillTree, homes: Mapping[str, str]
) -> tuple[float, float]:
    command = contestant.stdio(tree.root)
    with ServerProcess(command, over_http=False, cores=bench.cores, environment=homes) as server:
        page = Wire(server, PATIENCE_SECONDS).ask(list_call())
        seconds, cpu = time.perf_counter() - server.started, server.cpu_seconds()
    _check_first(tree, page)
    return seconds, cpu


def _start_http(
    bench: Bench, contestant: Contestant, tree: SkillTree, homes: Mapping[str, str]
) -> tuple[float, float]:
    command = contestant.http(tree.root)
    with ServerProcess(command, over_http=True, cores=bench.cores, environment=homes) as server:
        server.await_url(PATIENCE_SECONDS)
        connection = Connection(server.address, PATIENCE_SECONDS)
        page = connection.ask(list_call().over_http(server.url.removeprefix("http://")))
        seconds, cpu = time.perf_counter() - server.started, server.cpu_seconds()
        connection.close()
    _check_first(tree, page)
    return seconds, cpu


_START: Final = {"stdio": _start_stdio, "http": _start_http}


def _check_first(tree: SkillTree, page: bytes) -> None:
    entries = {entry["uri"]: entry for entry in result_of(page)["skills"]}
    skill = tree.skill(0)
    if skill.uri not in entries:
        raise WrongAnswer("the first skill is not on the first page")
    check_entry(skill, entries[skill.uri])


def _enumerator(
    bench: Bench, contestant: Contestant, tree: SkillTree, transport: str
) -> Callable[[int], None]:
    name, size = contestant.name, tree.size
    measure = f"enumerate {transport}"
    crawls = False

    def run(turn: int) -> None:
        nonlocal crawls
        with _asking(bench, contestant, tree, transport, check=turn == 0) as (server, ask):
            for skill in tree.spread(_READ):
                ask(read_call(skill))
            bench.record(f"memory {transport}", name, size, turn, server.peak_bytes() / 1e6, "MB")
            if crawls:
                return
            try:
                seconds, pages = _all_pages(ask)
            except TooSlow as error:
                crawls = True  # Its memory is still measured.
                bench.note_of(Series(measure, name, size), error)
                return
            bench.record(measure, name, size, turn, seconds, "s")
        entries = check_enumeration(tree, pages)
        if contestant is bench.contestants[0]:
            bench.record(measure, DUMPS, size, turn, min(_time_dumps(entries) for _ in range(3)), "s")

    return run


@contextmanager
def _asking(
    bench: Bench, contestant: Contestant, tree: SkillTree, transport: str, *, check: bool
) -> Iterator[tuple[ServerProcess, Callable[[Call], bytes]]]:
    """A running contestant, and the function that sends it a request."""
    if transport == "stdio":
        with bench.wired(contestant, tree, check=check) as (server, wire):
            yield server, wire.ask
        return
    with bench.serving(contestant, tree, check=check) as server:
        host = server.url.removeprefix("http://")
        connection = Connection(server.address, PATIENCE_SECONDS)
        try:
            yield server, lambda call: connection.ask(call.over_http(host))
        finally:
            connection.close()


def _all_pages(ask: Callable[[Call], bytes]) -> tuple[float, list[bytes]]:
    """Follow the cursors without parsing the pages: the cost of that is the client's."""
    pages: list[bytes] = []
    cursor: str | None = None
    start = time.perf_counter()
    while True:
        pages.append(ask(list_call(cursor)))
        seconds = time.perf_counter() - start
        found = _CURSOR.search(pages[-1])
        if found is None:
            return seconds, pages
        if seconds / len(pages) > CRAWL_SECONDS:
            raise TooSlow(f"a page takes {seconds / len(pages):.2f} s")
        cursor = found[1].decode()


def _time_dumps(entries: list[object]) -> float:
    start = time.perf_counter()
    json.dumps(entries)
    return time.perf_counter() - start
