"""The request traces of docs/architecture.md are those of real runs."""

from __future__ import annotations

import pytest
from tools.traces import END, PAGE, START, traces


@pytest.mark.process
def test_the_traces_are_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    written = START + text.partition(START)[2].partition(END)[0] + END
    assert written == traces(), "run `make docs` and commit docs/architecture.md"
