"""YAML by the 1.2 core schema, as JSON values and nothing else (ENT-1).

Values are those that the `yaml` package of JavaScript reads: `yes`, `on`, `2024-01-01`, `12:30`, `1_000` and
`017` are what 1.2 says, and `<<` is a key like any other. Values that JSON cannot represent are errors.

The text is read as a flat stream of libyaml's events with a stack of our own, so nesting cannot overflow the
interpreter's stack, and limits apply before anything is built.
"""

from __future__ import annotations

import re
from typing import NoReturn

from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import FormatError, Issue, SourceError
from skillwire.limits import Limits
from skillwire.skill.yaml_scalars import (
    CORE_TAG,
    Escapes,
    NotFiniteError,
    TagError,
    breaks_in_doubt,
    ends_in_doubt,
    escapes_for,
    explain,
    overlong_name,
    plain_scalar,
    tagged_scalar,
    unindented_lines,
)
from skillwire.text import shown

try:
    from yaml._yaml import CParser
except ImportError:
    raise SourceError(
        "this installation of PyYAML has no C parser (libyaml), and Skillwire reads YAML with no other; "
        "install it again from a wheel: pip install --force-reinstall --only-binary :all: pyyaml"
    ) from None

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\r(?!\n)")


def load_events(
    text: str, *, file: str, first_line: int, limits: Limits
) -> tuple[JsonObject, dict[str, int]]:
    """The mapping in a YAML text, and the line of each of its keys, or a `FormatError`.

    `first_line` is the line of the file that the text starts on.
    """
    loader = _Loader(text, file, first_line, limits)
    try:
        return loader.load()
    except YAMLError as error:
        raise FormatError(explain(text, error, file=file, first_line=first_line)) from None


class _Container:
    """A list or a mapping that is still open."""

    __slots__ = ("anchor", "column", "is_flow", "key", "line", "values", "wants_key")

    def __init__(
        self, values: JsonObject | list[JsonValue], event: MappingStartEvent | SequenceStartEvent, around: int
    ) -> None:
        self.values = values
        self.anchor = event.anchor
        self.line = event.start_mark.line
        self.is_flow = bool(event.flow_style)
        self.column = around if self.is_flow else event.start_mark.column
        """The column of the enclosing block; its content is indented further."""
        self.wants_key = True
        self.key: str | None = None


class _Loader:
    """Builds values from events. Issues are collected; fatal ones are raised at once."""

    def __init__(self, text: str, file: str, first_line: int, limits: Limits) -> None:
        self._text = text
        self._file = file
        self._first_line = first_line
        self._max_depth = limits.frontmatter_depth
        self._max_bytes = limits.frontmatter_bytes
        self._max_issues = limits.issues_per_file
        self._budget = limits.frontmatter_bytes
        self._issues: list[Issue] = []
        self._anchors: dict[str, JsonValue | _Container] = {}
        self._stack: list[_Container] = []
        self._lines: dict[str, int] = {}
        self._roots: list[JsonValue] = []
        self._source: list[str] = []
        self._escapes: Escapes | None = None

    def load(self) -> tuple[JsonObject, dict[str, int]]:
        self._check_text()
        self._escapes = escapes_for(self._text)
        if self._escapes is not None:
            self._text = self._escapes.text
        parser = CParser(self._text)
        while (event := parser.get_event()) is not None:
            if isinstance(event, ScalarEvent):
                self._scalar(event)
            elif isinstance(event, MappingStartEvent):
                self._open(event, {}, "map")
            elif isinstance(event, SequenceStartEvent):
                self._open(event, [], "seq")
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self._close(event)
            elif isinstance(event, AliasEvent):
                self._alias(event)
            elif isinstance(event, DocumentStartEvent | DocumentEndEvent):
                self._boundary(event)
        return self._result()

    def _check_text(self) -> None:
        if len(self._text) > self._max_bytes:
            self._refuse(
                "yaml-too-large",
                f"the frontmatter has more than {self._max_bytes} characters",
                "move text into the body or into other files of the skill",
                0,
            )
        if bad := _UNPRINTABLE.search(self._text):
            what = "a carriage return without a newline" if bad[0] == "\r" else f"U+{ord(bad[0]):04X}"
            self._refuse(
                "yaml-unprintable",
                f"the frontmatter has a character that is not allowed: {what}",
                "remove it, or write it as an escape inside double quotes",
                self._text.count("\n", 0, bad.start()),
            )

    def _result(self) -> tuple[JsonObject, dict[str, int]]:
        if not self._roots:
            self._refuse(
                "frontmatter-empty", "the frontmatter is empty", "add name: and description: lines", 0
            )
        root = self._roots[0]
        if self._issues:
            raise FormatError(self._issues)
        if not isinstance(root, dict):
            self._refuse(
                "frontmatter-not-mapping",
                "the frontmatter is not a set of `key: value` lines",
                "write name: and description: lines, with a space after each colon",
                0,
            )
        return root, self._lines

    def _boundary(self, event: DocumentStartEvent | DocumentEndEvent) -> None:
        if event.explicit:
            sign = "---" if isinstance(event, DocumentStartEvent) else "..."
            self._refuse(
                "yaml-documents",
                f"a line of the frontmatter starts with {sign}, which begins or ends a YAML document",
                "close the frontmatter with a line that is exactly ---, and write nothing else there",
                event.start_mark.line,
            )

    def _scalar(self, event: ScalarEvent) -> None:
        text: str = event.value
        style = event.style
        if self._escapes is not None:
            text = text.translate(self._escapes.in_quotes if style == '"' else self._escapes.elsewhere)
        value: JsonValue
        try:
            if event.tag is not None:
                value = tagged_scalar(event.tag, text)
            else:
                value = text if style else plain_scalar(text)
        except NotFiniteError:
            value = None
            self._report(
                "yaml-not-finite",
                f"the value `{shown(text)}` is infinity, not a number, or too large for JSON",
                "put it in quotes, or write a smaller number",
                event.start_mark.line,
            )
        except TagError:
            value = text
            self._bad_tag(event)
        if style:
            self._check_layout(event, text)
        if event.anchor is not None:
            self._check_name(event, "&", event.anchor)
            self._anchors[event.anchor] = value
        self._place(value, event.start_mark.line, text)

    def _bad_tag(self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent) -> None:
        self._report(
            "yaml-tag",
            f"the tag `{shown(str(event.tag).replace(CORE_TAG, '!!'))}` is not allowed in frontmatter",
            "leave the tag out; put a text that starts with ! in quotes",
            event.start_mark.line,
        )

    def _open(
        self, event: MappingStartEvent | SequenceStartEvent, values: JsonObject | list[JsonValue], kind: str
    ) -> None:
        line = event.start_mark.line
        if len(self._stack) >= self._max_depth:
            self._too_deep(line)
        if event.tag is not None and event.tag not in ("!", CORE_TAG + kind):
            self._bad_tag(event)
        container = _Container(values, event, self._stack[-1].column if self._stack else -1)
        if event.anchor is not None:
            self._check_name(event, "&", event.anchor)
            self._anchors[event.anchor] = container
        self._stack.append(container)

    def _close(self, event: Event) -> None:
        container = self._stack.pop()
        if container.is_flow and not (self._stack and self._stack[-1].is_flow):
            self._check_indent(container.line, event.end_mark.line, container.column, "]}")
        if container.anchor is not None:
            self._anchors[container.anchor] = container.values
        self._place(container.values, container.line, "")

    def _alias(self, event: AliasEvent) -> None:
        name, line = event.anchor, event.start_mark.line
        self._check_name(event, "*", name)
        if name not in self._anchors:
            self._report(
                "yaml-alias",
                f"`*{shown(name)}` stands for a value named `&{shown(name)}`, and there is none before it",
                "put a text that starts with * in quotes",
                line,
            )
            self._place(None, line, name)
            return
        target = self._anchors[name]
        if isinstance(target, _Container):
            self._refuse(
                "yaml-alias",
                f"`*{shown(name)}` contains itself",
                "write the value out instead of the alias",
                line,
            )
        self._place(self._copy(target, len(self._stack) + 1, line), line, name)

    def _copy(self, value: JsonValue, depth: int, line: int) -> JsonValue:
        if isinstance(value, dict | list) and depth > self._max_depth:
            self._too_deep(line)
        if isinstance(value, dict):
            self._spend(sum(map(len, value)) + 1, line)
            return {key: self._copy(inner, depth + 1, line) for key, inner in value.items()}
        if isinstance(value, list):
            self._spend(1, line)
            return [self._copy(inner, depth + 1, line) for inner in value]
        self._spend(len(str(value)) + 1, line)
        return value

    def _spend(self, weight: int, line: int) -> None:
        self._budget -= weight
        if self._budget < 0:
            self._refuse(
                "yaml-too-large",
                f"the aliases make the frontmatter larger than {self._max_bytes} characters",
                "write values out instead of using aliases",
                line,
            )

    def _check_name(self, event: Event, sign: str, name: str) -> None:
        written = overlong_name(self._text, event.start_mark.index, sign, name)
        if written is not None:
            self._report(
                "yaml-alias",
                f"`{shown(written)}` is not a name of letters, digits, hyphens and underscores",
                f"put a text that starts with {sign} in quotes",
                event.start_mark.line,
            )

    def _check_layout(self, event: ScalarEvent, text: str) -> None:
        start, end = event.start_mark, event.end_mark
        if start.line == end.line or not self._stack or self._stack[-1].is_flow:
            return
        column = self._stack[-1].column
        if event.style in ("'", '"'):
            self._check_indent(start.line, end.line, column, "")
            if event.style == '"' and breaks_in_doubt(self._text[start.index : end.index]):
                self._report(
                    "yaml-escape",
                    "an empty line follows a line that ends in a backslash, and YAML parsers differ about it",
                    "remove the empty line",
                    start.line,
                )
        elif start.column <= column:
            self._not_indented(start.line)
        elif ends_in_doubt(text, header=self._source_lines()[int(start.line)]):
            self._report(
                "yaml-block",
                "the block ends with a line of spaces, and YAML parsers differ about it",
                "remove the spaces at its end",
                start.line,
            )

    def _check_indent(self, first: int, last: int, column: int, closing: str) -> None:
        if first == last:
            return
        for line in unindented_lines(self._source_lines(), first, last, column, closing):
            self._not_indented(line)

    def _source_lines(self) -> list[str]:
        if not self._source:
            self._source = self._text.split("\n")
        return self._source

    def _not_indented(self, line: int) -> None:
        self._report(
            "yaml-indentation",
            "this line belongs to the value above it and is not indented",
            "indent it by two spaces more",
            line,
        )

    def _place(self, value: JsonValue, line: int, text: str) -> None:
        if not self._stack:
            self._roots.append(value)
            return
        top = self._stack[-1]
        values = top.values
        if isinstance(values, list):
            values.append(value)
        elif top.wants_key:
            top.key = self._key(value, values, line, text)
            top.wants_key = False
        else:
            if top.key is not None:
                values[top.key] = value
            top.wants_key = True

    def _key(self, value: JsonValue, mapping: JsonObject, line: int, text: str) -> str | None:
        if not isinstance(value, str):
            self._report("yaml-key", *_about_key(value, text), line)
            return None
        if value in mapping:
            self._report(
                "yaml-duplicate-key",
                f"the key `{shown(value)}` appears twice",
                "remove or rename one of them",
                line,
            )
            return None
        if len(self._stack) == 1:
            self._lines[value] = line + self._first_line
        return value

    def _too_deep(self, line: int) -> NoReturn:
        self._refuse(
            "yaml-too-deep",
            f"the frontmatter nests more than {self._max_depth} levels deep",
            "flatten it",
            line,
        )

    def _report(self, rule: str, message: str, fix: str, line: int) -> None:
        self._issues.append(self._issue(rule, message, fix, line))
        if len(self._issues) >= self._max_issues:
            raise FormatError(self._issues)

    def _refuse(self, rule: str, message: str, fix: str, line: int) -> NoReturn:
        raise FormatError([*self._issues, self._issue(rule, message, fix, line)])

    def _issue(self, rule: str, message: str, fix: str, line: int) -> Issue:
        return Issue(rule=rule, message=message, fix=fix, file=self._file, line=line + self._first_line)


def _about_key(value: JsonValue, text: str) -> tuple[str, str]:
    if isinstance(value, dict | list):
        return (
            "a list or a mapping is used as a key",
            "put a value that starts with { or [ in quotes",
        )
    if value is None and not text:
        return "a value has no key", "write a key before the colon"
    return f"the key `{shown(text)}` is not a string", f'put the key in quotes: "{shown(text)}":'
