"""`gateway install` writes one entry into a client's file, `uninstall` removes it, and all else stays."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from command_line import Run, runner
from skillwire.clients import writable_clients
from skillwire.host.importers.base import parse_jsonc
from skillwire.host.importers.readers import find_servers
from terminals import Terminal

FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
    "github-copilot": ".copilot/mcp-config.json",
    "opencode": ".config/opencode/opencode.json",
    "qwen-code": ".qwen/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
    "goose": ".config/goose/config.yaml",
    "claude-code": ".claude.json",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "junie": ".junie/mcp/mcp.json",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys, "gateway")


def parsed(path: Path) -> dict[str, dict[str, object]]:
    text = path.read_text()
    if path.suffix == ".toml":
        return tomllib.loads(text)
    return yaml.safe_load(text) if path.suffix == ".yaml" else parse_jsonc(text)  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("client", writable_clients())
def test_a_client_without_a_file_gets_one_with_the_entry(client: str, home: Path, run: Run) -> None:
    code, _, said = run("install", client)
    assert code == 0, said
    file = home / FILES[client]
    [(_, servers)] = parsed(file).items()
    assert list(servers) == ["skillwire"]
    assert file.stat().st_mode & 0o777 == 0o600
    # Our own importer knows it as the gateway, whatever the format of the client.
    [found] = find_servers(home / "project", home, {}, platform="linux")
    assert (found.place, found.skipped) == (None, "it is your own gateway, which would connect to itself")


BEFORE = {
    "claude-desktop": '{\n  "globalShortcut": "x",\n  "mcpServers": {\n'
    '    "other": {"command": "a", "args": ["{,}"]}\n  }\n}\n',
    "cursor": '{\n  // mine\n  "mcpServers": {\n    "other": { "url": "https://x/mcp" }, // keep\n  },\n}\n',
    "vscode": '{ "inputs": [], "servers": {} }',
    "codex": 'model = "o3" # mine\n\n[mcp_servers.other]\ncommand = "a"\n\n[tools]\nx = 1\n',
    "gemini-cli": '{"theme": "dark"}',
    "goose": "# mine\nGOOSE_MODEL: x\nextensions:\n  other:\n    enabled: true\n    type: stdio\n"
    "    cmd: a\n    name: other\nlast: 1\n",
    "claude-code": '{"numStartups": 3, "projects": {"/x": {"mcpServers": {}}}}',
    "github-copilot": '{"mcpServers": {"other": {"type": "http", "url": "https://x/mcp", "tools": ["*"]}}}',
    "opencode": '{\n  // mine\n  "mcp": {\n'
    '    "other": { "type": "local", "command": ["a"] } // keep\n  }\n}\n',
    "qwen-code": '{"theme": "dark", "mcpServers": {}}',
    "windsurf": '{"mcpServers": {"other": {"serverUrl": "https://x/mcp"}}}',
    "cline": '{"mcpServers": {"other": {"command": "a", "disabled": true}}}',
    "junie": '{"mcpServers": {}}',
    "zed": '// mine\n{\n  "theme": "One",\n  "context_servers": {}, // keep\n}\n',
}


CONTAINERS = {
    "vscode": "servers",
    "codex": "mcp_servers",
    "goose": "extensions",
    "opencode": "mcp",
    "zed": "context_servers",
}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_change_is_shown_without_the_secrets_of_other_entries(
    indent: int | None, home: Path, run: Run
) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir(parents=True, exist_ok=True)
    other = {"env": {"TOKEN": "hunter2"}, "command": "a"}
    file.write_text(json.dumps({"mcpServers": {"other": other}}, indent=indent))
    code, out, said = run("install", "cursor")
    assert code == 0, said
    assert "skillwire" in out
    assert "hunter2" not in out + said
    code, out, said = run("install", "cursor", "--url", "http://127.0.0.1:8100/mcp", "--json")
    assert code == 0, said
    assert "8100" in out
    assert "hunter2" not in out + said


@pytest.mark.parametrize("client", writable_clients())
def test_all_else_in_a_file_stays_and_a_backup_is_kept(client: str, home: Path, run: Run) -> None:
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(BEFORE[client])
    before = parsed(file)
    code, out, said = run("install", client, "--dry-run")
    assert code == 0, said
    assert "skillwire" in out
    assert file.read_text() == BEFORE[client]
    assert run("install", client)[0] == 0
    after = parsed(file)
    backup = file.with_name(f"{file.name}.before-skillwire")
    assert backup.read_text() == BEFORE[client]
    for value in after.values():
        if isinstance(value, dict):
            value.pop("skillwire", None)
    assert {key: value for key, value in after.items() if value != {}} == {
        key: value for key, value in before.items() if value != {}
    }
    for comment in ("// mine", "// keep", "# mine"):
        assert (comment in BEFORE[client]) == (comment in file.read_text())
    # Once more changes nothing; another place replaces the entry.
    written = file.read_text()
    assert run("install", client)[0] == 0
    assert file.read_text() == written
    assert run("install", client, "--url", "http://127.0.0.1:8100/mcp", "--token-env", "TOKEN")[0] == 0
    assert "8100" in file.read_text()
    assert file.read_text().count("skillwire") - file.read_text().count("before-skillwire") >= 1


LAYOUTS = {
    "one line": ("cursor", '{"mcpServers": {"other": {"env": {"TOKEN": "hunter2"}}}}'),
    "no servers": ("cursor", '{\n  "mcpServers": {}\n}\n'),
    "a comment after a comma": ("cursor", '{"mcpServers": {\n  // first\n  "a": {"url": "x"}, // mine\n}}\n'),
    "Windows line endings": ("vscode", '{\r\n  "servers": {\r\n    "a": {"url": "x"}\r\n  }\r\n}\r\n'),
    "a comment before a table": (
        "codex",
        'model = "o3"\n\n# mine\n[mcp_servers.other]\ncommand = "a"\n\n# more\n[tools]\nx = 1\n',
    ),
    "blocks with comments": (
        "goose",
        "extensions:\n    # first\n    other:\n        cmd: a\n\n# last\nlast: 1\n",
    ),
    "an inline table": ("codex", 'mcp_servers = { other = { command = "a" } } # mine\n'),
    "a block with a table in it": (
        "codex",
        '[mcp_servers.other]\ncommand = "a"\n[mcp_servers.other.env]\nA = "1"\n',
    ),
    "no blocks": ("goose", "extensions: {}\nlast: 1\n"),
}


@pytest.mark.parametrize(
    ("client", "text"),
    [*BEFORE.items(), *LAYOUTS.values()],
    ids=[*BEFORE, *LAYOUTS],
)
@pytest.mark.parametrize("url", [(), ("--url", "http://127.0.0.1:8100/mcp", "--token-env", "TOKEN")])
def test_uninstall_leaves_the_file_as_it_was_before_install(
    client: str, text: str, url: tuple[str, ...], home: Path, run: Run
) -> None:
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    file.chmod(0o640)
    before = parsed(file)
    container = CONTAINERS.get(client, "mcpServers")
    assert run("install", client, *url)[0] == 0
    installed = file.read_bytes()
    code, out, said = run("uninstall", client, "--yes")
    assert code == 0, said
    assert "skillwire" in out
    assert "hunter2" not in out + said
    after = file.read_bytes().decode()
    if container in before:
        assert after == text
    else:  # The object that install had to add stays, empty.
        assert parsed(file) == {**before, container: {}}
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.with_name(f"{file.name}.before-skillwire").read_bytes() == installed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"mcpServers": {"a": {}, ENTRY}}', '{"mcpServers": {"a": {}}}'),
        ('{"mcpServers": {"a": {}, ENTRY, "z": {}}}', '{"mcpServers": {"a": {}, "z": {}}}'),
        ('{"mcpServers": {\n  "a": {}, // one\n  ENTRY\n}}', '{"mcpServers": {\n  "a": {} // one\n}}'),
        (
            '{"mcpServers": {\n  "a": {}, // one\n  ENTRY, // two\n}}',
            '{"mcpServers": {\n  "a": {}, // one\n // two\n}}',
        ),
        ('{"mcpServers": { // one\nENTRY, "a": {}}}', '{"mcpServers": { // one\n "a": {}}}'),
        (
            '{"mcpServers": {/* , */ ENTRY /* } */}, "x": {"skillwire": "gateway"}}',
            '{"mcpServers": {/* , */ /* } */}, "x": {"skillwire": "gateway"}}',
        ),
    ],
)
def test_an_entry_is_removed_from_any_place_among_comments(
    before: str, after: str, home: Path, run: Run
) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir()
    file.write_text(before.replace("ENTRY", '"skillwire": {"command": "skillwire", "args": ["gateway"]}'))
    code, _, said = run("uninstall", "cursor", "--yes")
    assert code == 0, said
    assert file.read_text() == after


def test_uninstall_says_when_there_is_nothing_to_remove(home: Path, run: Run) -> None:
    file = home / FILES["cursor"]
    nothing = f"{file} has no entry of the gateway: nothing to remove.\n"
    assert run("uninstall", "cursor") == (0, "", nothing)
    assert not file.exists()
    file.parent.mkdir()
    file.write_text(BEFORE["cursor"])
    assert run("uninstall", "cursor", "--yes") == (0, "", nothing)
    assert file.read_text() == BEFORE["cursor"]
    code, out, said = run("uninstall")
    assert (code, out) == (0, "")
    assert said.startswith("No client has an entry of the gateway (claude-code, ")
    assert json.loads(run("uninstall", "--json")[1])["removed"] == []


def test_uninstall_without_a_name_finds_every_client_and_asks_first(home: Path, run: Run) -> None:
    for client in ("cursor", "codex"):
        assert run("install", client)[0] == 0
    written = {client: (home / FILES[client]).read_text() for client in ("cursor", "codex")}
    code, out, said = run("uninstall")
    assert code == 7
    assert "these entries would be removed, but this is not a terminal: use --yes" in said
    assert all(str(home / FILES[client]) in out for client in written)
    code, out, said = run("uninstall", "--dry-run")
    assert (code, "Nothing was written" in said) == (0, True)
    assert {client: (home / FILES[client]).read_text() for client in written} == written
    found = json.loads(run("uninstall", "--yes", "--json")[1])
    assert [one["client"] for one in found["removed"]] == ["codex", "cursor"]
    assert parsed(home / FILES["cursor"]) == {"mcpServers": {}}
    assert parsed(home / FILES["codex"]) == {}


@pytest.mark.process
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 7)])
def test_uninstall_asks_on_a_terminal(answer: str, code: int, home: Path, run: Run) -> None:
    assert run("install", "cursor")[0] == 0
    terminal = Terminal("gateway", "uninstall", "cursor")
    terminal.answer("Remove this entry? [y]es", f"{answer}\n")
    assert terminal.end() == code, terminal.screen
    assert ("skillwire" in (home / FILES["cursor"]).read_text()) == (answer == "n")


def test_uninstall_leaves_an_entry_of_the_same_name_that_is_no_gateway(home: Path, run: Run) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir()
    text = '{"mcpServers": {"skillwire": {"command": "skillwire", "args": ["serve", "skills"]}}}'
    file.write_text(text)
    code, out, said = run("uninstall", "cursor", "--yes")
    assert (code, out) == (4, "")
    assert "is not a gateway" in said
    assert file.read_text() == text


@pytest.mark.parametrize("text", ["[1, 2]", '{"mcpServers": 3}', "{", '{"mcpServers": {"a": }'])
def test_a_file_that_cannot_be_edited_is_left_alone(text: str, home: Path, run: Run) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir()
    file.write_text(text)
    code, _, said = run("install", "cursor")
    assert code != 0
    assert str(file) in said
    assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]


def test_servers_that_only_this_directory_has_are_named(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client starts the gateway in another directory, where the file of this project is not read."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    assert "--user" not in run("install", "cursor", "--dry-run")[2]
    Path("skillwire.toml").write_text('[servers.docs]\nurl = "https://docs.example/mcp"\n')
    for words in (["--dry-run"], [], []):
        code, _, err = run("install", "cursor", *words)
        assert code == 0
        assert f"does not see docs of {home / 'work/skillwire.toml'}" in err
    assert "--user" not in run("install", "cursor", "--url", "https://gateway.example/mcp")[2]


def test_callers_are_added_listed_and_removed(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "callers.toml"
    code, token, said = run("callers", "add", "alice", "--tokens", file, "--label", "docs")
    assert code == 0, said
    assert token.startswith("skw_")
    assert token.strip() not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("callers", "add", "alice", "--tokens", file)[0] == 4
    assert run("callers", "add", "alice", "--tokens", file, "--replace")[0] == 0
    code, out, _ = run("callers", "--tokens", file, "--json")
    assert [one["labels"] for one in json.loads(out)["callers"]] == [["docs"]]
    assert run("callers", "remove", "alice", "--tokens", file)[0] == 0
    assert "no callers" in run("callers", "--tokens", file)[1]
    assert run("callers", "remove", "alice", "--tokens", file)[0] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tokens", "x"], "needs --http"),
        (["--approval", "locked"], "needs --locked"),
        (["--locked", "x", "--approval", "listed"], "exclude each other"),
        (["--http", "0", "--tokens", "a", "--token-file", "b"], "exclude each other"),
        (["--no-config", "--no-default-directories"], "nothing to serve"),
        (["--http", "0.0.0.0:0", "--no-config", "--dir", "."], "can be reached by others"),
        (["callers"], "--tokens is missing"),
        (["install", "emacs"], "must be one of"),
        (["install", "cursor", "--token-env", "X"], "needs --url"),
    ],
)
def test_a_contradictory_command_line_is_refused_in_one_line(
    words: list[str],
    said: str,
    home: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.delenv("SKILLWIRE_TOKEN", raising=False)
    code, _, error = run(*words)
    assert code in (2, 4)
    assert said in error
