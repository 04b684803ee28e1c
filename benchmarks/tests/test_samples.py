"""Medians and ratios are what the tables say they are."""

from __future__ import annotations

import pytest
from benchmarks.samples import Sample, Samples, Series

OURS = Series("http-read c16", "skillwire", 100)
THEIRS = Series("http-read c16", "plain", 100)


def samples(ours: dict[int, float], theirs: dict[int, float]) -> Samples:
    return Samples(
        Sample(series.measure, series.contestant, series.size, turn, value, "requests/s")
        for series, values in ((OURS, ours), (THEIRS, theirs))
        for turn, value in values.items()
    )


def test_the_median_is_taken_over_the_rounds() -> None:
    assert samples({0: 5, 1: 100, 2: 7}, {}).median(OURS) == 7


def test_what_was_not_measured_has_no_median_and_no_ratio() -> None:
    found = samples({0: 5}, {})
    assert found.median(THEIRS) is None
    assert found.ratio(OURS, THEIRS) is None


def test_a_ratio_is_taken_within_each_round() -> None:
    # The machine was ten times slower in the second round; the ratio of the medians would say 2.
    found = samples({0: 90, 1: 10, 2: 100}, {0: 30, 1: 2, 2: 50})
    assert found.ratio(OURS, THEIRS) == 3


def test_rounds_that_only_one_side_has_do_not_count_in_a_ratio() -> None:
    assert samples({0: 10, 1: 1000}, {0: 5, 7: 1}).ratio(OURS, THEIRS) == 2


def test_without_a_common_round_the_medians_are_compared() -> None:
    assert samples({0: 10}, {1: 5}).ratio(OURS, THEIRS) == 2


def test_a_ratio_to_nothing_is_none() -> None:
    assert samples({0: 10}, {0: 0}).ratio(OURS, THEIRS) is None


@pytest.mark.parametrize("other", [Series("x", "skillwire", 100), Series("http-read c16", "skillwire", 10)])
def test_series_differ_in_measure_and_size(other: Series) -> None:
    assert samples({0: 10}, {}).median(other) is None


def test_a_note_is_kept_once() -> None:
    found = Samples()
    found.note("no node here")
    found.note("no node here")
    assert found.notes == ["no node here"]


def test_saved_samples_are_shown_beside_measured_ones() -> None:
    other = Samples([Sample("start", "skillwire", 100, 0, 2.0, "s")])
    samples = Samples([Sample("edit", "skillwire", 100, 0, 1.0, "s")])
    kept = {"command": "make bench", "notes": ["a word"], "samples": other.as_json()}
    assert samples.take_in(kept) == "make bench"
    assert [sample.measure for sample in samples] == ["edit", "start"]
    assert samples.notes == ["a word"]
