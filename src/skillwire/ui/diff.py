"""Differences of two texts as rows that a page can show: side by side or one below the other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

from skillwire.ui.code import split_lines

_CONTEXT: Final = 3
_MOST_LINES: Final = 4_000
"""Of longer texts only the common start and end are matched: matching more takes too long."""
MOST_ROWS: Final = 3_000


class RowKind(StrEnum):
    SAME = "same"
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    GAP = "gap"
    """Lines that are equal on both sides and not shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line on both sides, with its numbers. One that is on one side only has `None` on the other."""

    kind: RowKind
    old_number: int | None = None
    old: str | None = None
    new_number: int | None = None
    new: str | None = None
    skipped: int = 0


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
    rows: list[Row] = []
    added = removed = 0
    for tag, old_from, old_to, new_from, new_to in _operations(before, after):
        if tag == "equal":
            rows += [
                Row(
                    RowKind.SAME,
                    old_from + at + 1,
                    before[old_from + at],
                    new_from + at + 1,
                    after[new_from + at],
                )
                for at in range(old_to - old_from)
            ]
            continue
        removed += old_to - old_from
        added += new_to - new_from
        rows += _changed(before, after, (old_from, old_to), (new_from, new_to))
    shown = list(_with_gaps(rows, context))
    return TextDiff(tuple(shown[:MOST_ROWS]), added, removed, len(shown) > MOST_ROWS)


def unified(rows: Sequence[Row]) -> Iterator[Row]:
    """The same rows one below the other: what is gone before what is new, block by block."""
    gone: list[Row] = []
    new: list[Row] = []

    def flush() -> Iterator[Row]:
        yield from gone
        yield from new
        gone.clear()
        new.clear()

    for row in rows:
        if row.kind in (RowKind.SAME, RowKind.GAP):
            yield from flush()
            yield row
            continue
        if row.old is not None:
            gone.append(Row(RowKind.REMOVED, row.old_number, row.old))
        if row.new is not None:
            new.append(Row(RowKind.ADDED, None, None, row.new_number, row.new))
    yield from flush()


def _changed(
    before: list[str], after: list[str], old: tuple[int, int], new: tuple[int, int]
) -> Iterator[Row]:
    for at in range(max(old[1] - old[0], new[1] - new[0])):
        left, right = old[0] + at, new[0] + at
        if left < old[1] and right < new[1]:
            yield Row(RowKind.CHANGED, left + 1, before[left], right + 1, after[right])
        elif left < old[1]:
            yield Row(RowKind.REMOVED, left + 1, before[left])
        else:
            yield Row(RowKind.ADDED, None, None, right + 1, after[right])


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
