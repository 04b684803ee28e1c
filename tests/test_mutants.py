"""The mutations of `make mutants` name lines that exist."""

from __future__ import annotations

from tools.mutants import stale


def test_every_mutation_changes_a_line_that_its_file_has_exactly_once() -> None:
    assert stale() == []
