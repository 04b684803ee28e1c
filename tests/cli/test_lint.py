"""`skillwire lint` finds every issue of every skill, by the rules of the server."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Ended, Run
from skillwire.cli.commands import commands_of
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import PROFILES

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "skills"


class Linted(Ended):
    @property
    def document(self) -> dict[str, Any]:
        """What it printed, with issues or without."""
        return json.loads(self.out)

    @property
    def rules(self) -> list[tuple[str, str, int | None]]:
        """Severity, rule and line of every issue."""
        issues = self.document["issues"]
        return [(issue["severity"], issue["rule"], issue["line"]) for issue in issues]


Lint = Callable[..., Linted]


@pytest.fixture
def lint(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lint:
    """Run `skillwire lint` in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: Linted(*run("lint", *words))


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
def test_every_issue_of_every_skill_is_shown_with_place_and_fix(lint: Lint) -> None:
    plant("skills/good")
    plant("skills/deep/er/wrong", name="Right-", body="See [it](gone.md).\n", more="mood: red\n")
    plant("skills/other", name="another")
    ended = lint("skills")
    assert ended.code == 1
    assert ended.err == ""
    assert ended.out.splitlines() == [
        "Errors: not served over MCP, and not loaded by most hosts",
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
        "Warnings: served, but refused or changed by some hosts",
        "",
        "  name-not-directory (2)",
        "      refused by: VS Code and skills-ref; Codex, Gemini CLI and Claude Code load it",
        "      fix: rename one of them",
        "    skills/deep/er/wrong/SKILL.md:2: the name `Right-` is not the name of its directory, `wrong`",
        "    skills/other/SKILL.md:2: the name `another` is not the name of its directory, `other`",
        "",
        "Advice: valid, but could be better",
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


def test_a_skill_whose_file_is_misspelled_is_found_by_that_file(lint: Lint) -> None:
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


def test_a_file_that_cannot_be_read_affects_only_its_skill(
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


def test_untrusted_text_cannot_control_the_terminal(lint: Lint) -> None:
    escape, override = "\x1b[31m", "\u202e"
    Path("skills").mkdir()
    plant(f"skills/bad{escape}", name=f'"{escape}{override}"'.replace("\x1b", "\\e"))
    for options in ([], ["--json"]):
        ended = lint("skills", *options)
        assert ended.code == 1
        assert "\x1b" not in ended.out
        assert override not in ended.out


def test_a_terminal_with_a_small_character_set_gets_escapes(
    lint: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant("skills/café", name="the")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    lint("skills")
    terminal.seek(0)
    assert r"caf\xe9" in terminal.read()


def test_rules_are_ignored_by_name_and_errors_can_be_reported_alone(lint: Lint) -> None:
    plant("skills/other", name="another", more="mood: red\n")
    plant("skills/bad", name="Bad")
    rules = ("--ignore", "name-not-directory,unknown-field", "--ignore", "name-characters")
    assert lint("skills", "--json", *rules).rules == []
    assert lint("skills", *rules).code == 0
    assert {rule for _, rule, _ in lint("skills", "--json", "--errors-only").rules} == {"name-characters"}


def test_many_places_of_one_rule_are_counted_and_listed_on_request(lint: Lint) -> None:
    for number in range(15):
        plant(f"skills/s-{number:02}", name="x")
    short, whole = lint("skills"), lint("skills", "--all")
    assert "  name-not-directory (15)" in short.out.splitlines()
    assert "    ... and 5 more; --all lists them all" in short.out.splitlines()
    assert whole.out.count("is not the name of its directory") == 15


def test_without_a_path_the_working_directory_is_checked(lint: Lint) -> None:
    plant("skills/good")
    assert lint("--json").document["skills"] == ["skills/good"]


@pytest.mark.parametrize("output", ["github", "sarif"])
def test_reports_for_machines_name_rule_file_and_line(lint: Lint, output: str) -> None:
    plant("skills/other", name="another")
    ended = lint("skills", "--format", output)
    assert ended.code == 1
    if output == "github":
        assert ended.out.startswith(
            "::warning file=skills/other/SKILL.md,line=2,title=skillwire name-not-directory::the name "
        )
        return
    (run,) = ended.document["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("name-not-directory", "warning")
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "skills/other/SKILL.md"}, "region": {"startLine": 2}}


def test_nothing_in_a_message_forges_another_annotation(lint: Lint) -> None:
    plant("skills/other", name='"x\\n::error file=a::b"')
    lines = lint("skills", "--format", "github").out.splitlines()
    assert not any(line.startswith("::error file=a") for line in lines)


def test_fix_repairs_the_file_and_shows_the_diff(lint: Lint) -> None:
    file = plant("skills/other", name="another") / "SKILL.md"
    before = file.read_bytes()
    ended = lint("skills", "--diff")
    assert (ended.code, file.read_bytes()) == (0, before)
    assert "-name: another" in ended.out.splitlines()
    ended = lint("skills", "--fix")
    assert ended.code == 0
    assert "+name: other" in ended.out.splitlines()
    assert b"name: other\n" in file.read_bytes()
    assert "Repaired 1 file" in ended.err
    assert "Nothing to repair" in lint("skills", "--fix").err


def test_a_credential_is_an_error(lint: Lint) -> None:
    folder = plant("skills/good")
    (folder / ".env").write_text("TOKEN=1")
    assert lint("skills", "--json").rules == [("error", "credential-file", None)]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("zero\u200b\u200cwidth", "zero-width characters: U+200B U+200C"),
        ("over\u202eride", "characters that change the direction of text: U+202E"),
        (
            "tags\U000e0068\U000e0069",
            'Unicode tag characters, which no person sees: U+E0068 U+E0069, which spell "hi"',
        ),
        ("escape\x1b[2J", "control characters: U+001B"),
    ],
)
def test_hidden_characters_are_reported_with_file_and_line(lint: Lint, text: str, what: str) -> None:
    body = f"Do it.\n\n{text}\n"
    plant("skills/good", body=body, **{"notes.md": f"One.\n{text}\n", "plain.md": "Grüße 👨‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿\n"})
    ended = lint("skills", "--json")
    assert ended.code == 1
    found = [(one["file"], one["line"], one["severity"], one["message"]) for one in ended.document["issues"]]
    assert found == [
        ("skills/good/SKILL.md", 7, "warning", what),
        ("skills/good/notes.md", 2, "warning", what),
    ]
    assert {one["rule"] for one in ended.document["issues"]} == {"hidden-characters"}


def test_hidden_characters_in_a_nested_skill_are_reported_once_and_can_be_allowed(lint: Lint) -> None:
    plant("skills/outer")
    nested = plant("skills/outer/inner", **{"notes.md": "left\u2066to\u2069right\n"})
    found = [(one["skill"], one["file"]) for one in lint("skills", "--json").document["issues"]]
    assert set(found) == {("skills/outer/inner", "skills/outer/inner/notes.md")}
    assert lint("skills", "--ignore", "hidden-characters").code == 0
    skill_md = nested / "SKILL.md"
    skill_md.write_text(skill_md.read_text() + "<!-- skillwire-lint-ignore: hidden-characters -->\n")
    assert lint("skills").code == 0


def test_a_huge_sparse_file_costs_no_memory(lint: Lint) -> None:
    folder = plant("skills/good")
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(3 * 1024**3)
    with (plant("skills/large") / "SKILL.md").open("r+b") as file:
        file.truncate(3 * 1024**3)
    tracemalloc.start()
    try:
        ended = lint("skills", "--json")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {rule for _, rule, _ in ended.rules} == {"too-many-bytes", "too-large", "large-file"}
    assert peak < 100_000_000


def test_new_writes_a_skill_that_passes_once_it_is_edited_and_never_overwrites(run: Run, lint: Lint) -> None:
    assert run("new", "skills/release-notes").code == 0
    assert lint("skills").code == 0
    assert lint("skills", "--strict").code == 1
    assert {rule for _, rule, _ in lint("skills", "--json").rules} == {"template"}
    written = Path("skills/release-notes/SKILL.md").read_bytes()
    code, _, said = run("new", "skills/release-notes")
    assert (code, Path("skills/release-notes/SKILL.md").read_bytes()) == (4, written)
    assert "already exists" in said
    assert run("new", "skills/Bad Name").code == 3
    assert not Path("skills/Bad Name").exists()


@pytest.mark.process
def test_watch_checks_again_after_a_change_until_it_is_interrupted(tmp_path: Path) -> None:
    folder = tmp_path / "skills/tidy"
    folder.mkdir(parents=True)
    good = "---\nname: tidy\ndescription: Sorts files by age. Use when asked to tidy up.\n---\nSort.\n"
    (folder / "SKILL.md").write_text(good, "utf-8")
    command = [str(Path(sys.executable).parent / "skillwire"), "lint", "--watch", str(tmp_path / "skills")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell without job control starts what is in the background with interrupts ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline()
            assert "error" in first or "skill" in first
            stop = time.monotonic() + 60
            seen = ""
            while time.monotonic() < stop:
                if select.select([process.stdout], [], [], 0.5)[0]:
                    seen += os.read(process.stdout.fileno(), 65536).decode()
                elif "name-" in seen:
                    break  # It has checked, and waits for the next change.
                else:
                    # Written again and again: the watch may begin after the first time.
                    (folder / "SKILL.md").write_text(good.replace("name: tidy", "name: Not Tidy"), "utf-8")
            assert "Not Tidy" in seen or "name-" in seen
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 1
        finally:
            process.kill()


def test_the_profiles_of_the_command_line_are_those_that_exist() -> None:
    for command in (*commands_of("lint"), *commands_of("verify")):
        [option] = [option for option in command.all_options if option.field == "profile"]
        assert {*option.choices} == {*PROFILES}
