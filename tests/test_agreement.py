"""`lint`, `serve`, `publish` and `add` agree on every skill, and `lint --fix` repairs nearly all of them.

The corpus is generated from what real collections are refused for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from skillwire.errors import Severity, SkillwireError
from skillwire.install import Pin
from skillwire.install.candidates import make_candidate, with_interpreters
from skillwire.limits import DEFAULT_LIMITS
from skillwire.registry import read_skill
from skillwire.skill.fields import valid_name
from skillwire.sources.directory.authoring import find_fixes, lint_paths
from skillwire.sources.directory.builder import Rules
from skillwire.sources.directory.files import find_reach, parse_root
from skillwire.sources.directory.scan import scan

GOOD = "Refund an order and tell the customer. Use when money goes back."
NAMES = ("same", "Title Case", "under_score", "UPPER", "trailing-", "dou--ble", "", "x" * 70, "other-name")
DIRECTORIES = ("plain", "Title Case", "under_score", "CamelCase", "dot.ted", "naïve-plan")
FIELDS = {
    "plain": "",
    "license": "license: MIT\n",
    "metadata": "metadata:\n  version: '1.0'\n",
    "metadata of the wrong type": "metadata: text\n",
    "a license that is a number": "license: 7\n",
    "tools as a list": "allowed-tools:\n  - Read\n",
    "unknown field": "argument-hint: '[file]'\n",
}
DESCRIPTIONS = {
    "plain": f"description: {GOOD}\n",
    "colon": "description: Refund: an order. Use when asked.\n",
    "at sign": "description: @team refunds orders when asked\n",
    "last block": "description: |\n  Refund an order.\n  Use when asked.\n",
    "long": f"description: {'Refund an order. ' * 70}\n",
    "empty": "description: ''\n",
    "missing": "",
    "tab": "description:\tRefund an order when asked.\n",
}
BROKEN = {
    "no frontmatter": "# Refunds\n\nRefund an order.\n",
    "no frontmatter, no heading": "Refund an order.\n",
    "nothing at all": "",
    "not closed": f"---\nname: plain\ndescription: {GOOD}\n",
    "blank line first": f"\n---\nname: plain\ndescription: {GOOD}\n---\n# Steps\n",
    "windows": f"---\r\nname: plain\r\ndescription: {GOOD}\r\n---\r\n# Steps\r\n",
    "byte order mark": f"\ufeff---\nname: plain\ndescription: {GOOD}\n---\n# Steps\n",
    "a list": "---\n- name\n---\n# Steps\n",
    "bad indentation": f"---\nname: plain\n description: {GOOD}\n---\n",
}


@dataclass(frozen=True)
class Sample:
    what: str
    directory: str
    text: str


def corpus() -> Iterator[Sample]:
    for directory in DIRECTORIES:
        for name in NAMES:
            given = directory if name == "same" else name
            text = f"---\nname: {given}\n{DESCRIPTIONS['plain']}---\n# Steps\n"
            yield Sample(f"name {given!r} in {directory}", directory, text)
    for what, description in DESCRIPTIONS.items():
        for field, lines in FIELDS.items():
            text = f"---\nname: plain\n{lines}{description}---\n# Refund orders\n"
            yield Sample(f"{what} description, {field}", "plain", text)
    for what, text in BROKEN.items():
        for directory in ("plain", "Title Case"):
            yield Sample(f"{what} in {directory}", directory, text)


CORPUS = list(corpus())


def write(sample: Sample, tmp_path: Path) -> Path:
    folder = tmp_path / sample.directory
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(sample.text.encode())
    return folder


def is_served(folder: Path) -> bool:
    root = parse_root(folder)
    return bool(scan([root], limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=Rules()).skills)


def errors_of(path: Path) -> list[str]:
    found = [issue for one in lint_paths([path]) for issue in one.issues]
    return [str(issue) for issue in found if issue.severity is Severity.ERROR]


def is_published(folder: Path) -> bool:
    try:
        read_skill(folder, "1.0.0")
    except SkillwireError:
        return False
    return True


def is_added(folder: Path) -> bool:
    files = with_interpreters([("SKILL.md", (folder / "SKILL.md").read_bytes())])
    try:
        make_candidate(files, source="./folder", pin=Pin("folder"))
    except SkillwireError:
        return False
    return True


def test_every_command_has_the_same_verdict(tmp_path: Path) -> None:
    differing: dict[str, object] = {}
    for number, sample in enumerate(CORPUS):
        place = tmp_path / str(number)
        place.mkdir()
        folder = write(sample, place)
        errors = errors_of(folder)
        verdicts = {
            "served": is_served(folder),
            "without errors": not errors,
            "published": is_published(folder),
            "added": is_added(folder),
        }
        if len(set(verdicts.values())) > 1:
            differing[sample.what] = (verdicts, errors)
    assert differing == {}


def test_a_comment_turns_no_error_of_the_server_off(tmp_path: Path) -> None:
    text = f"---\nname: Plain\ndescription: {GOOD}\n# skillwire-lint-ignore: name-characters\n---\n# Steps\n"
    folder = write(Sample("", "plain", text), tmp_path)
    assert not is_served(folder)
    assert "not allowed" in errors_of(folder)[0]


def test_a_nested_skill_that_is_left_out_is_an_error_in_the_words_of_the_server(tmp_path: Path) -> None:
    outer = write(Sample("", "outer", f"---\nname: outer\ndescription: {GOOD}\n---\n# Steps\n"), tmp_path)
    write(Sample("", "inner", f"---\nname: other\ndescription: {GOOD}\n---\n# Steps\n"), outer)
    root = parse_root(tmp_path)
    snapshot = scan([root], limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=Rules())
    [said] = [issue.message for problem in snapshot.problems for issue in problem.issues]
    [error] = errors_of(tmp_path)
    assert said in error
    assert "only served as files of that skill" in said


def test_lint_fix_makes_nearly_every_skill_served(tmp_path: Path) -> None:
    """What is left has a reason that a tool cannot decide: no words at all, or YAML that is no mapping."""
    left: dict[str, str] = {}
    for number, sample in enumerate(CORPUS):
        place = tmp_path / str(number)
        place.mkdir()
        folder = write(sample, place)
        for fix in find_fixes([folder], unsafe=True, rename_directories=True):
            fix.write()
        [folder] = place.iterdir()
        if not is_served(folder):
            left[sample.what] = errors_of(folder)[0]
    reasons = ("wrong type", "a number", "empty", "nothing at all", "not closed", "a list", "bad indentation")
    assert all(any(reason in what for reason in reasons) for what in left), left


def test_safe_fixes_write_nothing_that_was_not_there(tmp_path: Path) -> None:
    folder = write(Sample("", "plain", BROKEN["no frontmatter"]), tmp_path)
    assert find_fixes([folder]) == []
    [fix] = find_fixes([folder], unsafe=True)
    assert "+name: plain" in fix.diff
    assert '+description: "Refunds"' in fix.diff
    assert (folder / "SKILL.md").read_text() == BROKEN["no frontmatter"]
    fix.write()
    assert errors_of(folder) == []


def test_a_directory_is_renamed_only_where_that_is_asked_and_the_place_is_free(tmp_path: Path) -> None:
    text = f"---\nname: PDF_Tools\ndescription: {GOOD}\n---\n# Steps\n"
    folder = write(Sample("", "PDF_Tools", text), tmp_path)
    [fix] = find_fixes([tmp_path])
    assert "+name: pdf-tools" in fix.diff
    assert fix.directory == ""
    [fix] = find_fixes([tmp_path], rename_directories=True)
    assert "rename " in fix.diff
    (tmp_path / "pdf-tools").mkdir()
    [kept] = find_fixes([tmp_path], rename_directories=True)
    assert kept.directory == ""
    (tmp_path / "pdf-tools").rmdir()
    fix.write()
    assert not folder.exists()
    assert errors_of(tmp_path / "pdf-tools") == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("PDF_Tools", "pdf-tools"),
        ("  Code Review  ", "code-review"),
        ("a--b-", "a-b"),
        ("C++ / Rust", "c-rust"),
        ("x" * 70, "x" * 64),
        ("Größe", "größe"),
        ("!!!", ""),
        ("", ""),
    ],
)
def test_a_name_is_spelled_as_a_valid_one(text: str, name: str) -> None:
    assert valid_name(text) == name


@pytest.mark.requirement("FMT-10")
def test_a_reference_that_means_something_else_from_the_root_is_advice(tmp_path: Path) -> None:
    folder = write(
        Sample("", "plain", f"---\nname: plain\ndescription: {GOOD}\n---\n[a](references/a.md)\n"), tmp_path
    )
    references = folder / "references"
    references.mkdir()
    (references / "a.md").write_text("See [b](b.md), [again](references/b.md) and [none](nowhere.md).\n")
    (references / "b.md").write_text("Back to [a](references/a.md).\n")
    [issue] = [
        issue for one in lint_paths([folder]) for issue in one.issues if issue.rule == "reference-root"
    ]
    assert (issue.severity, issue.line) == (Severity.ADVICE, 1)
    assert issue.fix == "write references/b.md"
