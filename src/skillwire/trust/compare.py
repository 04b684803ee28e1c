"""Differences between two JSON objects, field by field, by JSON type and value (VER-2).

`true` is not 1, 1 equals 1.0, and an absent field differs from a null one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from skillwire.json_types import is_list, is_object

_SHOWN = 40
_MOST = 8


def frontmatter_differences(
    listed: Mapping[str, object], found: Mapping[str, object], *, only_fields: Collection[str] | None = None
) -> tuple[str, ...]:
    """One line for each of the first few differences; empty if there are none.

    `only_fields` are the fields that an older dialect has; others are not compared.
    """
    if only_fields is not None:
        listed = {key: value for key, value in listed.items() if key in only_fields}
        found = {key: value for key, value in found.items() if key in only_fields}
    differences: list[str] = []
    # A stack, not recursion: a server chooses how deep its JSON goes.
    waiting: list[tuple[str, object, object]] = [("", listed, found)]
    while waiting and len(differences) < _MOST:
        place, one, other = waiting.pop()
        if is_object(one) and is_object(other):
            for key in sorted({*one, *other}, reverse=True):
                inner = f"{place}.{_plain(key)}" if place else _plain(key)
                if key not in other:
                    differences.append(f"{inner} is missing in the file")
                elif key not in one:
                    differences.append(f"{inner} is not in the entry")
                else:
                    waiting.append((inner, one[key], other[key]))
        elif is_list(one) and is_list(other):
            if len(one) != len(other):
                differences.append(f"{place} has {len(other)} items, the entry says {len(one)}")
            else:
                rows = zip(one, other, strict=True)
                pairs = [(f"{place}[{number}]", *pair) for number, pair in enumerate(rows)]
                waiting.extend(reversed(pairs))
        elif not _same_scalar(one, other):
            differences.append(f"{place} is {_shown(other)}, the entry says {_shown(one)}")
    return tuple(differences[:_MOST])


def _same_scalar(one: object, other: object) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str) and one == other
    # Only numbers are left. NaN equals nothing, so the skill is refused.
    return isinstance(one, int | float) and isinstance(other, int | float) and _same_number(one, other)


def _same_number(one: float, other: float) -> bool:
    # Most readers treat JSON numbers as doubles, so a server in JavaScript rounds long integers.
    try:
        return float(one) == float(other)
    except OverflowError:
        return one == other


def _plain(key: str) -> str:
    quoted = json.dumps(key)
    return key if quoted == f'"{key}"' and len(key) <= _SHOWN else _cut(quoted)


def _shown(value: object) -> str:
    if is_object(value):
        return "an object"
    if is_list(value):
        return "a list"
    # ASCII JSON cannot contain terminal escapes.
    return _cut(json.dumps(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
