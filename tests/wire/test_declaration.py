"""How servers declare the extension, in the specification and in the field."""

from __future__ import annotations

import pytest

from skillwire.wire import Declaration, declaration_in

ID = "io.modelcontextprotocol/skills"


@pytest.mark.requirement("CAP-1", "CAP-3")
@pytest.mark.parametrize(
    ("settings", "directory_read"),
    [
        ({}, False),
        ({"directoryRead": True}, True),
        ({"directoryRead": False}, False),
        ({"directoryRead": "true"}, False),
        ({"directoryRead": 1}, False),
        ({"unknown": True}, False),
    ],
)
def test_a_declaration_is_an_object_that_says_whether_directories_can_be_read(
    settings: object, directory_read: bool
) -> None:
    assert declaration_in({"extensions": {ID: settings}}) == Declaration(directory_read)


@pytest.mark.requirement("CAP-5")
@pytest.mark.parametrize(
    ("capabilities", "directory_read"),
    [
        ({"experimental": {ID: {}}}, False),
        ({"experimental": {ID: {"directoryRead": True}}}, True),
        ({"extensions": {ID: {"config": {"directoryRead": True}}}}, True),
        ({"extensions": {ID: []}}, False),
        ({"extensions": None, "experimental": {ID: []}}, False),
    ],
)
def test_malformed_declarations_from_the_field_are_understood(
    capabilities: object, directory_read: bool
) -> None:
    assert declaration_in(capabilities) == Declaration(directory_read)


@pytest.mark.requirement("CAP-3")
@pytest.mark.parametrize(
    "capabilities",
    [
        None,
        [],
        {},
        {"extensions": {}},
        {"extensions": []},
        {"extensions": {ID: None}},
        {"extensions": {ID: True}},
        {"extensions": {ID: "yes"}},
        {"extensions": {ID: [1]}},
        {"extensions": {"io.modelcontextprotocol/other": {}}},
        {"resources": {ID: {}}},
    ],
)
def test_anything_else_declares_nothing(capabilities: object) -> None:
    assert declaration_in(capabilities) is None
