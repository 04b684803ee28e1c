"""Names: lowercase letters, digits and single hyphens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.errors import FormatError
from skillwire.skill import name_issues, parse_name


@pytest.mark.requirement("FMT-2")
@pytest.mark.parametrize(
    "name",
    [
        "a",
        "7",
        "pdf-processing",
        "a-b-c",
        "x" * 64,
        "café",
        "naïve-búsqueda",
        "データ",
        "技能-2",
        "مهارة",
        "straße",
    ],
)
def test_a_name_of_lowercase_letters_digits_and_single_hyphens_is_good(name: str) -> None:
    assert name_issues(name) == []
    assert parse_name(name) == name


@pytest.mark.requirement("FMT-2")
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("", ["name-empty"]),
        ("x" * 65, ["name-too-long"]),
        ("PDF", ["name-characters"]),
        ("É", ["name-characters"]),
        ("ǅ", ["name-characters"]),
        ("𝐀", ["name-characters"]),
        ("a b", ["name-characters"]),
        ("a_b", ["name-characters"]),
        ("a.b", ["name-characters"]),
        ("a/b", ["name-characters"]),
        ("..", ["name-characters"]),
        ("a\n", ["name-characters"]),
        ("a\u200b", ["name-characters"]),
        ("cafe\u0301", ["name-characters"]),
        ("a\ud800", ["name-characters"]),
        ("-a", ["name-edge-hyphen"]),
        ("a-", ["name-edge-hyphen"]),
        ("-", ["name-edge-hyphen"]),
        ("a--b", ["name-double-hyphen"]),
        ("--", ["name-edge-hyphen", "name-double-hyphen"]),
        ("-A--" + "x" * 64, ["name-too-long", "name-characters", "name-edge-hyphen", "name-double-hyphen"]),
    ],
)
def test_a_bad_name_is_reported_with_everything_that_is_wrong(name: str, rules: list[str]) -> None:
    issues = name_issues(name)
    assert [issue.rule for issue in issues] == rules
    assert all(issue.message.isprintable() and issue.fix for issue in issues)
    with pytest.raises(FormatError) as caught:
        parse_name(name)
    assert list(caught.value.issues) == issues


@given(st.text())
def test_any_text_is_a_name_or_has_issues(text: str) -> None:
    issues = name_issues(text)
    if not issues:
        assert parse_name(text) == text
        assert 1 <= len(text) <= 64
        assert text == text.lower()
    assert all(len(str(issue)) < 300 for issue in issues)
