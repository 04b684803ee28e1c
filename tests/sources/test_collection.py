"""C3: of a collection with the faults of real ones, at least 95 % is served, and no entry is invalid."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.collection import FAULTS, REAL, measure, write_collection


def test_the_proportions_are_those_of_the_real_collections() -> None:
    assert sum(count for count, _ in FAULTS.values()) == 1_796
    assert (FAULTS["name-not-directory"][0], FAULTS["unquoted-colon"][0]) == (1_075, 58)
    assert REAL == 9_276


@pytest.mark.requirement("FMT-3", "ENT-1")
def test_at_least_95_percent_of_a_real_collection_is_served_with_valid_entries(tmp_path: Path) -> None:
    write_collection(tmp_path, 1_000)
    share = measure(tmp_path)
    assert share.skills == 1_000
    assert share.strict / share.skills < 0.82
    assert share.served / share.skills >= 0.95
    assert share.invalid == 0
