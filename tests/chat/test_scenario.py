"""A model that reviews a pull request with the skill of its server, in every style, and without the skill."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from chat.forge import SERVER, TASK, criteria, next_move, serving_forge
from simulator import agree, make_host
from skillwire.chat import ChatSession
from skillwire.chat.demo import Move, scripted_model
from skillwire.host import ServerConfig, ToolRequest
from skillwire.host.styles import all_styles

pytestmark = pytest.mark.anyio
STYLES = [style.name for style in all_styles()]


async def allow(request: ToolRequest) -> bool:
    return True


async def review(folder: Path, server: ServerConfig | str, style: str, *, skills: bool = True) -> str:
    """What a scripted model answers to the task of a review."""
    host = make_host(
        folder, servers={"forge": server}, style=style, ask=agree, ask_read=agree, ask_tool=allow
    )
    async with host:
        if not skills:
            for skill in host.skills():
                host.decide.set_enabled(skill.handle, False)
        session = ChatSession(host, scripted_model(one_move), folder=folder)
        events = [event async for event in session.send(TASK)]
    assert [event.text for event in events if event.type == "error"] == []
    return "".join(event.text for event in events if event.type == "text")


def one_move(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
    return [next_move(told, tools, results)]


@pytest.mark.process
async def test_a_review_meets_the_five_criteria_over_stdio(tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {"FORGE_LOG": str(log), "PATH": os.environ.get("PATH", "")}
    server = ServerConfig(command=(sys.executable, str(SERVER)), env=env, connect_seconds=60)
    assert await review(tmp_path, server, "spec") == "The review was submitted."
    assert criteria(log) == dict.fromkeys(criteria(log), True)


@pytest.mark.parametrize("style", STYLES)
async def test_a_review_meets_the_five_criteria_over_http(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    with serving_forge(log, monkeypatch) as url:
        answer = await review(tmp_path, url, style)
    assert criteria(log) == dict.fromkeys(criteria(log), True), answer
    assert answer == "The review was submitted."


async def test_without_the_skill_the_model_takes_the_short_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    with serving_forge(log, monkeypatch) as url:
        await review(tmp_path, url, "spec", skills=False)
    assert criteria(log) == dict.fromkeys(criteria(log), False)
