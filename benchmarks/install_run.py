"""What installing costs, each figure as a ratio within one run.

    python -m benchmarks.install_run [--rounds N] [--only unchanged,first,outdated]

unchanged   `skillwire sync` of 400 skills (2,000 files) that are as pinned, beside `sha256sum` over the same
            files and the same command in a project without skills, which is start-up
first       the first `sync` of 400 skills from one HTTP server, beside a bare client that reads the same
            files from it over as many connections; then from a server that takes 20 ms for each answer
outdated    `skillwire outdated` over 30 HTTP servers of which one takes two seconds, beside that one alone

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
    tree = write_skills(base / "served")
    files = [
        (skill, path) for number in range(SKILLS) for skill in [tree.skill(number)] for path in skill.files
    ]
    print(f"first: {SKILLS} skills, {len(files) + SKILLS:,} files")
    for words, delay in (
        ("as fast as it can", 0.0),
        (f"{ANSWER_SECONDS * 1000:.0f} ms an answer", ANSWER_SECONDS),
    ):
        with ServerProcess(server(base / "served", delay=delay), over_http=True, cores=Cores()) as served:
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
            served.await_url(_START_SECONDS)
            url = f"{served.url}/mcp"
            author = Person(base / f"author-{delay}")
            author.configure({"docs": url})
            author.run("add", "docs", "--yes", "--allow-code", "--allow-tools")
            bare, synced = [], []
            for turn in range(rounds):
                bare.append(read_bare(served.address, files))
                person = Person(base / f"person-{delay}-{turn}")
                person.configure({"docs": url})
                shutil.copy(author.project / "skillwire.lock", person.project)
                synced.append(person.run("sync", "--yes"))
        print(f"  a server, {words}")
        show(f"a bare client, {TOGETHER} connections", medians(bare))
        show("the first sync", medians(synced))
        ratio = statistics.median(
            sync.seconds / plain.seconds for plain, sync in zip(bare, synced, strict=True)
        )
        line = f"  the first sync / a bare client: {ratio:.2f}"
        if delay:
            one = delay * (len(files) + SKILLS)
            line += f"; one after the other would take at least {one:.0f} s"
        print(line)


def read_bare(address: tuple[str, int], files: Sequence[tuple[Skill, str]]) -> Cost:
    """Read every file over plain sockets, each connection with one request under way."""
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
                everyone.append(person.run("outdated"))
                slowest.append(person.run("outdated", "skill-00000"))
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
