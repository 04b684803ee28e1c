"""The table of agent clients: every row is usable, and an agent is known by its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.clients import BaseDirectories, agents, clients, running_agent
from skillwire.host.importers.readers import READERS

PERSON = {"TERM": "xterm-256color", "TERM_PROGRAM": "vscode", "PAGER": "less", "CI": "true", "AGENT": "ssh"}


def environment_of(sign: str) -> dict[str, str]:
    """The least environment in which a sign of the table holds."""
    parts = (part.partition("=") for part in sign.split())
    return {name: value.replace("*", "") or "1" for name, _, value in parts}


SIGNS = [
    pytest.param(client.name, environment_of(sign), id=f"{client.id}-{sign.partition('=')[0]}")
    for client in clients().values()
    for sign in client.inside
]


@pytest.mark.parametrize(("name", "environment"), SIGNS)
def test_an_agent_is_known_by_each_of_its_signs(name: str, environment: dict[str, str]) -> None:
    assert running_agent(PERSON | environment) == name


@pytest.mark.parametrize(("name", "environment"), SIGNS)
def test_a_sign_needs_all_of_its_parts(name: str, environment: dict[str, str]) -> None:
    for missing in environment:
        rest = {key: value for key, value in environment.items() if key != missing}
        assert running_agent(rest) is None, name
    assert running_agent(dict.fromkeys(environment, "")) is None


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"AI_AGENT": "somebody-new"}, "an agent"),
        ({"AI_AGENT": "claude-code_2.1"}, "Claude Code"),
        ({"AGENT": "goose"}, "Goose"),
        ({"AGENT": "1"}, "an agent"),
        ({"AGENT": "ssh"}, None),
        ({"GROK_AGENT": "/home/me/profile"}, None),
        ({"TERM_PROGRAM": "zed", "PAGER": "less"}, None),
        ({"AI_AGENT": " "}, None),
        ({}, None),
    ],
)
def test_conventions_among_agents_are_known(environment: dict[str, str], name: str | None) -> None:
    assert running_agent(environment) == name


def test_the_agents_that_most_people_use_can_be_recognized() -> None:
    known = {client.id for client in clients().values() if client.inside}
    assert known >= {
        "claude-code",
        "codex",
        "gemini-cli",
        "opencode",
        "cursor",
        "github-copilot",
        "qwen-code",
    }


def test_every_file_of_the_table_has_a_reader_and_a_path() -> None:
    places = BaseDirectories(Path("/p"), Path("/home/u"), {"OPENCODE_CONFIG": "/o.json"})
    rows = list(places.config_files())
    assert {file.dialect for _, file, _ in rows} == set(READERS)
    assert all(path.is_absolute() for _, _, path in rows)
    assert all(path.is_relative_to("/p") == file.of_project for _, file, path in rows)
    # A file that only a variable names is one only where it is set.
    assert Path("/o.json") in {path for _, _, path in rows}
    assert len(list(BaseDirectories(Path("/p"), Path("/home/u"), {}).config_files())) == len(rows) - 1


def test_ids_and_names_are_unique() -> None:
    assert len({client.name for client in clients().values()}) == len(clients())
    assert set(agents()) < set(clients())
