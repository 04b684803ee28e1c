"""A mistake in YAML is told with its place and with what to type instead."""

from __future__ import annotations

import pytest
from yaml.error import YAMLError

from frontmatter_blocks import document
from skillwire.errors import FormatError
from skillwire.skill import parse_skill_md
from skillwire.skill.yaml_scalars import explain


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            "description: Use when: asked",
            'put the value of `description` in quotes: description: "Use when: asked"',
        ),
        ('description: Say "hi": it\'s so', "description: 'Say \"hi\": it''s so'"),
        ("description: a: \\d", "description: 'a: \\d'"),
        ("description: Text\n  Note: more", "put the whole value of `description` in quotes"),
        ("description: @here", "`description` starts with '@'"),
        ("description: [WIP] x", 'description: "[WIP] x"'),
        ("description: 'it's'", "write a ' inside the value as ''"),
        ('description: "a "b" c"', 'write a " inside the value as \\"'),
        ("description: > text", "start the text on the next line"),
        ("name:foo\ndescription: x", "put a space after the colon"),
        ("1: x", 'put the key in quotes: "1":'),
        ("name: x\n\tlicense: y", "use spaces instead"),
        ("a: *b", "put a text that starts with * in quotes"),
        ("a: !foo b", "the tag `!foo`"),
        ("a: !!set {b}", "the tag `!!set`"),
        ("a: b\rc", "a carriage return without a newline"),
        ("a: \x1b[31m", "U+001B"),
    ],
)
def test_a_mistake_comes_with_what_to_type_instead(block: str, said: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_skill_md(document(block), strict=True)
    assert said in str(caught.value)


def test_text_of_others_is_cut_and_made_printable_in_messages() -> None:
    bad = "\u202e" + "k" * 5000
    for block in (f"{bad}: b: c", f"a: *{'x' * 900}", f"{bad}: 1\n{bad}: 2", f"? {bad}\n: a: {bad}: b"):
        with pytest.raises(FormatError) as caught:
            parse_skill_md(document(block), strict=True)
        assert len(str(caught.value)) < 600
        assert str(caught.value).isprintable()


def test_an_error_without_a_place_is_reported_on_the_first_line() -> None:
    issue = explain("a: b", YAMLError("odd"), file="f", first_line=2)
    assert (issue.rule, issue.line) == ("yaml-syntax", 2)
    assert "odd" in issue.message
