"""SkillDocument: a `SKILL.md` split into its frontmatter, as JSON values, and its body.

Servers and hosts use this one parser, so that a field-by-field comparison never refuses a correct skill
(VER-2). It reads YAML 1.2 as the `yaml` package of JavaScript does. Three rules are ours:

- The block is closed by the first line that is `---` alone. `...`, which some tools accept too, is refused.
- The newline before the closing `---` belongs to the YAML, so `description: |` as the last key keeps it.
- A value on one line that is not valid YAML, such as one with an unquoted colon, is read as if it were in
  quotes, as the client guide of agentskills.io proposes. Each repair is reported; `strict` allows none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from skillwire.documents import JsonValue
from skillwire.errors import FormatError, Issue, Severity
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.files import LFS_POINTER
from skillwire.skill.uris import SKILL_FILE, parse_name
from skillwire.skill.yaml import load_mapping

_OPEN = re.compile(r"---[ \t]*\r?\n")
_CLOSE = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_LATE_OPEN = re.compile(r"(?:[ \t]*\r?\n)+---[ \t]*\r?\n|[ \t]+---[ \t]*\r?\n")
_LOOSE_CLOSE = re.compile(r"^(?:[ \t]+---|----+|\.\.\.|—|–)[ \t]*\r?$", re.MULTILINE)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# An unindented line that starts a field.
_FIELD = re.compile(r"""(?:[A-Za-z0-9_][^:\s"'#]*|"[^"]*"|'[^']*')[ ]*:(?:[ ]+(?P<value>.*?))?[ \t\r]*""")
# A value that is meant as text, but has a colon in it or starts with a reserved character.
_REPAIRED = frozenset({"yaml-unquoted-colon", "yaml-special"})
_CONFLICT = re.compile(r"^(?:(?P<certain><{7}|>{7}|\|{7}) |={7}\r?$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """A parsed `SKILL.md`. Line numbers count from 1 in the file."""

    frontmatter: dict[str, JsonValue]
    body: str
    body_line: int
    """The line that the body starts on."""
    lines: dict[str, int] = field(default_factory=dict[str, int])
    """The line of every top-level key."""
    repairs: tuple[Issue, ...] = ()
    """The values that were read as if they were in quotes."""


def parse_skill_md(
    data: bytes, *, file: str = SKILL_FILE, limits: Limits = DEFAULT_LIMITS, strict: bool = False
) -> SkillDocument:
    """Split and parse a `SKILL.md` (FMT-1), or raise a `FormatError` that says what to fix where."""
    block, body, body_line = split_skill_md(data, file)
    repairs: tuple[Issue, ...] = ()
    try:
        frontmatter, lines = load_mapping(block, file=file, first_line=2, limits=limits)
    except FormatError as error:
        if (line := conflict_line(block)) is not None:
            raise FormatError(_conflict(line, file)) from None
        repaired = None if strict else _repair(block, file, limits)
        if repaired is None:
            raise
        quoted, repairs = repaired
        try:
            frontmatter, lines = load_mapping(quoted, file=file, first_line=2, limits=limits)
        except FormatError:
            raise error from None
    return SkillDocument(frontmatter, body, body_line, lines, repairs)


def salvage_skill_md(
    data: bytes, *, file: str = SKILL_FILE, limits: Limits = DEFAULT_LIMITS
) -> tuple[SkillDocument | None, tuple[Issue, ...]]:
    """Return what can be read of an invalid `SKILL.md`, field by field, and every mistake in it.

    For a linter, which reports all mistakes at once. The document is `None` if there is no usable
    frontmatter.
    """
    try:
        block, body, body_line = split_skill_md(data, file)
    except FormatError as error:
        return None, error.issues
    if (line := conflict_line(block)) is not None:
        return None, (_conflict(line, file),)
    frontmatter: dict[str, JsonValue] = {}
    lines: dict[str, int] = {}
    issues: list[Issue] = []
    # SEC-9: a block that is too long is refused whole, below, and not searched field by field.
    for line, text in _fields(block) if len(block) <= limits.frontmatter_bytes else ():
        if not text.strip() or all(part.startswith("#") for part in text.split("\n") if part.strip()):
            continue
        try:
            found, places = load_mapping(text, file=file, first_line=line, limits=limits)
        except FormatError as error:
            issues += error.issues
            continue
        frontmatter |= found
        lines |= places
    try:
        load_mapping(block, file=file, first_line=2, limits=limits)
    except FormatError as error:
        known = {(issue.line, issue.rule) for issue in issues}
        issues += [issue for issue in error.issues if (issue.line, issue.rule) not in known]
    return SkillDocument(frontmatter, body, body_line, lines), tuple(issues[: limits.issues_per_file])


def quote_fields(block: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The YAML with quotes around every one-line value that is not valid YAML."""
    repaired = _repair(block, SKILL_FILE, limits)
    return block if repaired is None else repaired[0]


def split_skill_md(data: bytes, file: str) -> tuple[str, str, int]:
    """The YAML, the body, and the line that the body starts on."""
    text = _decode(data, file)
    opening = _OPEN.match(text)
    if opening is None:
        raise FormatError(_no_frontmatter(text, file))
    closing = _closing(text, opening.end())
    if closing is None:
        raise FormatError(_unclosed(text, opening.end(), file))
    block = text[opening.end() : closing.start()]
    return block, text[closing.end() :], block.count("\n") + 3


def _fields(block: str) -> Iterator[tuple[int, str]]:
    """The text of each top-level field, with its first line in the file. Comments and blank lines before the
    first field are a separate item.
    """
    start, lines = 2, list[str]()
    for number, line in enumerate(block.removesuffix("\n").split("\n"), 2):
        if lines and _FIELD.fullmatch(line):
            yield start, "".join(f"{each}\n" for each in lines)
            start, lines = number, []
        lines.append(line)
    yield start, "".join(f"{each}\n" for each in lines)


def _repair(block: str, file: str, limits: Limits) -> tuple[str, tuple[Issue, ...]] | None:
    """The YAML with missing quotes added, and an issue for each; `None` if nothing was repaired."""
    if len(block) > limits.frontmatter_bytes:  # SEC-9: each field costs a parser.
        return None
    repairs: list[Issue] = []
    parts: list[str] = []
    for line, text in _fields(block):
        first, _, rest = text.partition("\n")
        field = _FIELD.fullmatch(first)
        if field is None:
            parts.append(text)
            continue
        value = field["value"]
        try:
            load_mapping(text, file=file, first_line=line, limits=limits)
        except FormatError as error:
            # Only a value on one line; comments and blank lines may follow.
            is_single = all(not other.strip() or other.startswith("#") for other in rest.split("\n"))
            issue = error.issues[0]
            if not (value and is_single and issue.rule in _REPAIRED):
                return None
            message = f"{issue.message}; it is read as if it were in quotes"
            repairs.append(replace(issue, message=message, severity=Severity.WARNING))
            quoted = "'" + value.replace("'", "''") + "'"
            text = f"{first[: field.start('value')]}{quoted}{first[field.end('value') :]}\n{rest}"
        parts.append(text)
    return ("".join(parts), tuple(repairs)) if repairs else None


def conflict_line(text: str) -> int | None:
    """The line, from 0, of the first conflict marker of Git. `=======` is one only before a `>>>>>>>`."""
    last = text.rfind("\n>>>>>>> ")
    for marker in _CONFLICT.finditer(text):
        if marker["certain"] or marker.start() < last:
            return text.count("\n", 0, marker.start())
    return None


def _conflict(line: int, file: str) -> Issue:
    return Issue(
        rule="merge-conflict",
        message="the frontmatter has merge conflict markers",
        fix="choose one side and remove the lines that start with <<<<<<<, ======= and >>>>>>>",
        file=file,
        line=line + 2,
    )


def _closing(text: str, at: int) -> re.Match[str] | None:
    """The first line after this position that is `---` alone."""
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
        raise FormatError.of(
            rule="not-utf-8",
            message=f"the file is not UTF-8 text: {found}",
            fix="save the file as UTF-8",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
        ) from None
    return text.removeprefix("\ufeff")


def _no_frontmatter(text: str, file: str) -> Issue:
    if text.startswith(LFS_POINTER.decode()):
        message, fix = "the file is a Git LFS pointer, not the file itself", "run: git lfs pull"
    elif not text.strip():
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


TEMPLATE_SENTENCES: Final = (
    "say here in one sentence what the skill does.",
    "Say in a sentence or two what a good result looks like.",
    "Write the first step as an instruction.",
    "Name the commands to run and the files to read, with paths relative to this file.",
    "Say how to check the result before it is shown.",
    "Say what to ask the user for, and what to do when they do not know.",
)
"""What `new_skill_md` leaves to the author. `lint` names those that are still there."""


def new_skill_md(name: str, description: str = "") -> str:
    """A `SKILL.md` for a skill of this name, or a `FormatError` that says what is wrong with the name."""
    checked = parse_name(name)
    title = checked.replace("-", " ").capitalize()
    said = " ".join(description.split()) or (
        f"{title}: {TEMPLATE_SENTENCES[0]} Use when the user asks for it, and name the words they would use."
    )
    quoted = said.replace("\\", "\\\\").replace('"', '\\"')
    return f"""---
name: {checked}
description: "{quoted}"
---

# {title}

{TEMPLATE_SENTENCES[1]}

## Steps

1. {TEMPLATE_SENTENCES[2]}
2. {TEMPLATE_SENTENCES[3]}
3. {TEMPLATE_SENTENCES[4]}

## When something is missing

{TEMPLATE_SENTENCES[5]}
"""
