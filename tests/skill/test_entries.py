"""An entry tells its name, its description and its size, whatever its frontmatter holds."""

from __future__ import annotations

import pytest

from skillwire import DYNAMIC, SkillEntry, SkillResource
from skillwire.skill import SkillUri, digest_of, is_size

URI = SkillUri("skill://a/SKILL.md")
FILES = tuple(
    SkillResource(SkillUri(f"skill://a/{name}"), digest_of(name.encode()), len(name))
    for name in ("SKILL.md", "b")
)


@pytest.mark.requirement("ENT-1", "ENT-2")
def test_an_entry_has_a_name_a_description_and_a_size() -> None:
    entry = SkillEntry(URI, {"name": "a", "description": "d"}, FILES)
    assert (entry.name, entry.description, entry.is_dynamic, entry.total_size) == ("a", "d", False, 9)
    assert entry.meta == {}


@pytest.mark.parametrize(
    "frontmatter", [{}, {"name": None, "description": 5}, {"name": ["a"], "description": {}}]
)
def test_a_name_that_is_no_text_is_empty(frontmatter: dict[str, None]) -> None:
    entry = SkillEntry(URI, frontmatter, FILES)
    assert (entry.name, entry.description) == ("", "")


@pytest.mark.requirement("ENT-2")
def test_a_dynamic_entry_lists_no_files() -> None:
    entry = SkillEntry(URI, {}, DYNAMIC)
    assert (entry.is_dynamic, entry.total_size) == (True, 0)


@pytest.mark.requirement("ENT-3")
@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, True), (2**53 - 1, True), (2**53, False), (-1, False), (True, False), (1.0, False), ("1", False)],
)
def test_a_size_is_a_number_of_bytes_that_json_can_hold(value: object, expected: bool) -> None:
    assert is_size(value) is expected
