from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skillwire.errors
from sample_entries import DEMO, REFUNDS, checked, file_uri, loaded, make_entry, read, skill_md
from skillwire.documents import JsonValue
from skillwire.errors import (
    DigestMismatch,
    FormatError,
    FrontmatterMismatch,
    LimitExceeded,
    SizeMismatch,
    UnlistedFile,
    VerificationError,
)
from skillwire.limits import Limits
from skillwire.skill import (
    DYNAMIC,
    NO_SIZE,
    Dialect,
    DraftDetails,
    SkillEntry,
    SkillResource,
    SkillUri,
    digest_of,
    parse_uri,
)
from skillwire.trust import (
    VerifiedFile,
    VerifiedSkill,
    check_entry,
    excess,
    manifest_issues,
    verify_file,
    verify_skill_md,
)

GUIDE = {"references/GUIDE.md": b"# Guide\n"}
GUIDE_URI = parse_uri("skill://acme/refunds/references/GUIDE.md")


def with_resources(change: Callable[[tuple[SkillResource, ...]], tuple[SkillResource, ...]]) -> SkillEntry:
    entry = make_entry(files=GUIDE)
    assert entry.resources is not DYNAMIC
    return dataclasses.replace(entry, resources=change(entry.resources))


def resource(uri: str, size: int = 1) -> SkillResource:
    return SkillResource(parse_uri(uri), digest_of(uri.encode()), size)


@pytest.mark.requirement("ENT-2", "FMT-8")
def test_a_complete_entry_is_accepted_nested_skills_and_all() -> None:
    entry = make_entry(files={**GUIDE, "inner/SKILL.md": skill_md("inner"), "inner/a b%.txt": b""})
    assert check_entry(entry) is entry
    assert check_entry(make_entry(dynamic=True)).is_dynamic


@pytest.mark.requirement("ENT-2")
@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda files: (), ["resource-no-skill-md"]),
        (lambda files: files[1:], ["resource-no-skill-md"]),
        (lambda files: (*files, files[1]), ["resource-twice"]),
        (lambda files: (*files, resource("skill://acme/other/x")), ["resource-outside"]),
        (lambda files: (*files, resource("skill://acme/refunds-2/x")), ["resource-outside"]),
        (lambda files: (*files, resource("skill://evil/refunds/x")), ["resource-outside"]),
        (lambda files: (*files, resource("other://acme/refunds/x")), ["resource-outside"]),
        (lambda files: (*files, resource("skill://acme/refunds")), ["resource-outside"]),
        (lambda files: (*files, resource("skill://acme/refunds/x", -1)), ["resource-size"]),
        (lambda files: (*files, resource("skill://acme/refunds/x", 2**53)), ["resource-size"]),
        (lambda files: (*files, resource("skill://acme/refunds/SKILL.md/d/x")), ["resource-in-file"]),
        # FMT-9: no set of files with such a name has a digest, so nobody could approve the skill.
        (lambda files: (*files, resource("skill://acme/refunds/a%0Ab")), ["resource-path"]),
        (
            lambda files: (files[1], files[1], resource("skill://acme/x", -1)),
            ["resource-outside", "resource-twice", "resource-no-skill-md", "resource-size"],
        ),
    ],
)
def test_an_entry_that_is_not_the_whole_skill_is_refused_with_every_issue(
    change: Callable[[tuple[SkillResource, ...]], tuple[SkillResource, ...]], rules: list[str]
) -> None:
    with pytest.raises(FormatError) as caught:
        check_entry(with_resources(change))
    assert [issue.rule for issue in caught.value.issues] == rules


@pytest.mark.requirement("ENT-2")
@pytest.mark.parametrize(
    ("paths", "rules"),
    [
        (["SKILL.md", "100%.md", "%0A", "a/SKILL.md"], []),
        ([], ["resource-no-skill-md"]),
        (["a/SKILL.md"], ["resource-no-skill-md"]),
        (["SKILL.md", "SKILL.md"], ["resource-twice"]),
        (["SKILL.md", "SKILL.md/x"], ["resource-in-file"]),
        (["SKILL.md", "../x", "a\\b", "a\nb", "/a"], ["resource-path"] * 4),
    ],
)
def test_a_list_of_paths_follows_the_same_rules(paths: list[str], rules: list[str]) -> None:
    issues = manifest_issues(paths)
    assert [issue.rule for issue in issues] == rules
    assert all(issue.fix and issue.message.isprintable() for issue in issues)


@pytest.mark.requirement("ENT-6")
def test_a_skill_is_too_large_by_its_files_or_by_its_bytes() -> None:
    assert excess(512, 16 * 2**20) is None
    assert excess(513, 0) == ("files", 513, 512)
    assert excess(1, 16 * 2**20 + 1) == ("bytes", 16 * 2**20 + 1, 16 * 2**20)


@pytest.mark.requirement("FMT-1", "FMT-2", "FMT-3")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("frontmatter", "rules"),
    [
        ({"name": "refund"}, ["name-not-directory"]),
        ({"name": "Refunds"}, ["name-characters", "name-not-directory"]),
        ({"name": None}, ["name-empty", "name-not-directory"]),
        ({"description": ""}, ["description-missing"]),
        ({"description": 3}, ["description-missing"]),
    ],
)
def test_an_entry_whose_frontmatter_does_not_name_the_skill_is_refused(
    frontmatter: dict[str, str], rules: list[str], dynamic: bool
) -> None:
    entry = make_entry(dynamic=dynamic)
    entry = dataclasses.replace(entry, frontmatter={**entry.frontmatter, **frontmatter})
    with pytest.raises(FormatError) as caught:
        check_entry(entry)
    assert [issue.rule for issue in caught.value.issues] == rules


@pytest.mark.parametrize("uri", ["skill://acme/refunds", "skill://SKILL.md"])
def test_an_entry_that_is_not_named_by_a_skill_md_in_a_directory_is_refused(uri: str) -> None:
    entry = dataclasses.replace(make_entry(dynamic=True), uri=SkillUri(uri))
    with pytest.raises(FormatError):
        check_entry(entry)


def test_an_older_dialect_is_asked_only_for_the_fields_that_it_carried() -> None:
    bare = dataclasses.replace(make_entry(), frontmatter={}, draft=_draft(frozenset()))
    assert check_entry(bare) is bare
    with pytest.raises(FormatError, match="no description"):
        check_entry(dataclasses.replace(bare, draft=_draft(frozenset({"description"}))))


def test_a_dialect_that_lists_no_sizes_is_held_to_its_digests_alone() -> None:
    entry = make_entry()
    unsized = tuple(dataclasses.replace(file, size=NO_SIZE) for file in _files(entry))
    draft = dataclasses.replace(entry, resources=unsized, draft=_draft(None))
    assert verify_skill_md(check_entry(draft), skill_md(), DEMO).file.size == len(skill_md())
    with pytest.raises(DigestMismatch):
        verify_skill_md(check_entry(draft), skill_md() + b"more", DEMO)
    with pytest.raises(FormatError, match="not a number of bytes"):
        check_entry(dataclasses.replace(entry, resources=unsized))


def test_a_digest_that_an_older_dialect_gave_counts_although_its_list_is_not_complete() -> None:
    entry = make_entry(dynamic=True)
    known = ((entry.uri, digest_of(skill_md())),)
    draft = dataclasses.replace(
        entry, draft=DraftDetails(dialect=Dialect.INDEX_WITH_FRONTMATTER, digests=known)
    )
    assert not verify_skill_md(check_entry(draft), skill_md(), DEMO).file.bound
    with pytest.raises(DigestMismatch):
        verify_skill_md(check_entry(draft), skill_md(body="# Other\n"), DEMO)


@pytest.mark.parametrize("data", [b"# Refunds\n", b"\xef\xbb\xbf# Refunds\n", b"\xff"])
def test_a_dialect_without_frontmatter_does_not_ask_for_any(data: bytes) -> None:
    entry = dataclasses.replace(make_entry(files={"SKILL.md": data}), draft=_draft(frozenset()))
    skill = verify_skill_md(check_entry(entry), data, DEMO)
    assert (skill.frontmatter, skill.body_line) == ({}, 1)


def _draft(carried: frozenset[str] | None) -> DraftDetails:
    return DraftDetails(dialect=Dialect.INDEX, carried=carried)


def _files(entry: SkillEntry) -> tuple[SkillResource, ...]:
    assert entry.resources is not DYNAMIC
    return entry.resources


@pytest.mark.requirement("ENT-6")
def test_a_skill_at_the_limits_is_accepted_and_one_beyond_is_declined_from_the_entry_alone() -> None:
    limits = Limits()
    most = make_entry(files={f"{number}": b"" for number in range(511)})
    assert check_entry(most) is most
    with pytest.raises(
        LimitExceeded, match=r"has 513 files, at most 512 are loaded: .* raise files_per_skill"
    ):
        check_entry(make_entry(files={f"{number}": b"" for number in range(512)}))
    rest = limits.bytes_per_skill - len(skill_md())

    def heavy(size: int) -> SkillEntry:
        return with_resources(lambda files: (files[0], dataclasses.replace(files[1], size=size)))

    assert check_entry(heavy(rest)).total_size == limits.bytes_per_skill
    with pytest.raises(LimitExceeded, match=r"bytes, at most 16777216 are loaded: .* raise bytes_per_skill"):
        check_entry(heavy(rest + 1))


@pytest.mark.requirement("VER-1", "ENT-3")
def test_a_file_that_is_what_the_entry_says_is_given_out_with_its_origin() -> None:
    file = verify_file(checked(files=GUIDE), GUIDE_URI, b"# Guide\n", DEMO)
    assert (file.origin, file.skill, file.uri, file.path) == (DEMO, REFUNDS, GUIDE_URI, "references/GUIDE.md")
    assert (file.data, file.size, file.digest, file.bound) == (b"# Guide\n", 8, digest_of(b"# Guide\n"), True)
    assert file.text == "# Guide\n"


@pytest.mark.requirement("VER-1")
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"# Guide", SizeMismatch),
        (b"# Guide\n\n", SizeMismatch),
        (b"", SizeMismatch),
        (b"# Guile\n", DigestMismatch),
    ],
)
def test_other_bytes_than_the_entry_says_are_refused(data: bytes, error: type[VerificationError]) -> None:
    with pytest.raises(error) as caught:
        verify_file(checked(files=GUIDE), GUIDE_URI, data, DEMO)
    assert caught.value.uri == GUIDE_URI


@pytest.mark.requirement("VER-1")
@given(st.binary(max_size=20), st.binary(max_size=20))
def test_bytes_pass_just_when_they_are_the_listed_ones(listed: bytes, sent: bytes) -> None:
    entry = checked(files={"x": listed})
    try:
        passed = verify_file(entry, file_uri(entry.uri, "x"), sent, DEMO).data
    except VerificationError:
        passed = None
    assert passed == (sent if sent == listed else None)


@pytest.mark.requirement("VER-3")
@pytest.mark.parametrize(
    "uri",
    [
        "skill://acme/refunds/references/OTHER.md",
        "skill://acme/refunds",
        "skill://acme/other/SKILL.md",
        "skill://evil/x",
    ],
)
def test_a_file_that_the_entry_does_not_list_is_refused(uri: str) -> None:
    with pytest.raises(UnlistedFile) as caught:
        verify_file(checked(files=GUIDE), parse_uri(uri), b"", DEMO)
    assert caught.value.skill == REFUNDS


@pytest.mark.requirement("ENT-6")
def test_a_dynamic_skill_has_no_digests_but_a_budget_for_all_that_it_sends() -> None:
    entry = checked(dynamic=True)
    limits = Limits(bytes_per_skill=10)
    first = verify_file(entry, GUIDE_URI, b"123456", DEMO, limits=limits)
    assert (first.bound, first.digest, first.path) == (False, digest_of(b"123456"), "references/GUIDE.md")
    second = verify_file(entry, GUIDE_URI, b"1234", DEMO, retrieved=first.size, limits=limits)
    assert second.size == 4
    with pytest.raises(LimitExceeded, match="more than 10 bytes: it is cut off"):
        verify_file(entry, GUIDE_URI, b"12345", DEMO, retrieved=first.size, limits=limits)
    for outside in ("skill://acme/other/x", "skill://acme/refunds/a%0Ab"):
        with pytest.raises(UnlistedFile):
            verify_file(entry, parse_uri(outside), b"", DEMO)


@pytest.mark.requirement("VER-2", "ENT-1")
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_skill_md_with_the_frontmatter_of_its_entry_is_parsed(dynamic: bool) -> None:
    skill = loaded("# Refunds\r\n\nText.", dynamic=dynamic)
    assert skill.body == "# Refunds\r\n\nText."
    assert skill.body_line == 5
    assert skill.frontmatter == {"name": "refunds", "description": "Pays money back."}
    assert (skill.origin, skill.file.uri, skill.entry.uri) == (DEMO, REFUNDS, REFUNDS)


@pytest.mark.requirement("VER-2")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: refunds\ndescription: Takes money.", "description is"),
        ("name: refunds\ndescription: Pays money back.\nhooks: {stop: rm}", "hooks is not in the entry"),
        ("name: refunds", "description is missing in the file"),
        ("name: other\ndescription: Pays money back.", "name is"),
        ("name: refunds\ndescription: Pays money back.\nx: null", "x is not in the entry"),
    ],
)
def test_frontmatter_that_lies_refuses_the_skill(text: str, said: str, dynamic: bool) -> None:
    data = f"---\n{text}\n---\n".encode()
    entry = checked(files={"SKILL.md": data}, dynamic=dynamic)
    with pytest.raises(FrontmatterMismatch, match=said):
        verify_skill_md(entry, data, DEMO)


@pytest.mark.requirement("VER-2")
def test_values_are_compared_as_yaml_1_2_and_json_have_them() -> None:
    data = b"---\nname: refunds\ndescription: d\nversion: 1.0\non: yes\ndate: 2024-01-01\nn: true\n---\n"
    fields: dict[str, JsonValue] = {"version": 1, "on": "yes", "date": "2024-01-01", "n": True}
    entry = make_entry(files={"SKILL.md": data}, description="d", fields=fields)
    assert verify_skill_md(check_entry(entry), data, DEMO).frontmatter["on"] == "yes"
    lying = make_entry(files={"SKILL.md": data}, description="d", fields={**fields, "n": 1})
    with pytest.raises(FrontmatterMismatch, match="n is true, the entry says 1"):
        verify_skill_md(check_entry(lying), data, DEMO)


@pytest.mark.requirement("VER-2")
def test_an_older_dialect_may_list_fewer_fields_than_the_file_has() -> None:
    data = b"---\nname: refunds\ndescription: Pays money back.\nlicense: MIT\n---\n"
    entry = checked(files={"SKILL.md": data})
    with pytest.raises(FrontmatterMismatch):
        verify_skill_md(entry, data, DEMO)
    carried = dataclasses.replace(entry, draft=_draft(frozenset({"name", "description"})))
    skill = verify_skill_md(check_entry(carried), data, DEMO)
    assert skill.frontmatter["license"] == "MIT"


def test_a_skill_md_that_cannot_be_read_is_the_authors_to_fix() -> None:
    entry = checked(files={"SKILL.md": b"# no frontmatter"})
    with pytest.raises(FormatError, match="frontmatter"):
        verify_skill_md(entry, b"# no frontmatter", DEMO)


@pytest.mark.requirement("FMT-8")
def test_a_nested_skill_md_read_as_a_supporting_file_is_plain_markdown() -> None:
    nested = b"---\nname: [not, even, a, name\n---\n"
    assert read("inner/SKILL.md", nested).text == nested.decode()


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("é\r\n".encode(), "é\r\n"), (b"\xff\xfe", None), (b"a\0b", None)],
)
def test_a_file_is_text_or_binary(data: bytes, text: str | None) -> None:
    assert read("x", data).text == text


@pytest.mark.requirement("VER-1")
def test_nothing_but_verification_makes_a_verified_value() -> None:
    file, skill = read("x", b"x"), loaded()
    with pytest.raises(TypeError, match="made by verify_file alone"):
        VerifiedFile(
            origin=DEMO,
            skill=REFUNDS,
            uri=REFUNDS,
            path="",
            data=b"",
            digest=digest_of(b""),
            bound=True,
            seal=None,
        )
    with pytest.raises(TypeError, match="made by verify_skill_md alone"):
        VerifiedSkill(entry=checked(), file=file, frontmatter={}, body="", body_line=1, seal=object())
    for value, change in ((file, {"data": b"evil"}), (skill, {"body": "evil"})):
        with pytest.raises((TypeError, ValueError)):
            dataclasses.replace(value, **change)
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copy.copy(value)
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            pickle.dumps(value)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, next(iter(change)), b"evil")
        with pytest.raises(TypeError, match="has no subclasses"):
            type("Fake", (type(value),), {})


@pytest.mark.requirement("VER-8")
def test_no_error_calls_anything_trusted_or_safe_and_each_says_what_to_do() -> None:
    errors = [
        SizeMismatch(uri="u", expected=1, actual=2),
        DigestMismatch(uri="u", expected="a", actual="b"),
        FrontmatterMismatch(uri="u", differences=["x is 1, the entry says 2"]),
        UnlistedFile(uri="u", skill="s"),
    ]
    kinds = {kind for kind in vars(skillwire.errors).values() if isinstance(kind, type)}
    assert {type(error) for error in errors} == {
        kind for kind in kinds if issubclass(kind, VerificationError) and kind is not VerificationError
    }
    for error in errors:
        assert error.exit_code == 6
        assert "\n" not in str(error)
        assert not re.search(r"\b(trusted|safe|secure|genuine|authentic)\b", str(error))
        assert re.search(r"; (refresh|ask)", str(error))
