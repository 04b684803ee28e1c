"""The program of every guide runs, with the real package of its framework and a scripted model service."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from environments import environment
from scripted_model import ScriptedModel, serving

ROOT = Path(__file__).parent.parent.parent
GUIDES = sorted((ROOT / "docs/frameworks").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VERSION = re.compile(r"^\|.*\| ([a-z-]+) ([0-9][0-9.]*) \|$", re.MULTILINE)
PAGE = (ROOT / "docs/frameworks.md").read_text("utf-8")
SECONDS = 300


def block(page: Path, language: str) -> str:
    return next(text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language)


@pytest.mark.process
@pytest.mark.peer
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_program_of_a_guide_runs(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/skills", tmp_path / "skills")
    model = ScriptedModel(
        [
            lambda results: ("load_skill", {"name": "code-review"}),
            lambda results: ("read_skill_file", {"name": "code-review", "path": "references/checklist.md"}),
            lambda results: (
                "Reviewed by: " + next(line for line in results[-1].splitlines() if line[:2] == "- ")
            ),
        ]
    )
    with serving(model):
        env = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(("XDG_", "SKILLWIRE_"))
            },
            "HOME": str(tmp_path),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT / "src"),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": model.key,
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": model.key,
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "AGNO_TELEMETRY": "false",
            "NO_PROXY": "127.0.0.1",
        }

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        for line in block(page, "sh").splitlines():
            if line.startswith("skillwire "):
                run(*shlex.split(line))
        printed = run(str(environment("frameworks")), "-c", block(page, "python"))
    if page.stem == "claude-agent-sdk":
        assert printed == "['code-review']\n"
        return
    assert "Load code-review from MCP server team?" in printed
    if page.stem == "fastmcp":
        assert "<untrusted_skill_" in printed
        return
    rule = (tmp_path / "skills/code-review/references/checklist.md").read_text("utf-8")
    assert printed.splitlines()[-1].removeprefix("Reviewed by: ") in rule
    assert len(model.requests) == 3


def test_the_versions_of_the_page_are_those_that_are_tested() -> None:
    frameworks = (ROOT / "tests/environments/frameworks.txt").read_text("utf-8")
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", frameworks, re.MULTILINE))
    told = dict(VERSION.findall(PAGE))
    assert {name: pins[name] for name in told} == told
    drivers = (ROOT / "tests/adapters/contract/drivers").glob("drive_*.py")
    packages = {re.search(r'^package = "(.*)"$', file.read_text("utf-8"), re.MULTILINE) for file in drivers}
    assert set(told) == {found[1] for found in packages if found}


def test_every_guide_is_one_screen_and_in_the_table() -> None:
    for page in GUIDES:
        assert len(page.read_text("utf-8").splitlines()) <= 50
        assert f"(frameworks/{page.name})" in PAGE
