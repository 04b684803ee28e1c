from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.documents import JsonValue
from skillwire.trust.verify import frontmatter_differences

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([1.0, 0.0, 0.5]), st.text(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=3)


@pytest.mark.requirement("VER-2")
@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (1, 1.0),
        (0, -0.0),
        (2**60, 2**60),
        (2**53, 2**53 + 1),  # what a reader of doubles makes of it
        (10**400, 10**400),
        ("a", "a"),
        (None, None),
        (True, True),
        ([1, [2.0]], [1.0, [2]]),
        ({"b": 1, "a": {}}, {"a": {}, "b": 1}),
    ],
)
def test_the_same_json_value_is_the_same(listed: JsonValue, found: JsonValue) -> None:
    assert frontmatter_differences({"x": listed}, {"x": found}) == ()


@pytest.mark.requirement("VER-2")
@pytest.mark.parametrize(
    ("listed", "found", "said"),
    [
        (True, 1, "x is 1, the entry says true"),
        (False, 0, "x is 0, the entry says false"),
        (1, True, "x is true, the entry says 1"),
        (1, "1", 'x is "1", the entry says 1'),
        ("1", 1, 'x is 1, the entry says "1"'),
        (None, "", 'x is "", the entry says null'),
        (0, None, "x is null, the entry says 0"),
        ("a", "A", 'x is "A", the entry says "a"'),
        ("e\u0301", "é", 'x is "\\u00e9", the entry says "e\\u0301"'),
        (2**53, 2**53 + 2, "x is 9007199254740994, the entry says 9007199254740992"),
        (
            10**400,
            10**400 + 1,
            f"x is 1{'0' * 39}…, the entry says 1{'0' * 39}…",
        ),
        (float("nan"), float("nan"), "x is NaN, the entry says NaN"),
        ([], {}, "x is an object, the entry says a list"),
        ({}, None, "x is null, the entry says an object"),
        ([1], [1, 2], "x has 2 items, the entry says 1"),
        ([1, 2], [2, 1], "x[0] is 2, the entry says 1"),
        ({"y": [{"z": 1}]}, {"y": [{"z": 2}]}, "x.y[0].z is 2, the entry says 1"),
        ({"y": None}, {}, "x.y is missing in the file"),
        ({}, {"y": None}, "x.y is not in the entry"),
        ("a" * 99, "b", 'x is "b", the entry says "' + "a" * 39 + "…"),
    ],
)
def test_a_different_type_or_value_is_a_difference_and_is_reported(
    listed: JsonValue, found: JsonValue, said: str
) -> None:
    assert frontmatter_differences({"x": listed}, {"x": found})[0] == said


def test_a_difference_cannot_control_a_terminal_and_is_short() -> None:
    hostile: dict[str, JsonValue] = {f"\x1b[{number}m\u202e": "\x07" for number in range(50)}
    differences = frontmatter_differences(hostile, {})
    assert len(differences) == 8
    assert all(line.isascii() and line.isprintable() for line in differences)
    assert frontmatter_differences({"k" * 99: 1}, {})[0] == '"' + "k" * 39 + "… is missing in the file"


def test_depth_is_no_danger() -> None:
    deep: JsonValue = 1
    for _ in range(5000):
        deep = [deep]
    assert frontmatter_differences({"x": deep}, {"x": deep}) == ()


@pytest.mark.requirement("VER-2")
def test_an_older_dialect_is_held_only_to_the_fields_that_it_carried() -> None:
    listed: dict[str, JsonValue] = {"name": "a", "description": "b"}
    found: dict[str, JsonValue] = {**listed, "license": "MIT"}
    assert frontmatter_differences(listed, found) == ("license is not in the entry",)
    assert frontmatter_differences(listed, found, only_fields={"name", "description"}) == ()
    assert frontmatter_differences({"name": "a"}, {}, only_fields={"name"}) == (
        "name is missing in the file",
    )


@pytest.mark.requirement("VER-2")
@given(OBJECTS, OBJECTS)
def test_two_objects_differ_just_when_their_json_does(
    one: dict[str, JsonValue], other: dict[str, JsonValue]
) -> None:
    def spelled(value: JsonValue) -> str:
        # Whole numbers in one spelling; all else as JSON has it.
        return json.dumps(_whole(value), sort_keys=True)

    assert (frontmatter_differences(one, other) == ()) == (spelled(one) == spelled(other))
    assert frontmatter_differences(one, one) == ()


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return value
