"""Two origins never share a skill's directory: the outermost skill has it, then the first."""

from __future__ import annotations

import pytest

from skillwire.skill import SkillUri
from skillwire.sources.base import resolve_conflicts


def uri(path: str) -> SkillUri:
    return SkillUri(f"skill://{path}/SKILL.md")


@pytest.mark.parametrize(
    ("claims", "lost"),
    [
        pytest.param([("a", 0), ("b", 1)], [], id="apart"),
        pytest.param([("a", 0), ("a/b", 0)], [], id="nested in one origin"),
        pytest.param([("a", 0), ("ab", 1), ("a-b", 1)], [], id="names that begin alike"),
        pytest.param([("p/a", 0), ("p/b", 1)], [], id="a prefix may be shared"),
        pytest.param([("a", 0), ("a", 1)], [("a", 1, "a", 0)], id="the same place"),
        pytest.param([("a", 0), ("a/b/c", 1)], [("a/b/c", 1, "a", 0)], id="inside"),
        pytest.param([("a/b/c", 0), ("a", 1)], [("a/b/c", 0, "a", 1)], id="around, though it comes later"),
        pytest.param(
            [("a", 0), ("a/b", 0), ("a/b", 1), ("a", 2)],
            [("a", 2, "a", 0), ("a/b", 1, "a", 0)],
            id="several",
        ),
    ],
)
def test_who_serves_a_uri_is_decided_and_the_loser_is_reported(
    claims: list[tuple[str, int]], lost: list[tuple[str, int, str, int]]
) -> None:
    settled = resolve_conflicts([(uri(path), owner) for path, owner in claims])
    assert [(each.uri, each.owner, each.winner, each.winning_owner) for each in settled.lost] == [
        (uri(path), owner, uri(winner), winning) for path, owner, winner, winning in lost
    ]
    assert len(settled.owners) + len(lost) == len(claims)


def test_a_uri_belongs_to_the_origin_of_the_skill_it_lies_in() -> None:
    settled = resolve_conflicts([(uri("p/a"), 3), (uri("p/a/in"), 3), (uri("b"), 4)])
    owners = {
        "skill://p/a": 3,
        "skill://p/a/SKILL.md": 3,
        "skill://p/a/in/deep/x.txt": 3,
        "skill://b/x": 4,
        "skill://p": None,
        "skill://p/other": None,
        "other://b/x": None,
    }
    assert {text: settled.owner_of(SkillUri(text)) for text in owners} == owners
