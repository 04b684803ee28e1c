"""Lines on a terminal: broken between words, and styled only by us."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from skillwire.cli.screen import Screen, wrap


@pytest.mark.parametrize(
    ("line", "width", "pieces"),
    [
        ("", 5, [""]),
        ("   ", 5, [""]),
        ("worst first things are here", 10, ["worst", "first", "things are", "here"]),
        ("exactly ten", 11, ["exactly ten"]),
        ("    code that is indented", 14, ["    code that", "    is", "    indented"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("see https://example.org/a/long/path now", 20, ["see", "https://example.org/", "a/long/path now"]),
        ("日本語日本語", 5, ["日本", "語日", "本語"]),
    ],
)
def test_a_line_is_broken_between_words(line: str, width: int, pieces: list[str]) -> None:
    assert list(wrap(line, width)) == pieces


@given(st.text(alphabet=st.sampled_from("ab cde  日é-"), max_size=80), st.integers(8, 30))
@settings(deadline=None)
def test_wrapping_fits_loses_nothing_and_breaks_no_word_that_fits(line: str, width: int) -> None:
    pieces = list(wrap(line, width))
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(line.split())
    whole = {word for word in line.split() if cell_len(word) <= width // 2}
    assert whole <= {word for piece in pieces for word in piece.split()}


def test_text_of_others_cannot_style_itself(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.line("[bold]not bold[/bold] ", ("styled", "red"))
    assert capsys.readouterr().out == "[bold]not bold[/bold] styled\n"
    screen.quoted("\x1b[31mred\x1b[0m")
    assert capsys.readouterr().out == "│ red\n"
