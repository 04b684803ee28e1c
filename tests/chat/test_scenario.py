"""A model that reviews a pull request with the skill of its server, in every style, and without the skill."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chat.forge import SERVER, TASK, criteria, next_move
from folder_server import in_thread
from simulator import agree, make_host
from skillwire.chat import ChatSession
from skillwire.chat.demo import Move, scripted_model
from skillwire.host import ServerConfig, ToolRequest
from skillwire.host.styles import all_styles

pytestmark = [pytest.mark.anyio, pytest.mark.process]
STYLES = [style.name for style in all_styles()]


def forge(log: Path) -> ServerConfig:
    env = {"FORGE_LOG": str(log), "PATH": os.environ.get("PATH", "")}
    return ServerConfig(command=(sys.executable, str(SERVER)), env=env, connect_seconds=60)


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


@pytest.mark.parametrize("style", STYLES)
async def test_a_review_meets_the_five_criteria_over_stdio(style: str, tmp_path: Path) -> None:
    answer = await review(tmp_path, forge(tmp_path / "log"), style)
    assert criteria(tmp_path / "log") == dict.fromkeys(criteria(tmp_path / "log"), True), answer
    assert answer == "The review was submitted."


@pytest.mark.parametrize("style", STYLES)
async def test_a_review_meets_the_five_criteria_over_http(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_LOG", str(tmp_path / "log"))
    module: Any = runpy.run_path(str(SERVER))
    with in_thread(module["server"].streamable_http_app()) as url:
        await review(tmp_path, f"{url}/mcp", style)
    assert criteria(tmp_path / "log") == dict.fromkeys(criteria(tmp_path / "log"), True)


async def test_without_the_skill_the_model_takes_the_short_cut(tmp_path: Path) -> None:
    await review(tmp_path, forge(tmp_path / "log"), "spec", skills=False)
    assert criteria(tmp_path / "log") == dict.fromkeys(criteria(tmp_path / "log"), False)
