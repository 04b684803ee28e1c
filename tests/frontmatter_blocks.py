"""Blocks of frontmatter for tests: how to frame, read and refuse them; and what else is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skillwire.errors import FormatError, Issue
from skillwire.skill import parse_skill_md


def only_issue(parse: Callable[[Any], object], given: object) -> Issue:
    """The one reason that something is refused for, which comes with a fix and can be printed."""
    with pytest.raises(FormatError) as caught:
        parse(given)
    (issue,) = caught.value.issues
    assert issue.fix
    assert str(issue).isprintable()
    return issue


def document(block: str, body: str = "") -> bytes:
    newline = "" if not block or block.endswith("\n") else "\n"
    return f"---\n{block}{newline}---\n{body}".encode()


def read(block: str) -> dict[str, Any]:
    return parse_skill_md(document(block), strict=True).frontmatter


def refusal(block: str, **options: Any) -> list[tuple[str, int | None]]:
    """The rules and lines of everything that a block is refused for."""
    with pytest.raises(FormatError) as caught:
        parse_skill_md(document(block), strict=True, **options)
    assert all(issue.file == "SKILL.md" and issue.fix and issue.message for issue in caught.value.issues)
    return [(issue.rule, issue.line) for issue in caught.value.issues]
