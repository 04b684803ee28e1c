"""The snippet for each client is in that client's format, and starts the server that was asked for."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import Run
from skillwire.cli.command import read_words, words_of
from skillwire.cli.commands import commands_of
from skillwire.cli.commands.publish import CLIENTS
from skillwire.clients import ClientServer, shown_entry, writable_clients

STDIO = ClientServer(command=("/bin/skillwire", "serve", "/my skills", 'od"d'))
HTTP = ClientServer(url="https://skills.example/mcp")
PRIVATE = ClientServer(url="https://skills.example/mcp", token_variable="MY_TOKEN")
PATHS = {
    "claude-desktop": ("mcpServers", "skills"),
    "cursor": ("mcpServers", "skills"),
    "vscode": ("servers", "skills"),
    "codex": ("mcp_servers", "skills"),
    "gemini-cli": ("mcpServers", "skills"),
    "goose": ("extensions", "skills"),
    "zed": ("context_servers", "skills"),
    "windsurf": ("mcpServers", "skills"),
    "opencode": ("mcp", "skills"),
    "qwen-code": ("mcpServers", "skills"),
    "github-copilot": ("mcpServers", "skills"),
    "cline": ("mcpServers", "skills"),
    "junie": ("mcpServers", "skills"),
}
PARSERS = {"codex": tomllib.loads, "goose": yaml.safe_load}


def entry(client: str, server: ClientServer) -> dict[str, Any]:
    known = writable_clients()[client]
    assert known.config is not None
    assert known.config.place.endswith(".")
    snippet = shown_entry(known, server)
    document = PARSERS.get(client, json.loads)(snippet)
    for key in PATHS[client]:
        document = document[key]
    return document


def test_every_client_of_the_option_has_a_format() -> None:
    assert set(PATHS) | {"claude-code"} == set(writable_clients())
    assert tuple(writable_clients()) == CLIENTS


@pytest.mark.parametrize("client", PATHS)
def test_a_command_is_given_word_by_word(client: str) -> None:
    written = entry(client, STDIO)
    program = written.get("command") or written["cmd"]
    words = program if isinstance(program, list) else [program, *written["args"]]
    assert tuple(words) == STDIO.command


@pytest.mark.parametrize("client", PATHS)
def test_a_url_is_given_whole_and_the_token_only_by_its_variable(client: str) -> None:
    assert HTTP.url in json.dumps(entry(client, HTTP))
    assert "MY_TOKEN" not in json.dumps(entry(client, HTTP))
    assert "MY_TOKEN" in json.dumps(entry(client, PRIVATE))


def test_claude_code_gets_a_command_line() -> None:
    claude = writable_clients()["claude-code"]
    words = shlex.split(shown_entry(claude, STDIO))
    assert words == ["claude", "mcp", "add", "skills", "--", *STDIO.command]
    assert "--transport http" in shown_entry(claude, HTTP)
    # The shell must not fill in the variable: the token would be stored, or left out.
    assert "'Authorization: Bearer ${MY_TOKEN}'" in shown_entry(claude, PRIVATE)


@pytest.fixture
def shown(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `skillwire serve` in an empty directory, to show what Cursor needs."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: run("serve", *words, "--print-config", "cursor")


def test_serve_prints_the_snippet_with_absolute_paths_and_its_own_options(shown: Run, tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    code, out, err = shown("skills", "acme=more", "--no-watch", "--page-size", "7")
    assert code == 0
    arguments = json.loads(out)["mcpServers"]["skills"]["args"]
    behind = arguments[arguments.index("serve") + 1 :]
    assert behind == ["--no-watch", "--page-size=7", str(tmp_path / "skills"), f"acme={tmp_path / 'more'}"]
    assert f"There is no directory {tmp_path / 'more'}: create it" in err
    assert f"There is no directory {tmp_path / 'skills'}" not in err


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (["--locked", "skillwire.lock"], "--locked={}/skillwire.lock"),
        ([".", "--instructions", "@notes.md"], "--instructions=@{}/notes.md"),
        (["--store", "sqlite:///registry.db"], "--store=sqlite:///{}/registry.db"),
        (["--store", "postgresql://me@db/skills"], "--store=postgresql://me@db/skills"),
    ],
)
def test_files_that_options_name_are_found_from_any_directory(
    shown: Run, tmp_path: Path, given: list[str], printed: str
) -> None:
    arguments = shown(*given).document["mcpServers"]["skills"]["args"]
    assert printed.format(tmp_path) in arguments


def test_a_client_that_needs_a_token_is_told_where_it_reads_it(shown: Run) -> None:
    ended = shown(".", "--http", "8000", "--token-file", "token.txt")
    assert "reads the token from SKILLWIRE_TOKEN of its environment" in ended.err


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["--allow-host", "skills.example.org"], "http://skills.example.org:8711/mcp"),
        ([], "give it with --allow-host NAME"),
    ],
)
def test_a_client_is_given_the_name_that_others_reach_the_server_by(
    shown: Run, names: list[str], said: str
) -> None:
    _, out, err = shown(".", "--http", "0.0.0.0:8711", *names)
    assert said in out + err


@pytest.mark.parametrize(
    "line",
    ["a", "a b --strict", "a --ttl 1.5 --allow-host x --allow-host y --http h:1", "--no-watch -- -odd"],
)
def test_words_and_values_convert_both_ways(line: str) -> None:
    [command] = commands_of("serve")
    values = read_words(command, line.split())
    assert read_words(command, words_of(command, values)) == values


def test_the_page_on_clients_has_the_snippet_of_each() -> None:
    page = (Path(__file__).parents[2] / "docs/clients.md").read_text("utf-8")
    server = ClientServer(command=("/home/me/.local/bin/skillwire", "serve", "/home/me/skills"))
    for client in writable_clients().values():
        assert client.config is not None
        assert f"(`{client.id}`). {client.config.place}" in page
        assert f"\n{shown_entry(client, server)}\n```" in page
