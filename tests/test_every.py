"""The decorator `every`: a case that does not hold fails the test, and the others are still tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from every import every


def test_all_cases_are_tried_and_those_that_fail_are_listed(tmp_path: Path) -> None:
    seen: list[tuple[int, str, Path]] = []

    @every("number, word", [(1, "a"), (2, "b"), (3, "c")])
    def check(tmp_path: Path, number: int, word: str) -> None:
        seen.append((number, word, tmp_path))
        assert number == 2
        with pytest.raises(ValueError):
            int("2")

    with pytest.raises(pytest.fail.Exception) as failed:
        check(tmp_path=tmp_path)
    assert seen == [(1, "a", tmp_path), (2, "b", tmp_path), (3, "c", tmp_path)]
    first, *lines = str(failed.value).splitlines()
    assert first == "3 of 3 cases:"
    assert [line.partition(":")[0] for line in lines if "Error" in line or "Failed" in line] == [
        "1, a",
        "2, b",
        "3, c",
    ]
    with pytest.raises(AssertionError, match="there are no cases"):
        every("number", [])


@every("number", [1, 2])
def test_a_test_that_holds_for_all_passes_with_its_fixtures(tmp_path: Path, number: int) -> None:
    assert tmp_path.is_dir()
    assert number in (1, 2)
