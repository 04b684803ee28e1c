"""Targets are evaluated by their bounds, and the tables say what was seen and what was not."""

from __future__ import annotations

import pytest
from benchmarks.bench import rotated
from benchmarks.machine import look
from benchmarks.report import figure, median_table, page, summary, table, target_table
from benchmarks.samples import Sample, Samples, Series
from benchmarks.targets import Beside, Target, Verdict, all_targets, beside_defaults, evaluate

OURS = Series("http-read c16", "skillwire", 100)
PLAIN = Series("http-read c16", "plain", 100)


def run() -> Samples:
    rows = [("skillwire", 9000.0), ("plain", 1000.0), ("bare uvicorn", 18_000.0)]
    return Samples(Sample("http-read c16", who, 100, 0, value, "requests/s") for who, value in rows)


@pytest.mark.parametrize(
    ("at_least", "ratio", "word"),
    [
        (True, 9.0, "met"),
        (True, 8.99, "not met"),
        (False, 9.0, "met"),
        (False, 9.01, "not met"),
        (True, None, "not measured"),
    ],
)
def test_a_target_is_evaluated_by_its_bound(at_least: bool, ratio: float | None, word: str) -> None:
    assert Verdict(Target("x", OURS, PLAIN, 9, at_least=at_least), ratio).word == word


def test_a_run_is_evaluated_target_by_target() -> None:
    verdicts = [verdict for verdict in evaluate(run()) if verdict.ratio is not None]
    assert [(each.target.wanted, each.ratio, each.word) for each in verdicts] == [
        ("at least 4.5 × plain", 9, "met"),
        ("at least 0.5 × bare uvicorn", 0.5, "met"),
    ]


def test_a_rate_and_a_time_by_processor_time_point_the_same_way() -> None:
    spent = Samples(
        Sample(f"{measure} cpu", who, 100, 0, value, "CPU s")
        for measure in ("http-read c16", "start stdio")
        for who, value in (("skillwire", 0.1), ("plain", 0.4))
    )
    wanted = [
        Target("rate", OURS, PLAIN, 9, at_least=True),
        Target(
            "start",
            Series("start stdio", "skillwire", 100),
            Series("start stdio", "plain", 100),
            0.75,
            at_least=False,
        ),
    ]
    assert [verdict.cpu_ratio for verdict in evaluate(spent, wanted)] == [4, 0.25]


def test_no_target_occurs_twice() -> None:
    keys = [(each.over, each.under, each.bound) for each in all_targets()]
    assert len(keys) == len(set(keys))


def test_a_target_against_ourselves_names_the_other_size() -> None:
    small, large = Series("cpu", "skillwire", 100), Series("cpu", "skillwire", 10_000)
    assert Target("x", large, small, 1.1, at_least=False).wanted == "at most 1.1 × N = 100"


def test_table_columns_are_aligned() -> None:
    lines = table(("a", "number"), [("long word", "1"), ("b", "22")], right=[1]).splitlines()
    assert lines == [
        "| a         | number |",
        "| --------- | -----: |",
        "| long word |      1 |",
        "| b         |     22 |",
    ]


def test_limits_are_in_the_last_column() -> None:
    head, _, row = median_table(run()).splitlines()
    assert head.rstrip(" |").endswith("limits")
    assert row.rstrip(" |").endswith("bare uvicorn 18,000")


@pytest.mark.parametrize(("value", "text"), [(12345.6, "12,346"), (99.94, "99.9"), (0.012345, "0.0123")])
def test_a_figure_has_three_significant_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_the_page_says_what_was_not_measured_and_what_to_know() -> None:
    samples = run()
    samples.note("fastmcp gave up")
    machine = look(pinned=True, load_before=0.5, minutes=29.6)
    text = page(samples, evaluate(samples), machine, rounds=5, commands=["python -m benchmarks --write"])
    assert "`python -m benchmarks --write`" in text
    assert "- fastmcp gave up" in text
    assert "not measured" in text
    assert "it took 30 minutes" in text
    assert "for comparison" not in text
    assert all(line in text for line in machine.lines())


def test_met_targets_are_counted_and_stretch_targets_separately() -> None:
    stretch = Target("x", OURS, PLAIN, 10, at_least=True, is_stretch=True)
    verdicts = [*evaluate(run())[:3], *evaluate(run(), [stretch])]
    said = "Of 3 targets: 2 met, 1 not measured. Of 1 stretch targets: 1 not met."
    assert summary(verdicts) == said
    assert "| **not met**  | x " in target_table(verdicts)


def test_the_servers_are_shown_beside_one_with_the_sdks_defaults() -> None:
    rates = {"skillwire": 9000.0, "plain": 1000.0, "plain-defaults": 500.0}
    samples = Samples(
        Sample(f"http-read c16{measure}", who, 100, 0, value, "")
        for who, rate in rates.items()
        for measure, value in (("", rate), (" cpu", 1000 / rate))
    )
    assert beside_defaults(samples) == [Beside("HTTP read, 16 connections", 18, 18, 2, 2)]
    text = page(
        samples, evaluate(samples), look(pinned=True, load_before=0, minutes=1), rounds=1, commands=[""]
    )
    assert "| HTTP read, 16 connections |      18 × |   18 × |" in text


def test_a_target_table_leaves_out_a_missing_ratio() -> None:
    assert "None" not in target_table(evaluate(Samples()))


def test_each_round_starts_with_another_server() -> None:
    assert [rotated("abc", turn) for turn in range(4)] == [[*"abc"], [*"bca"], [*"cab"], [*"abc"]]
    assert rotated([], 3) == []
