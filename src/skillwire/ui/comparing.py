"""Comparing: the files of a skill that differ from what was approved, or from a stored version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from skillwire.host.review import FileComparison
from skillwire.text import decode_text
from skillwire.trust.approval import ChangeKind
from skillwire.trust.paths import shown_path
from skillwire.ui.code import show_line
from skillwire.ui.diff import Row, RowKind, common_ends, diff_texts, unified

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
