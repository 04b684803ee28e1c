"""`skillwire eval` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sample_entries import skill_md
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
