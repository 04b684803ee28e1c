"""YAML scalars by the 1.2 core schema: what a piece of text is when it stands without quotes.

A whole number keeps all its digits, although JavaScript rounds it to a double beyond 2^53: nothing is lost in
what we write, and whoever compares numbers compares them as doubles. One too large for a double is refused,
as infinity is, because JSON has no way to say it.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None

CORE_TAG: Final = "tag:yaml.org,2002:"

_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.nan|\.NaN|\.NAN")
_NUMBER_START = frozenset("+-.0123456789")
# The largest double has fewer digits than this in base 8, 10 and 16.
_MAX_DIGITS = 400


class NotFiniteError(ValueError):
    """The text is infinity, not a number, or a number beyond the largest double."""


class TagError(ValueError):
    """The text is not what its tag says, or the tag is none of the core schema."""


def plain_scalar(text: str) -> Scalar:
    """The value of a scalar that stands without quotes and without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_START and (number := _number(text)) is not None:
        return number
    return text


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The value of a scalar that has a tag: one of the core schema, or a `TagError`."""
    kind = tag.removeprefix(CORE_TAG)
    if tag == "!" or (kind == "str" and kind != tag):
        return text
    value = plain_scalar(text)
    match kind:
        case "null" if value is None:
            return value
        case "bool" if isinstance(value, bool):
            return value
        case "int" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "float" if isinstance(value, float):
            return value
        case _:
            raise TagError(tag)


def _number(text: str) -> int | float | None:
    if _INT.fullmatch(text):
        whole = _whole(text.lstrip("+-"), 10)
        return -whole if text[0] == "-" else whole
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise NotFiniteError(text)
        return number
    if _HEX.fullmatch(text):
        return _whole(text[2:], 16)
    if _OCTAL.fullmatch(text):
        return _whole(text[2:], 8)
    if _NOT_FINITE.fullmatch(text):
        raise NotFiniteError(text)
    return None


def _whole(digits: str, base: int) -> int:
    digits = digits.lstrip("0")
    if len(digits) > _MAX_DIGITS:
        raise NotFiniteError(digits)
    number = int(digits or "0", base)
    try:
        float(number)
    except OverflowError:
        raise NotFiniteError(digits) from None
    return number
