"""What installing costs, each figure as a ratio within one run.

    python -m benchmarks.install_run [--rounds N] [--only unchanged,first,outdated]

unchanged   `skillwire sync` of 400 skills (2,000 files) that are as pinned, beside `sha256sum` over the same
            files and the same command in a project without skills, which is start-up
first       the first `sync` of 400 skills from one HTTP server, and the part of it after start-up that
            lists, fetches, verifies and writes, with how busy the server is meanwhile, beside a bare client
            that reads the same files from it over as many connections, and the processor time of client and
            server for a file, without start-up; from a plain server of the SDK with its defaults, from a
            tuned one, from `skillwire serve`, and from one that takes 20 ms for each answer
outdated    `skillwire update --check` over 30 HTTP servers, one of them two seconds late, beside that one

Contestants take turns. Ratios are taken within a round, and the median is printed. Processor time is that of
the command with its children.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.calls import Call, read_call
from benchmarks.http_load import Connection
from benchmarks.processes import Cores, ServerProcess
from benchmarks.tree import Skill, SkillTree, write_tree

SKILLS: Final = 400
SERVERS: Final = 30
LATE_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 0.02
TOGETHER: Final = 32
_SKILLWIRE: Final = [sys.executable, "-m", "skillwire"]
_START_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took, by the clock and of the processor."""

    seconds: float
    cpu: float


class Person:
    """A user with a home and a project of their own."""

    def __init__(self, base: Path) -> None:
        self.home, self.project = base / "home", base / "project"
        for folder in (self.home, self.project):
            folder.mkdir(parents=True)

    def run(self, *words: str, codes: Sequence[int] = (0,)) -> Cost:
        return run([*_SKILLWIRE, *words], self.project, self.home, codes=codes)

    def configure(self, servers: Mapping[str, str]) -> None:
        config = self.home / ".config/skillwire/skillwire.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("".join(f'[servers.{label}]\nurl = "{url}"\n' for label, url in servers.items()))


def run(command: Sequence[str], folder: Path, home: Path, codes: Sequence[int] = (0,)) -> Cost:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in codes:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
    return Cost(seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def write_skills(folder: Path) -> SkillTree:
    """400 skills of five files: those of the other benchmarks, and one more."""
    tree = write_tree(folder, SKILLS)
    for skill in folder.rglob("SKILL.md"):
        (skill.parent / "references/more.md").write_text(f"# More\n\n{skill.parent.name}\n" * 40)
    return tree


def medians(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.seconds for cost in costs), statistics.median(cost.cpu for cost in costs)
    )


def show(what: str, cost: Cost) -> None:
    print(f"  {what:<44} {cost.seconds:7.3f} s   {cost.cpu:7.3f} s of CPU", flush=True)


def unchanged(base: Path, rounds: int) -> None:
    person, nobody = Person(base / "person"), Person(base / "nobody")
    write_skills(base / "team")
    person.run("add", str(base / "team"), "--yes", "--allow-code", "--allow-tools")
    (nobody.project / "skillwire.lock").write_text("version = 1\n")
    files = sorted(
        str(path.relative_to(person.project))
        for path in (person.project / ".agents/skills").rglob("*")
        if path.is_file()
    )
    print(f"unchanged: {SKILLS} skills, {len(files):,} files")
    costs: dict[str, list[Cost]] = {"sha256sum": [], "start-up": [], "sync": []}
    turns: dict[str, Callable[[], Cost]] = {
        "sha256sum": lambda: run(["sha256sum", *files], person.project, person.home),
        "start-up": lambda: nobody.run("sync"),
        "sync": lambda: person.run("sync"),
    }
    for turn in range(rounds + 1):
        for name, action in turns.items():
            cost = action()
            if turn:  # The first round fills the caches.
                costs[name].append(cost)
    for name, seen in costs.items():
        show(name, medians(seen))
    for word, pick in (("by the clock", lambda cost: cost.seconds), ("by CPU", lambda cost: cost.cpu)):
        ratio = statistics.median(
            (pick(sync) - pick(start)) / pick(plain)
            for plain, start, sync in zip(costs["sha256sum"], costs["start-up"], costs["sync"], strict=True)
        )
        met = "met" if ratio <= 2 else "not met"
        print(f"  (sync - start-up) / sha256sum {word}: {ratio:.2f} (at most 2: {met})")


def first(base: Path, rounds: int) -> None:
    folder = base / "served"
    tree = write_skills(folder)
    files = [
        (skill, path) for number in range(SKILLS) for skill in [tree.skill(number)] for path in skill.files
    ]
    total = len(files) + SKILLS
    print(f"first: {SKILLS} skills, {total:,} files")
    one_skill = base / "one"
    write_tree(one_skill, 1)
    plain = [sys.executable, "-m", "benchmarks.plain_server"]
    servers: dict[str, tuple[list[str], list[str]]] = {
        "a plain server of the SDK, as it comes": (
            [*plain, str(folder), "--http", "0", "--defaults"],
            [*plain, str(one_skill), "--http", "0", "--defaults"],
        ),
        "a plain server of the SDK, tuned": (
            [*plain, str(folder), "--http", "0"],
            [*plain, str(one_skill), "--http", "0"],
        ),
        "skillwire serve": (server(folder, delay=0), server(one_skill, delay=0)),
        f"skillwire serve, {ANSWER_SECONDS * 1000:.0f} ms late": (
            server(folder, delay=ANSWER_SECONDS),
            server(one_skill, delay=ANSWER_SECONDS),
        ),
    }
    for number, (words, (command, small)) in enumerate(servers.items()):
        with (
            ServerProcess(command, over_http=True, cores=Cores()) as served,
            ServerProcess(small, over_http=True, cores=Cores()) as smaller,
        ):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
            served.await_url(_START_SECONDS)
            smaller.await_url(_START_SECONDS)
            bare, synced, started, at_server, fetching, at_fetching = [], [], [], [], [], []
            for turn in range(rounds):
                bare.append(read_bare(served.address, files))
                started.append(first_sync(base / f"start-{number}-{turn}", f"{smaller.url}/mcp"))
                person = author_of(base / f"person-{number}-{turn}", f"{served.url}/mcp")
                before = served.cpu_seconds()
                fetching.append(fetch(f"{served.url}/mcp", person, base / f"fetching-{number}-{turn}"))
                at_fetching.append(served.cpu_seconds() - before)
                before = served.cpu_seconds()
                synced.append(person.run("sync", "--yes"))
                at_server.append(served.cpu_seconds() - before)
        print(f"  {words}")
        show(f"a bare client, {TOGETHER} connections", medians(bare))
        show("fetching and writing, without start-up", medians(fetching))
        show("the first sync of one skill: start-up", medians(started))
        show("the first sync", medians(synced))
        client = statistics.median(
            (sync.cpu - start.cpu) / total for sync, start in zip(synced, started, strict=True)
        )
        spent = statistics.median(at_server) / total
        rest = statistics.median(
            (sync.seconds - start.seconds) / cpu
            for sync, start, cpu in zip(synced, started, at_server, strict=True)
        )
        print(
            f"  of CPU a file: client {client * 1000:.2f} ms, server {spent * 1000:.2f} ms; client / server: "
            f"{client / spent:.2f}; (sync - start-up) / CPU of the server: {rest:.2f}"
        )
        read, ratio = (
            statistics.median(one.seconds / other.seconds for other, one in zip(bare, costs, strict=True))
            for costs in (fetching, synced)
        )
        busy = statistics.median(cpu / one.seconds for cpu, one in zip(at_fetching, fetching, strict=True))
        print(f"  meanwhile the server is busy for {busy:.0%} of the time")
        line = f"  fetching and writing / a bare client: {read:.2f}; the first sync: {ratio:.2f}"
        if "late" in words:
            line += f"; one after the other would take at least {ANSWER_SECONDS * total:.0f} s"
        print(line)


def author_of(base: Path, url: str) -> Person:
    """A user without skills whose lock pins every skill of a server."""
    author, person = Person(base / "author"), Person(base / "person")
    for one in (author, person):
        one.configure({"docs": url})
    author.run("add", "docs", "--yes", "--allow-code", "--allow-tools")
    shutil.copy(author.project / "skillwire.lock", person.project)
    return person


def fetch(url: str, person: Person, base: Path) -> Cost:
    """Fetch and write what a lock pins, in a process that has everything imported."""
    other = Person(base)
    shutil.copy(person.project / "skillwire.lock", other.project)
    command = [sys.executable, "-m", "benchmarks.fetch_run", url, str(other.project)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(other.home)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, cpu = map(float, done.stdout.split())
    return Cost(seconds, cpu)


def first_sync(base: Path, url: str) -> Cost:
    return author_of(base, url).run("sync", "--yes")


def read_bare(address: tuple[str, int], files: Sequence[tuple[Skill, str]]) -> Cost:
    """Read every file over plain sockets, each connection with one request in flight."""
    host = f"{address[0]}:{address[1]}"
    calls: list[Call] = [read_call(skill, path).over_http(host) for skill, path in files]
    waiting = iter(calls)
    lock = threading.Lock()

    def work() -> None:
        connection = Connection(address)
        try:
            while True:
                with lock:
                    call = next(waiting, None)
                if call is None:
                    return
                connection.ask(call)
        finally:
            connection.close()

    before, started = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(TOGETHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Cost(time.perf_counter() - started, time.process_time() - before)


def outdated(base: Path, rounds: int) -> None:
    print(f"outdated: {SERVERS} servers of one skill, one of them {LATE_SECONDS:g} s late")
    person = Person(base / "person")
    folders = [base / f"tree-{number:02}" for number in range(SERVERS)]
    for number, folder in enumerate(folders):
        write_tree(folder, 1, first=number)
    command = server(*folders, delay=LATE_SECONDS, method="skills/list")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        try:
            urls = served.stderr.readline().split()
            person.configure({f"s{number:02}": url for number, url in enumerate(urls)})
            labels = [f"s{number:02}" for number in range(SERVERS)]
            person.run("add", *labels, "--yes", "--allow-code", "--allow-tools")
            everyone, slowest = [], []
            for _ in range(rounds):
                everyone.append(person.run("update", "--check"))
                slowest.append(person.run("update", "--check", "skill-00000"))
        finally:
            served.terminate()
    show(f"{SERVERS} servers", medians(everyone))
    show("the slowest alone", medians(slowest))
    ratio = statistics.median(
        one.seconds / other.seconds for one, other in zip(everyone, slowest, strict=True)
    )
    print(f"  {SERVERS} servers / the slowest alone: {ratio:.2f}")


def server(*folders: Path, delay: float, method: str = "") -> list[str]:
    """Servers of these skills that answer so much later; with `method` the first one alone, and only that."""
    words = ["--delay", str(delay), "--method", method] if delay else []
    return [sys.executable, "-m", "benchmarks.late_server", *words, *map(str, folders)]


MEASURES: Final[Mapping[str, Callable[[Path, int], None]]] = {
    "unchanged": unchanged,
    "first": first,
    "outdated": outdated,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.install_run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(MEASURES))
    given = parser.parse_args()
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            MEASURES[name](Path(folder), given.rounds)


if __name__ == "__main__":
    main()
