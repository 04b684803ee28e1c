"""Bench: what every measure works with, and the order in which contestants take turns."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.calls import WrongAnswer, check_entry, check_read, get_call, list_call, read_call, result_of
from benchmarks.contestants import SKILLWIRE, Contestant
from benchmarks.http_load import Connection
from benchmarks.processes import Cores, ServerFailed, ServerProcess, TooSlow
from benchmarks.samples import Sample, Samples, Series
from benchmarks.stdio_load import Wire
from benchmarks.tree import SkillTree

T = TypeVar("T")
PATIENCE_SECONDS: Final = 30
# With sixty-four connections, a server that takes this long for an answer would delay all others.
CRAWL_SECONDS: Final = 0.25
# A server that takes this long for one turn, and this many times as long as Skillwire, is not measured again.
_LONG_TURN_SECONDS: Final = 8
_FAR_BEHIND: Final = 8
_CHECKED: Final = 5


@dataclass(slots=True)
class Bench:
    """One run. Measures add to `samples`; a contestant that fails is noted and left out of that measure."""

    trees: dict[int, SkillTree]
    contestants: Sequence[Contestant]
    rounds: int
    seconds: float
    connections: Sequence[int]
    windows: Sequence[int]
    work: Path
    cores: Cores = field(default_factory=Cores)
    samples: Samples = field(default_factory=Samples)
    too_slow: set[tuple[str, int, str]] = field(default_factory=set)

    def entrants(self, transport: str, *, under_load: bool = False) -> list[tuple[Contestant, SkillTree]]:
        """Every contestant with every tree, except for those that were too slow over this transport before.
        Those that differ only under load are measured there, on the smallest tree.
        """
        smallest = min(self.trees)
        return [
            (contestant, tree)
            for tree in self.trees.values()
            for contestant in self.contestants
            if (contestant.name, tree.size, transport) not in self.too_slow
            and (not contestant.only_http_load or (under_load and tree.size == smallest))
        ]

    def record(self, measure: str, contestant: str, size: int, turn: int, value: float, unit: str) -> None:
        self.samples.add(Sample(measure, contestant, size, turn, value, unit))
        say(f"  round {turn + 1}  {measure:<22} {size:>6} skills  {contestant:<22} {value:>12,.4g} {unit}")

    def take_turns(self, runners: dict[Series, Callable[[int], None]], *, rounds: int | None = None) -> None:
        """Run every contestant once in each round. Those of one measure and size run one after the other, and
        each round starts with another one: what is compared ran within seconds, and nobody always follows the
        same one.
        """
        left = dict(runners)
        ours: dict[tuple[str, int], float] = {}
        heats = list(dict.fromkeys((entrant.measure, entrant.size) for entrant in runners))
        for turn in range(rounds or self.rounds):
            for heat in heats:
                for entrant in rotated([each for each in left if (each.measure, each.size) == heat], turn):
                    start = time.perf_counter()
                    try:
                        left[entrant](turn)
                    except (ServerFailed, WrongAnswer, OSError) as error:
                        del left[entrant]
                        self.give_up(entrant, error)
                        continue
                    seconds = time.perf_counter() - start
                    if entrant.contestant == SKILLWIRE:
                        ours[heat] = seconds
                    elif seconds > max(_LONG_TURN_SECONDS, _FAR_BEHIND * ours.get(heat, 0)):
                        del left[entrant]
                        self.give_up(
                            entrant,
                            ServerFailed(f"one turn took {seconds:.0f} s, so it was not measured again"),
                        )

    def give_up(self, entrant: Series, error: Exception) -> None:
        """Record which contestant is left out, and why."""
        # A cold start says more about the disk, and how busy it is, than about the server.
        if isinstance(error, TooSlow) and not entrant.measure.startswith("start-cold"):
            transport = "stdio" if "stdio" in entrant.measure else "http"
            self.too_slow.add((entrant.contestant, entrant.size, transport))
        self.note_of(entrant, error)

    def note_of(self, entrant: Series, error: Exception) -> None:
        """Add a note for the readers of the table."""
        reason = " ".join(str(error).split())[:400]
        text = f"{entrant.contestant}, {entrant.measure}, {entrant.size:,} skills: {reason}"
        self.samples.note(text)
        say(f"  {text}")

    @contextmanager
    def serving(
        self, contestant: Contestant, tree: SkillTree, *, check: bool = True
    ) -> Iterator[ServerProcess]:
        """A running contestant over HTTP whose answers were checked."""
        command = contestant.http(tree.root)
        with ServerProcess(
            command, over_http=True, cores=self.cores, environment=self.fresh_homes()
        ) as server:
            server.await_url(PATIENCE_SECONDS)
            if check:
                check_http(server, tree)
            yield server

    @contextmanager
    def wired(
        self, contestant: Contestant, tree: SkillTree, *, check: bool = True
    ) -> Iterator[tuple[ServerProcess, Wire]]:
        """A running contestant over stdio whose answers were checked."""
        command = contestant.stdio(tree.root)
        with ServerProcess(
            command, over_http=False, cores=self.cores, environment=self.fresh_homes()
        ) as server:
            wire = Wire(server, PATIENCE_SECONDS)
            if check:
                check_stdio(wire, tree)
            yield server, wire

    def fresh_homes(self) -> dict[str, str]:
        """Empty directories for what a server keeps between starts."""
        home = tempfile.mkdtemp(dir=self.work, prefix="home-")
        return dict.fromkeys(("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"), home)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rotated(items: Sequence[T], by: int) -> list[T]:
    """The same items, rotated by one in each round."""
    start = by % len(items) if items else 0
    return [*items[start:], *items[:start]]


def check_http(server: ServerProcess, tree: SkillTree) -> None:
    host = server.url.removeprefix("http://")
    connection = Connection(server.address, PATIENCE_SECONDS)
    try:
        _check(tree, lambda call: connection.ask(call.over_http(host)))
    finally:
        connection.close()


def check_stdio(wire: Wire, tree: SkillTree) -> None:
    _check(tree, wire.ask)


def _check(tree: SkillTree, ask: Callable[..., bytes]) -> None:
    """Check the answers before they are timed: entries, digests and bytes."""
    skills = tree.spread(_CHECKED)
    first = result_of(ask(list_call()))["skills"]
    if not first:
        raise WrongAnswer("the first page is empty")
    for skill in skills:
        check_entry(skill, result_of(ask(get_call(skill)))["skill"])
        for file in skill.files:
            check_read(skill, file, result_of(ask(read_call(skill, file))))


def check_enumeration(tree: SkillTree, pages: Iterable[bytes]) -> list[object]:
    """Every skill of the tree is listed once; the entries."""
    entries = [entry for page in pages for entry in result_of(page)["skills"]]
    uris = sorted(entry["uri"] for entry in entries)
    if uris != sorted(tree.skill(number).uri for number in range(tree.size)):
        raise WrongAnswer(f"{len(uris)} entries were listed, but there are {tree.size} skills")
    return list(entries)
