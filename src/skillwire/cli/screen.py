"""Screen: styled lines for a person.

Markup is never interpreted, so no text can style itself. Untrusted text is cleaned first, and printed behind
a bar if it has several lines. Lines are broken between words; only a word that is longer than a line is
split.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TextIO

from rich.cells import cell_len, set_cell_size

from skillwire.cli.output import is_terminal, print_stderr, printable, write
from skillwire.text import clean_text, safe_line
from skillwire.trust import Origin, Scan

_UNLIMITED: Final = 100_000
_LEAST_WIDTH: Final = 40
_TAB: Final = 4
_FINDINGS_SHOWN: Final = 10
_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Screen:
    """Standard output, standard error or another stream. A terminal has a width and colors; a pipe or a file
    has neither."""

    def __init__(self, *, errors: bool = False, stream: TextIO | None = None) -> None:
        self._write = partial(_print, stream) if stream is not None else print_stderr if errors else write
        shown_on: TextIO = stream or (sys.stderr if errors else sys.stdout)
        self.is_terminal = is_terminal(shown_on)
        self._colors = self.is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = max(_columns(shown_on.fileno()), _LEAST_WIDTH) if self.is_terminal else _UNLIMITED

    def line(self, *parts: str | tuple[str, str]) -> None:
        """One line of text; a part may be a pair of text and style. The caller cleans untrusted text
        first."""
        self._write(self.styled(*parts))

    def lines(self, lines: Iterable[str]) -> None:
        """Lines that `styled` made, in one piece: a long table is written at once."""
        if text := "\n".join(lines):
            self._write(text)

    def styled(self, *parts: str | tuple[str, str]) -> str:
        """The text of a line, with its styles where the terminal has them."""
        if not self._colors:
            return "".join([part if isinstance(part, str) else part[0] for part in parts])
        return "".join([part if isinstance(part, str) else self._styled(*part) for part in parts])

    def wrapped(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Text wrapped over as many lines as it needs."""
        for line in wrap(text, max(self.width - indent, _LEAST_WIDTH // 2)):
            self.line(" " * indent, (line, style))

    def hanging(self, title: str, text: str, *, style: str = "") -> None:
        """A title, and text wrapped beside it, so that no line is below the title."""
        room = max(self.width - cell_len(title) - 2, _LEAST_WIDTH // 2)
        for number, line in enumerate(wrap(text, room)):
            start = " " * cell_len(title) if number else title if line else title.rstrip()
            self.line((start, style), f"  {line}" if line else "")

    def quoted(self, text: str, *, style: str = "") -> str:
        """Untrusted text, every line behind a bar, so that none looks like our own output.

        Returns the remark on what was removed from it.
        """
        cleaned = clean_text(text)
        for line in cleaned.text.removesuffix("\n").split("\n"):
            for piece in wrap(line.expandtabs(_TAB), self.width - 2):
                self.line(("│ ", "dim"), (piece, style))
        return cleaned.remark

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and values, one pair per line; a long value is wrapped below itself."""
        shown = [(name, value) for name, value in rows if value]
        widest = max((cell_len(name) for name, _ in shown), default=0)
        for name, value in shown:
            for number, line in enumerate(wrap(value, max(self.width - widest - 4, _LEAST_WIDTH // 2))):
                title = set_cell_size("" if number else name, widest)
                self.line("  ", (title, "dim"), "  ", line)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of aligned cells; the first row has the headings. A long last cell is wrapped."""
        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        for number, (*cells, last) in enumerate(rows):
            start = "  ".join(padded(cell, width) for cell, width in zip(cells, widths, strict=False))
            self.hanging(start, last, style="" if number else "bold")

    def _styled(self, text: str, style: str) -> str:
        if not style or not text:
            return text
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m"


def wrap(line: str, width: int) -> Iterator[str]:
    """A line in pieces of at most `width` columns, broken at spaces; later pieces keep its indentation."""
    indent = line[: len(line) - len(line.lstrip(" "))]
    if len(indent) > width // 2:
        indent = ""
    rest = line.rstrip(" ")
    while cell_len(rest) > width:
        end = _fitting(rest, width)
        at = rest.rfind(" ", len(indent) + 1, end + 1)
        if at <= 0 or not rest[:at].strip():
            at = end  # One word that is longer than the line.
        yield rest[:at].rstrip(" ")
        rest = indent + rest[at:].lstrip(" ")
    yield rest


def origin_words(origin: Origin) -> str:
    """An origin as every command shows it: whose text it is comes first."""
    return f"local · {origin.label}" if origin.is_local else f"MCP · {origin.label}"


def cut(text: str, width: int) -> str:
    """Untrusted text on one line, at most `width` columns wide."""
    line = safe_line(text)
    return line if columns_of(line) <= width else set_cell_size(line, max(width - 1, 0)).rstrip() + "…"


def padded(text: str, width: int) -> str:
    """A text that was cleaned, with spaces up to a width."""
    return text.ljust(width) if text.isascii() else text + " " * (width - columns_of(text))


def columns_of(text: str) -> int:
    """How many columns a text that was cleaned takes."""
    return len(text) if text.isascii() else cell_len(text)


def show_json(document: Mapping[str, object]) -> None:
    """One document, in ASCII, so that untrusted text reaches a terminal escaped."""
    write(json.dumps({"version": 1, **document}, indent=2, ensure_ascii=True))


def _fitting(text: str, width: int) -> int:
    """How many characters of a text fit into `width` columns, at least one."""
    used = 0
    for number, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return max(number, 1)
    return len(text)


def _print(stream: TextIO, text: str) -> None:
    with suppress(OSError):  # The terminal is gone.
        stream.write(f"{text}\n")
        stream.flush()


def _columns(descriptor: int) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(descriptor).columns or 80
    except OSError:
        return 80


def scan_rows(scans: Iterable[Scan]) -> list[tuple[str, str]]:
    """The findings of scanners, for a person to read: their texts are cleaned, and quoted as theirs."""
    rows: list[tuple[str, str]] = []
    for scan in scans:
        first, *lines = scan.lines(_FINDINGS_SHOWN)
        rows += [("scan", printable(first)), *(("", f"│ {printable(line)}") for line in lines)]
    return rows
