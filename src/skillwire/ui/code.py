"""The exact text of a skill: every invisible character is named, and code has colors.

`SkillScans` has the findings of a policy's scanners. Skills are scanned when they are opened.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
from markupsafe import Markup, escape

from skillwire.errors import SkillwireError
from skillwire.host import FileComparison
from skillwire.text import decode_text, split_hidden
from skillwire.trust import ChangeKind, FindingLevel, Scan, shown_path

if TYPE_CHECKING:
    from skillwire.host import SkillHost, SkillReview


class _Language(NamedTuple):
    keywords: str
    line_comment: str = ""
    block_comment: tuple[str, str] | None = None
    quotes: str = "\"'"
    triple: bool = False


_C_LIKE: Final = (
    "abstract as async await bool boolean break byte case catch chan char class const continue crate default "
    "defer delete do double dyn else enum export extends extern false final finally float fn for from func "
    "function go goto if impl implements import in instanceof int interface internal let long loop map match "
    "mod move mut namespace new nil null override package private protected pub public range readonly record "
    "ref return sealed select self short signed sizeof static struct super switch template this throw throws "
    "trait true try type typedef typeof undefined union unsafe unsigned use using var virtual void volatile "
    "where while with yield"
)
_PYTHON: Final = (
    "and as assert async await break case class continue def del elif else except False finally for from "
    "global if import in is lambda match None nonlocal not or pass raise return True try while with yield"
)
_SHELL: Final = (
    "case do done elif else esac eval exec exit export fi for function if in local readonly return set shift "
    "source then trap unset until while"
)
_RUBY: Final = (
    "alias and begin break case class def do else elsif end ensure false for if in module next nil not or "
    "redo require rescue retry return self super then true undef unless until when while yield"
)
_SQL: Final = (
    "alter and as by case create delete desc distinct drop else end exists from group having in index inner "
    "insert into is join key left like limit not null on or order outer primary select set table then union "
    "update values when where with"
)
_CURLY: Final = _Language(_C_LIKE, "//", ("/*", "*/"), "\"'`")
_HASH: Final = _Language("true false null yes no on off", "#")
_LANGUAGES: Final = {
    "py": _Language(_PYTHON, "#", triple=True),
    "sh": _Language(_SHELL, "#"),
    "rb": _Language(_RUBY, "#"),
    "sql": _Language(_SQL, "--", ("/*", "*/")),
    "json": _Language("true false null", quotes='"'),
    "html": _Language("", "", ("<!--", "-->")),
    "css": _Language("", "", ("/*", "*/")),
    "c": _CURLY,
    "conf": _HASH,
}
_SUFFIXES: Final = {
    **dict.fromkeys(("py", "pyi"), "py"),
    **dict.fromkeys(("sh", "bash", "zsh", "fish", "ps1", "mk"), "sh"),
    **dict.fromkeys(("rb",), "rb"),
    **dict.fromkeys(("sql",), "sql"),
    **dict.fromkeys(("json", "jsonl", "ipynb"), "json"),
    **dict.fromkeys(("html", "htm", "xml", "svg", "vue"), "html"),
    **dict.fromkeys(("css", "scss", "less"), "css"),
    **dict.fromkeys(
        (
            "c",
            "cc",
            "cpp",
            "cs",
            "go",
            "h",
            "hpp",
            "java",
            "js",
            "jsx",
            "kt",
            "mjs",
            "cjs",
            "mts",
            "cts",
            "php",
        ),
        "c",
    ),
    **dict.fromkeys(("rs", "scala", "swift", "ts", "tsx", "proto", "jsonc"), "c"),
    **dict.fromkeys(("yaml", "yml", "toml", "ini", "cfg", "conf", "env", "properties"), "conf"),
}
_NAMES: Final = {"dockerfile": "sh", "makefile": "sh", ".env": "conf", "gemfile": "rb", "rakefile": "rb"}


def pattern_for(path: str) -> re.Pattern[str] | None:
    """The pattern for a file, with a group for each color; `None` for an unknown language."""
    name = path.rpartition("/")[2].lower()
    language = _NAMES.get(name) or _SUFFIXES.get(name.rpartition(".")[2] if "." in name else "")
    return _pattern(language) if language else None


@cache
def _pattern(name: str) -> re.Pattern[str]:
    language = _LANGUAGES[name]
    comments: list[str] = []
    if language.block_comment:
        start, end = map(re.escape, language.block_comment)
        comments.append(rf"{start}(?:(?!{end})[\s\S])*(?:{end})?")
    if language.line_comment:
        before = r"(?<![\w$&])" if language.line_comment == "#" else ""
        comments.append(rf"{before}{re.escape(language.line_comment)}[^\n]*")
    strings: list[str] = []
    if language.triple:
        strings += [rf"{quote}{{3}}(?:(?!{quote}{{3}})[\s\S])*(?:{quote}{{3}})?" for quote in language.quotes]
    strings += [rf"{quote}(?:[^{quote}\\\n]|\\[^\n])*{quote}?" for quote in language.quotes]
    groups = [f"(?P<c>{'|'.join(comments)})" if comments else "", f"(?P<s>{'|'.join(strings)})"]
    if language.keywords:
        groups.append(rf"(?P<k>\b(?:{'|'.join(language.keywords.split())})\b)")
    groups.append(r"(?P<m>\b[0-9][0-9A-Fa-f_xob.]*\b)")
    return re.compile("|".join(group for group in groups if group))


PART_LINES: Final = 2_000
"""At most this many lines are shown at a time."""
PART_CHARS: Final = 200_000
LINE_CHARS: Final = 4_000
_HIGHLIGHT_CHARS: Final = 100_000
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
    pattern = pattern_for(path)
    if pattern is None:
        return _plain(lines)
    text = "\n".join(lines)
    shown: list[list[Markup]] = [[]]
    at = 0
    for match in pattern.finditer(text):
        _append(shown, text[at : match.start()], "")
        _append(shown, match[0], match.lastgroup or "")
        at = match.end()
    _append(shown, text[at:], "")
    return [Markup().join(line) for line in shown[: len(lines)]]


def _append(shown: list[list[Markup]], text: str, name: str) -> None:
    for number, piece in enumerate(text.split("\n")):
        if number:
            shown.append([])
        if piece:
            marked = reveal(piece)
            shown[-1].append(Markup('<span class="{}">{}</span>').format(name, marked) if name else marked)


_CONTEXT: Final = 3
_MOST_LINES: Final = 4_000
"""Of longer texts only the common start and end are matched: matching more takes too long."""
MOST_ROWS: Final = 3_000


class RowKind(StrEnum):
    """How the two sides of a row differ. The values are those of the templates."""

    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    GAP = "gap"
    """Lines that are equal on both sides and not shown."""

    @property
    def is_equal(self) -> bool:
        """Whether both sides have the same lines here, shown or not."""
        return self in (RowKind.SAME, RowKind.GAP)


class CodeLine(NamedTuple):
    """A line of one side. Numbers count from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A line on both sides; `None` on the side that does not have it, and on both sides of a gap."""

    kind: RowKind
    old: CodeLine | None = None
    new: CodeLine | None = None
    skipped: int = 0
    """How many lines a gap leaves out."""


@dataclass(frozen=True, slots=True)
class TextDiff:
    """How one file changed."""

    rows: tuple[Row, ...]
    added: int
    removed: int
    is_cut: bool = False
    """Whether there are more rows than are shown."""


def diff_texts(old: str, new: str, *, context: int = _CONTEXT) -> TextDiff:
    """The rows in which two texts differ, with some equal ones around them."""
    before, after = split_lines(old), split_lines(new)
    old_lines, new_lines = _numbered(before), _numbered(after)
    rows: list[Row] = []
    added = removed = 0
    for tag, old_from, old_to, new_from, new_to in _operations(before, after):
        if tag == "equal":
            pairs = zip(old_lines[old_from:old_to], new_lines[new_from:new_to], strict=True)
            rows += [Row(RowKind.SAME, *pair) for pair in pairs]
            continue
        removed += old_to - old_from
        added += new_to - new_from
        rows += _changed(old_lines[old_from:old_to], new_lines[new_from:new_to])
    shown = list(_with_gaps(rows, context))
    return TextDiff(tuple(shown[:MOST_ROWS]), added, removed, len(shown) > MOST_ROWS)


def unified(rows: Sequence[Row]) -> Iterator[Row]:
    """The same rows one below the other: removed lines before added ones, block by block."""
    gone: list[Row] = []
    new: list[Row] = []

    def flush() -> Iterator[Row]:
        yield from gone
        yield from new
        gone.clear()
        new.clear()

    for row in rows:
        if row.kind.is_equal:
            yield from flush()
            yield row
            continue
        if row.old is not None:
            gone.append(Row(RowKind.REMOVED, old=row.old))
        if row.new is not None:
            new.append(Row(RowKind.ADDED, new=row.new))
    yield from flush()


def _numbered(lines: Iterable[str]) -> list[CodeLine]:
    return [CodeLine(number, text) for number, text in enumerate(lines, start=1)]


def _changed(before: list[CodeLine], after: list[CodeLine]) -> Iterator[Row]:
    for old, new in zip_longest(before, after):
        kind = RowKind.ADDED if old is None else RowKind.REMOVED if new is None else RowKind.CHANGED
        yield Row(kind, old, new)


def common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many characters or lines two texts have in common at the start, and after that at the end."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, end


def _operations(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    start, end = common_ends(before, after)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    operations = [("equal", 0, start, 0, start)] if start else []
    if len(old) + len(new) > _MOST_LINES:
        operations.append(("replace", start, start + len(old), start, start + len(new)))
    else:
        matcher = SequenceMatcher(None, old, new, autojunk=True)
        operations += [
            (tag, start + a, start + b, start + c, start + d) for tag, a, b, c, d in matcher.get_opcodes()
        ]
    if end:
        operations.append(("equal", len(before) - end, len(before), len(after) - end, len(after)))
    return operations


def _with_gaps(rows: list[Row], context: int) -> Iterator[Row]:
    near = [False] * len(rows)
    for order in (range(len(rows)), range(len(rows) - 1, -1, -1)):
        last = None
        for at in order:
            if rows[at].kind is not RowKind.SAME:
                last = at
            if last is not None and abs(at - last) <= context:
                near[at] = True
    skipped = 0
    for at, row in enumerate(rows):
        if not near[at]:
            skipped += 1
            continue
        if skipped:
            yield Row(RowKind.GAP, skipped=skipped)
            skipped = 0
        yield row
    if skipped:
        yield Row(RowKind.GAP, skipped=skipped)


_MOST_ROWS: Final = 4_000
"""Rows of all files on one page; what is longer is shown one file at a time."""
_WORD_DIFF_CHARS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ShownRow:
    """A row of a table, ready to be shown."""

    kind: str
    """The value of its `RowKind`."""
    old_number: int | None
    new_number: int | None
    old: Markup | None
    new: Markup | None
    skipped: int


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file that differs, with its rows.

    There are none for a binary file, for one of which a version is not at hand, and on a full page. `remark`
    then says so.
    """

    id: str
    path: str
    kind: str
    rows: tuple[ShownRow, ...] = ()
    added: int = 0
    removed: int = 0
    remark: str = ""


def show_comparison(files: Iterable[FileComparison], *, split: bool) -> list[ShownFile]:
    """Every file that differs. Rows are counted over all of them, so that a page stays short."""
    shown: list[ShownFile] = []
    room = _MOST_ROWS
    for number, file in enumerate(files, start=1):
        one = _show_file(f"f{number}", file, split=split, room=room)
        room -= len(one.rows)
        shown.append(one)
    return shown


def _show_file(name: str, file: FileComparison, *, split: bool, room: int) -> ShownFile:
    path, kind = shown_path(file.path), file.kind.value
    old = "" if file.kind is ChangeKind.ADDED else decode_text(file.old)
    new = "" if file.kind is ChangeKind.REMOVED else decode_text(file.new)
    if old is None or new is None:
        binary = (file.old is not None and old is None) or (file.new is not None and new is None)
        return ShownFile(name, path, kind, remark=file.problem or ("binary" if binary else "not available"))
    found = diff_texts(old, new)
    rows = found.rows if split else tuple(unified(found.rows))
    remark = "" if found.added or found.removed else "only line endings differ"
    if found.is_cut or len(rows) > room:
        remark = "too long to show all of it: read the file itself"
    shown = tuple(_show_row(row) for row in rows[: max(room, 0)]) if found.added or found.removed else ()
    return ShownFile(name, path, kind, shown, found.added, found.removed, remark)


def _show_row(row: Row) -> ShownRow:
    old, new = (None if line is None else show_line(line.text) for line in (row.old, row.new))
    if row.old is not None and row.new is not None and row.kind is RowKind.CHANGED:
        old, new = _with_marks(row.old.text, row.new.text)
    old_number, new_number = (None if line is None else line.number for line in (row.old, row.new))
    return ShownRow(row.kind.value, old_number, new_number, old, new, row.skipped)


def _with_marks(old: str, new: str) -> tuple[Markup, Markup]:
    """Two lines with the part marked in which they differ."""
    if max(len(old), len(new)) > _WORD_DIFF_CHARS:
        return show_line(old), show_line(new)
    start, end = common_ends(old, new)

    def marked(text: str, tag: Markup) -> Markup:
        middle = text[start : len(text) - end]
        inner = tag.format(show_line(middle)) if middle else Markup()
        return show_line(text[:start]) + inner + show_line(text[len(text) - end :])

    return marked(old, Markup("<del>{}</del>")), marked(new, Markup("<ins>{}</ins>"))


_WAIT_SECONDS: Final = 0.5
_FINDINGS_SHOWN: Final = 50


class SkillScans:
    """The scans of one host. A page waits for one only a moment, and shows it when it is done."""

    def __init__(self, host: SkillHost) -> None:
        self._host = host
        self.requested = anyio.Event()
        """Set when there are skills to be scanned."""
        self._waiting: dict[str, SkillReview] = {}
        self._failed: dict[str, str] = {}
        self._done = anyio.Event()

    def known(self, review: SkillReview) -> tuple[Scan, ...] | None:
        """The findings of every scanner of the policy; `None` if one has not scanned the skill yet."""
        candidate = self._host.decide.facts(review.skill)
        known = candidate.scans or {}
        if review.digest in self._failed:
            return (Scan(scanner="scanners", problem=self._failed[review.digest]),)
        scanners = candidate.policy.scanners
        return tuple(known.values()) if all(one.key in known for one in scanners) else None

    async def request(self, review: SkillReview) -> None:
        """Have a skill scanned as the policy asks for, and wait for that for a moment."""
        if self.known(review) is None and review.digest:
            self._waiting[review.digest] = review
            self.requested.set()
            done = self._done
            with anyio.move_on_after(_WAIT_SECONDS):
                await done.wait()

    async def run(self) -> None:
        """Scan what was requested."""
        self.requested = anyio.Event()
        while self._waiting:
            digest, review = self._waiting.popitem()
            try:
                await self._host.decide.scan(review.skill)
            except SkillwireError as error:
                self._failed[digest] = str(error)
            done, self._done = self._done, anyio.Event()
            done.set()


def scan_rows(scans: Iterable[Scan]) -> tuple[tuple[str, str, list[Markup]], ...]:
    """Each scan: its tone, its words, and its findings, with every hidden character as a mark."""
    return tuple(
        ("bad" if scan.problem or scan.worst is FindingLevel.ERROR else "", first, list(map(reveal, lines)))
        for scan in scans
        for first, *lines in [scan.lines(_FINDINGS_SHOWN)]
    )
