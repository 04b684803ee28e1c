"""Measures of serving: reads and entries over HTTP and stdio, as rates and as processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final, TypeAlias

from benchmarks.bench import CRAWL_SECONDS, PATIENCE_SECONDS, Bench
from benchmarks.calls import Call, WrongAnswer, get_call, read_call
from benchmarks.contestants import Contestant, script
from benchmarks.http_load import Connection, Load, drive
from benchmarks.processes import ServerFailed, ServerProcess, TooSlow
from benchmarks.samples import Series
from benchmarks.stdio_load import Wire
from benchmarks.tree import Skill, SkillTree

BARE_HTTP: Final = "bare uvicorn"
BARE_STDIO: Final = "bare loop"
KINDS: Final[dict[str, Callable[[Skill], Call]]] = {"read": read_call, "get": get_call}
RATE: Final = "requests/s"
CPU: Final = "CPU s per 1,000"
_DISTINCT: Final = 100
_ONCE: Final = 1000

Runners: TypeAlias = dict[Series, Callable[[int], None]]


def http(bench: Bench, kinds: Sequence[str]) -> None:
    """Keep every server of every size running, and measure them in turn."""
    with ExitStack() as stack:
        runners: Runners = {}
        sizes: list[int] = []
        for contestant, tree in bench.entrants("http", under_load=True):
            try:
                server = stack.enter_context(bench.serving(contestant, tree))
                _refuse_crawl(server, tree)
            except (ServerFailed, WrongAnswer, OSError) as error:
                bench.give_up(Series("http", contestant.name, tree.size), error)
                continue
            host = server.url.removeprefix("http://")
            if not sizes:
                sizes = _answer_sizes(server, tree)
            calls = {kind: [call.over_http(host) for call in _calls(kind, tree)] for kind in kinds}
            _add_http(bench, runners, contestant.name, tree.size, server, calls)
        size, tree = next(iter(bench.trees.items()))
        bare = ServerProcess(script("bare_http", *sizes), over_http=True, cores=bench.cores)
        stack.enter_context(bare)
        bare.await_url(PATIENCE_SECONDS)
        calls = {
            kind: [call.over_http("bare", f"/{kind}").to_bare() for call in _calls(kind, tree)]
            for kind in kinds
        }
        _add_http(bench, runners, BARE_HTTP, size, bare, calls)
        bench.take_turns(runners)


def first_reads(bench: Bench) -> None:
    """Each file asked for once, by sixteen connections, of a server that has answered almost nothing yet."""

    def runner(who: Contestant, tree: SkillTree) -> Callable[[int], None]:
        def run(turn: int) -> None:
            with bench.serving(who, tree, check=turn == 0) as server:
                if turn == 0:
                    _refuse_crawl(server, tree)
                host = server.url.removeprefix("http://")
                calls = [read_call(skill).over_http(host) for skill in tree.spread(_ONCE)]
                load = drive(
                    server.address,
                    calls,
                    connections=16,
                    seconds=PATIENCE_SECONDS,
                    cpu=server.cpu_seconds,
                    at_most=len(calls),
                )
                _record(bench, "http-first c16", who.name, tree.size, turn, load)

        return run

    bench.take_turns(
        {
            Series("http-first c16", who.name, tree.size): runner(who, tree)
            for who, tree in bench.entrants("http", under_load=True)
        }
    )


def stdio(bench: Bench, kinds: Sequence[str]) -> None:
    """The same over standard input and output."""
    with ExitStack() as stack:
        runners: Runners = {}
        sizes: list[int] = []
        for contestant, tree in bench.entrants("stdio"):
            try:
                _, wire = stack.enter_context(bench.wired(contestant, tree))
            except (ServerFailed, WrongAnswer, OSError) as error:
                bench.give_up(Series("stdio", contestant.name, tree.size), error)
                continue
            calls = {kind: _calls(kind, tree) for kind in kinds}
            if not sizes:
                sizes = [len(wire.ask(_calls(kind, tree)[0])) + 1 for kind in KINDS]
            _add_stdio(bench, runners, contestant.name, tree.size, wire, calls)
        size, tree = next(iter(bench.trees.items()))
        bare = ServerProcess(script("bare_stdio", *sizes), over_http=False, cores=bench.cores)
        stack.enter_context(bare)
        calls = {kind: [call.to_bare() for call in _calls(kind, tree)] for kind in kinds}
        _add_stdio(bench, runners, BARE_STDIO, size, Wire(bare), calls)
        bench.take_turns(runners)


def _calls(kind: str, tree: SkillTree) -> list[Call]:
    return [KINDS[kind](skill) for skill in tree.spread(_DISTINCT)]


def _refuse_crawl(server: ServerProcess, tree: SkillTree) -> None:
    """Raise an error if even a single client has to wait for long."""
    call = read_call(tree.skill(0)).over_http(server.url.removeprefix("http://"))
    connection = Connection(server.address, PATIENCE_SECONDS)
    start = time.perf_counter()
    connection.ask(call)
    connection.close()
    if (seconds := time.perf_counter() - start) > CRAWL_SECONDS:
        raise TooSlow(f"one answer takes {seconds:.2f} s")


def _answer_sizes(server: ServerProcess, tree: SkillTree) -> list[int]:
    """The lengths of the answers that a bare application has to match."""
    host = server.url.removeprefix("http://")
    connection = Connection(server.address)
    sizes = [len(connection.ask(_calls(kind, tree)[0].over_http(host))) for kind in KINDS]
    connection.close()
    return sizes


def _add_http(
    bench: Bench,
    runners: Runners,
    name: str,
    size: int,
    server: ServerProcess,
    calls: dict[str, list[Call]],
) -> None:
    for kind, wanted in calls.items():
        for connections in bench.connections:

            def run(
                turn: int, kind: str = kind, wanted: list[Call] = wanted, connections: int = connections
            ) -> None:
                if turn == 0:
                    _drive(bench, server, wanted, connections, warm_up=True)
                load = _drive(bench, server, wanted, connections)
                _record(bench, f"http-{kind} c{connections}", name, size, turn, load)

            runners[Series(f"http-{kind} c{connections}", name, size)] = run


def _drive(
    bench: Bench, server: ServerProcess, calls: list[Call], connections: int, *, warm_up: bool = False
) -> Load:
    return drive(
        server.address,
        calls,
        connections=connections,
        seconds=bench.seconds,
        cpu=server.cpu_seconds,
        at_most=2 * len(calls) if warm_up else None,
    )


def _add_stdio(
    bench: Bench,
    runners: Runners,
    name: str,
    size: int,
    wire: Wire,
    calls: dict[str, list[Call]],
) -> None:
    for kind, wanted in calls.items():
        for window in bench.windows:

            def run(turn: int, kind: str = kind, wanted: list[Call] = wanted, window: int = window) -> None:
                if turn == 0:
                    wire.drive(wanted, window=window, seconds=bench.seconds / 4)
                load = wire.drive(wanted, window=window, seconds=bench.seconds)
                _record(bench, f"stdio-{kind} w{window}", name, size, turn, load)

            runners[Series(f"stdio-{kind} w{window}", name, size)] = run


def _record(bench: Bench, measure: str, name: str, size: int, turn: int, load: Load) -> None:
    bench.record(measure, name, size, turn, load.rate, RATE)
    bench.record(f"{measure} cpu", name, size, turn, load.cpu_per_thousand, CPU)
