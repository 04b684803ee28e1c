"""YAML scalars by the 1.2 core schema: their values, their characters and their layout.

An integer keeps all its digits, although JavaScript rounds it to a double beyond 2^53; numbers are compared
as doubles. A number too large for a double is refused, as infinity is, because JSON cannot represent it.

libyaml scans YAML 1.1. Where 1.1 and 1.2 differ about characters, `escapes_for` substitutes placeholders;
where they differ about layout, the functions at the end find the lines to refuse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import intern
from typing import Final, TypeAlias

from skillwire.documents import JsonObject, JsonValue

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

# NEL, LINE SEPARATOR and PARAGRAPH SEPARATOR were line breaks in YAML 1.1 and are plain characters in 1.2.
_OLD_BREAK = re.compile("[\x85\u2028\u2029]")
# `"\\ud83d\\ude00"`, as JSON writes an emoji, is refused by libyaml, although JSON is YAML since 1.2.
_PAIR = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)(?P<pair>\\u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2}))"
)
_AFTER_NAME = " \t\r\n,[]{}"
_ENDS_BLANK = re.compile(r"(?:\n|\A)[ ]+\n*\Z")
_INDENT_DIGIT = re.compile(r"[|>][+-]?[1-9]")
_BREAK_AND_BLANK = re.compile(r"(?<!\\)(?:\\\\)*\\\r?\n[ \t]*\r?\n")


class NotFiniteError(ValueError):
    """The text is infinity, NaN, or a number beyond the largest double."""


class TagError(ValueError):
    """The text does not match its tag, or the tag is not in the core schema."""


def plain_scalar(text: str) -> Scalar:
    """The value of a scalar without quotes and without a tag."""
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


@dataclass(frozen=True, slots=True)
class Escapes:
    """A text that libyaml can read as YAML 1.2, and what its placeholders mean in quotes and elsewhere."""

    text: str
    in_quotes: Mapping[int, str]
    elsewhere: Mapping[int, str]


def escapes_for(text: str) -> Escapes | None:
    """The text with placeholders, or `None` if it needs none, which is the common case."""
    pairs = _PAIR.search(text) if "\\u" in text else None
    if pairs is None and not _OLD_BREAK.search(text):
        return None
    used = set(map(ord, text))
    free = (code for code in chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE)) if code not in used)
    in_quotes: dict[int, str] = {}
    elsewhere: dict[int, str] = {}
    codes: dict[str, int] = {}

    def placeholder(written: str, meant: str) -> str:
        if written not in codes:
            code = codes[written] = next(free)
            in_quotes[code], elsewhere[code] = meant, written
        return chr(codes[written])

    def for_pair(match: re.Match[str]) -> str:
        meant = (bytes.fromhex(match["high"]) + bytes.fromhex(match["low"])).decode("utf-16-be")
        return match["before"] + placeholder(match["pair"], meant)

    text = _PAIR.sub(for_pair, text)
    text = _OLD_BREAK.sub(lambda match: placeholder(match[0], match[0]), text)
    return Escapes(text, in_quotes, elsewhere)


def overlong_name(text: str, start: int, sign: str, name: str) -> str | None:
    """The name of an anchor or alias as written, if libyaml took only the start of it; otherwise `None`.

    In YAML 1.2 a name ends at a space; libyaml ends it at the first character that is not a letter or digit.
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
    """Whether a block with an indentation digit ends with a line of spaces, which only some parsers keep."""
    return _ENDS_BLANK.search(value) is not None and _INDENT_DIGIT.search(header) is not None


def breaks_in_doubt(source: str) -> bool:
    """Whether an empty line follows an escaped line break in double quotes: parsers fold it differently."""
    return _BREAK_AND_BLANK.search(source) is not None


# Printable characters except line breaks of any YAML version, tabs and backslashes.
_SAFE = (
    r" !$%&()*+,./0-9;<=>?@A-Z\[\]^_`a-z{|}~\-"
    "\xa1-\u1fff\u2010-\u2027\u2030-\ud7ff\U00010000-\U0010ffff"
)
# Possessive throughout, so that matching takes linear time.
_LINE = re.compile(
    r"(?P<indent> *+)"
    r"(?P<key>[A-Za-z][A-Za-z0-9_-]{0,63}+):"
    r"(?: ++(?:"
    # A colon before a space would end a key, and a hash after a space would begin a comment.
    rf"""(?P<plain>[A-Za-z0-9](?:[{_SAFE}"']++|:(?! |\Z)|(?<! )#)*+)(?<! )"""
    rf'''|"(?P<double>[{_SAFE}'#:]*+)"'''
    rf"""|'(?P<single>[{_SAFE}"#:]*+)'"""
    r"))?"
)


def plain_lines(text: str, *, first_line: int) -> tuple[JsonObject, dict[str, int]] | None:
    """The mapping in the text and the line of each of its keys; `None` if the text is not simple."""
    found: JsonObject = {}
    lines: dict[str, int] = {}
    inner: JsonObject | None = None
    inner_indent = ""
    for number, line in enumerate(text.removesuffix("\n").split("\n"), first_line):
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        indent, key, plain, double, single = match.groups()
        value: JsonValue = double if single is None else single
        has_value = value is not None
        if plain is not None:
            has_value = True
            try:
                value = plain_scalar(plain)
            except NotFiniteError:
                return None
        if plain_scalar(key) is not key:
            return None
        if indent:
            # Lines of a nested mapping follow a key without a value, with equal indentation.
            if inner is None or not has_value or indent != (inner_indent or indent):
                return None
            inner_indent = indent
            mapping = inner
        else:
            if inner == {}:
                return None
            inner, inner_indent = None, ""
            if not has_value:
                value = inner = {}
            lines[key] = number
            mapping = found
        if key in mapping:
            return None
        mapping[intern(key)] = value
    return None if inner == {} else (found, lines)
