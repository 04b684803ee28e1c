"""YAML scalars by the 1.2 core schema: their values, their characters and their layout; hints about mistakes.

An integer keeps all its digits, although JavaScript rounds it to a double beyond 2^53; numbers are compared
as doubles. A number too large for a double is refused, as infinity is, because JSON cannot represent it.

libyaml scans YAML 1.1. Where 1.1 and 1.2 differ about characters, `escapes_for` substitutes placeholders;
where they differ about layout, the functions after it find the lines to refuse.

libyaml often points past a mistake, so `explain` uses the text of the line and a few words of the parser's
message to say what its author most likely meant, and what to type instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import intern
from typing import Final, TypeAlias

from yaml.error import MarkedYAMLError, YAMLError

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import Issue
from skillwire.text import shown

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
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))")
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
    # An escape of a private character must not become a placeholder once libyaml has read it.
    used = {*map(ord, text), *(int(short or wide, 16) for short, wide in _ESCAPED.findall(text))}
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


_COLON = re.compile(r":(?:[ \t]|\Z)")
_BEFORE_KEY = re.compile(r"[ ]*(?:-[ ]+)*")
_TAB_INDENT = re.compile(r"[ ]*\t")
_NO_SPACE = re.compile(r"[A-Za-z][\w-]*:\S")
_STRUCTURE = ("expected key", "<block end>", "<document start>", "'-' indicator", "'<document start>'")


@dataclass(frozen=True, slots=True)
class _Finding:
    rule: str
    message: str
    fix: str
    line: int


@dataclass(frozen=True, slots=True)
class _KeyLine:
    """A line that is `key: value`."""

    line: int
    indent: int
    key: str
    value: str
    column: int
    """Where the value starts."""


def explain(text: str, error: YAMLError, *, file: str, first_line: int) -> Issue:
    """The issue behind a parser's error in this text, which starts on `first_line`."""
    finding = _diagnose(text.replace("\r\n", "\n").split("\n"), error)
    return Issue(
        rule=finding.rule,
        message=finding.message,
        fix=finding.fix,
        file=file,
        line=finding.line + first_line,
    )


def _diagnose(lines: list[str], error: YAMLError) -> _Finding:
    problem, context, at, column, since = _parser_error(error)
    at = min(at, len(lines) - 1)
    if _TAB_INDENT.match(lines[at]) or lines[at][column : column + 1] == "\t":
        return _Finding("yaml-tab", "a tab is used where YAML needs spaces", "use spaces instead", at)
    if "quoted scalar" in context:
        return _about_quotes(lines, since, is_escape="escape" in problem or "hex" in problem)
    if "could not find expected ':'" in problem:
        return _about_missing_colon(lines, since)
    for number in range(at, -1, -1):
        if lines[number].startswith("%"):
            return _Finding("yaml-directive", "a line starts with %, a YAML directive", "remove it", number)
    if lines[at].lstrip(" ").startswith(":"):
        return _Finding("yaml-key", "a value has no key", "write a key before the colon", at)
    if "flow" in context and not lines[at].strip():
        at, column = since, len(lines[since])
    here = _key_line(lines, at)
    if here is not None and column >= here.column and (finding := _about_value(here, lines)) is not None:
        return finding
    if "mapping values are not allowed" in problem:
        return _about_stray_key(lines, at)
    if any(word in problem for word in _STRUCTURE):
        return _Finding(
            "yaml-indentation",
            "the line does not fit the lines above it",
            "start every field at the same column, and indent what belongs to it by two spaces",
            at,
        )
    return _Finding(
        "yaml-syntax",
        f"the frontmatter is not valid YAML: {shown(problem, 120)}",
        "check the indentation, and put values with special characters in quotes",
        at,
    )


def _parser_error(error: YAMLError) -> tuple[str, str, int, int, int]:
    """The problem, its context, the line and column where it was noticed, and the line where it began."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return str(error), "", 0, 0, 0
    mark = error.problem_mark
    since = error.context_mark.line if error.context_mark is not None else mark.line
    return error.problem or "", error.context or "", mark.line, mark.column, since


def _about_value(here: _KeyLine, lines: list[str]) -> _Finding | None:
    key, value = shown(here.key), here.value
    first = value[:1]
    if first in ("'", '"'):
        return _about_inner_quote(here, lines)
    if first in ("|", ">"):
        return _Finding(
            "yaml-block",
            f"the value of `{key}` has text on the same line as {first}",
            "start the text on the next line, indented by two spaces",
            here.line,
        )
    if value == "-" or value.startswith("- "):
        return _Finding(
            "yaml-list",
            f"the list of `{key}` starts on the line of its key",
            "put each - on a line of its own, or the value in quotes if it is text",
            here.line,
        )
    if first in ("[", "{"):
        return _Finding(
            "yaml-special",
            f"the value of `{key}` starts with {first}, as a list or a mapping does, and is not one",
            f"put the value of `{key}` in quotes if it is text: {_in_quotes(here)}; "
            "else check its brackets, commas and quotes",
            here.line,
        )
    if (first and first in "@`%*&!,]}") or value.startswith("? "):
        return _Finding(
            "yaml-special",
            f"the value of `{key}` starts with '{first}', which has a special meaning in YAML",
            f"put the value of `{key}` in quotes: {_in_quotes(here)}",
            here.line,
        )
    if _COLON.search(value):
        return _Finding(
            "yaml-unquoted-colon",
            f"the value of `{key}` has a colon in it, which YAML reads as another key",
            f"put the value of `{key}` in quotes: {_in_quotes(here)}",
            here.line,
        )
    return None


def _about_inner_quote(here: _KeyLine, lines: list[str]) -> _Finding:
    """Text after a closing quote, which may have been opened lines above by mistake."""
    quote = here.value[0]
    if here.value.count(quote) == 2 and here.value.endswith(quote):
        for number in range(here.line - 1, -1, -1):
            above = _key_line(lines, number)
            if above is not None and above.value.startswith(quote) and above.value.count(quote) % 2:
                return _about_quotes(lines, number, is_escape=False)
    inner = "''" if quote == "'" else '\\"'
    return _Finding(
        "yaml-quote",
        f"the value of `{shown(here.key)}` continues after its closing {quote}",
        f"write a {quote} inside the value as {inner}, or use the other kind of quotes around it",
        here.line,
    )


def _about_quotes(lines: list[str], since: int, *, is_escape: bool) -> _Finding:
    here = _key_line(lines, since)
    whose = f"the value of `{shown(here.key)}`" if here is not None else "a value"
    if is_escape:
        return _Finding(
            "yaml-escape",
            f"{whose} has a backslash that starts no valid escape",
            "write a backslash as \\\\, or use single quotes around the value",
            since,
        )
    return _Finding("yaml-quote", f"{whose} opens a quote and never closes it", "close the quote", since)


def _about_missing_colon(lines: list[str], line: int) -> _Finding:
    text = lines[line]
    fix = "write it as key: value, or indent it by two spaces if it belongs to the value above"
    if _NO_SPACE.match(text.strip()):
        fix = "put a space after the colon"
    return _Finding("yaml-no-colon", f"the line `{shown(text.strip())}` is not `key: value`", fix, line)


def _about_stray_key(lines: list[str], at: int) -> _Finding:
    """A colon on a line that continues the value of a line above."""
    loose = at
    for number in range(at - 1, -1, -1):
        owner = _key_line(lines, number)
        if owner is not None and owner.value and owner.indent < _indent(lines[at]):
            key = shown(owner.key)
            return _Finding(
                "yaml-unquoted-colon",
                f"the value of `{key}` continues here with a colon in it, which YAML reads as another key",
                f"put the whole value of `{key}` in quotes, or, if this line is a field of its own, "
                f"start it at the same column as `{key}`",
                at,
            )
        if owner is not None:
            break
        if lines[number].strip():
            loose = number
            if not _indent(lines[number]):
                break
    return _about_missing_colon(lines, loose)


def _key_line(lines: list[str], number: int) -> _KeyLine | None:
    line = lines[number]
    colon = _COLON.search(line)
    before = _BEFORE_KEY.match(line)
    if colon is None or before is None or not (key := line[before.end() : colon.start()].strip()):
        return None
    value = line[colon.end() :].lstrip(" \t")
    return _KeyLine(number, before.end(), key, value.rstrip(" \t"), len(line) - len(value))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _in_quotes(here: _KeyLine) -> str:
    value = shown(here.value)
    if '"' in value or "\\" in value:
        return f"{shown(here.key)}: '{value.replace(chr(39), chr(39) * 2)}'"
    return f'{shown(here.key)}: "{value}"'
