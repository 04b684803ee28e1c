"""`skillwire eval` on the command line."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat.forge import SERVER, SHORT_CUT, STEPS
from sample_entries import skill_md
from scripted_model import Move, ScriptedModel, serving, tool_names
from skillwire.cli import main
from trees import write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "skills/deploy/SKILL.md", skill_md("deploy", "Ships a service.", "Call kubectl.\n"))
    write(tmp_path / "skills/refunds/SKILL.md", skill_md("refunds", "Pays money back.", "Ask first.\n"))
    rows = [{"question": "kubectl", "skill": "deploy"}, {"question": "pay back", "skill": "refunds"}]
    write(tmp_path / "q.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    return tmp_path


def run(folder: Path, *arguments: str, skills: str = "skills") -> object:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["skillwire", "eval", str(folder / skills), *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code


def test_it_reports_shares_with_intervals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--questions", str(folder / "q.jsonl"), "--min-top1", "100") == 0
    said = capsys.readouterr().out
    assert said.startswith("2 skills, searched by names, descriptions and texts")
    assert "first result right            100.0 %  (2 of 2; 95 % interval 34.2 to 100.0)" in said


def test_without_questions_it_says_how_to_write_ten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == 0
    assert "Write ten for each skill" in capsys.readouterr().out
    assert run(folder, "--min-top1", "50") == 1


def test_a_share_below_the_minimum_and_a_lost_question_fail(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--questions", str(folder / "q.jsonl"), "--baseline", str(folder / "base.json"))
    assert run(folder, *asked) != 0
    assert "write it with --save" in capsys.readouterr().err
    assert run(folder, *asked, "--save") == 0
    assert run(folder, *asked) == 0
    assert run(folder, *asked, "--descriptions", "--min-top1", "90") == 1
    said = capsys.readouterr().out
    assert "FAILED: top-1 is 50.0 % (1 of 2), not 90 %" in said
    assert "1 question answered right in the baseline and not now" in said
    (folder / "base.json").write_text("[]")
    assert run(folder, *asked) not in (0, 1)


def test_json_has_the_whole_report_and_bad_input_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "--questions", str(folder / "q.jsonl"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["summary"]["top1"]["right"] == 2
    assert run(folder, "--save") == 2
    (folder / "q.jsonl").write_text("nonsense\n")
    assert run(folder, "--questions", str(folder / "q.jsonl")) not in (0, 1)
    assert len(capsys.readouterr().err.strip().splitlines()) <= 4
    (folder / "empty").mkdir()
    assert run(folder, skills="empty") not in (0, 1)


def run_words(*words: str) -> object:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["skillwire", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code


class Reviewer(ScriptedModel):
    """Follows the skill if it is told of it, and takes the short cut if not."""

    def reply(self, path: str, request: Any) -> Any:
        assert tool_names(request)
        steps: list[Move] = [(f"*{SHORT_CUT[0]}", SHORT_CUT[1])]
        if "pull-requests" in json.dumps(request):
            steps = [("load_skill", {"name": "pull-requests"}), *((f"*{name}", one) for name, one in STEPS)]
        self.script = [*((lambda results, one=one: one) for one in steps), lambda results: "Submitted."]
        return super().reply(path, request)


@pytest.fixture
def reviewer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reviewer]:
    service = Reviewer([])
    with serving(service):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", service.key)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        yield service


@pytest.mark.process
def test_the_scenario_of_a_review_runs_with_and_without_the_skill(
    reviewer: Reviewer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--junit", str(tmp_path / "run.xml"), "--html", str(tmp_path / "run.html"))
    words = ("eval", "run", str(SERVER.parent), "--model", "anthropic:scripted", "--repeat", "1")
    assert run_words(*words, *files, "--min-pass", "100") == 0
    said = capsys.readouterr()
    assert "with the skill, run 1 of 1: passed" in said.err
    assert "without the skill, run 1 of 1: failed" in said.err
    lines = {line.partition("  ")[0]: " ".join(line.split()) for line in said.out.splitlines()}
    assert lines["all criteria"] == "all criteria 100 % (1 of 1; 21 to 100) 0 % (0 of 1; 0 to 79)"
    assert "price not known" in said.out
    assert ElementTree.parse(tmp_path / "run.xml").getroot().attrib["tests"] == "2"
    assert "<svg" in (tmp_path / "run.html").read_text()


@pytest.mark.process
def test_too_few_passed_runs_fail_and_json_has_the_runs(
    reviewer: Reviewer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (SERVER.parent / "scenario.toml").read_text()
    text = text.replace('"server.py"', json.dumps(str(SERVER)))
    write(tmp_path / "s.toml", f'{text}\n[criteria.impossible]\nanswer = "never"\n'.encode())
    words = ("eval", "run", str(tmp_path / "s.toml"), "--model", "anthropic:scripted", "--repeat", "1")
    assert run_words(*words, "--no-control", "--min-pass", "1", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert [run["skill"] for run in document["reports"][0]["runs"]] == ["with"]
    assert "0 of 1 runs with the skill passed, not 1 %" in document["failures"][0]


def test_eval_run_without_a_model_or_a_scenario_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKILLWIRE_MODEL", raising=False)
    assert run_words("eval", "run", str(SERVER.parent)) == 2
    assert "no model is chosen" in capsys.readouterr().err
    assert run_words("eval", "run", str(tmp_path), "--model", "anthropic:x") == 4
    assert run_words("eval", "run", str(SERVER.parent), "--style", "nobody") == 2
    assert run_words("eval", "run") == 2
    assert "SCENARIO is missing" in capsys.readouterr().err
    assert run_words("help", "eval", "run") == 0
    assert "--repeat N" in capsys.readouterr().out


def test_the_workflow_and_the_hook_run_as_they_are_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = SERVER.parents[3]
    monkeypatch.chdir(folder)
    labels = [{"query": "kubectl", "should_trigger": True}]
    write(folder / "skills/deploy/trigger_eval.json", json.dumps(labels).encode())
    workflow = yaml.safe_load((root / "docs/ci/eval.yml").read_text())
    [command] = [
        step["run"] for step in workflow["jobs"]["eval"]["steps"] if "skillwire eval" in step.get("run", "")
    ]
    hooks = {hook["id"]: hook for hook in yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())}
    hook = [*hooks["skillwire-eval"]["entry"].split(), *hooks["skillwire-eval"]["args"]]
    for words in (command.split(), hook):
        assert run_words(*words[1:], "--save") == 0
        assert run_words(*words[1:]) == 0
    write(folder / "skills/deploy/SKILL.md", skill_md("deploy", "Ships a service.", "Nothing.\n"))
    for words in (command.split(), hook):
        assert run_words(*words[1:]) == 1
    assert "answered right in the baseline and not now" in capsys.readouterr().out


def test_what_a_label_names_reaches_the_terminal_as_text(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"question": "pay \u202eback \x1b[31m", "skill": "no\x1b]0;title\x07 skill"}
    write(folder / "hostile.jsonl", json.dumps(row).encode())
    file = str(folder / "hostile.jsonl")
    assert run(folder, "--questions", file, "--baseline", str(folder / "b.json"), "--save") == 0
    assert run(folder, "--questions", file, "--json") == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "Questions name skills that are not here" in printed


def test_a_hostile_collection_costs_what_the_limits_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        text = f"---\nname: s{number}\ndescription: {'x ' * 5_000_000}\n---\nDo it.\n" if number < 2 else ""
        text = (
            text or f'---\nname: s{number}\ndescription: "a\\u202e\\e[31m {number}"\n---\n{"y" * 100_000}\n'
        )
        write(tmp_path / f"skills/s{number}/SKILL.md", text.encode())
    for number in range(600):  # More than a host loads.
        write(tmp_path / f"skills/s5/files/{number % 50}/{number}.txt", b"x")
    assert run(tmp_path, "--json") == 0
    report = capsys.readouterr().out
    assert len(report) < 1_000_000
    assert "\x1b" not in report
    assert {"s0", "s1", "s5"}.isdisjoint(json.loads(report)["skills"])
    assert len(json.loads(report)["leftOut"]) == 3
