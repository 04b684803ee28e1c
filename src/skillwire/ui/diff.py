"""How files changed: their lines side by side or one below the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import zip_longest
from typing import Final, NamedTuple

from markupsafe import Markup

from skillwire.host import FileComparison
from skillwire.text import decode_text
from skillwire.trust import ChangeKind, shown_path
from skillwire.ui.code import show_line, split_lines

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
