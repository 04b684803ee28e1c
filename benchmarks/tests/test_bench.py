"""Contestants take turns; one that fails or is far slower does not delay the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.bench import Bench
from benchmarks.calls import WrongAnswer
from benchmarks.contestants import PLAIN_DEFAULTS, Contestant
from benchmarks.processes import TooSlow
from benchmarks.samples import Series
from benchmarks.tree import SkillTree


def make_bench(*names: str) -> Bench:
    contestants = [
        Contestant(name, lambda folder: [], lambda folder: [], only_http_load=name == PLAIN_DEFAULTS)
        for name in names
    ]
    trees = {size: SkillTree(Path(), size) for size in (100, 1000)}
    return Bench(trees, contestants, 3, 1.0, (1,), (1,), Path())


def series(name: str, measure: str = "start http") -> Series:
    return Series(measure, name, 100)


def test_every_server_runs_once_a_round_and_each_round_starts_with_another() -> None:
    order: list[tuple[int, str]] = []

    def runner(name: str) -> Callable[[int], None]:
        return lambda turn: order.append((turn, name))

    make_bench().take_turns({series(name): runner(name) for name in "abc"})
    assert ["".join(name for turn, name in order if turn == round) for round in range(3)] == [
        "abc",
        "bca",
        "cab",
    ]


def test_a_server_that_answers_wrongly_is_left_out_and_noted() -> None:
    bench, turns = make_bench(), list[int]()

    def fail(turn: int) -> None:
        turns.append(turn)
        raise WrongAnswer("other bytes")

    bench.take_turns({series("plain"): fail})
    assert turns == [0]
    assert bench.samples.notes == ["plain, start http, 100 skills: other bytes"]


def test_a_slow_server_is_measured_once_and_skillwire_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    turns: list[str] = []

    def runner(name: str, seconds: float) -> Callable[[int], None]:
        def run(turn: int) -> None:
            nonlocal now
            now += seconds
            turns.append(name)

        return run

    bench = make_bench()
    took = {"skillwire": 2.0, "plain": 15.0, "fastmcp": 17.0}
    bench.take_turns({series(name): runner(name, seconds) for name, seconds in took.items()})
    assert {name: turns.count(name) for name in took} == {"skillwire": 3, "plain": 3, "fastmcp": 1}
    note = "fastmcp, start http, 100 skills: one turn took 17 s, so it was not measured again"
    assert bench.samples.notes == [note]


def test_a_server_that_fails_over_one_transport_is_measured_over_the_other() -> None:
    bench = make_bench("skillwire", "fastmcp")
    bench.give_up(series("fastmcp"), TooSlow("no answer"))
    bench.give_up(series("skillwire", "start-cold http"), TooSlow("the disk is busy"))

    def names(transport: str) -> list[tuple[str, int]]:
        return [(who.name, tree.size) for who, tree in bench.entrants(transport)]

    assert ("fastmcp", 100) not in names("http")
    assert {("fastmcp", 1000), ("skillwire", 100)} <= set(names("http"))
    assert ("fastmcp", 100) in names("stdio")


def test_a_server_that_differs_only_under_load_is_measured_on_the_smallest_tree() -> None:
    bench = make_bench("skillwire", PLAIN_DEFAULTS)
    assert PLAIN_DEFAULTS not in {who.name for who, _ in bench.entrants("http")}
    loaded = bench.entrants("http", under_load=True)
    assert [tree.size for who, tree in loaded if who.name == PLAIN_DEFAULTS] == [100]
