"""The skills that instructions name, found in any prose."""

from __future__ import annotations

import pytest

from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.sources.listing import mentioned_skills


@pytest.mark.requirement("LST-3")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Use skill://a/SKILL.md.", ["skill://a/SKILL.md"]),
        ("(skill://a/SKILL.md), `x://b/c/SKILL.md`!", ["skill://a/SKILL.md", "x://b/c/SKILL.md"]),
        ("[refunds](skill://a/SKILL.md) and again skill://a/SKILL.md", ["skill://a/SKILL.md"]),
        ("<skill://a/SKILL.md>; 'skill://b/SKILL.md'?", ["skill://a/SKILL.md", "skill://b/SKILL.md"]),
        ("skill://a/README.md SKILL.md /SKILL.md a/SKILL.md skill://a/SKILL.mdx", []),
    ],
)
def test_uris_are_found_between_the_words(text: str, found: list[str]) -> None:
    assert mentioned_skills(text, DEFAULT_LIMITS) == found


@pytest.mark.requirement("SEC-9")
def test_the_number_of_mentions_and_the_searched_text_are_limited() -> None:
    text = " ".join(f"skill://{number}/SKILL.md" for number in range(100))
    assert len(mentioned_skills(text, Limits(linked_skills=3))) == 3
    assert mentioned_skills("x" * 100 + " skill://a/SKILL.md", Limits(instructions_chars=50)) == []
    assert mentioned_skills(f"skill://{'a' * 9000}/SKILL.md", DEFAULT_LIMITS) == []
