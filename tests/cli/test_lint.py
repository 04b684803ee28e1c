"""`skillwire lint` finds every issue of every skill, by the rules that the server serves by."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from skillwire.cli import main
from skillwire.limits import DEFAULT_LIMITS

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "skills"


@dataclass(frozen=True)
class Ended:
    code: int | str | None
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def rules(self) -> list[tuple[str, str, int | None]]:
        """Severity, rule and line of every issue."""
        issues = self.document["issues"]
        return [(issue["severity"], issue["rule"], issue["line"]) for issue in issues]


Lint = Callable[..., Ended]


@pytest.fixture
def lint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Ended]:
    """Run `skillwire lint` in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["skillwire", "lint", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ended(ended.value.code, out, err)

    return run


def plant(
    directory: str, *, name: str | None = None, body: str = "Do it.\n", more: str = "", **files: str
) -> Path:
    """A skill below the current directory, good unless told otherwise."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    description = "Does one thing and does it well. Use when that thing is needed."
    head = f"---\nname: {name or folder.name}\ndescription: {description}\n{more}---\n"
    (folder / "SKILL.md").write_text(head + body, "utf-8")
    for path, text in files.items():
        (folder / path).write_text(text, "utf-8")
    return folder


def test_the_samples_have_neither_errors_nor_advice(lint: Lint) -> None:
    ended = lint(EXAMPLES, "--strict")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("5 skills checked: no errors, no advice (estimate: ")


@pytest.mark.requirement("FMT-2")
def test_every_issue_of_every_skill_is_shown_with_place_and_remedy(lint: Lint) -> None:
    plant("skills/good")
    plant("skills/deep/er/wrong", name="Right-", body="See [it](gone.md).\n", more="mood: red\n")
    plant("skills/other", name="another")
    ended = lint("skills")
    assert ended.code == 1
    assert ended.err == ""
    assert ended.out.splitlines() == [
        "Errors: no server serves these, and no host loads them",
        "",
        "  name-characters",
        "      refused by: servers of the extension, VS Code, skills-ref; other hosts load it",
        "      fix: use lowercase letters, digits and single hyphens",
        "    skills/deep/er/wrong/SKILL.md:2: the name has characters that are not allowed: 'R'",
        "",
        "  name-edge-hyphen",
        "      fix: remove the hyphen at the edge",
        "    skills/deep/er/wrong/SKILL.md:2: the name starts or ends with a hyphen",
        "",
        "Warnings: served, and some hosts refuse them",
        "",
        "  name-not-directory (2)",
        "      refused by: VS Code and skills-ref; Codex, Gemini CLI and Claude Code load it",
        "      fix: rename one of them",
        "    skills/deep/er/wrong/SKILL.md:2: the name `Right-` is not the name of its directory, `wrong`",
        "    skills/other/SKILL.md:2: the name `another` is not the name of its directory, `other`",
        "",
        "Advice: valid, and could be better",
        "",
        "  unknown-field",
        "      fix: keep it if your host reads it, else move it under metadata:",
        "    skills/deep/er/wrong/SKILL.md:4: the field `mood` is not part of the format, "
        "and most hosts ignore it",
        "",
        "  reference-missing",
        "      fix: add the file or fix the path; it starts at the directory of SKILL.md",
        "    skills/deep/er/wrong/SKILL.md:6: `gone.md` is not a file of the skill",
        "",
        "3 skills checked: 2 errors, 2 warnings, 2 pieces of advice "
        "(estimate: 48 tokens of descriptions, 9 of bodies)",
    ]


def test_json_is_one_document_with_the_same_issues(lint: Lint) -> None:
    plant("skills/good")
    plant("skills/wrong", name="right")
    ended = lint("skills", "--json")
    assert ended.code == 1
    assert ended.document == {
        "version": 1,
        "skills": ["skills/good", "skills/wrong"],
        "issues": [
            {
                "severity": "warning",
                "rule": "name-not-directory",
                "skill": "skills/wrong",
                "file": "skills/wrong/SKILL.md",
                "line": 2,
                "message": "the name `right` is not the name of its directory, `wrong`",
                "fix": "rename one of them",
            }
        ],
        "errors": 0,
        "warnings": 1,
        "advice": 0,
        "rules": {"name-not-directory": 1},
        "estimated_tokens": {
            "skills/good": {"description": 16, "body": 2},
            "skills/wrong": {"description": 16, "body": 2},
        },
    }


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict"], 1)])
def test_advice_alone_fails_only_when_strict(lint: Lint, options: list[str], code: int) -> None:
    plant("skills/good", more="mood: red\n")
    ended = lint("skills", "--json", *options)
    assert (ended.code, ended.rules) == (code, [("advice", "unknown-field", 4)])


@pytest.mark.parametrize("path", [".", "skills", "skills/outer", "skills/outer/SKILL.md"])
def test_a_skill_is_found_by_its_file_its_directory_and_any_directory_above(lint: Lint, path: str) -> None:
    plant("skills/outer")
    plant("skills/outer/parts/inner")
    assert lint(path, "--json").document["skills"] == ["skills/outer", "skills/outer/parts/inner"]


def test_a_skill_that_is_named_twice_is_checked_once(lint: Lint) -> None:
    plant("skills/wrong", name="right")
    Path("skills/dangling").symlink_to("nowhere")
    ended = lint("skills", "skills/wrong", "skills/wrong/SKILL.md", Path("skills").resolve(), "--json")
    assert (ended.document["skills"], len(ended.rules)) == (["skills/wrong"], 2)


def test_what_belongs_to_no_skill_is_not_asked_for(lint: Lint) -> None:
    folder = plant("skills/good", body="See [the notes](notes.md~).\n")
    (folder / "notes.md~").write_text("An editor left this.")
    plant("skills/node_modules/hidden", name="wrong")
    ended = lint("skills", "--json")
    # The linter sees the skill as the server would serve it.
    assert (ended.document["skills"], ended.rules) == (["skills/good"], [("advice", "reference-missing", 5)])


def test_problems_between_skills_are_shown_too(lint: Lint) -> None:
    plant("skills/good")
    Path("outside.md").write_text("secret")
    Path("skills/good/dangling.md").symlink_to("nowhere.md")
    Path("skills/good/leaving.md").symlink_to("../../outside.md")
    Path("skills/misspelt").mkdir()
    Path("skills/misspelt/skill.md").write_text("---\n")
    ended = lint("skills", "--json")
    assert ended.code == 1
    assert {(issue["rule"], issue["file"], issue["skill"]) for issue in ended.document["issues"]} == {
        ("link-dangling", "skills/good/dangling.md", None),
        ("link-leaves-root", "skills/good/leaving.md", None),
        ("skill-md-case", "skills/misspelt/skill.md", None),
    }


def test_a_skill_whose_file_is_misspelt_is_found_by_that_file(lint: Lint) -> None:
    Path("lower").mkdir()
    Path("lower/skill.md").write_text("---\n")
    assert lint("lower/skill.md", "--json").rules == [("error", "skill-md-case", None)]


@pytest.mark.requirement("ENT-6")
def test_a_skill_that_is_too_large_is_linted_in_full(lint: Lint) -> None:
    folder = plant("large", name="wrong", body="See [the last](z.txt).\n")
    # Files that come before SKILL.md in the walk alone fill the limit.
    for number in range(DEFAULT_LIMITS.files_per_skill):
        (folder / f"A{number}").touch()
    (folder / "z.txt").touch()
    assert lint("large", "--json").rules == [
        ("error", "too-many-files", None),
        ("warning", "name-not-directory", 2),
    ]


def test_a_file_that_cannot_be_read_costs_its_skill_alone(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant("skills/good")
    locked = plant("skills/locked", **{"secret.md": "?"}) / "secret.md"
    really_open = os.open

    def refuse(path: str, *rest: Any, **options: Any) -> int:
        if Path(path).name == locked.name:
            raise PermissionError(13, "Permission denied", path)
        return really_open(path, *rest, **options)

    # The tests may run as root, whom no mode bits stop.
    monkeypatch.setattr("skillwire.sources.directory.files.os.open", refuse)
    ended = lint("skills", "--json")
    assert [(issue["file"], issue["rule"]) for issue in ended.document["issues"]] == [
        ("skills/locked/secret.md", "unreadable")
    ]


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("gone", "gone does not exist"),
        ("notes.txt", "is not a directory"),
        (
            "empty",
            "a skill is a directory with a SKILL.md; skillwire new empty/my-skill makes one",
        ),
        ("x" * 300, "cannot be opened"),
        (f"{'x' * 300}/SKILL.md", "cannot be opened"),
    ],
)
def test_a_path_that_cannot_be_checked_is_one_line_and_its_own_exit_code(
    lint: Lint, path: str, complaint: str
) -> None:
    Path("notes.txt").touch()
    Path("empty").mkdir()
    ended = lint(path)
    assert (ended.code, ended.out) == (4, "")
    assert complaint in ended.err
    assert ended.err.startswith("skillwire: ")
    assert ended.err.count("\n") == 1


def test_nothing_that_a_stranger_wrote_drives_the_terminal(lint: Lint) -> None:
    escape, override = "\x1b[31m", "\u202e"
    Path("skills").mkdir()
    plant(f"skills/bad{escape}", name=f'"{escape}{override}"'.replace("\x1b", "\\e"))
    for options in ([], ["--json"]):
        ended = lint("skills", *options)
        assert ended.code == 1
        assert "\x1b" not in ended.out
        assert override not in ended.out


def test_a_terminal_of_few_characters_gets_escapes(lint: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    plant("skills/café", name="the")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    lint("skills")
    terminal.seek(0)
    assert r"caf\xe9" in terminal.read()
