"""What a client can tell between two moments: which files differ, and whether the list does."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from sample_entries import make_entry
from skillwire.server import Catalog
from skillwire.server.library import difference
from skillwire.skill import SkillEntry
from skillwire.sources import Ownership

A = make_entry("skill://a/SKILL.md", {"x.txt": b"x"})
B = make_entry("skill://b/SKILL.md")
LIVE = make_entry("skill://live/SKILL.md", dynamic=True)


def catalog(*entries: SkillEntry, unlisted: tuple[SkillEntry, ...] = ()) -> Catalog:
    together = tuple(sorted([*entries, *unlisted], key=lambda entry: entry.uri))
    return Catalog((together,), Ownership({}, ()), together, entries)


@pytest.mark.parametrize(
    ("before", "after", "changed", "is_list_changed"),
    [
        pytest.param(catalog(A, B), catalog(A, B), [], False, id="nothing"),
        pytest.param(catalog(A), catalog(A, B), ["skill://b/SKILL.md"], True, id="a skill came"),
        pytest.param(
            catalog(A, B), catalog(B), ["skill://a/SKILL.md", "skill://a/x.txt"], True, id="a skill went"
        ),
        pytest.param(
            catalog(A),
            catalog(make_entry("skill://a/SKILL.md", {"x.txt": b"other"})),
            ["skill://a/x.txt"],
            False,
            id="bytes of a file",
        ),
        pytest.param(
            catalog(A),
            catalog(make_entry("skill://a/SKILL.md", {"y.txt": b"x"})),
            ["skill://a/x.txt", "skill://a/y.txt"],
            False,
            id="a file renamed",
        ),
        pytest.param(
            catalog(B),
            catalog(make_entry("skill://b/SKILL.md", description="Other words.")),
            ["skill://b/SKILL.md"],
            True,
            id="metadata",
        ),
        pytest.param(catalog(A, LIVE), catalog(A), ["skill://live/SKILL.md"], True, id="a dynamic skill"),
        pytest.param(
            catalog(LIVE),
            catalog(replace(LIVE, frontmatter={**LIVE.frontmatter, "license": "MIT"})),
            ["skill://live/SKILL.md"],
            True,
            id="metadata of a dynamic skill",
        ),
        pytest.param(
            catalog(A), catalog(A, unlisted=(B,)), ["skill://b/SKILL.md"], False, id="an unlisted skill"
        ),
        pytest.param(catalog(A, B), catalog(A, unlisted=(B,)), [], True, id="no longer listed"),
        pytest.param(catalog(A), catalog(replace(A)), [], False, id="the same, told anew"),
    ],
)
def test_a_difference_is_what_a_client_can_see(
    before: Catalog, after: Catalog, changed: list[str], is_list_changed: bool
) -> None:
    found = difference(before, after)
    assert (sorted(found.changed), found.is_list_changed) == (changed, is_list_changed)


def test_a_catalog_does_not_differ_from_itself() -> None:
    same = catalog(A)
    assert difference(same, same).changed == frozenset()


def test_wherever_skills_come_go_and_change_their_files_and_no_others_differ() -> None:
    versions = [
        (None, *(make_entry(f"skill://{name}/SKILL.md", {"x.txt": text}) for text in (b"1", b"2")))
        for name in "abcd"
    ]
    for before, after in product(product(*versions), repeat=2):
        wanted = set[str]()
        for was, now in zip(before, after, strict=True):
            if was is not now:
                root = (was or now or A).uri.removesuffix("/SKILL.md")
                wanted |= {f"{root}/x.txt"} if was and now else {f"{root}/x.txt", f"{root}/SKILL.md"}
        found = difference(catalog(*filter(None, before)), catalog(*filter(None, after)))
        assert found.changed == wanted
