"""Unambiguous repairs of a `SKILL.md`, for `skillwire lint --fix`.

1. Line endings become LF, and a byte order mark or blank lines before the frontmatter are removed.
2. One-line values that are not valid YAML get quotes.
3. The name becomes that of the directory, if that is a valid name.
4. A block of text as the last field becomes `|-`, because parsers differ about its last newline.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from skillwire.errors import FormatError
from skillwire.skill.frontmatter import parse_skill_md, quote_fields, split_skill_md
from skillwire.skill.names import name_issues
from skillwire.skill.uris import SKILL_FILE

_NAME_LINE = re.compile(r"^name[ ]*:.*$", re.MULTILINE)
_BEFORE = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:[ \t]*\n)*(?=---[ \t]*\n)")
LAST_BLOCK = re.compile(
    r"(?P<head>:[ ]+)(?P<sign>[|>])(?P<digit>[1-9]?)(?P<keep>\+?)(?P<after>[ \t]*(?:#.*)?)$"
)
"""Matches the end of the first line of a block that keeps its last newline."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A repaired `SKILL.md`. `repairs` describes what was done; empty if nothing."""

    data: bytes
    repairs: tuple[str, ...]


def fix_skill_md(data: bytes, *, directory: str) -> Fixed:
    """The file with all unambiguous repairs. `directory` is the directory's name."""
    repairs: list[str] = []
    fixed = data
    # 1. Line endings and the start of the file, before parsing.
    if b"\r" in fixed:
        fixed = fixed.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        repairs.append("line endings")
    start = _BEFORE.match(fixed)
    if start is not None and start.end():
        fixed = fixed[start.end() :]
        repairs.append("nothing before the frontmatter")
    try:
        block, _, _ = split_skill_md(fixed, SKILL_FILE)
    except FormatError:
        return Fixed(fixed, tuple(repairs))
    # 2. Quotes.
    changed = quote_fields(block)
    if changed != block:
        repairs.append("quotes around values")
    # 3. The name.
    named = _with_name(changed, directory)
    if named != changed:
        repairs.append(f"name: {directory}")
    # 4. The last block.
    ended = _with_ended_block(named)
    if ended != named:
        repairs.append("the end of the last block")
    if ended != block:
        head, _, rest = fixed.partition(block.encode())
        fixed = head + ended.encode() + rest
    return Fixed(fixed, tuple(repairs))


def unified_diff(before: bytes, after: bytes, *, file: str) -> str:
    """A repair as a unified diff, which contains untrusted text."""
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _with_name(block: str, directory: str) -> str:
    if name_issues(directory):
        return block
    try:
        name = parse_skill_md(f"---\n{block}---\n".encode()).frontmatter.get("name")
    except FormatError:
        return block
    if name == directory:
        return block
    if _NAME_LINE.search(block):
        named = _NAME_LINE.sub(f"name: {directory}", block, count=1)
    else:
        named = f"name: {directory}\n{block}"
    try:
        # A name over several lines is left to its author.
        is_right = parse_skill_md(f"---\n{named}---\n".encode()).frontmatter.get("name") == directory
    except FormatError:
        is_right = False
    return named if is_right else block


def _with_ended_block(block: str) -> str:
    lines = block.split("\n")
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.strip() and not line.startswith((" ", "\t", "#")):
            lines[number] = LAST_BLOCK.sub(r"\g<head>\g<sign>\g<digit>-\g<after>", line)
            break
    return "\n".join(lines)
