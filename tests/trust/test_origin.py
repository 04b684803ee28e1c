from __future__ import annotations

import pytest

from skillwire.errors import FormatError
from skillwire.trust import Origin, OriginKind
from skillwire.trust.origin import MAX_LABEL_LENGTH


@pytest.mark.requirement("ENT-4", "ENT-5")
@pytest.mark.parametrize("label", ["demo", "a", "my-server_2", "example.org", "büro", "会社", "x" * 64])
def test_a_label_of_letters_digits_and_three_marks_is_accepted(label: str) -> None:
    assert Origin.mcp(label).label == label


@pytest.mark.requirement("ENT-4")
@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("", "empty"),
        ("x" * (MAX_LABEL_LENGTH + 1), "more than 64"),
        ("a/b", "not allowed"),
        ("a:b", "not allowed"),
        ("a b", "not allowed"),
        ("a\x1b[31m", "not allowed"),
        ("a\u202eb", "not allowed"),
        ("a~b", "not allowed"),
        ("..", "start and end"),
        ("-a", "start and end"),
        ("a.", "start and end"),
        ("ｄｅｍｏ", "compatibility form"),
    ],
)
def test_a_label_that_could_be_misread_is_refused(label: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        Origin.mcp(label)
    assert str(caught.value).isprintable()


@pytest.mark.requirement("SEC-1")
@pytest.mark.parametrize("label", ["local", "Local", "LOCAL"])
def test_no_server_may_be_labeled_local(label: str) -> None:
    with pytest.raises(FormatError, match="reserved for local directories"):
        Origin.mcp(label)
    assert Origin.local(label).is_local


def test_an_origin_says_what_it_is() -> None:
    assert str(Origin.local()) == "local directory local"
    assert str(Origin(OriginKind.MCP, "demo")) == "MCP server demo"
    assert Origin.mcp("Demo").fold == Origin.mcp("demo").fold
    assert Origin.local("zoo") < Origin.mcp("ant")
