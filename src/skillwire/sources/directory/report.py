"""Problems of a scan in a few lines, with a share for every directory and every rule."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from skillwire.sources.base import Problem
from skillwire.sources.directory.roots import Root

# The number of problems of one rule that are listed separately.
_LISTED: Final = 3


def problems_of(root: Root, problems: Iterable[Problem]) -> list[Problem]:
    """The problems of one directory."""
    inside = os.path.join(root.path, "")
    return [one for one in problems if one.place == str(root.path) or one.place.startswith(inside)]


def problem_lines(problems: Sequence[Problem], roots: Sequence[Root], *, limit: int) -> list[str]:
    """At most `limit` lines about the problems, and one that counts the rest. Skills that were left out come
    before warnings. Many problems of one rule share a line. The directories take turns, so that none hides
    the others.
    """
    lines: list[tuple[str, int]] = []
    for is_left_out in (True, False):
        chosen = [one for one in problems if one.is_left_out is is_left_out]
        word = "left out" if is_left_out else "warning"
        shares = [_lines(word, problems_of(root, chosen)) for root in _outermost(roots)]
        lines += [line for turn in zip_longest(*shares) for line in turn if line is not None]
    shown = lines[:limit]
    rest = sum(count for _, count in lines[limit:])
    text = [line for line, _ in shown]
    if rest:
        text.append(f"... and {rest:,} more; skillwire lint shows them all")
    return text


def _lines(word: str, problems: Iterable[Problem]) -> Iterator[tuple[str, int]]:
    """Lines about the problems of one directory, each with the number of problems that it covers."""
    groups: dict[str, list[Problem]] = {}
    for one in problems:
        groups.setdefault(one.issues[0].rule, []).append(one)
    for rule, group in groups.items():
        if len(group) <= _LISTED:
            yield from ((f"{word}: {one}", 1) for one in group)
        else:
            yield f"{word}: {group[0]} [and {len(group) - 1:,} more with {rule}]", len(group)


def _outermost(roots: Iterable[Root]) -> list[Root]:
    """The roots that are not inside another one, so that no problem is reported twice."""
    found: list[Root] = []
    for root in sorted(dict.fromkeys(roots), key=lambda root: len(root.path.parts)):
        if not any(root.path.is_relative_to(other.path) for other in found):
            found.append(root)
    return found
