"""Plain lines are read without a YAML scanner, and mean what the scanner says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontmatter_blocks import document
from properties import examples
from skillwire.errors import FormatError
from skillwire.limits import Limits
from skillwire.skill import parse_skill_md
from skillwire.skill.yaml_scalars import plain_lines

# A comment changes nothing, and is not one of the plain lines.
COMMENT = "# nothing\n"


def outcome(block: str, **options: Any) -> object:
    """The frontmatter with its lines, or the rules and lines of what it was refused for."""
    try:
        found = parse_skill_md(document(block), **options)
    except FormatError as error:
        return [(issue.rule, issue.line) for issue in error.issues]
    return repr(
        found.frontmatter
    ), found.lines  # `repr` tells 1 from 1.0 and True, and one order from another.


PLAIN = [
    "name: a\ndescription: Does things.\n",
    'name: a\ndescription: It\'s "so", http://x.y/z?q=1, C# and [more] {of} it!\n',
    "name: 'a'\ndescription: \"Use it: # always\"\n",
    "name: a\nmetadata:\n  author: me\n  version: 1.0\nlicense: MIT\n",
    "name: a\nmetadata:\n      author: me\n",
    "name:    a\nversion: 12\nx: true\ny: null\nz: yes\nw: 0x1F\nv: 1e3\nu: 2024-01-01\nt: 12:30\n",
    "name: a\ndescription: Zwölf Boxkämpfer – “jagen” Viktor… 日本語 🎉\n",
    "name: \"\"\ndescription: ''\n",
]
NOT_PLAIN = [
    "",
    "\n",
    "name: a\n\n",
    "name: a \n",
    "name: a # b\n",
    "name: a: b\n",
    "name: a:\n",
    "name:a\n",
    "name: a\nname: b\n",
    "name: a\r\n",
    "name:\ta\n",
    "name: a\tb\n",
    "name: 'a''b'\n",
    'name: "a\\n"\n',
    'name: "a" b\n',
    "name: |\n  a\n",
    "name: >\n  a\n",
    "name: a\n  b\n",
    "name: a\n  b: c\n",
    "name:\n",
    "name:\nx: y\n",
    "name:\n  a: b\n c: d\n",
    "name:\n  a: b\n   c: d\n",
    "name:\n  a:\n    b: c\n",
    "name:\n  a: b\n  a: c\n",
    "name:\n- a\n",
    "name: [a]\n",
    "name: {a: b}\n",
    "name: &x a\n",
    "name: *x\n",
    "name: !x a\n",
    "name: -1\n",
    "name: .5\n",
    "name: 1e999\n",
    "null: a\n",
    "true: a\n",
    "1: a\n",
    '"name": a\n',
    "? a\n: b\n",
    " name: a\n",
    "...\n",
    "%YAML 1.2\n",
    "name: a\u2028b\n",
    "name: a\x85b\n",
    "name: a\ufeffb\n",
    "name: a\xa0\n",
    f"{'k' * 65}: a\n",
]


@pytest.mark.parametrize("block", PLAIN)
def test_plain_lines_need_no_scanner(block: str) -> None:
    assert plain_lines(block, first_line=2) is not None


@pytest.mark.parametrize("block", NOT_PLAIN)
def test_whatever_else_there_is_goes_to_the_scanner(block: str) -> None:
    assert plain_lines(block, first_line=2) is None


@pytest.mark.requirement("ENT-1")
@pytest.mark.parametrize("block", [block for block in PLAIN if block not in NOT_PLAIN])
def test_plain_lines_mean_what_the_scanner_says(block: str) -> None:
    assert outcome(block) == outcome(block + COMMENT)


PIECES = st.sampled_from(
    [
        *"abz09 .,;-_/()[]{}<>!?@%&*+=|~^`$'\"\\#:\t\r\n",
        *[": ", " #", "- ", "? ", "...", "---", "''"],
        *["null", "true", "yes", "1e3", "0x1", ".inf", "12:30", "é", "–", "…", "🎉"],
        *("\x85", "\u2028", "\ufeff", "\xa0", "\u3000", "\ue000", "\x7f", "\u200b"),
    ]
)
VALUES = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=8)
QUOTED = st.builds(lambda quote, text: quote + text + quote, st.sampled_from("\"'"), VALUES)
KEYS = st.sampled_from(["name", "description", "a-b", "a_b", "x", "null", "True", "no", "k" * 64, "1", "é"])
LINES = st.builds(
    lambda indent, key, gap, value: f"{indent}{key}:{gap}{value}",
    st.sampled_from(["", "", "", "  ", "  ", "    ", " "]),
    KEYS,
    st.sampled_from([" ", " ", " ", "  ", ""]),
    VALUES | QUOTED | st.sampled_from(["", "a", "b c"]),
)


@pytest.mark.requirement("ENT-1")
@given(lines=st.lists(LINES, min_size=1, max_size=5))
@examples(600)
@example(lines=["name: a", "metadata:", "  x: y", "x: z"])
def test_whatever_lines_are_written_both_ways_agree(lines: list[str]) -> None:
    block = "".join(f"{line}\n" for line in lines)
    if re.search(r"^---[ \t]*\r?$", block, re.MULTILINE):
        return  # There the frontmatter ends.
    try:
        document(block)
    except UnicodeEncodeError:
        return
    read = plain_lines(block, first_line=2)
    if read is not None:
        assert outcome(block) == (repr(read[0]), read[1]) == outcome(block + COMMENT)


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        (Limits(frontmatter_bytes=20), "yaml-too-large"),
        (Limits(frontmatter_depth=1), "yaml-too-deep"),
    ],
)
def test_limits_hold_for_plain_lines_too(limits: Limits, rule: str) -> None:
    block = "name: a\nmetadata:\n  author: me\n"
    assert outcome(block, limits=limits)[0][0] == rule  # type: ignore[index]


def test_no_line_takes_long() -> None:
    for line in (
        "a: " + "b" * 60_000 + "\x00",
        "a: " + "b#" * 30_000 + " ",
        "a: " + "b:" * 30_000,
        " " * 60_000,
    ):
        assert plain_lines(f"{line}\n", first_line=2) is None
