"""The agents of the examples load a skill and read a file of it, from a real server and without a model."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
Run = Callable[..., list[str]]

pytestmark = pytest.mark.process  # Each starts `skillwire serve`.


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example as a program, for somebody who has nothing yet, and gives the lines that it prints."""
    for name in [name for name in os.environ if name.startswith("SKILLWIRE_")]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def start(example: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [example, *arguments])
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
        assert list(tmp_path.rglob("approvals*")) == []
        return capsys.readouterr().out.splitlines()

    return start


@pytest.mark.requirement("VER-1", "SEC-5")
def test_an_agent_on_pydantic_ai_loads_a_skill_and_reads_a_file(run: Run) -> None:
    approved, answer = run("agent_pydantic_ai.py")
    assert approved == "The user approves code-review from MCP server samples."
    assert answer.startswith("I review by ")
    assert answer.partition("such as: ")[2] in (
        EXAMPLES / "skills/code-review/references/checklist.md"
    ).read_text("utf-8")


@pytest.mark.parametrize("style", ["anthropic", "openai"])
def test_a_bare_loop_uses_the_same_api_in_either_format(run: Run, style: str) -> None:
    slip, approved, loaded, read, answer = run("agent_loop.py", style)
    assert slip.startswith('load_skill({"name": "releasenotes"}): error')
    assert approved == "The user approves release-notes from MCP server samples."
    assert loaded.startswith('load_skill({"name": "release-notes"}): ok')
    assert read.startswith(
        'read_skill_file({"name": "release-notes", "path": "assets/release-notes.md"}): ok'
    )
    template = (EXAMPLES / "skills/team/release-notes/assets/release-notes.md").read_text("utf-8")
    headings = [line.strip("# ") for line in template.splitlines() if line.startswith("## ")]
    assert answer == f"The notes have these parts: {', '.join(headings)}"
