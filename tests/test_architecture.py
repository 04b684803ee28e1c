"""The complexity budget: what a reader of the code meets does not grow. See tools/budget.py."""

from __future__ import annotations

import pytest
from tools.budget import (
    END,
    PAGE,
    RECORD,
    START,
    Entry,
    count_code,
    count_requests,
    format_record,
    problems,
    read_record,
    section,
    unexplained,
    updated,
)
from tools.mutants import stale


@pytest.mark.slow
def test_the_code_is_not_more_entangled_than_recorded() -> None:
    assert problems(read_record(RECORD.read_text("utf-8")), count_code()) == []


@pytest.mark.process
@pytest.mark.slow
def test_a_request_touches_no_more_files_than_recorded_and_the_page_shows_its_path() -> None:
    record = read_record(RECORD.read_text("utf-8"))
    counted, paths = count_requests()
    assert problems(record, counted) == []
    text = PAGE.read_text("utf-8")
    written = START + text.partition(START)[2].partition(END)[0] + END
    assert written == section(record, paths), "run `python -m tools.budget --write`"


def test_a_number_above_its_lowest_has_a_reason_in_the_record() -> None:
    text = RECORD.read_text("utf-8")
    assert unexplained(read_record(text)) == []
    assert format_record(read_record(text)) == text


RECORDED = {
    "add": Entry(most=60, goal=32, lowest=58, reason="a lock"),
    "lines": Entry(60_000, 58_000, 60_000),
}


@pytest.mark.parametrize(
    ("counted", "said"),
    [
        ({"add": 60, "lines": 60_000}, ""),
        ({"add": 58, "lines": 59_000}, ""),
        ({"add": 61}, "at most 60 is allowed"),
        ({"add": 57}, "Record it"),
        ({"lines": 60_001}, "at most 60000 is allowed"),
        ({"lines": 58_999}, "Record it"),
    ],
)
def test_a_number_that_rose_or_fell_by_more_than_a_little_is_named(
    counted: dict[str, float], said: str
) -> None:
    named = problems(RECORDED, counted)
    assert [said in line for line in named] == ([True] if said else [])


@pytest.mark.parametrize(
    ("number", "reason", "after"),
    [
        (59, "", Entry(59, 32, 58, "a lock")),
        (57, "", Entry(57, 32, 57)),
        (61, "", Entry(60, 32, 58, "a lock")),
        (61, "signatures", Entry(61, 32, 58, "signatures")),
    ],
)
def test_a_number_rises_only_with_a_reason_and_loses_it_when_it_falls(
    number: float, reason: str, after: Entry
) -> None:
    assert updated(RECORDED, {"add": number}, reason)["add"] == after


def test_numbers_of_the_whole_code_are_recorded_in_steps() -> None:
    assert updated(RECORDED, {"lines": 58_210}, "")["lines"] == Entry(58_500, 58_000, 58_500)
    assert unexplained({"lines": Entry(61_000, 58_000, 60_000)}) == ["lines"]


def test_every_mutation_changes_a_line_that_its_file_has_exactly_once() -> None:
    assert stale() == []
