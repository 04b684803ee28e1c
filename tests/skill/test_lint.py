"""The linter: errors a host refuses a skill for, and advice to its author."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import examples
from skillwire.errors import Issue, Severity
from skillwire.limits import MIB, Limits
from skillwire.skill import lint_skill
from skillwire.skill.lint import Tokens, estimate_tokens

HEAD = "---\nname: refunds\ndescription: Refund an order of a customer. Use when someone asks.\n---\n"


def lint(text: str, *paths: str, directory: str = "refunds") -> list[Issue]:
    return lint_skill(text.encode(), directory=directory, files=dict.fromkeys(("SKILL.md", *paths), 10))


def rules(text: str, *paths: str) -> list[tuple[str, int | None]]:
    issues = lint(text, *paths)
    assert all(issue.severity is Severity.ADVICE and issue.fix for issue in issues)
    return [(issue.rule, issue.line) for issue in issues]


def head(description: str = "Refund an order of a customer. Use when someone asks.", more: str = "") -> str:
    return f"---\nname: refunds\ndescription: {description}\n{more}---\nDo it.\n"


def test_a_good_skill_has_no_issues() -> None:
    assert lint(HEAD + "# Refunds\n\nSee [the rules](references/rules.md).\n", "references/rules.md") == []


@pytest.mark.requirement("FMT-1")
@pytest.mark.parametrize(
    ("paths", "fix"),
    [
        (["skill.md", "a.md"], "rename skill.md to SKILL.md"),
        (["Skill.MD"], "rename Skill.MD to SKILL.md"),
        (["docs/skill.md"], "add a SKILL.md"),
        ([], "add a SKILL.md"),
    ],
)
def test_a_directory_without_a_skill_file_is_an_error(paths: list[str], fix: str) -> None:
    (issue,) = lint_skill(None, directory="a", files=dict.fromkeys(paths, 1), file="a/SKILL.md")
    assert (issue.rule, issue.severity, issue.file) == ("skill-file-missing", Severity.ERROR, "a/SKILL.md")
    assert fix in issue.fix


@pytest.mark.requirement("FMT-2")
def test_errors_of_frontmatter_and_fields_are_reported_as_errors() -> None:
    (broken,) = [issue for issue in lint("---\nname: 'a\n---\nBody\n") if issue.line]
    assert (broken.rule, broken.severity, broken.line) == ("yaml-quote", Severity.ERROR, 2)
    issues = lint("---\nname: Refunds\n---\n", directory="payments")
    assert [(issue.rule, issue.severity) for issue in issues] == [
        ("description-missing", Severity.ERROR),
        ("name-characters", Severity.ERROR),
        ("name-not-directory", Severity.WARNING),
        ("body-empty", Severity.ADVICE),
    ]


def test_too_many_files_or_bytes_are_errors_even_when_the_rest_is_broken() -> None:
    files = {f"a/{number}": MIB // 16 for number in range(512)}
    for skill_md in (None, b"", HEAD.encode() + b"Do it."):
        found = {
            issue.rule for issue in lint_skill(skill_md, directory="refunds", files={"SKILL.md": 1} | files)
        }
        assert {"too-many-files", "too-many-bytes"} <= found
    just = {"SKILL.md": 16 * MIB - 511} | {f"a/{number}": 1 for number in range(511)}
    issues = lint_skill(HEAD.encode() + b"Do it.", directory="refunds", files=just)
    assert [issue.rule for issue in issues] == ["large-file"]
    tight = Limits(files_per_skill=1, bytes_per_skill=5)
    issues = lint_skill(HEAD.encode() + b"Do it.", directory="refunds", files={"a": 3, "b": 3}, limits=tight)
    assert [(issue.rule, issue.severity) for issue in issues] == [
        ("too-many-files", Severity.ERROR),
        ("too-many-bytes", Severity.ERROR),
    ]


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Use when asked.", ["description-short"]),
        ("Refunds.", ["description-short", "description-when"]),
        ("Refund an order of a customer, wholly or in part, by card.", ["description-when"]),
        ("Refund an order of a customer. Useful for support staff.", []),
        ("Erstattet eine Bestellung, ganz oder teilweise, für Kunden.", []),
        ("Use when asked. " + "x" * 700, ["description-long"]),
        ("Refund. " + "x" * 700, ["description-long", "description-when"]),
    ],
)
def test_a_description_should_say_enough_and_when_to_use_the_skill(
    description: str, expected: list[str]
) -> None:
    assert rules(head(description)) == [(rule, 3) for rule in expected]


def test_a_description_that_is_an_error_gets_no_advice_on_top() -> None:
    for description in ("''", "x" * 1025, "7"):
        assert Severity.ADVICE not in {issue.severity for issue in lint(head(description))}


@pytest.mark.requirement("FMT-2")
def test_an_unknown_field_is_advice() -> None:
    assert rules(head(more="mood: 1\nlicense: MIT\nbanana: {}\n")) == [
        ("unknown-field", 4),
        ("unknown-field", 6),
    ]


@pytest.mark.requirement("ENT-7")
def test_a_reserved_metadata_key_is_advice() -> None:
    more = "metadata:\n  a: b\n  io.modelcontextprotocol/x: c\n  io.modelcontextprotocol.skills/y: d\n"
    assert rules(head(more=more)) == [("metadata-reserved", 4)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", [("body-empty", 5)]),
        (" \n\n", [("body-empty", 5)]),
        ("a\n" * 500, []),
        ("a\n" * 499 + "a", []),
        ("a\n" * 501, [("body-lines", 5)]),
        ("a\n" * 500 + "a", [("body-lines", 5)]),
        ("x" * 20_003, []),
        ("x" * 20_004, [("body-tokens", 5)]),
        ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * 501, [("body-lines", 5)]),
    ],
)
def test_a_body_should_be_there_and_not_too_long(body: str, expected: list[tuple[str, int]]) -> None:
    assert rules(HEAD + body) == expected


FILES = ("scripts/run.py", "references/rules.md", "references/deep/x.md", "assets/a b.png", "LICENSE", "é.md")


@pytest.mark.requirement("FMT-10")
@pytest.mark.parametrize(
    "text",
    [
        "[a](references/rules.md)",
        "[a](./references/rules.md#part)",
        "[a](references/rules.md?raw=1)",
        '[a](references/rules.md "title")',
        "[a]( <references/rules.md> )",
        "[a](references)",
        "[a](references/)",
        "[a](references/deep/../rules.md)",
        "[a](.)",
        "[a](SKILL.md)",
        "[a](LICENSE)",
        "[a](%C3%A9.md) [b](é.md)",
        "![a](assets/a%20b.png) ![b](<assets/a b.png>)",
        "[a]: references/rules.md",
        "[a]: <assets/a b.png> 'title'",
        "`scripts/run.py` and `./scripts/run.py`",
        # not references to files of the skill
        "[a](https://example.org/x.md) [b](mailto:a@example.org) [c](skill://a/b.md) [d](//example.org/x)",
        "[a](#part) [b]() [c](?x)",
        "[a](/etc/passwd) [b](\\\\host\\x)",
        "[a]({path}/x.md) [b](<name>.md) [c](docs/*.md) [d](docs/...) [e]($DIR/x.md)",
        "[a] (nothing.md) and (nothing.md)",
        "`[a](nothing.md)` and ``[a](nothing.md)``",
        "`scripts/` `scripts/run` `scripts/{name}.py` `scripts/*.py` `python scripts/nothing.py` `src/x.py`",
        "```\n[a](nothing.md) `scripts/nothing.py`\n```",
        "~~~md\n[a](nothing.md)\n```\n[a](nothing.md)\n~~~",
        "````\n```\n[a](nothing.md)\n```\n[a](nothing.md)\n````",
        "  ```sh\n  [a](nothing.md)\n  ```",
        "```\n[a](nothing.md)\n``` not the end\n[a](nothing.md)",
        "[ ] todo, array[0](x) and [Note]: this [^1]: see",
        "[^1]: see/that",
    ],
)
def test_a_reference_to_a_file_or_text_that_is_no_reference_is_fine(text: str) -> None:
    assert rules(HEAD + text + "\n", *FILES) == []


@pytest.mark.requirement("FMT-10")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](nothing.md)", [("reference-missing", 5)]),
        ("x\n\n![a](assets/a_(1).png)", [("reference-missing", 7)]),
        ("[a](deep/x.md)", [("reference-missing", 5)]),
        ("[a]: docs/nothing.md", [("reference-missing", 5)]),
        ("`references/nothing.md`", [("reference-missing", 5)]),
        ("[a](nothing.md) [b](nothing.md#c)\n[c](nothing.md)", [("reference-missing", 5)]),
        ("[a](x.md)[b](y.md)", [("reference-missing", 5), ("reference-missing", 5)]),
        ("```\n```\n[a](nothing.md)", [("reference-missing", 7)]),
        ("[a](../other/SKILL.md)", [("reference-outside", 5)]),
        ("[a](references/../../x.md)", [("reference-outside", 5)]),
        ("[a](%2e%2e/x.md)", [("reference-outside", 5)]),
    ],
)
def test_a_reference_that_leads_nowhere_is_advice(text: str, expected: list[tuple[str, int]]) -> None:
    assert rules(HEAD + text, *FILES) == expected


def test_a_reference_in_another_case_names_the_file() -> None:
    (issue,) = lint(HEAD + "[a](References/Rules.md)", *FILES)
    assert issue.fix == "the file is spelled references/rules.md"


def test_issues_come_in_the_order_of_the_file() -> None:
    found = lint(head("Refund. Use when asked.", "mood: 1\n") + "[a](x.md)\n")
    assert [issue.line for issue in found] == [3, 4, 7]


@examples(100)
@given(st.text(st.sampled_from("[]()<>!`~#:./\\ \nab%é\t-*^")))
def test_any_body_can_be_linted(body: str) -> None:
    for issue in lint(HEAD + body):
        assert issue.severity is Severity.ADVICE
        assert str(issue).isprintable()


@pytest.mark.slow
def test_a_body_made_to_stall_the_linter_does_not() -> None:
    for piece in ("[", "](", "](<", "`", "]((", "[a](", "](a(", "[a]: ", "```", "~~~~ ", "](a)"):
        lint(HEAD + piece * 50_000)


def test_a_block_of_text_as_the_last_field_is_a_warning() -> None:
    text = "---\nname: refunds\ndescription: |\n  Refund an order. Use when a customer asks.\n---\nDo it.\n"
    (issue,) = lint(text)
    assert (issue.rule, issue.line, issue.severity) == ("yaml-last-block", 3, Severity.WARNING)
    assert rules(text.replace("|", "|-")) == []
    assert rules(text.replace("---\nDo", "license: MIT\n---\nDo")) == []


@pytest.mark.parametrize(
    ("field", "meant"),
    [("allowed_tools", "allowed-tools"), ("allowedTools", "allowed-tools"), ("licence", "license")],
)
def test_a_misspelled_field_names_the_one_that_was_meant(field: str, meant: str) -> None:
    (issue,) = lint(head(more=f"{field}: x\n") + "Do it.\n")
    assert issue.rule == "field-misspelled"
    assert f"`{meant}`" in issue.message


def test_fields_of_popular_hosts_are_known() -> None:
    more = "version: 1.0.0\nauthor: me\ntags: [a]\ndisable-model-invocation: true\nargument-hint: file\n"
    assert rules(head(more=more) + "Do it.\n") == []


def test_one_mistake_does_not_hide_the_others() -> None:
    found = lint("---\nname: Bad Name\ndescription: 'open\nlicense: a: b\n---\nDo it.\n")
    assert {"name-characters", "yaml-quote"} <= {issue.rule for issue in found}
    assert "description-missing" not in {issue.rule for issue in found}


def test_a_comment_disables_rules() -> None:
    text = head("Short. Use when so.") + "Do it.\n"
    assert rules(text) == [("description-short", 3)]
    assert rules(text + "<!-- skillwire-lint-ignore: description-short -->\n") == []
    assert rules(text.replace("---\nDo", "# skillwire-lint-ignore: a, description-short\n---\nDo")) == []


def test_merge_conflict_markers_are_reported() -> None:
    for text, line in (
        (HEAD + "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n", 5),
        ("---\n<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> x\n---\n", 2),
    ):
        (issue,) = lint(text)
        assert (issue.rule, issue.line) == ("merge-conflict", line)
    assert rules(HEAD + "Title\n=======\n\nText\n") == []


def test_tokens_are_estimated_from_characters() -> None:
    assert estimate_tokens(b"---\nname: a\ndescription: abcdefgh\n---\n1234") == Tokens(2, 1)
    assert estimate_tokens(b"nothing") == Tokens()


@pytest.mark.parametrize(
    "text", ["Use PROACTIVELY for reviews of large changes.", "Use immediately after an edit of code."]
)
def test_other_ways_to_say_when_are_understood(text: str) -> None:
    assert "description-when" not in {issue.rule for issue in lint(head(text) + "Do it.\n")}


@pytest.mark.parametrize("path", ["scripts/example.py", "assets/your-logo.png", "references/my-notes.md"])
def test_an_example_path_is_not_called_missing(path: str) -> None:
    assert rules(HEAD + f"Put files such as `scripts/run.py` there, and `{path}`.\n") == []
    assert rules(HEAD + f"See `{path}`.\n") == []


def test_a_file_that_readers_of_manifests_do_not_take_is_advice() -> None:
    files = {"SKILL.md": 100, "assets/film.mp4": 1_500_000, "assets/fits.bin": 1_000_000}
    issues = lint_skill(
        b"---\nname: a\ndescription: Does it when asked.\n---\n# A\n", directory="a", files=files
    )
    (large,) = [issue for issue in issues if issue.rule == "large-file"]
    assert large.severity is Severity.ADVICE
    assert large.message.startswith(
        "assets/film.mp4 has 1.5 MB; hosts that read skills by their manifest take 1 MB"
    )
