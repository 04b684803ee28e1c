"""The quick way to read a command line: for `skillwire serve`, as programs start it, without typer.

It is strict. A line that it does not understand whole is typer's: every error and all help come from there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin

from skillwire.cli.serve_options import Option, ServeOptions, table

_NUMBERS: Final = {int: re.compile(r"[0-9]{1,9}"), float: re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")}


class _NotUnderstood(Exception):
    """Something that is not for us to read."""


def read_quickly(words: Sequence[str]) -> ServeOptions | None:
    """What the words after `skillwire` ask of `serve`; `None` when that is for typer to say."""
    if not words or words[0] != "serve":
        return None
    try:
        options = ServeOptions(**_given(words[1:]))
    except _NotUnderstood:
        return None
    return None if options.idle_without_http else options


def _given(words: Sequence[str]) -> dict[str, Any]:
    """The values given, by the fields that keep them."""
    known = {name: row for row in table() for name in row.option.names}
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        # What has no dash is a path, and may have an equals sign of its own.
        name, equals, value = word.partition("=") if word.startswith("-") else ("", "=", word)
        row = known.get(name)
        if row is None:
            raise _NotUnderstood
        kind = _without_none(row.kind)
        if kind == list[str]:
            given.setdefault(row.field, []).append(_text(value if equals else next(rest, "")))
        elif row.field in given:
            raise _NotUnderstood
        elif kind is not bool:
            given[row.field] = _value(_text(value if equals else next(rest, "")), kind, row.option)
        elif equals:
            raise _NotUnderstood
        else:
            given[row.field] = name == row.option.names[0]
    if any(row.is_required and row.field not in given for row in known.values()):
        raise _NotUnderstood
    return given


def _text(word: str) -> str:
    """A word as it is, when it is text and cannot be an option where a value was forgotten."""
    if not word or word.startswith("-") or not word.isprintable():
        raise _NotUnderstood
    return word


def _value(text: str, kind: Any, option: Option) -> object:
    if kind is str:
        return text
    if kind is Path:
        return Path(text)
    if get_origin(kind) is Literal and text in get_args(kind):
        return text
    if kind in _NUMBERS and _NUMBERS[kind].fullmatch(text):
        number: float = kind(text)
        if option.least is not None and option.most is not None and option.least <= number <= option.most:
            return number
    raise _NotUnderstood


def _without_none(kind: Any) -> Any:
    parts = get_args(kind)
    return next(part for part in parts if part is not NoneType) if NoneType in parts else kind
