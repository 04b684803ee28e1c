"""Layouts that YAML 1.2 forbids, or that its readers do not take alike, and that the scanners let pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_AFTER_NAME = " \t\r\n,[]{}"
_ENDS_BLANK = re.compile(r"(?:\n|\A)[ ]+\n*\Z")
_INDENT_DIGIT = re.compile(r"[|>][+-]?[1-9]")
_BREAK_AND_BLANK = re.compile(r"(?<!\\)(?:\\\\)*\\\r?\n[ \t]*\r?\n")


def overlong_name(text: str, start: int, sign: str, name: str) -> str | None:
    """The name of an anchor or alias as it is written, when it goes on after the part that a scanner took.

    In YAML 1.2 a name ends at a space; the scanners end it at the first odd character.
    """
    begin = text.index(sign + name, start)
    end = begin + len(sign + name)
    return None if text[end : end + 1] in _AFTER_NAME else text[begin : end + 20].split()[0]


def unindented_lines(lines: Sequence[str], first: int, last: int, column: int, closing: str) -> Iterator[int]:
    """The lines of a value, after its first, that are not indented beyond the column of the block around it.

    YAML 1.2 asks for that inside quotes and brackets too. A bracket of `closing` may stand below the key.
    """
    for number in range(first + 1, last + 1):
        content = lines[number].lstrip(" ")
        indent = len(lines[number]) - len(content)
        if indent > column or not content.strip() or (closing and content[0] == "#"):
            continue
        if indent < column or content[0] not in closing:
            yield number


def ends_in_doubt(value: str, header: str) -> bool:
    """Whether a block with an indentation digit ends with a line of spaces: text to some readers only."""
    return _ENDS_BLANK.search(value) is not None and _INDENT_DIGIT.search(header) is not None


def breaks_in_doubt(source: str) -> bool:
    """Whether an empty line follows an escaped line break in double quotes: readers fold it differently."""
    return _BREAK_AND_BLANK.search(source) is not None
