from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import examples
from sample_entries import DEMO, LOCAL, OTHER, make_entry
from skillwire.catalog import Changes, HostSkill, Naming, SkillKey, SkillTable
from skillwire.catalog.table import copies_of, without_copies
from skillwire.errors import AmbiguousName, FormatError, SkillNotFound
from skillwire.skill import SkillEntry, parse_uri
from skillwire.trust import Origin

REFUNDS = make_entry("skill://refunds/SKILL.md")
DEEP_REFUNDS = make_entry("skill://acme/refunds/SKILL.md", {"deep.md": b"deeper"})
OTHER_REFUNDS = make_entry("skill://refunds/SKILL.md", {"other.md": b"other"})
INVOICES = make_entry("skill://invoices/SKILL.md")


def handles(registry: SkillTable) -> list[str]:
    return [skill.handle for skill in registry.skills()]


def shown(skills: tuple[HostSkill, ...]) -> list[str]:
    return [skill.handle for skill in skills]


@pytest.mark.requirement("ENT-5")
def test_a_unique_name_stays_bare() -> None:
    registry = SkillTable()
    changes = registry.replace(DEMO, [REFUNDS, INVOICES])
    assert shown(changes.added) == ["refunds", "invoices"]
    assert handles(registry) == ["invoices", "refunds"]
    skill = registry.find("refunds")
    assert (skill.origin, skill.uri, skill.entry, skill.enabled, skill.listed) == (
        DEMO,
        REFUNDS.uri,
        REFUNDS,
        True,
        True,
    )


@pytest.mark.requirement("ENT-4", "ENT-5")
def test_a_collision_shows_both_qualified_and_the_old_handle_keeps_meaning_the_first() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    changes = registry.replace(OTHER, [OTHER_REFUNDS])
    assert handles(registry) == ["demo/refunds", "other/refunds"]
    assert registry.find("refunds").origin == DEMO
    assert registry.find("other/refunds").origin == OTHER
    (collision,) = changes.collisions
    assert str(collision) == (
        "2 skills are called refunds; they are shown as demo/refunds from MCP server demo, "
        "other/refunds from MCP server other"
    )


@pytest.mark.requirement("ENT-5")
@pytest.mark.parametrize(("first", "second"), [(LOCAL, DEMO), (DEMO, LOCAL), (DEMO, OTHER)])
def test_shadowing_fails_in_each_direction(first: Origin, second: Origin) -> None:
    registry = SkillTable()
    registry.replace(first, [REFUNDS])
    registry.replace(second, [REFUNDS])
    registry.clear(first)
    assert handles(registry) == [f"{second.label}/refunds"]
    with pytest.raises(
        SkillNotFound, match=f"no skill is called refunds: did you mean {second.label}/refunds"
    ):
        registry.find("refunds")
    registry.replace(first, [REFUNDS])
    assert registry.find("refunds").origin == first
    assert handles(registry) == sorted(handles(registry)) or first.is_local or second.is_local
    assert "refunds" not in handles(registry)


@pytest.mark.requirement("ENT-5")
def test_a_name_that_belonged_to_another_skill_is_not_reused() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    registry.clear(DEMO)
    registry.replace(OTHER, [REFUNDS])
    assert handles(registry) == ["other/refunds"]


@pytest.mark.requirement("ENT-5")
def test_two_skills_that_arrive_together_are_both_qualified_and_the_bare_name_is_ambiguous() -> None:
    registry = SkillTable()
    registry.replace_many({DEMO: [REFUNDS], LOCAL: [make_entry(REFUNDS.uri, {"own.md": b"own"})]})
    assert handles(registry) == ["local/refunds", "demo/refunds"]
    with pytest.raises(AmbiguousName) as caught:
        registry.find("refunds")
    assert caught.value.candidates == ("demo/refunds", "local/refunds")
    assert str(caught.value) == "refunds fits several skills: say which one of demo/refunds, local/refunds"
    assert caught.value.exit_code == 8


@pytest.mark.requirement("ENT-5")
def test_copies_of_the_same_files_are_one_skill_by_name_and_the_local_one_is_meant() -> None:
    registry = SkillTable()
    elsewhere = make_entry("skill://acme/refunds/SKILL.md")
    registry.replace_many({OTHER: [REFUNDS], DEMO: [elsewhere], LOCAL: [REFUNDS]})
    assert [registry.find("refunds").origin for _ in range(2)] == [LOCAL, LOCAL]
    copies = copies_of(registry.skills())
    assert {key.origin: [copy.origin for copy in group] for key, group in copies.items()} == {
        LOCAL: [DEMO, OTHER]
    }
    assert [skill.origin for skill in without_copies(registry.skills())] == [LOCAL]
    # A host style may have another order: the user's own files stand for their copies all the same.
    assert copies_of(reversed(registry.skills())) == copies
    registry.clear(LOCAL)
    assert registry.find("refunds").origin == DEMO
    # One of them changes: the name is ambiguous again.
    registry.replace(DEMO, [DEEP_REFUNDS])
    with pytest.raises(AmbiguousName):
        registry.find("refunds")


@pytest.mark.requirement("ENT-5")
def test_copies_are_no_collision_until_one_of_them_changes() -> None:
    registry = SkillTable()
    assert registry.replace_many({DEMO: [REFUNDS], OTHER: [REFUNDS]}).collisions == ()
    assert registry.replace(LOCAL, [REFUNDS]).collisions == ()
    assert registry.replace(DEMO, [REFUNDS, INVOICES]).collisions == ()
    # The one that stands for its copies, and the one that differs.
    (collision,) = registry.replace(DEMO, [OTHER_REFUNDS]).collisions
    assert shown(collision.skills) == ["demo/refunds", "local/refunds"]
    assert registry.replace(OTHER, [REFUNDS, INVOICES]).collisions == ()
    # Another one stands for them now, which nobody was told of.
    (collision,) = registry.clear(LOCAL).collisions
    assert shown(collision.skills) == ["demo/refunds", "other/refunds"]


@pytest.mark.requirement("ENT-5")
def test_a_skill_without_digests_is_no_copy() -> None:
    registry = SkillTable()
    registry.replace_many({DEMO: [make_entry(dynamic=True)], OTHER: [make_entry(dynamic=True)]})
    assert copies_of(registry.skills()) == {}
    with pytest.raises(AmbiguousName):
        registry.find("refunds")


@pytest.mark.requirement("ENT-5")
def test_two_skills_of_one_name_on_one_server_are_distinguished_by_path() -> None:
    registry = SkillTable()
    changes = registry.replace(DEMO, [REFUNDS, DEEP_REFUNDS])
    assert handles(registry) == ["demo:acme/refunds", "demo:refunds"]
    assert [collision.handle for collision in changes.collisions] == ["refunds"]
    with pytest.raises(AmbiguousName):
        registry.find("demo/refunds")


@pytest.mark.requirement("ENT-5")
def test_a_qualified_handle_keeps_its_meaning_too() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    registry.replace(OTHER, [REFUNDS])
    registry.replace(DEMO, [REFUNDS, DEEP_REFUNDS])
    assert handles(registry) == ["demo:acme/refunds", "demo:refunds", "other/refunds"]
    assert registry.find("demo/refunds").uri == REFUNDS.uri
    assert registry.find("refunds").uri == REFUNDS.uri


def test_skills_that_share_even_their_path_get_distinct_marks() -> None:
    registry = SkillTable()
    twin = dataclasses.replace(REFUNDS, uri=parse_uri("other://refunds/SKILL.md"))
    registry.replace(DEMO, [REFUNDS, twin])
    first, second = registry.skills()
    assert first.handle != second.handle
    assert first.handle.startswith("demo/refunds~")
    assert registry.find(second.handle).uri == second.uri


def test_the_longest_handle_is_used_when_a_short_mark_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skillwire.catalog.table._SHORT_MARK", 0)
    registry = SkillTable()
    twin = dataclasses.replace(REFUNDS, uri=parse_uri("other://refunds/SKILL.md"))
    registry.replace(DEMO, [REFUNDS, twin])
    assert all(len(handle) == len("demo/refunds~") + 64 for handle in handles(registry))


@pytest.mark.requirement("ENT-5")
def test_names_that_differ_in_case_alone_collide() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    loud = dataclasses.replace(DEEP_REFUNDS, frontmatter={"name": "REFUNDS"})
    changes = registry.replace(OTHER, [loud])
    assert handles(registry) == ["demo/refunds", "other/REFUNDS"]
    assert len(changes.collisions) == 1


@pytest.mark.requirement("ENT-5")
def test_a_collision_is_reported_once_and_again_when_a_third_joins() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    assert len(registry.replace(OTHER, [OTHER_REFUNDS]).collisions) == 1
    assert registry.replace(OTHER, [OTHER_REFUNDS]) == Changes()
    (collision,) = registry.replace(LOCAL, [DEEP_REFUNDS]).collisions
    assert [skill.origin for skill in collision.skills] == [DEMO, OTHER, LOCAL]


def test_a_qualified_name_finds_a_skill_that_is_shown_bare_and_then_stays_its_name() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    assert registry.find("demo/refunds").handle == "refunds"
    registry.replace(DEMO, [DEEP_REFUNDS])
    with pytest.raises(SkillNotFound):
        registry.find("demo/refunds")


@pytest.mark.requirement("ENT-5")
def test_a_naming_may_let_one_of_them_keep_the_bare_name() -> None:
    def local_first(claimants: object) -> SkillKey | None:
        assert isinstance(claimants, list)
        return next((key for key in claimants if key.origin.is_local), None)

    registry = SkillTable(Naming(keeper=local_first))
    changes = registry.replace_many({DEMO: [OTHER_REFUNDS], LOCAL: [REFUNDS]})
    assert handles(registry) == ["refunds", "demo/refunds"]
    assert registry.find("refunds").origin == LOCAL
    assert len(changes.collisions) == 1
    late = SkillTable(Naming(keeper=local_first))
    late.replace(DEMO, [REFUNDS])
    late.replace(LOCAL, [REFUNDS])
    assert late.find("refunds").origin == DEMO


def test_replacing_a_listing_says_what_it_did() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS, INVOICES])
    newer = make_entry("skill://refunds/SKILL.md", {"new.md": b""})
    changes = registry.replace(DEMO, [newer, DEEP_REFUNDS])
    assert shown(changes.added) == ["demo:acme/refunds"]
    assert [skill.entry for skill in changes.changed] == [newer]
    assert [skill.entry for skill in changes.removed] == [INVOICES]
    assert shown(registry.clear(DEMO).removed) == ["demo:refunds", "demo:acme/refunds"]
    assert registry.skills() == ()


def test_an_unchanged_listing_changes_nothing_and_notifies_nobody() -> None:
    registry = SkillTable()
    first = make_entry(fields={"level": 1})
    registry.replace_many({DEMO: [first], OTHER: [REFUNDS]})
    before = registry.skills()
    heard: list[Changes] = []
    registry.watch(heard.append)
    # To Python 1 is True, to a digest of the frontmatter it is not: the later words are those that count.
    again = make_entry(fields={"level": True})
    assert registry.replace(DEMO, [again]) == Changes()
    assert heard == []
    assert registry.skills() == before
    assert registry.find_uri(first.uri, "demo").entry is again
    listed = registry.skills()
    assert registry.replace(DEMO, [again]) == Changes()
    assert registry.skills() is listed


def test_of_a_skill_listed_twice_the_first_is_used() -> None:
    registry = SkillTable()
    newer = make_entry("skill://refunds/SKILL.md", {"new.md": b""})
    registry.replace(DEMO, [REFUNDS, newer, newer])
    assert registry.find("refunds").entry == REFUNDS


@pytest.mark.requirement("LST-3")
def test_a_skill_found_by_its_uri_outlives_a_partial_listing() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    assert shown(registry.add(DEMO, INVOICES).added) == ["invoices"]
    registry.replace(DEMO, [])
    assert handles(registry) == ["invoices"]
    assert not registry.find("invoices").listed
    registry.replace(DEMO, [INVOICES])
    assert registry.find("invoices").listed
    newer = make_entry("skill://invoices/SKILL.md", {"new.md": b""})
    assert [skill.listed for skill in registry.add(DEMO, newer).changed] == [True]
    registry.clear(DEMO)
    assert handles(registry) == []


def test_skills_are_disabled_one_by_one() -> None:
    registry = SkillTable()
    key = SkillKey(DEMO, REFUNDS.uri)
    registry.set_enabled(key, False)
    registry.replace(DEMO, [REFUNDS, INVOICES])
    assert handles(registry) == ["invoices"]
    assert shown(registry.skills(disabled=True)) == ["invoices", "refunds"]
    for call in (lambda: registry.find("refunds"), lambda: registry.find("demo/refunds")):
        with pytest.raises(SkillNotFound, match="is disabled"):
            call()
    with pytest.raises(SkillNotFound, match="is disabled"):
        registry.find_uri(REFUNDS.uri)
    skill = registry.get(key)
    assert skill is not None
    assert not skill.enabled
    registry.set_enabled(key, True)
    assert registry.find("refunds").enabled
    assert registry.get(SkillKey(OTHER, REFUNDS.uri)) is None


@pytest.mark.requirement("ENT-4", "LST-3")
def test_a_uri_on_two_servers_needs_the_server() -> None:
    registry = SkillTable()
    registry.replace_many({DEMO: [REFUNDS], OTHER: [REFUNDS], LOCAL: [INVOICES]})
    with pytest.raises(
        AmbiguousName, match=r"skill://refunds/SKILL.md fits several .* demo/refunds, other/refunds"
    ):
        registry.find_uri(REFUNDS.uri)
    assert registry.find_uri(REFUNDS.uri, "other").origin == OTHER
    assert registry.find_uri(INVOICES.uri).origin == LOCAL
    registry.set_enabled(SkillKey(DEMO, REFUNDS.uri), False)
    assert registry.find_uri(REFUNDS.uri).origin == OTHER
    for label, place in ((None, "is known:"), ("third", "is known on third:")):
        with pytest.raises(SkillNotFound, match=place) as caught:
            registry.find_uri(DEEP_REFUNDS.uri, label)
        assert caught.value.uri == DEEP_REFUNDS.uri
    assert registry.uris(DEMO) == {REFUNDS.uri}


def test_a_name_that_nobody_has_is_answered_with_those_like_it() -> None:
    registry = SkillTable()
    registry.replace_many({DEMO: [REFUNDS, INVOICES], OTHER: [REFUNDS]})
    with pytest.raises(SkillNotFound, match="did you mean demo/refunds or other/refunds"):
        registry.find("Refund")
    with pytest.raises(SkillNotFound, match="list the skills to see their names") as caught:
        registry.find("\x1b[2J" + "z" * 500)
    assert str(caught.value).isprintable()


@pytest.mark.requirement("ENT-5", "SEC-1")
@pytest.mark.parametrize("origin", [Origin.local("demo"), Origin.mcp("Demo")])
def test_a_label_belongs_to_one_origin_for_good(origin: Origin) -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    registry.clear(DEMO)
    with pytest.raises(FormatError, match="has the label of MCP server demo"):
        registry.replace(origin, [REFUNDS])
    with pytest.raises(FormatError, match="has the label of MCP server demo"):
        registry.add(origin, REFUNDS)
    assert registry.skills() == ()


ENTRIES = [
    make_entry("skill://a/SKILL.md"),
    make_entry("skill://x/a/SKILL.md"),
    make_entry("skill://demo/a/SKILL.md"),
    make_entry("other://x/a/SKILL.md"),
    make_entry("skill://b/SKILL.md"),
    dataclasses.replace(make_entry("skill://c/SKILL.md"), frontmatter={"name": "A\u200b"}),
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["replace", "add", "clear"]),
        st.sampled_from([DEMO, OTHER, LOCAL]),
        st.lists(st.sampled_from(ENTRIES), max_size=4),
    ),
    max_size=8,
)


@pytest.mark.requirement("ENT-4", "ENT-5")
@examples(200)
@given(STEPS)
def test_a_handle_is_unique_and_never_changes_its_meaning(
    steps: list[tuple[str, Origin, list[SkillEntry]]],
) -> None:
    registry = SkillTable()
    meanings: dict[str, SkillKey] = {}
    for verb, origin, entries in steps:
        if verb == "replace":
            registry.replace(origin, entries)
        elif verb == "add":
            for entry in entries:
                registry.add(origin, entry)
        else:
            registry.clear(origin)
        skills = registry.skills()
        assert len({skill.handle for skill in skills}) == len(skills)
        for skill in skills:
            assert meanings.setdefault(skill.handle, skill.key) == skill.key
            assert registry.find(skill.handle).key == skill.key
        for handle, key in meanings.items():
            if registry.get(key) is None:
                with pytest.raises(SkillNotFound):
                    registry.find(handle)
            else:
                assert registry.find(handle).key == key


def test_the_same_skills_are_given_until_something_changes() -> None:
    registry = SkillTable()
    registry.replace(DEMO, [REFUNDS])
    first = registry.skills()
    assert registry.skills() is first
    registry.replace(OTHER, [INVOICES])
    assert len(registry.skills()) == 2
    registry.set_enabled(SkillKey(OTHER, INVOICES.uri), False)
    assert [skill.entry for skill in registry.skills()] == [REFUNDS]
    assert len(registry.skills(disabled=True)) == 2
    assert (registry.uris(DEMO), registry.uris(OTHER)) == ({REFUNDS.uri}, {INVOICES.uri})
    registry.clear(OTHER)
    assert registry.uris(OTHER) == frozenset()
    assert [skill.entry for skill in registry.skills(disabled=True)] == [REFUNDS]


def test_watchers_are_notified_of_every_update() -> None:
    registry = SkillTable()
    heard: list[Changes] = []
    registry.watch(heard.append)
    made = [
        registry.replace(DEMO, [make_entry()]),
        registry.add(DEMO, make_entry(description="Changed.")),
        registry.clear(DEMO),
    ]
    assert heard == made
    assert [len(changes.added + changes.changed + changes.removed) for changes in heard] == [1, 1, 1]
