"""Screen: styled lines for a person.

Only `Text` objects reach the terminal, never markup: no text can style itself. What others wrote is cleaned
first, and stands behind a bar when it has lines of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from skillwire.cli.output import info, write
from skillwire.text import clean_text, safe_line
from skillwire.trust.origin import Origin

_UNLIMITED: Final = 100_000
_LEAST_WIDTH: Final = 40
_TAB: Final = 4


class Screen:
    """Standard output or standard error. A terminal has a width and colours; a pipe or a file has neither."""

    def __init__(self, *, errors: bool = False) -> None:
        self.is_terminal = (sys.stderr if errors else sys.stdout).isatty()
        self._plain = info if errors else write
        self._console = Console(stderr=errors, highlight=False, markup=False, emoji=False)
        self.width = max(self._console.width, _LEAST_WIDTH) if self.is_terminal else _UNLIMITED

    def line(self, *parts: str | tuple[str, str]) -> None:
        """One line of text; a part may be a pair of text and style. What others wrote is made safe first."""
        text = Text(end="")
        for part in parts:
            words, style = (part, "") if isinstance(part, str) else part
            text.append(words, style=style)
        if self.is_terminal:
            self._console.print(text, soft_wrap=True)
        else:
            self._plain(text.plain)

    def wrapped(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Words over as many lines as they need."""
        room = max(self.width - indent, _LEAST_WIDTH // 2)
        for line in Text(text).wrap(self._console, room) if self.is_terminal else [Text(text)]:
            self.line(" " * indent, (line.plain.rstrip(), style))

    def quoted(self, text: str, *, style: str = "") -> str:
        """Text of others, every line of it behind a bar, so that none can pass for a line of ours.

        Gives the remark on what was taken out of it.
        """
        cleaned = clean_text(text)
        for line in cleaned.text.removesuffix("\n").split("\n"):
            for piece in chop_cells(line.expandtabs(_TAB), self.width - 2) or [""]:
                self.line(("│ ", "dim"), (piece, style))
        return cleaned.remark

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and values, one pair a line; a long value goes on below itself."""
        shown = [(name, value) for name, value in rows if value]
        widest = max((cell_len(name) for name, _ in shown), default=0)
        for name, value in shown:
            room = max(self.width - widest - 4, _LEAST_WIDTH // 2)
            lines = [line.plain for line in Text(value).wrap(self._console, room)] or [""]
            if not self.is_terminal:
                lines = [value]
            for number, line in enumerate(lines):
                title = set_cell_size("" if number else name, widest)
                self.line("  ", (title, "dim"), "  ", line.rstrip())


def origin_words(origin: Origin) -> str:
    """An origin as every command shows it: whose text it is comes first."""
    return f"local · {origin.label}" if origin.is_local else f"MCP · {origin.label}"


def cut(text: str, width: int) -> str:
    """Text of others on one line, no wider than this many columns."""
    line = safe_line(text)
    return line if cell_len(line) <= width else set_cell_size(line, max(width - 1, 0)).rstrip() + "…"


def padded(text: str, width: int) -> str:
    return set_cell_size(text, max(width, cell_len(text)))


def show_json(document: Mapping[str, object]) -> None:
    """One document, in ASCII: what a stranger wrote reaches a terminal as an escape."""
    write(json.dumps({"version": 1, **document}, indent=2, ensure_ascii=True))
