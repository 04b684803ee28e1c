"""Output of the command line, without anything that could control a terminal. Screen: styled lines.

Markup is never interpreted, so no text can style itself. Untrusted text is cleaned first, and printed behind
a bar if it has several lines. Lines are broken between words; only a word that is longer than a line is
split.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO

from skillwire.errors import SourceError
from skillwire.words import counted as counted
from skillwire.words import human_size as human_size

if TYPE_CHECKING:
    from skillwire.trust import Origin, Scan


def printable(text: str) -> str:
    """Text on one line, with control characters made visible."""
    from skillwire.text import shown

    return shown(text, 2000)


_verbosity = 0


def set_verbosity(*, quiet: bool, verbose: bool) -> None:
    """For this process: print only results and errors, or also progress."""
    global _verbosity
    _verbosity = 1 if verbose else -1 if quiet else 0


def verbosity() -> int:
    """Below 0 with `--quiet`, above 0 with `--verbose`."""
    return _verbosity


def info(text: str = "") -> None:
    """A line for the user, on standard error, which no client reads. Not printed with `--quiet`."""
    if _verbosity >= 0:
        print_stderr(text)


def error(text: str, *, command: str = "") -> None:
    """Print what went wrong, as one line on standard error."""
    print_stderr(f"{' '.join(filter(None, ['skillwire', command]))}: {printable(text)}")


def print_stderr(text: str = "") -> None:
    """A line on standard error, whatever the verbosity."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - closed by whoever started us
        return  # Printing to `None` prints to standard output.
    with suppress(OSError):
        # This is the one place that prints there.
        print(_encodable(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201


class OutputError(SourceError):
    """Standard output cannot be written, for example because the disk is full."""


def write(text: str) -> None:
    """Write what the user asked for to standard output. What the terminal cannot encode is escaped."""
    with _output_errors():
        print(_encodable(text, sys.stdout), flush=True)  # noqa: T201 - see above


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal. It is `None` if whoever started us closed it, and may be
    anything that a program has put in its place."""
    return stream is not None and hasattr(stream, "isatty") and stream.isatty()


def write_bytes(data: bytes) -> None:
    """Bytes unchanged, on standard output; as text, where a program has put a stream of text in its place."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - closed by whoever started us
        return
    with _output_errors():
        buffer: BinaryIO | None = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(data.decode("utf-8", "backslashreplace"))
            sys.stdout.flush()
            return
        buffer.write(data)
        buffer.flush()


def _encodable(text: str, stream: TextIO) -> str:
    # A stream in memory has no encoding: it takes every text.
    encoding: str | None = getattr(stream, "encoding", None)
    return text if encoding is None else text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def _output_errors() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"the output cannot be written: {error.strerror}; free some space, or write elsewhere"
        ) from None


def matching(count: int) -> str:
    """How many skills are on disk as the lock file pins them, as a sentence."""
    return f"{counted(count, 'skill')} {'matches' if count == 1 else 'match'} skillwire.lock."


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
        room = max(self.width - columns_of(title) - 2, _LEAST_WIDTH // 2)
        for number, line in enumerate(wrap(text, room)):
            start = " " * columns_of(title) if number else title if line else title.rstrip()
            self.line((start, style), f"  {line}" if line else "")

    def quoted(self, text: str, *, style: str = "") -> str:
        """Untrusted text, every line behind a bar, so that none looks like our own output.

        Returns the remark on what was removed from it.
        """
        from skillwire.text import clean_text

        cleaned = clean_text(text)
        for line in cleaned.text.removesuffix("\n").split("\n"):
            for piece in wrap(line.expandtabs(_TAB), self.width - 2):
                self.line(("│ ", "dim"), (piece, style))
        return cleaned.remark

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names and values, one pair per line; a long value is wrapped below itself."""
        shown = [(name, value) for name, value in rows if value]
        widest = max((columns_of(name) for name, _ in shown), default=0)
        for name, value in shown:
            for number, line in enumerate(wrap(value, max(self.width - widest - 4, _LEAST_WIDTH // 2))):
                title = padded("" if number else name, widest)
                self.line("  ", (title, "dim"), "  ", line)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of aligned cells; the first row has the headings. A long last cell is wrapped."""
        widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
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
    while columns_of(rest) > width:
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
    from skillwire.text import safe_line

    line = safe_line(text)
    if columns_of(line) <= width:
        return line
    kept = line[: _fitting(line, width - 1)] if width > 1 else ""
    return kept.rstrip() + "…"


def padded(text: str, width: int) -> str:
    """A text that was cleaned, with spaces up to a width."""
    return text.ljust(width) if text.isascii() else text + " " * (width - columns_of(text))


def columns_of(text: str) -> int:
    """How many columns a text that was cleaned takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # Few texts need it.

    return cell_len(text)


def show_json(document: Mapping[str, object]) -> None:
    """One document, in ASCII, so that untrusted text reaches a terminal escaped."""
    write(json.dumps({"version": 1, **document}, indent=2, ensure_ascii=True))


def _fitting(text: str, width: int) -> int:
    """How many characters of a text fit into `width` columns, at least one."""
    used = 0
    for number, char in enumerate(text):
        used += columns_of(char)
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
