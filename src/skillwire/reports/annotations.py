"""Annotations of GitHub Actions, which appear beside the lines of a pull request."""

from __future__ import annotations

from typing import Literal


def annotation(
    level: Literal["error", "warning", "notice"], text: str, *, title: str, file: str, line: int | None = None
) -> str:
    """The workflow command for one annotation: a single line, whatever its texts contain."""
    place = f"file={_property(file)}" + (f",line={line}" if line else "")
    return f"::{level} {place},title={_property(title)}::{_escaped(text, '')}"


def _property(text: str) -> str:
    return _escaped(text, ":,")


def _escaped(text: str, separators: str) -> str:
    for char in f"%\r\n{separators}":
        text = text.replace(char, f"%{ord(char):02X}")
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
