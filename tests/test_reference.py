"""docs/reference is what the docstrings say now."""

from __future__ import annotations

from tools.reference import TARGET, pages


def test_the_reference_is_up_to_date() -> None:
    written = {file.name: file.read_text("utf-8") for file in TARGET.glob("*.md")}
    assert written == pages(), "run `make docs` and commit docs/reference"
