"""Fields: what every host refuses is an error, what most accept a warning, the rest advice."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from skillwire.errors import FormatError, Severity
from skillwire.skill import field_issues, parse_skill_md, read_fields
from skillwire.skill.fields import local_fields

GOOD: dict[str, Any] = {"name": "refunds", "description": "Refund an order. Use when a customer asks."}


def found(directory: str | None = "refunds", **changes: Any) -> list[tuple[str, Severity]]:
    """The rules that good fields break when some are changed; `...` takes a field out."""
    fields = GOOD | {key.replace("_", "-"): value for key, value in changes.items()}
    fields = {key: value for key, value in fields.items() if value is not ...}
    issues = field_issues(fields, directory=directory, file="SKILL.md")
    assert all(issue.file == "SKILL.md" and issue.message and issue.fix for issue in issues)
    assert all(str(issue).isprintable() and len(str(issue)) < 600 for issue in issues)
    return [(issue.rule, issue.severity) for issue in issues]


def error(*rules: str) -> list[tuple[str, Severity]]:
    return [(rule, Severity.ERROR) for rule in rules]


def warning(*rules: str) -> list[tuple[str, Severity]]:
    return [(rule, Severity.WARNING) for rule in rules]


def advice(*rules: str) -> list[tuple[str, Severity]]:
    return [(rule, Severity.ADVICE) for rule in rules]


@pytest.mark.requirement("FMT-1", "FMT-2")
def test_good_fields_have_no_issues() -> None:
    assert found() == []
    assert found(directory=None, name="any-name") == []
    assert (
        found(
            license="MIT",
            compatibility="Needs git",
            metadata={"author": "acme", "version": "1.0"},
            allowed_tools="Bash(git:*) Read",
        )
        == []
    )


@pytest.mark.requirement("FMT-2")
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        (..., ["name-missing"]),
        (None, ["name-type"]),
        (7, ["name-type"]),
        (True, ["name-type"]),
        (["refunds"], ["name-type"]),
        ({}, ["name-type"]),
        ("", ["name-empty"]),
        ("Refunds", ["name-characters"]),
        ("refunds ", ["name-characters"]),
        ("x" * 65, ["name-too-long"]),
        ("\x1b" * 900, ["name-too-long", "name-characters"]),
    ],
)
def test_a_bad_name_is_an_error(name: object, rules: list[str]) -> None:
    assert [issue for issue in found(name=name) if issue[1] is Severity.ERROR] == error(*rules)


@pytest.mark.requirement("FMT-2")
def test_a_good_name_that_is_not_the_directorys_is_a_warning() -> None:
    assert found(name="other") == warning("name-not-directory")


@pytest.mark.requirement("FMT-2")
def test_a_name_that_is_not_its_directory_names_both() -> None:
    (issue,) = field_issues(GOOD, directory="payments", file="SKILL.md")
    assert "`refunds`" in issue.message
    assert "`payments`" in issue.message


@pytest.mark.requirement("FMT-2")
def test_a_name_in_another_normal_form_than_its_directory_is_reported() -> None:
    fields = GOOD | {"name": "café"}
    (issue,) = field_issues(fields, directory=unicodedata.normalize("NFD", "café"), file="SKILL.md")
    assert issue.rule == "name-not-directory"
    assert "normal forms" in issue.message


@pytest.mark.requirement("FMT-2")
@pytest.mark.parametrize(
    ("description", "rules"),
    [
        (..., ["description-missing"]),
        (None, ["description-type"]),
        (1.5, ["description-type"]),
        ({"a": "b"}, ["description-type"]),
        ("", ["description-empty"]),
        (" \n\t", ["description-empty"]),
        ("x" * 1024, []),
        ("é" * 1024, []),
    ],
)
def test_a_bad_description_is_an_error(description: object, rules: list[str]) -> None:
    assert found(description=description) == error(*rules)


@pytest.mark.requirement("FMT-2")
def test_a_description_that_is_too_long_is_a_warning() -> None:
    assert found(description="x" * 1025) == warning("description-too-long")


@pytest.mark.requirement("FMT-2")
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("license", 2, error("license-type")),
        ("license", None, advice("license-blank")),
        ("license", "", []),
        ("compatibility", ["git"], error("compatibility-type")),
        ("compatibility", None, advice("compatibility-blank")),
        ("compatibility", "", advice("compatibility-length")),
        ("compatibility", "x" * 500, []),
        ("compatibility", "x" * 501, advice("compatibility-length")),
        ("metadata", "text", error("metadata-type")),
        ("metadata", ["a"], error("metadata-type")),
        ("metadata", None, advice("metadata-blank")),
        ("metadata", {}, []),
        ("metadata", {"version": 1.0, "author": "acme"}, advice("metadata-value-type")),
        (
            "metadata",
            {"a": None, "b": True, "c": ["x"], "d": {"e": "f"}},
            advice(*["metadata-value-type"] * 4),
        ),
        ("allowed_tools", "", []),
        ("allowed_tools", None, advice("allowed-tools-blank")),
        ("allowed_tools", [], advice("allowed-tools-list")),
        ("allowed_tools", ["Read", "Bash(git:*)"], advice("allowed-tools-list")),
        ("allowed_tools", ["Read", 1], error("allowed-tools-type")),
        ("allowed_tools", {"Read": True}, error("allowed-tools-type")),
        ("allowed_tools", False, error("allowed-tools-type")),
    ],
)
def test_an_optional_field_is_refused_only_for_its_type(field: str, value: Any, expected: list[Any]) -> None:
    assert found(**{field: value}) == expected


@pytest.mark.requirement("FMT-2")
def test_unknown_fields_are_never_an_issue_of_the_fields() -> None:
    assert found(version=1, hooks={"a": ["b"]}, author=None) == []


@pytest.mark.requirement("ENT-7")
def test_reserved_metadata_is_no_issue_of_the_fields() -> None:
    assert found(metadata={"io.modelcontextprotocol/unheard-of": "x"}) == []


def test_every_issue_of_every_field_is_reported_with_its_line() -> None:
    document = parse_skill_md(b"---\nname: A\nlicense: 1\ndescription:\nmetadata: [a]\n---\n")
    issues = field_issues(document.frontmatter, directory=None, file="x/SKILL.md", lines=document.lines)
    assert [(issue.rule, issue.line) for issue in issues] == [
        ("name-characters", 2),
        ("description-type", 4),
        ("license-type", 3),
        ("metadata-type", 5),
    ]
    assert str(issues[1]).startswith("x/SKILL.md:4: description is empty, not a string")


def test_a_switch_of_the_wrong_type_gets_advice() -> None:
    assert found(disable_model_invocation="yes", argument_hint=["a"]) == advice(
        "disable-model-invocation-type", "argument-hint-type"
    )


def test_a_local_skill_gets_the_name_of_its_directory() -> None:
    document = parse_skill_md(b"---\ndescription: Deploys. Use when asked.\n---\n# Deploy\n")
    fields, draft, issues = local_fields(document, "deploy", file="SKILL.md")
    assert fields == {"description": "Deploys. Use when asked.", "name": "deploy"}
    assert draft is not None
    assert draft.carried == {"description"}
    assert [issue.rule for issue in issues] == ["name-from-directory"]


def test_a_local_skill_gets_the_first_line_of_its_body_as_description() -> None:
    document = parse_skill_md(b"---\nname: deploy\n---\n\n# Deploy the site\nText\n")
    fields, draft, issues = local_fields(document, "deploy", file="SKILL.md")
    assert fields["description"] == "Deploy the site"
    assert draft is not None
    assert draft.carried == {"name"}
    assert [issue.rule for issue in issues] == ["description-from-body"]


def test_a_local_skill_that_has_both_is_as_its_author_wrote_it() -> None:
    document = parse_skill_md(b"---\nname: deploy\ndescription: x\n---\n")
    assert local_fields(document, "other", file="SKILL.md") == (document.frontmatter, None, [])


def test_what_was_parsed_is_not_parsed_again_unless_it_was_repaired_and_may_not_be() -> None:
    text = b"---\nname: refunds\ndescription: Pays: it back\n---\n"
    document = parse_skill_md(text)
    assert read_fields(b"", directory="refunds", document=document) == read_fields(text, directory="refunds")
    for known in (document, None):
        with pytest.raises(FormatError):
            read_fields(text, directory="refunds", strict=True, document=known)
