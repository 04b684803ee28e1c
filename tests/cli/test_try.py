"""`skillwire try`: a model is tried on a skill through a real HTTP service, in both message formats."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Ended, Run
from scripted_model import ScriptedModel, serving
from skillwire.cli import main
from trees import write_skill

Move = Callable[[list[str]], str | tuple[str, dict[str, Any]]]
FORMATS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
LOADS = {
    "spec": ("load_skill", {"name": "station-report"}),
    "goose": ("load_skill", {"name": "station-report"}),
    "gemini": ("activate_skill", {"name": "station-report"}),
    "wayland": ("load_skill", {"name": "trial:station-report"}),
    "codex": ("read_mcp_resource", {"server": "trial", "uri": "skill://station-report/SKILL.md"}),
    "claude": ("Skill", {"skill": "trial:station-report"}),
}
SIGNAL = "skill://station-report/references/signal.md"
READS = {
    "spec": ("read_skill_file", {"name": "station-report", "path": "references/signal.md"}),
    "goose": ("load_skill", {"name": "station-report/references/signal.md"}),
    "gemini": ("read_mcp_resource", {"uri": SIGNAL}),
    "wayland": ("read_skill_file", {"name": "trial:station-report", "path": "references/signal.md"}),
    "codex": ("read_mcp_resource", {"server": "trial", "uri": SIGNAL}),
    "claude": ("ReadMcpResourceTool", {"server": "trial", "uri": SIGNAL}),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name in (*FORMATS.values(), "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def start(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["skillwire", "try", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ended(ended.value.code, out, err)

    return start


def report(results: list[str]) -> str:
    return f"Platform 4 is calm. {re.search('[a-z]+-[0-9a-f]{6}', results[-1])}"


def model(style: str = "spec", *moves: Move) -> ScriptedModel:
    return ScriptedModel(list(moves or (lambda _: LOADS[style], lambda _: READS[style], report)))


@pytest.mark.parametrize("format", FORMATS)
def test_a_model_that_uses_the_skill_passes_and_the_checks_are_a_table(
    run: Run, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    with serving(model()) as service:
        monkeypatch.setenv(FORMATS[format], service.key)
        ended = run("--model", "test-model", "--format", format, "--base-url", service.url)
    assert ended.code == 0, ended.out + ended.err
    assert re.findall(r"^  (pass|FAIL|none)  (.+)$", ended.out, re.MULTILINE) == [
        ("pass", "the skill is in the prompt"),
        ("pass", "the model loads the skill"),
        ("pass", "its text arrives fenced"),
        ("pass", "supporting files are read"),
        ("pass", "the answer follows the skill"),
    ]
    assert 'read_skill_file {"name": "station-report", "path": "references/signal.md"}' in ended.out
    assert "│ Platform 4 is calm." in ended.out
    assert service.key not in ended.out + ended.err


@pytest.mark.parametrize("style", LOADS)
def test_it_works_with_the_tools_of_every_style(
    run: Run, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    with serving(model(style)) as service:
        monkeypatch.setenv("OPENAI_API_KEY", service.key)
        ended = run("--model", "m", "--base-url", service.url, "--style", style, "--json")
    assert ended.document["passed"] is True, ended.out
    assert [check["passed"] for check in ended.document["checks"]] == [True] * 5


@pytest.mark.parametrize("format", FORMATS)
def test_a_check_that_fails_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    with serving(model("spec", lambda _: "All well.")) as service:
        monkeypatch.setenv(FORMATS[format], service.key)
        ended = run("--model", "m", "--format", format, "--base-url", service.url)
    assert ended.code == 1
    assert "  pass  the skill is in the prompt" in ended.out
    assert "  FAIL  the model loads the skill     no tool call loaded it" in ended.out
    assert re.search("  FAIL  the answer follows the skill  looked for '[a-z]+-", ended.out)


def test_without_a_key_one_line_says_which_variable_to_set(run: Run) -> None:
    for name, variable in (("claude-x", "ANTHROPIC_API_KEY"), ("other", "OPENAI_API_KEY")):
        ended = run("--model", name)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.count("\n") == 1
        assert f"a key for the model service is needed: set the variable {variable}" in ended.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--model is missing"),
        (("--model", "m", "--skill", "refunds"), "--skill needs --task TEXT"),
        (("--model", "m", "--task", "x"), "name it with --skill"),
        (("--model", "m", "--base-url", "ftp://x"), "must start with https:// or http://"),
        (("--model", "m", "--style", "emacs"), "no style is called emacs"),
    ],
)
def test_what_is_missing_or_wrong_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    ended = run(*arguments)
    assert ended.code == 2
    assert words in ended.err


def test_a_skill_of_the_user_is_tried_with_a_task_and_an_expected_answer(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(Path("mine/refunds"), {"forms.md": b"Use form B."})
    own = ("--skill", "refunds", "--task", "Refund order 7.", "--expect", "form b", "--dir", "mine")
    moves: list[Move] = [
        lambda _: ("load_skill", {"name": "refunds"}),
        lambda _: ("read_skill_file", {"name": "refunds", "path": "forms.md"}),
        lambda _: "On form B.",
    ]
    with serving(model("spec", *moves)) as service:
        monkeypatch.setenv("MY_KEY", service.key)
        ended = run("--model", "m", "--base-url", service.url, "--key-env", "MY_KEY", *own)
    assert ended.code == 0, ended.out + ended.err
    (first, *_) = service.requests
    assert first["messages"][1]["content"] == "Refund order 7."


def test_a_service_that_speaks_the_other_format_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(ScriptedModel):
        def reply(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
            return {"hello": []}

    with serving(Odd([])) as service:
        for format, variable in FORMATS.items():
            monkeypatch.setenv(variable, service.key)
            ended = run("--model", "m", "--format", format, "--base-url", service.url)
            assert ended.code == 4
            assert f"a message in the {format} format: check --format and --base-url" in ended.err
