"""A selection only narrows, whatever it is combined from."""

from __future__ import annotations

import pytest

from skillwire.catalog import EVERYTHING, Selection
from skillwire.skill import DYNAMIC, SkillEntry, make_uri


def entry(name: str) -> SkillEntry:
    return SkillEntry(make_uri(["refunds", "SKILL.md"]), {"name": name, "description": "Does."}, DYNAMIC)


@pytest.mark.parametrize(
    ("selection", "admitted"),
    [
        (EVERYTHING, True),
        (EVERYTHING.narrowed(include=["refunds"]), True),
        (EVERYTHING.narrowed(include=["re*", "x"]), True),
        (EVERYTHING.narrowed(include=["REFUNDS"]), True),
        (EVERYTHING.narrowed(include=["other"]), False),
        (EVERYTHING.narrowed(include=[]), False),
        (EVERYTHING.narrowed(include=[]).narrowed(include=["*"]), False),
        (EVERYTHING.narrowed(include=["*s"]).narrowed(include=["re*"]), True),
        (EVERYTHING.narrowed(include=["*s"]).narrowed(include=["x*"]), False),
        (EVERYTHING.narrowed(exclude=["Ref*"]), False),
        (EVERYTHING.narrowed(exclude=["a"]).narrowed(exclude=["refunds"]), False),
        (EVERYTHING.narrowed(include=["refunds"], exclude=["refunds"]), False),
        (EVERYTHING.narrowed(exclude=[]), True),
    ],
)
def test_includes_intersect_and_excludes_unite(selection: Selection, admitted: bool) -> None:
    assert selection.admits(entry("refunds")) is admitted


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize("name", ["ref\u200bunds", "REFUNDS", "ｒｅｆｕｎｄｓ", "refunds\u202e", ""])
def test_an_odd_spelling_of_a_name_does_not_bypass_an_exclude(name: str) -> None:
    assert not EVERYTHING.narrowed(exclude=["refunds"]).admits(entry(name))
