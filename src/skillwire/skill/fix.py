"""Unambiguous repairs of a `SKILL.md`, for `skillwire lint --fix`.

1. Line endings become LF, and a byte order mark or blank lines before the frontmatter are removed.
2. One-line values that are not valid YAML get quotes.
3. The name becomes that of the directory, if that is a valid name. If neither is valid, the name is spelled
   with lowercase letters, digits and hyphens.
4. A block of text as the last field becomes `|-`, because parsers differ about its last newline.

With `unsafe`, what is missing is taken from what is there: the frontmatter from the directory's name and
the first heading, a description from the first heading or line of the body.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from dataclasses import dataclass

from skillwire.errors import FormatError
from skillwire.skill.entries import MAX_NAME_LENGTH, SKILL_FILE, name_issues
from skillwire.skill.fields import MAX_DESCRIPTION_LENGTH
from skillwire.skill.files import parse_skill_md, quote_fields, split_skill_md

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


def valid_name(text: str) -> str:
    """The valid name that a text is spelled like, such as `pdf-tools` for `PDF_Tools`; empty without one."""
    plain = unicodedata.normalize("NFC", text.strip().lower())
    name = re.sub(r"-{2,}", "-", "".join(char if char.isalnum() else "-" for char in plain)).strip("-")
    name = name[:MAX_NAME_LENGTH].rstrip("-")
    return "" if name_issues(name) else name


def fix_skill_md(data: bytes, *, directory: str, unsafe: bool = False) -> Fixed:
    """The file with all unambiguous repairs. `directory` is the directory's name.

    With `unsafe`, a missing frontmatter or description is written as well.
    """
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
    if unsafe and not fixed.startswith(b"---"):
        made = _frontmatter_for(fixed, directory)
        if made:
            fixed = made + fixed
            repairs.append("frontmatter from the directory and the first heading")
    try:
        block, body, _ = split_skill_md(fixed, SKILL_FILE)
    except FormatError:
        return Fixed(fixed, tuple(repairs))
    # 2. Quotes.
    changed = quote_fields(block)
    if changed != block:
        repairs.append("quotes around values")
    # 3. The name.
    named = _with_name(changed, directory)
    if named != changed:
        repairs.append("the name")
    # 4. The last block.
    ended = _with_ended_block(named)
    if ended != named:
        repairs.append("the end of the last block")
    if unsafe:
        described = _with_description(ended, body)
        if described != ended:
            repairs.append("a description from the body")
        ended = described
    if ended != block:
        head, _, rest = fixed.partition(block.encode())
        fixed = head + ended.encode() + rest
    return Fixed(fixed, tuple(repairs))


def unified_diff(before: bytes, after: bytes, *, file: str) -> str:
    """A repair as a unified diff, which contains untrusted text."""
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{file}", f"b/{file}", n=1)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _frontmatter_for(data: bytes, directory: str) -> bytes:
    """A frontmatter for a text that has none; empty if there is no name or nothing to describe it by."""
    name = directory if not name_issues(directory) else valid_name(directory)
    try:
        description = _first_line(data.decode("utf-8"))
    except UnicodeDecodeError:
        return b""
    if not name or not description:
        return b""
    return f"---\nname: {name}\ndescription: {_quoted(description)}\n---\n\n".encode()


def _first_line(body: str) -> str:
    """The first heading of a text, or its first line with words."""
    lines = [line.strip() for line in body.split("\n")]
    headings = (line.lstrip("#").strip() for line in lines if line.startswith("#"))
    texts = (line for line in lines if any(char.isalnum() for char in line))
    found = next((line for line in headings if line), "") or next(texts, "")
    return found[:MAX_DESCRIPTION_LENGTH]


def _quoted(text: str) -> str:
    """A text as a YAML string on one line."""
    return json.dumps(text, ensure_ascii=False)


def _with_description(block: str, body: str) -> str:
    try:
        found = parse_skill_md(f"---\n{block}---\n".encode()).frontmatter
    except FormatError:
        return block
    description = _first_line(body)
    if "description" in found or not description:
        return block
    return f"{block.rstrip()}\ndescription: {_quoted(description)}\n"


def _with_name(block: str, directory: str) -> str:
    try:
        name = parse_skill_md(f"---\n{block}---\n".encode()).frontmatter.get("name")
    except FormatError:
        return block
    if name_issues(directory):
        given = name if isinstance(name, str) and name.strip() else directory
        directory = valid_name(given) if name_issues(given) else given
    if name == directory or not directory:
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
