"""SkillName: a name of a skill that was checked."""

from __future__ import annotations

import re
from typing import Final, NewType

from skillwire.errors import FormatError
from skillwire.issues import Issue

SkillName = NewType("SkillName", str)
"""A string that `parse_name` accepted."""

MAX_NAME_LENGTH = 64
# The common case, checked quickly.
_USUAL: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*+")


def name_issues(name: str) -> list[Issue]:
    """All problems with a name (FMT-2); empty if it is valid."""
    issues: list[Issue] = []
    if len(name) <= MAX_NAME_LENGTH and _USUAL.fullmatch(name):
        return issues

    def remark(rule: str, message: str, fix: str) -> None:
        issues.append(Issue(rule=rule, message=message, fix=fix))

    if not name:
        remark("name-empty", "the name is empty", "give the skill the name of its directory")
        return issues
    if len(name) > MAX_NAME_LENGTH:
        remark(
            "name-too-long",
            f"the name has {len(name)} characters, {MAX_NAME_LENGTH} are allowed",
            "shorten the name and its directory",
        )
    strange = sorted({char for char in name if char != "-" and not _is_name_character(char)})
    if strange:
        shown = " ".join(repr(char) for char in strange[:8])
        remark(
            "name-characters",
            f"the name has characters that are not allowed: {shown}",
            "use lowercase letters, digits and single hyphens",
        )
    if name.startswith("-") or name.endswith("-"):
        remark("name-edge-hyphen", "the name starts or ends with a hyphen", "remove the hyphen at the edge")
    if "--" in name:
        remark("name-double-hyphen", "the name has two hyphens in a row", "use single hyphens")
    return issues


def parse_name(name: str) -> SkillName:
    """The name as a `SkillName`, or a `FormatError` with every issue."""
    if issues := name_issues(name):
        raise FormatError(issues)
    return SkillName(name)


def _is_name_character(char: str) -> bool:
    # Letters without case (Arabic, Chinese, ...) count. Mathematical capitals have no lowercase form.
    return char.isalnum() and char == char.lower() and not char.isupper()
