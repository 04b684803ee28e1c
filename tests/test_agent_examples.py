"""The agents of the examples load a skill and read a file of it, from a real server and without a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SECONDS = 90


def run(example: str, *arguments: str, home: Path) -> list[str]:
    """What an example prints, run as a process of its own by somebody who has nothing yet."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKILLWIRE_")}
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        env={**environment, "HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CACHE_HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert list(home.rglob("approvals*")) == []
    return ended.stdout.splitlines()


@pytest.mark.process
@pytest.mark.requirement("VER-1", "SEC-5")
def test_an_agent_on_pydantic_ai_loads_a_skill_and_reads_a_file(tmp_path: Path) -> None:
    approved, answer = run("agent_pydantic_ai.py", home=tmp_path)
    assert approved == "The user approves code-review from MCP server samples."
    assert answer.startswith("I review by ")
    assert answer.partition("such as: ")[2] in (
        EXAMPLES / "skills/code-review/references/checklist.md"
    ).read_text("utf-8")


@pytest.mark.process
@pytest.mark.parametrize("style", ["anthropic", "openai"])
def test_a_bare_loop_uses_the_same_api_in_either_format(style: str, tmp_path: Path) -> None:
    slip, approved, loaded, read, answer = run("agent_loop.py", style, home=tmp_path)
    assert slip.startswith('load_skill({"name": "releasenotes"}): error')
    assert approved == "The user approves release-notes from MCP server samples."
    assert loaded.startswith('load_skill({"name": "release-notes"}): ok')
    assert read.startswith(
        'read_skill_file({"name": "release-notes", "path": "assets/release-notes.md"}): ok'
    )
    template = (EXAMPLES / "skills/team/release-notes/assets/release-notes.md").read_text("utf-8")
    headings = [line.strip("# ") for line in template.splitlines() if line.startswith("## ")]
    assert answer == f"The notes have these parts: {', '.join(headings)}"
