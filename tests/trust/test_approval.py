"""What an approval is bound to, and what differs from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_entries import DEMO, OTHER, checked, read
from skillwire.skill import digest_of, parse_uri
from skillwire.trust import ChangeKind, ResourceSet, approve, difference, resource_set, seen_set
from skillwire.trust.approval import Coverage, coverage, is_nested

ENTRY = checked(files={"a.md": b"a", "b.md": b"b"})
DYNAMIC_ENTRY = checked(dynamic=True)
FILE = read("a.md", b"a")
SEEN = seen_set([FILE])
APPROVED = approve(ENTRY, DEMO)
SESSION = approve(DYNAMIC_ENTRY, DEMO, seen=SEEN)


@pytest.mark.requirement("ENT-4", "SEC-6")
def test_an_approval_covers_exactly_what_was_approved() -> None:
    assert coverage(None, DEMO, ENTRY) is Coverage.NONE
    assert coverage(APPROVED, OTHER, ENTRY) is Coverage.NONE
    assert coverage(APPROVED, DEMO, checked("skill://acme/deep/refunds/SKILL.md")) is Coverage.NONE
    assert coverage(APPROVED, DEMO, ENTRY) is Coverage.EQUAL
    assert coverage(APPROVED, DEMO, DYNAMIC_ENTRY, SEEN) is Coverage.OTHER
    assert coverage(SESSION, DEMO, DYNAMIC_ENTRY, SEEN) is Coverage.EQUAL
    assert coverage(SESSION, DEMO, DYNAMIC_ENTRY) is Coverage.OTHER
    assert coverage(SESSION, DEMO, ENTRY) is Coverage.OTHER
    for files in ({"a.md": b"a"}, {"a.md": b"a", "b.md": b"b", "c.md": b"c"}, {"a.md": b"a", "b.md": b"B"}):
        assert coverage(APPROVED, DEMO, checked(files=files)) is Coverage.OTHER


@pytest.mark.requirement("SEC-6")
def test_only_an_approval_of_listed_files_may_be_kept() -> None:
    assert APPROVED.bound
    assert APPROVED.resources == resource_set(ENTRY)
    assert not SESSION.bound
    assert SESSION.resources == SEEN == {(FILE.uri, FILE.digest)}
    assert resource_set(DYNAMIC_ENTRY) == frozenset()


@pytest.mark.requirement("SEC-6")
@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123")),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("123")),
)
def test_the_difference_names_every_file_that_is_not_the_same(
    old: dict[str, str], new: dict[str, str]
) -> None:
    def resources(files: dict[str, str]) -> ResourceSet:
        return frozenset(
            (parse_uri(f"skill://x/{path}"), digest_of(data.encode())) for path, data in files.items()
        )

    changes = {change.uri[-1]: change.kind for change in difference(resources(old), resources(new))}
    assert changes == {
        **dict.fromkeys(new.keys() - old.keys(), ChangeKind.ADDED),
        **dict.fromkeys(old.keys() - new.keys(), ChangeKind.REMOVED),
        **{path: ChangeKind.CHANGED for path in old.keys() & new.keys() if old[path] != new[path]},
    }


@pytest.mark.requirement("SEC-5", "FMT-8")
@pytest.mark.parametrize(
    ("uri", "others", "nested"),
    [
        ("skill://a/b/SKILL.md", ["skill://a/SKILL.md"], True),
        ("skill://a/b/c/SKILL.md", ["skill://a/SKILL.md"], True),
        ("skill://a/SKILL.md", ["skill://a/b/SKILL.md"], False),
        ("skill://a/SKILL.md", ["skill://a/SKILL.md"], False),
        ("skill://ab/SKILL.md", ["skill://a/SKILL.md"], False),
        ("skill://a/b/SKILL.md", ["other://a/SKILL.md", "skill://x/SKILL.md"], False),
        ("skill://a/b/SKILL.md", [], False),
    ],
)
def test_a_skill_inside_another_one_is_nested(uri: str, others: list[str], nested: bool) -> None:
    assert is_nested(parse_uri(uri), {parse_uri(other) for other in others}) == nested
