"""Simple frontmatter, the common case: lines of `key: value`, nested at most once.

Such text is unambiguous, so it is read line by line, in a fraction of the time that a YAML parser takes.
Everything else, and every mistake, is left to `core`.
"""

from __future__ import annotations

import re
from sys import intern

from skillwire.json_types import JsonObject, JsonValue
from skillwire.skill.yaml.scalars import NotFiniteError, plain_scalar

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
