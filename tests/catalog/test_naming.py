from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_entries import DEMO, make_entry
from skillwire.catalog import SPEC_NAMING, Naming, SkillKey, clean_handle, fold_handle, plain_name
from skillwire.catalog.table import MAX_HANDLE_LENGTH
from skillwire.skill import SkillEntry, SkillUri, parse_uri, skill_path
from skillwire.text import clean_line


def named(name: object, uri: str = "skill://acme/refunds/SKILL.md") -> SkillEntry:
    return SkillEntry(parse_uri(uri), {"name": name}, ())  # type: ignore[dict-item]


def handles(entry: SkillEntry, naming: Naming = SPEC_NAMING) -> tuple[str, ...]:
    return naming.handles(SkillKey(DEMO, entry.uri), entry)


@pytest.mark.requirement("ENT-5")
def test_a_skill_is_called_by_its_name_then_with_its_server_then_with_its_path() -> None:
    bare, qualified, by_path, marked, whole = handles(make_entry("skill://acme/billing/refunds/SKILL.md"))
    assert (bare, qualified, by_path) == ("refunds", "demo/refunds", "demo:acme/billing/refunds")
    assert marked.startswith("demo/refunds~")
    assert whole.startswith(marked)
    assert len(whole) == len("demo/refunds~") + 64


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("refunds", "refunds"),
        ("größe", "größe"),
        ("My Skill!", "My-Skill"),
        ("a/b:c", "a-b-c"),
        ("\x1b[31mred\u202e", "red"),
        ("re\u3164funds", "refunds"),
        ("<x>&\n", "x"),
        ("../..", "refunds"),
        ("", "refunds"),
        (3, "refunds"),
        ("x" * 99, "x" * 64),
    ],
)
def test_a_careless_name_becomes_a_plain_one(name: object, plain: str) -> None:
    assert plain_name(named(name)) == plain


def test_a_skill_with_no_letter_in_its_name_or_path_has_a_name_still() -> None:
    assert plain_name(named("!", "skill://!!!")) == "skill"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("skill://acme/refunds/SKILL.md", ("acme", "refunds")),
        ("skill://refunds/SKILL.md", ("refunds",)),
        ("skill://ipinfo/usage", ("ipinfo", "usage")),
        ("skill://SKILL.md", ("SKILL.md",)),
        ("skill://caf%C3%A9/50%25/SKILL.md", ("café", "50%")),
    ],
)
def test_a_skills_path_leaves_out_the_file(uri: str, path: tuple[str, ...]) -> None:
    assert skill_path(SkillUri(uri)) == path


def test_a_spelling_that_is_empty_or_too_long_is_skipped() -> None:
    long = make_entry("skill://" + "x" * MAX_HANDLE_LENGTH + "/refunds/SKILL.md")
    assert [handle for handle in handles(long) if ":" in handle] == []
    odd = Naming(
        spellings=lambda origin, entry: ("///", f"{origin.label}__{entry.name}", f"{entry.name} \x1b")
    )
    assert handles(make_entry(), odd)[:2] == ("demo__refunds", "refunds")


@pytest.mark.requirement("SEC-11")
@given(st.text(max_size=20), st.text(max_size=20))
def test_a_handle_is_plain_whatever_a_server_sends(name: str, spelling: str) -> None:
    naming = Naming(spellings=lambda origin, entry: (spelling, entry.name))
    entry = dataclasses.replace(make_entry(), frontmatter={"name": name})
    for handle in handles(entry, naming):
        assert handle
        assert all(char.isalnum() or char in "-_.:/~" for char in handle)
        assert clean_handle(handle) == handle


@pytest.mark.requirement("SEC-11")
@given(st.text(), st.sampled_from(["-_.", "-_.:/~", "-."]))
def test_a_handle_has_a_hyphen_for_each_character_that_it_may_not_have(text: str, marks: str) -> None:
    kept = "".join(char if char.isalnum() or char in marks else "-" for char in clean_line(text).text)
    while "--" in kept:
        kept = kept.replace("--", "-")
    assert clean_handle(text, marks=marks) == kept.strip("-_.:/~")


@given(st.text(st.characters(codec="ascii")))
def test_plain_handles_are_compared_as_any_others(handle: str) -> None:
    assert fold_handle(handle) == fold_handle("Ａ" + handle)[1:]


def test_handles_that_differ_only_in_case_or_width_are_equal() -> None:
    assert fold_handle("Ｒefunds") == fold_handle("refunds") == fold_handle("REFUNDS")
