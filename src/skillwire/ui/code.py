"""The exact text of a skill: every invisible character is named, and code has colors.

Pygments says which piece of a text is what. The pieces themselves are taken from the text, and `reveal` is
the only way from text to HTML.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from skillwire.text import split_hidden

# These lexers need no long time for any single token of hostile text.
_LEXERS: Final = {
    "bash": "sh bash zsh fish",
    "c": "c h",
    "cpp": "cc cpp hpp",
    "csharp": "cs",
    "css": "css",
    "go": "go",
    "html": "html htm vue",
    "ini": "ini cfg conf env properties",
    "java": "java",
    "javascript": "js jsx mjs cjs",
    "json": "json jsonl ipynb jsonc",
    "kotlin": "kt",
    "make": "mk",
    "php": "php",
    "powershell": "ps1",
    "protobuf": "proto",
    "python": "py pyi",
    "ruby": "rb",
    "rust": "rs",
    "scala": "scala",
    "scss": "scss less",
    "sql": "sql",
    "swift": "swift",
    "toml": "toml",
    "typescript": "ts tsx mts cts",
    "xml": "xml svg",
    "yaml": "yaml yml",
}
_SUFFIXES: Final = {suffix: name for name, suffixes in _LEXERS.items() for suffix in suffixes.split()}
_NAMES: Final = {
    "dockerfile": "docker",
    "makefile": "make",
    ".env": "ini",
    "gemfile": "ruby",
    "rakefile": "ruby",
}
_CLASSES: Final = (
    (Comment.Preproc, "k"),
    (Comment, "c"),
    (String, "s"),
    (Number, "m"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Name.Tag, "k"),
)
_HIGHLIGHT_CHARS: Final = 100_000
_HIGHLIGHT_SECONDS: Final = 0.5
"""CPU seconds for the colors of one page. A text can be made so that they take long: its rest has none."""
PART_LINES: Final = 2_000
"""At most this many lines are shown at a time."""
PART_CHARS: Final = 200_000
LINE_CHARS: Final = 4_000
_CONTROL_NAMES: Final = {
    "\0": "NULL",
    "\x07": "BELL",
    "\x08": "BACKSPACE",
    "\x0b": "LINE TABULATION",
    "\x0c": "FORM FEED",
    "\r": "CARRIAGE RETURN",
    "\x1b": "ESCAPE",
    "\x7f": "DELETE",
    "\x85": "NEXT LINE",
}
_TAGS: Final = range(0xE0020, 0xE007F)


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a text. `lines` are numbered from `first`."""

    lines: tuple[Markup, ...]
    first: int
    total: int
    hidden: int
    """Invisible characters in the whole text."""
    is_cut: bool
    """Whether a line is longer than what is shown of it."""

    @property
    def next(self) -> int | None:
        """Where the next part starts, if there is one."""
        after = self.first + len(self.lines)
        return after if after <= self.total else None

    @property
    def previous(self) -> int | None:
        return max(self.first - PART_LINES, 1) if self.first > 1 else None


def show_text(text: str, path: str = "", *, first: int = 1, line_from: int = 0) -> Part:
    """One part of a text with its hidden characters named; in colors if `path` is a known kind of code.

    `line_from` is where to start in each line that is longer than what is shown of it.
    """
    lines = split_lines(text)
    first = min(max(first, 1), max(len(lines), 1))
    chosen: list[str] = []
    size = 0
    for line in lines[first - 1 : first - 1 + PART_LINES]:
        if chosen and size + min(len(line), LINE_CHARS) > PART_CHARS:
            break
        chosen.append(line)
        size += min(len(line), LINE_CHARS)
    is_cut = any(len(line) > LINE_CHARS for line in chosen)
    shown = _plain(chosen, line_from) if is_cut or size > _HIGHLIGHT_CHARS else _highlighted(chosen, path)
    return Part(tuple(shown), first, len(lines), count_hidden(text), is_cut)


def split_lines(text: str) -> list[str]:
    """The lines as an editor shows them. Only a line feed ends one; other line endings are named."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def count_hidden(text: str) -> int:
    return sum(len(run) for run, is_hidden in split_hidden(text) if is_hidden)


def show_line(line: str, line_from: int = 0) -> Markup:
    """One line, escaped, with its hidden characters named; cut when it is very long."""
    if len(line) <= LINE_CHARS:
        return reveal(line)
    start = min(max(line_from, 0), len(line) - 1)
    left = len(line) - start - LINE_CHARS
    before = Markup('<span class="cut">{:,} characters before </span>').format(start) if start else Markup()
    after = Markup('<span class="cut"> {:,} more characters</span>').format(left) if left > 0 else Markup()
    return before + reveal(line[start : start + LINE_CHARS]) + after


def reveal(text: str) -> Markup:
    """Escaped text in which every invisible character is a mark with its name."""
    return Markup("".join(_mark(run) if is_hidden else escape(run) for run, is_hidden in split_hidden(text)))  # noqa: S704 - escaped above


def _mark(run: str) -> Markup:
    tags = "".join(chr(ord(char) - 0xE0000) for char in run if ord(char) in _TAGS)
    if tags and len(tags) == len(run):
        # Letters that are invisible to people but not to a model: spelled out.
        return Markup('<mark class="hidden" title="{}">hidden text “{}”</mark>').format(
            f"{len(run)} Unicode tag characters", tags
        )
    marks = [
        Markup('<mark class="hidden" title="{}">U+{:04X}</mark>').format(name_of(char), ord(char))
        for char in run[:40]
    ]
    if len(run) > 40:
        marks.append(Markup('<mark class="hidden">{:,} more hidden characters</mark>').format(len(run) - 40))
    return Markup().join(marks)


def name_of(char: str) -> str:
    return _CONTROL_NAMES.get(char) or unicodedata.name(char, "an invisible character")


def _plain(lines: Iterable[str], line_from: int = 0) -> Iterator[Markup]:
    return (show_line(line, line_from) for line in lines)


def _highlighted(lines: list[str], path: str) -> Iterable[Markup]:
    """The lines in colors; as they are when the kind of file is not known."""
    lexer = _lexer_for(path)
    if lexer is None:
        return _plain(lines)
    shown: list[list[Markup]] = [[]]
    for name, run in groupby(color("\n".join(lines), lexer), key=lambda piece: piece[1]):
        _append(shown, "".join(text for text, _ in run), name)
    return [Markup().join(line) for line in shown[: len(lines)]]


def color(
    text: str, lexer: Lexer, *, clock: Callable[[], float] = time.thread_time
) -> Iterator[tuple[str, str]]:
    """The pieces of a text in order, each with the class of its color, which may be empty.

    Together they are the text, whatever the lexer says.
    """
    at, until = 0, clock() + _HIGHLIGHT_SECONDS
    # Lexers end some tokens only at a line feed.
    for start, kind, value in lexer.get_tokens_unprocessed(text + "\n"):
        if start > at:
            yield text[at:start], ""
        at, start = max(start + len(value), at), max(start, at)
        yield text[start:at], next((name for one, name in _CLASSES if kind in one), "")
        if clock() > until:
            break
    yield text[at:], ""


def _lexer_for(path: str) -> Lexer | None:
    name = path.rpartition("/")[2].lower()
    language = _NAMES.get(name) or _SUFFIXES.get(name.rpartition(".")[2] if "." in name else "")
    return _lexer(language) if language else None


@cache
def _lexer(name: str) -> Lexer:
    return get_lexer_by_name(name)


def _append(shown: list[list[Markup]], text: str, name: str) -> None:
    for number, piece in enumerate(text.split("\n")):
        if number:
            shown.append([])
        if piece:
            marked = reveal(piece)
            shown[-1].append(Markup('<span class="{}">{}</span>').format(name, marked) if name else marked)
