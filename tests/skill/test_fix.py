"""Repairs need no guessing: what they change parses afterwards, and what they leave is as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import examples
from skillwire.errors import FormatError, Severity
from skillwire.skill import lint_skill, parse_skill_md
from skillwire.skill.fields import fix_skill_md, unified_diff
from skillwire.skill.files import new_skill_md


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b"---\nname: a\ndescription: It does: so\n---\nx\n",
            b"---\nname: a\ndescription: 'It does: so'\n---\nx\n",
        ),
        (
            b"---\r\nname: a\r\ndescription: x\r\n---\r\nBody\r\n",
            b"---\nname: a\ndescription: x\n---\nBody\n",
        ),
        (b"---\ndescription: x\n---\n", b"---\nname: a\ndescription: x\n---\n"),
        (b"---\nname: My A # note\ndescription: x\n---\n", b"---\nname: a\ndescription: x\n---\n"),
        (b"\xef\xbb\xbf\n\n---\nname: a\ndescription: x\n---\n", b"---\nname: a\ndescription: x\n---\n"),
        (b"---\nname: a\ndescription: |\n  x\n---\n", b"---\nname: a\ndescription: |-\n  x\n---\n"),
        (
            b"---\nname: a\ndescription: >+ # why\n  x\n---\n",
            b"---\nname: a\ndescription: >- # why\n  x\n---\n",
        ),
    ],
)
def test_what_can_be_repaired_is(before: bytes, after: bytes) -> None:
    fixed = fix_skill_md(before, directory="a")
    assert fixed.data == after
    assert fixed.repairs
    assert fix_skill_md(after, directory="a").data == after


@pytest.mark.parametrize(
    "data",
    [
        b"---\nname: a\ndescription: x\n---\nBody\n",
        b"no frontmatter\n",
        b"---\nname: a\ndescription: 'open\n---\n",
        b"---\nname: a\ndescription: |\n  x\nlicense: MIT\n---\n",
        b"\xff\xfe",
    ],
)
def test_what_needs_no_repair_or_a_guess_is_left_alone(data: bytes) -> None:
    assert fix_skill_md(data, directory="a").data == data


def test_a_directory_that_is_no_name_is_not_made_one() -> None:
    data = b"---\nname: a\ndescription: x\n---\n"
    assert fix_skill_md(data, directory="Not A Name").data == data


def test_a_diff_shows_the_lines_that_change() -> None:
    before = b"---\nname: a\ndescription: It does: so\n---\nx"
    after = fix_skill_md(before, directory="a").data
    diff = unified_diff(before, after, file="a/SKILL.md").splitlines()
    assert diff[:2] == ["--- a/a/SKILL.md", "+++ b/a/SKILL.md"]
    assert "-description: It does: so" in diff
    assert "+description: 'It does: so'" in diff


LINES = st.lists(
    st.sampled_from(
        [
            "name: a",
            "name: B c",
            "description: x: y",
            "description: [a] b",
            "license: MIT",
            "# c",
            "",
            "x: |",
            "  y",
        ]
    ),
    max_size=6,
)


@examples(200)
@given(lines=LINES, ending=st.sampled_from(["\n", "\r\n"]))
def test_a_repair_never_breaks_what_parsed_and_is_done_at_once(lines: list[str], ending: str) -> None:
    data = ending.join(["---", *lines, "---", "Body", ""]).encode()
    fixed = fix_skill_md(data, directory="a").data
    assert fix_skill_md(fixed, directory="a").data == fixed
    try:
        before = parse_skill_md(data).frontmatter
    except FormatError:
        return
    after = parse_skill_md(fixed, strict=True).frontmatter
    assert after.get("name") in ("a", before.get("name"))
    assert after.keys() == before.keys() | {"name"}


@pytest.mark.parametrize("description", ["", 'Says "hi": \\ and so on. Use when greeting somebody politely.'])
def test_a_new_skill_has_nothing_wrong_but_what_the_author_has_to_replace(description: str) -> None:
    text = new_skill_md("release-notes", description).encode()
    issues = lint_skill(text, directory="release-notes", files={"SKILL.md": len(text)})
    assert [(issue.rule, issue.severity) for issue in issues] == [("template", Severity.ADVICE)] * (
        5 if description else 6
    )
    assert [issue.line for issue in issues][-5:] == [8, 12, 13, 14, 18]
    found = parse_skill_md(text, strict=True).frontmatter["description"]
    assert not description or found == description


def test_a_new_skill_needs_a_good_name() -> None:
    with pytest.raises(FormatError, match="lowercase"):
        new_skill_md("Release Notes")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b"# Fill in forms\n\nText.\n",
            b'---\nname: pdf-forms\ndescription: "Fill in forms"\n---\n\n# Fill in forms\n\nText.\n',
        ),
        (
            b"---\nname: pdf-forms\n---\n\nFirst words.\n",
            b'---\nname: pdf-forms\ndescription: "First words."\n---\n\nFirst words.\n',
        ),
        (b"\n\n", b"\n\n"),
        (b"\xff\n", b"\xff\n"),
    ],
)
def test_on_request_what_is_missing_is_taken_from_the_directory_and_the_text(
    before: bytes, after: bytes
) -> None:
    fixed = fix_skill_md(before, directory="pdf-forms", unsafe=True)
    assert fixed.data == after
    assert fix_skill_md(after, directory="pdf-forms", unsafe=True).repairs == ()


def test_the_name_of_a_directory_is_spelled_as_a_valid_name() -> None:
    assert fix_skill_md(b"# Forms\n", directory="PDF_Forms", unsafe=True).data.startswith(
        b"---\nname: pdf-forms\n"
    )
