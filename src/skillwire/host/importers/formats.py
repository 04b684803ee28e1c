"""The formats of clients' files: JSON with comments, TOML and YAML, by the suffix of the file."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Final

# A string is matched first, so that nothing inside one is taken for a comment. A comment after a comma is
# skipped as a whole (`*+`, `(?>`), so that no bracket inside one makes the comma a trailing one.
_TOKENS: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*+|(?>/\*.*?\*/))*+[}\]])', re.DOTALL
)


def parse_text(text: str, suffix: str) -> object:
    """The value of a file with this suffix, or a `ValueError` whose message quotes nothing of the text."""
    try:
        return {".toml": tomllib.loads, ".yaml": _parse_yaml}.get(suffix, parse_jsonc)(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def parse_jsonc(text: str) -> object:
    """JSON as people write it, with comments and trailing commas, which several clients allow."""
    plain = _TOKENS.sub(
        lambda match: match[0] if match[0].startswith('"') else " ", text.removeprefix("\ufeff")
    )
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} in line {error.lineno}") from None


def _parse_yaml(text: str) -> object:
    import yaml

    try:
        # Every scalar as its text: `off` is a name to Goose, not false.
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes only texts, lists and tables
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"it is not YAML{f' in line {mark.line + 1}' if mark else ''}") from None
