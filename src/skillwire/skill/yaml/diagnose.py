"""Hints about invalid YAML: what its author most likely meant, and what to type instead.

libyaml often points past the mistake, so the diagnosis uses the text of the line and a few words of the
parser's message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from yaml.error import MarkedYAMLError, YAMLError

from skillwire.errors import Issue
from skillwire.text import shown

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
