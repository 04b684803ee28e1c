"""A registry and its gateways under load: what readers and publishers notice of each other and of upkeep.

    python -m benchmarks.registry_load [--skills N] [--versions N] [--seconds N] [--data DIR]
    python -m benchmarks.registry_load --audit SECONDS

The first form measures how long reads take while 50 publishers publish to the same replica, and while as many
processes as there are cores only count, which shows what of it is the machine; and how long publications take
beside `registry prune`, `backup` and `check`, each against the same alone. The second form
reads cached files through two gateways that share one PostgreSQL as fast as they answer, ends them with
SIGTERM, and counts the lines of the audit log. Load comes from processes of its own. The output is Markdown.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from benchmarks.calls import make_call
from benchmarks.http_load import Connection, drive
from benchmarks.processes import Cores, ServerProcess
from benchmarks.registry_run import SKILLWIRE, replica
from benchmarks.registry_seed import databases, name_of
from skillwire.errors import SkillwireError
from skillwire.registry import Access, LintedSkill, Role, Store, publish_over_http
from skillwire.registry.audit import first_broken, read_gateways

PUBLISHERS: Final = 50
CONNECTIONS: Final = 16
GATEWAYS: Final = 2
_SPAWN: Final = multiprocessing.get_context("spawn")


def percentile(taken: Sequence[float], share: float) -> float:
    """The time that a share of all took at most, in milliseconds."""
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * share))] * 1000


def shown(taken: Sequence[float], alone: Sequence[float] = ()) -> str:
    p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    ratio = f", p99 {p99 / percentile(alone, 0.99):.2f} of alone" if alone else ""
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms{ratio} ({len(taken):,} measured)"


def say(what: str, result: str) -> None:
    print(f"| {what} | {result} |", flush=True)


# Readers and publishers


def read_for(seconds: float, server: ServerProcess, skills: int, first: int) -> list[float]:
    """How long reads of different files take, one after the other. None of them is cached."""
    connection = Connection(server.address)
    host = f"127.0.0.1:{server.address[1]}"
    taken: list[float] = []
    end, number = time.perf_counter() + seconds, first
    while time.perf_counter() < end:
        path = "/".join(name_of(number * 7919 % skills))
        call = make_call("resources/read", {"uri": f"skill://{path}/SKILL.md"}).over_http(host)
        start = time.perf_counter()
        connection.ask(call)
        taken.append(time.perf_counter() - start)
        number += 1
    connection.close()
    return taken


def publish_until_told(pipe: Pipe, url: str, token: str, publishers: int) -> None:
    """In a process of its own: publish new skills, then send how long each took and what failed."""
    ending = threading.Event()
    taken: list[float] = []
    failed: Counter[str] = Counter()

    def publish(publisher: int) -> None:
        number = 0
        while not ending.is_set():
            name = f"load-{publisher}-{time.time_ns()}"
            text = f"---\nname: {name}\ndescription: Made under load.\n---\nStep {number}.\n"
            skill = LintedSkill(name, "1.0.0", {"SKILL.md": text.encode()})
            start = time.perf_counter()
            try:
                publish_over_http(skill, url, namespace="team-0", token=token)
                taken.append(time.perf_counter() - start)
            except SkillwireError as error:
                failed[str(error)] += 1
            number += 1

    with ThreadPoolExecutor(publishers) as threads:
        for publisher in range(publishers):
            threads.submit(publish, publisher)
        while not taken and not failed:
            time.sleep(0.01)
        pipe.send("busy")
        pipe.recv()
        ending.set()
    pipe.send((taken, dict(failed)))


def count_until_told(pipe: Pipe) -> None:
    """In a process of its own: use a core."""
    pipe.send("busy")
    number = 0
    while not pipe.poll():
        for _ in range(100_000):
            number += 1


@contextmanager
def busy_cores() -> Iterator[None]:
    """As many processes as there are cores, which do nothing but use them."""
    pipes: list[Pipe] = []
    processes: list[BaseProcess] = []
    for _ in range(len(os.sched_getaffinity(0))):
        mine, other = _SPAWN.Pipe()
        processes.append(_SPAWN.Process(target=count_until_told, args=(other,)))
        processes[-1].start()
        assert mine.recv() == "busy"
        pipes.append(mine)
    yield
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send("end")
        process.join()


class Publishers:
    """Publishers who work until `end`."""

    def __init__(self, url: str, token: str, count: int) -> None:
        self._pipe, other = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=publish_until_told, args=(other, url, token, count))
        self._process.start()
        assert self._pipe.recv() == "busy"

    def end(self) -> tuple[list[float], dict[str, int]]:
        """How long each publication took, and how many failed for each reason."""
        self._pipe.send("end")
        result: tuple[list[float], dict[str, int]] = self._pipe.recv()
        self._process.join()
        return result


def publish_while(url: str, token: str, act: Callable[[], float]) -> tuple[list[float], str, float]:
    """The times of one publisher while something is done, what failed, and how long that took."""
    publishers = Publishers(url, token, 1)
    seconds = act()
    taken, failed = publishers.end()
    return taken, ", ".join(f"{count} × {reason}" for reason, count in failed.items()) or "none", seconds


def command(*words: str) -> float:
    """Run a command of the registry; the seconds that it took."""
    start = time.perf_counter()
    subprocess.run([SKILLWIRE, "registry", *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def wait(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def beside(data: Path | None, skills: int, versions: int, seconds: float) -> None:
    """Print what readers and publishers notice of each other, and publishers of upkeep."""
    with ExitStack() as stack:
        url = stack.enter_context(databases(data)).copy(skills, versions)
        store = Store(url)
        stack.callback(store.close)
        access = Access(store)
        access.grant("anyone", "*", Role.READ, by="benchmark")
        token = access.add_token("benchmark", by="benchmark")
        access.grant("token:benchmark", "team-0", Role.PUBLISH, by="benchmark")
        server = replica(url, stack, Cores())
        read_for(2, server, skills, 0)
        print(f"{skills:,} skills, {skills * versions:,} versions\n\n| | Measured |\n|---|---|")
        alone = read_for(seconds, server, skills, 100_000)
        say("a read, alone", shown(alone))
        with busy_cores():
            counting = read_for(seconds, server, skills, 300_000)
        say("a read beside processes that only count", shown(counting, alone))
        publishers = Publishers(server.url, token, PUBLISHERS)
        busy = read_for(seconds, server, skills, 200_000)
        taken, failed = publishers.end()
        say(f"a read beside {PUBLISHERS} publishers", shown(busy, alone))
        say(f"a publication of {PUBLISHERS} publishers", f"{shown(taken)}, failed: {failed or 'none'}")
        quiet, failures, _ = publish_while(server.url, token, lambda: wait(seconds))
        say("a publication, alone", f"{shown(quiet)}, failed: {failures}")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for words in (("backup", str(folder / "all.backup")), ("check",), ("prune", "--keep", "1")):
            took = lambda words=words: command(*words, "--store", url)  # noqa: E731
            taken, failures, spent = publish_while(server.url, token, took)
            say(
                f"a publication beside `registry {words[0]}`",
                f"{shown(taken, quiet)}, failed: {failures}; it took {spent:.0f} s",
            )


# The audit log of gateways


def read_cached(pipe: Pipe, address: tuple[str, int], seconds: float) -> None:
    """In a process of its own: read one cached file over many connections, and send how often."""
    host = f"{address[0]}:{address[1]}"
    call = make_call("resources/read", {"uri": "skill://shop/refunds/SKILL.md"}).over_http(host)
    load = drive(address, [call], connections=CONNECTIONS, seconds=seconds, cpu=lambda: 0.0)
    pipe.send((load.answers, load.seconds))


@contextmanager
def gateway(folder: Path, store: str) -> Iterator[ServerProcess]:
    """A gateway to a folder of skills, with its audit log in a store."""
    names = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    own = {name: str(folder / name.lower()) for name in names}
    words = ["gateway", "--no-config", "--dir", str(folder / "shop"), "--http", "127.0.0.1:0", "--rate", "0"]
    with ServerProcess(
        [SKILLWIRE, *words, "--store", store], over_http=True, cores=Cores(), environment=own
    ) as server:
        server.await_url(60)
        yield server


def audit(seconds: float) -> None:
    """Read through two gateways as fast as they answer, end them, and print how many lines are there."""
    with ExitStack() as stack:
        url = stack.enter_context(databases(None)).empty()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        skill = folder / "shop" / "refunds" / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: refunds\ndescription: Pays back.\n---\nDo it.\n")
        servers = [stack.enter_context(gateway(folder, url)) for _ in range(GATEWAYS)]
        pipes: list[Pipe] = []
        for server in servers:
            mine, other = _SPAWN.Pipe()
            _SPAWN.Process(target=read_cached, args=(other, server.address, seconds), daemon=True).start()
            pipes.append(mine)
        results: list[tuple[int, float]] = [pipe.recv() for pipe in pipes]
        start = time.perf_counter()
        for server in servers:
            os.kill(server.pid, signal.SIGTERM)
        codes = [server.wait() for server in servers]
        drained = time.perf_counter() - start
        answers = sum(count for count, _ in results)
        store = Store(url)
        lines = sum(line.action == "load" for line in read_gateways(store))
        broken = first_broken(store)
        store.close()
        rates = " and ".join(f"{count / took:,.0f}/s" for count, took in results)
        print("| | Measured |\n|---|---|")
        say(f"cached reads of {GATEWAYS} gateways in {seconds:g} s", f"{answers:,} ({rates})")
        say("their lines in the audit log after SIGTERM", f"{lines:,}, missing: {answers - lines:,}")
        say("chains, exit codes, time to end", f"{broken or 'intact'}, {codes}, {drained:.1f} s")
        if lines != answers or broken or any(codes):
            sys.exit("lines of the audit log are missing")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skills", type=int, default=20_000)
    parser.add_argument("--versions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--data", type=Path, help="keep the database here, and use it again")
    parser.add_argument("--audit", type=float, metavar="SECONDS", help="the audit log of two gateways alone")
    given = parser.parse_args()
    if given.audit:
        audit(given.audit)
    else:
        beside(given.data, given.skills, given.versions, given.seconds)


if __name__ == "__main__":
    main()
