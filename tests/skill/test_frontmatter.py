"""A `SKILL.md` comes apart into frontmatter and body, or says what is wrong; no bytes do anything else."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontmatter_blocks import document
from properties import examples
from skillwire.errors import FormatError, Issue
from skillwire.skill import SkillDocument, parse_skill_md


@pytest.mark.requirement("FMT-1", "ENT-1")
def test_a_skill_file_is_parsed_into_fields_body_and_lines() -> None:
    data = b"---\nname: a\n# remark\ndescription: |\n  Two\n  lines\n---\n\n# Title\n"
    assert parse_skill_md(data) == SkillDocument(
        frontmatter={"name": "a", "description": "Two\nlines\n"},
        body="\n# Title\n",
        body_line=8,
        lines={"name": 2, "description": 4},
    )


@pytest.mark.parametrize(
    ("data", "body", "body_line"),
    [
        (b"---\na: b\n---", "", 4),
        (b"---\na: b\n---\n", "", 4),
        (b"---\na: b\n---\r", "", 4),
        (b"--- \t\na: b\n---\t \nx", "x", 4),
        (b"\xef\xbb\xbf---\na: b\n---\nx\xef\xbb\xbf", "x\ufeff", 4),
        (b"---\r\na: b\r\n---\r\nx\r\ny", "x\r\ny", 4),
        (b"---\na: b\n---\nx\n---\ny", "x\n---\ny", 4),
        (b"---\n\n\na: b\n\n---\nx", "x", 7),
    ],
)
def test_the_body_is_everything_after_the_closing_line(data: bytes, body: str, body_line: int) -> None:
    found = parse_skill_md(data)
    assert (found.frontmatter, found.body, found.body_line) == ({"a": "b"}, body, body_line)


@pytest.mark.requirement("FMT-1")
@pytest.mark.parametrize(
    ("data", "rule", "line", "said"),
    [
        (b"", "frontmatter-missing", 1, "empty"),
        (b" \n\n", "frontmatter-missing", 1, "empty"),
        (b"# Title\n", "frontmatter-missing", 1, "does not start with frontmatter"),
        (b"\n\n---\na: b\n---\n", "frontmatter-missing", 1, "first line"),
        (b"  ---\na: b\n---\n", "frontmatter-missing", 1, "first line"),
        (b"----\na: b\n----\n", "frontmatter-missing", 1, "not exactly ---"),
        (b"---", "frontmatter-missing", 1, "not exactly ---"),
        (b"--- a\nb: c\n---\n", "frontmatter-missing", 1, "does not start with frontmatter"),
        (b"---\na: b\n", "frontmatter-unclosed", 1, "after the last field"),
        (b"---\na: b\n---x\n", "frontmatter-unclosed", 1, "after the last field"),
        (b"---\na: b\n ---\nbody", "frontmatter-unclosed", 3, "make line 3 exactly ---"),
        (b"---\na: b\n----\nbody", "frontmatter-unclosed", 3, "make line 3 exactly ---"),
        (b"---\na: b\n...\nbody", "frontmatter-unclosed", 3, "make line 3 exactly ---"),
        (b"---\n---\n", "frontmatter-empty", 2, "empty"),
        (b"---\n# only a remark\n\n---\n", "frontmatter-empty", 2, "empty"),
        (b"---\na: b\n---\nok\n\xff\n", "not-utf-8", 5, "0xff"),
        ("---\na: b\n---\n".encode("utf-16"), "not-utf-8", 1, "UTF-16"),
        (b"---\na: \xed\xa0\x80\n---\n", "not-utf-8", 2, "0xed"),
    ],
)
def test_a_file_without_a_frontmatter_block_says_what_is_missing(
    data: bytes, rule: str, line: int, said: str
) -> None:
    with pytest.raises(FormatError, match=said) as caught:
        parse_skill_md(data, file="x/SKILL.md")
    (issue,) = caught.value.issues
    assert (issue.rule, issue.line, issue.file) == (rule, line, "x/SKILL.md")
    assert issue.fix


def is_json(value: object) -> bool:
    match value:
        case None | bool() | int():
            return True
        case str():
            return value.encode("utf-8") is not None
        case float():
            return math.isfinite(value)
        case list():
            return all(map(is_json, value))
        case dict():
            return all(isinstance(key, str) and is_json(inner) for key, inner in value.items())
        case _:
            return False


def outcome(data: bytes) -> SkillDocument | tuple[Issue, ...]:
    """What the bytes are parsed into: a document, or the issues of a `FormatError`."""
    try:
        return parse_skill_md(data)
    except FormatError as error:
        return error.issues


def check(data: bytes) -> None:
    """A document holds JSON values alone; an issue has a place in the file and a fix."""
    found = outcome(data)
    if isinstance(found, SkillDocument):
        assert is_json(found.frontmatter)
        assert found.lines.keys() == found.frontmatter.keys()
        return
    assert found
    for issue in found:
        assert issue.line is not None
        assert 1 <= issue.line <= data.count(b"\n") + 2
        assert issue.fix
        assert issue.message.isprintable()


quick = examples(150)
# fmt: off
PIECES = st.sampled_from([
    "a", "b: ", "k: ", "- ", "\n", "\n  ", "\n    ", " ", "\t", "#", "'", '"', "''", "\\", "\\n",
    "[", "]", "{", "}", ", ", ":", "? ", "&x ", "*x ", "!", "!!str ", "!foo ", "|", "|-", ">", ">+",
    "1", "0x1", "1e9", "true", "~", "...", "%", "@", "`", "<<", "é", "\u2028", "\\ud83d\\ude00",
    "\r\n", "foo bar", "\nk", "\nz: ",
])
# fmt: on
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


@quick
@given(data=st.binary(max_size=200), framed=st.booleans())
def test_any_bytes_are_a_document_or_a_format_error(data: bytes, framed: bool) -> None:
    data = b"---\n" + data + b"\n---\n" if framed else data
    check(data)


@quick
@given(text=st.text(max_size=200))
def test_any_text_is_a_document_or_a_format_error(text: str) -> None:
    check(document("k: " + text))


@examples(400)
@given(pieces=st.lists(PIECES, max_size=12), start=st.sampled_from(["", "k: ", "k:\n  ", "k: |\n  ", "k: '"]))
def test_any_pieces_of_yaml_are_a_document_or_a_format_error(pieces: list[str], start: str) -> None:
    check(document(start + "".join(pieces)))


@pytest.mark.requirement("ENT-1")
def test_a_private_character_that_is_written_as_an_escape_stays_itself_beside_a_surrogate_pair() -> None:
    found = outcome(document(r'{"\ud800\udc00": "\ue000", "a": "\U000F0000"}'))
    assert isinstance(found, SkillDocument)
    assert found.frontmatter == {"\U00010000": "\ue000", "a": "\U000f0000"}


@pytest.mark.requirement("ENT-1")
@quick
@given(value=st.dictionaries(st.text(min_size=1, max_size=20), JSON, max_size=5), ascii_only=st.booleans())
def test_json_is_read_back_as_it_was_written(value: dict[str, Any], ascii_only: bool) -> None:
    # YAML forbids raw control characters that JSON allows; as escapes both have them.
    written = json.dumps(value, ensure_ascii=ascii_only)
    if any(not char.isprintable() and char != " " for char in written):
        written = json.dumps(value)
    found = outcome(document(written))
    assert isinstance(found, SkillDocument)
    assert found.frontmatter == value
