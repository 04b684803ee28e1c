"""The scenario of a review: a model that knows only what it was sent, and the five criteria."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from folder_server import in_thread
from skillwire.chat.demo import Move, file_call, load_call

SERVER = Path(__file__).parents[2] / "examples/scenarios/pr-review/server.py"
TASK = "Review pull request 7 of the forge."
WRITES = ("open_pending_review", "attach_review_note", "finish_review", "post_review")
STEPS: Sequence[tuple[str, dict[str, Any]]] = (
    ("open_pending_review", {"number": 7}),
    ("attach_review_note", {"review": 41, "path": "upload.py", "line": 3, "text": "It never ends: count."}),
    ("finish_review", {"review": 41, "verdict": "request_changes"}),
)
SHORT_CUT = ("post_review", {"number": 7, "text": "Fine.", "verdict": "approve"})


@contextmanager
def serving_forge(log: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The URL of the forge, served by this process; its calls are written to `log`."""
    monkeypatch.setenv("FORGE_LOG", str(log))
    module: Any = runpy.run_path(str(SERVER))
    with in_thread(module["server"].streamable_http_app()) as url:
        yield f"{url}/mcp"


def next_move(told: str, tools: Sequence[str], results: Sequence[str]) -> Move:
    """What a model does that learns the names of tools and skills from nothing but what it was sent.

    `told` are its instructions. Without a skill that fits it takes the short cut.
    """
    if "pull-requests" not in told:
        return _tool(tools, *SHORT_CUT) if not results else "Posted."
    if not results:
        return load_call(tools, told, "pull-requests")
    skill = results[0]
    if "Reviewing a pull request" not in skill:
        return "I could not read the skill, so I wrote nothing."
    if len(results) == 1:
        return file_call(tools, skill, "pull-requests", "references/GUIDE.md", server="forge")
    named = re.findall(r"`(\w+_review\w*)`", skill)
    steps = [step for step in STEPS if step[0] in named]
    done = len(results) - 2
    return _tool(tools, *steps[done]) if done < len(steps) else "The review was submitted."


def _tool(tools: Sequence[str], name: str, arguments: Mapping[str, Any]) -> Move:
    full = next((tool for tool in tools if tool.endswith(name)), "")
    return (full, dict(arguments)) if full else f"There is no tool {name}."


def criteria(log: Path) -> dict[str, bool]:
    """Which of the five criteria the calls in a log meet."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    calls = [json.loads(line) for line in lines]
    names = [call["tool"] for call in calls]
    first_write = min((names.index(name) for name in WRITES if name in names), default=len(names))
    return {
        "the skill is read before the first write": "read SKILL.md" in names[:first_write],
        "a pending review is created": "open_pending_review" in names,
        "comments are added": "attach_review_note" in names,
        "it is submitted with a verdict": any(
            call["tool"] == "finish_review" and call["verdict"] for call in calls
        ),
        "nothing is posted in a single step": "post_review" not in names,
    }
