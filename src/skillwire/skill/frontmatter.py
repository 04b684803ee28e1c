"""SkillDocument: a `SKILL.md` taken apart into its frontmatter, as JSON values, and its body.

Servers and hosts read frontmatter with this one parser, so that a field-by-field comparison never refuses an
honest skill. It reads YAML 1.2 as the `yaml` package of JavaScript does. Two rules are ours:

- The block is closed by the first line that is `---` alone. `...`, which some tools take for an end too, is
  refused rather than guessed at.
- The newline before the closing `---` belongs to the YAML, so `description: |` as the last key keeps it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from skillwire.errors import FormatError
from skillwire.issues import Issue
from skillwire.json_types import JsonValue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.uris import SKILL_FILE
from skillwire.skill.yaml import load_mapping

_OPEN = re.compile(r"---[ \t]*\r?\n")
_CLOSE = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_LATE_OPEN = re.compile(r"(?:[ \t]*\r?\n)+---[ \t]*\r?\n|[ \t]+---[ \t]*\r?\n")
_LOOSE_CLOSE = re.compile(r"^(?:[ \t]+---|----+|\.\.\.|—|–)[ \t]*\r?$", re.MULTILINE)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """A `SKILL.md` that was read. Line numbers count from 1 in the file."""

    frontmatter: dict[str, JsonValue]
    body: str
    body_line: int
    """The line that the body starts on."""
    lines: dict[str, int] = field(default_factory=dict[str, int])
    """The line of every key at the top of the frontmatter."""


def parse_skill_md(data: bytes, *, file: str = SKILL_FILE, limits: Limits = DEFAULT_LIMITS) -> SkillDocument:
    """Take a `SKILL.md` apart (FMT-1), or raise a `FormatError` that says where to mend what."""
    text = _decode(data, file)
    opening = _OPEN.match(text)
    if opening is None:
        raise FormatError(_no_frontmatter(text, file))
    closing = _closing(text, opening.end())
    if closing is None:
        raise FormatError(_unclosed(text, opening.end(), file))
    block = text[opening.end() : closing.start()]
    frontmatter, lines = load_mapping(block, file=file, first_line=2, limits=limits)
    return SkillDocument(frontmatter, text[closing.end() :], block.count("\n") + 3, lines)


def _closing(text: str, at: int) -> re.Match[str] | None:
    """The first line from here on that is `---` alone."""
    while (closing := _CLOSE.match(text, at)) is None:
        at = text.find("\n---", at) + 1
        if not at:
            break
    return closing


def _decode(data: bytes, file: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = "UTF-16" if data.startswith(_UTF_16) else f"byte 0x{data[error.start]:02x} is not"
        raise FormatError(
            Issue(
                rule="not-utf-8",
                message=f"the file is not UTF-8 text: {found}",
                fix="save the file as UTF-8",
                file=file,
                line=data.count(b"\n", 0, error.start) + 1,
            )
        ) from None
    return text.removeprefix("\ufeff")


def _no_frontmatter(text: str, file: str) -> Issue:
    if not text.strip():
        message, fix = (
            "the file is empty",
            "start it with ---, name: and description: lines, and --- again",
        )
    elif _LATE_OPEN.match(text):
        message, fix = (
            "the frontmatter does not start on the first line",
            "move --- to the start of line 1",
        )
    elif text.startswith("---") and not text.split("\n", 1)[0].strip("- \t\r"):
        message, fix = "the first line is not exactly ---", "make line 1 three hyphens and nothing else"
    else:
        message = "the file does not start with frontmatter"
        fix = "start it with ---, name: and description: lines, and --- again"
    return Issue(rule="frontmatter-missing", message=message, fix=fix, file=file, line=1)


def _unclosed(text: str, start: int, file: str) -> Issue:
    near = _LOOSE_CLOSE.search(text, start)
    line = 1 if near is None else text.count("\n", 0, near.start()) + 1
    fix = "put a line that is exactly --- after the last field"
    if near is not None:
        fix = f"make line {line} exactly ---, at the start of the line"
    return Issue(
        rule="frontmatter-unclosed",
        message="the frontmatter that starts on line 1 is never closed",
        fix=fix,
        file=file,
        line=line,
    )
