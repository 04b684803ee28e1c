"""Configuration files as other clients write them: what is taken over, and what is skipped and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from skillwire.host.config.text import Place
from skillwire.host.importers.files import FoundServer, find_servers


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path / "project"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def found(
    project: Path, home: Path, environment: Mapping[str, str] | None = None, platform: str = "linux"
) -> dict[str, FoundServer]:
    servers = find_servers(project, home, environment or {}, platform=platform)
    return {f"{server.label}": server for server in servers}


def places(servers: Mapping[str, FoundServer]) -> dict[str, Place]:
    return {label: server.place for label, server in servers.items() if server.place is not None}


def skipped(servers: Mapping[str, FoundServer]) -> dict[str, str]:
    return {label: server.skipped for label, server in servers.items() if server.place is None}


def test_without_clients_nothing_is_found(project: Path, home: Path) -> None:
    assert found(project, home) == {}


def test_mcp_json_of_a_project(project: Path, home: Path) -> None:
    write(
        project / ".mcp.json",
        """{
          "mcpServers": {
            "github": {"type": "http", "url": "https://api.example/mcp",
                       "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}},
            "db": {"command": "npx", "args": ["-y", "db", "${DB_URL:-postgres://localhost}"],
                   "env": {"LEVEL": "${LEVEL:-info}", "KEY": "${KEY}"}},
            "old": {"type": "sse", "url": "https://old.example/sse"},
            "helped": {"type": "http", "url": "https://h.example", "headersHelper": "/bin/token"}
          }
        }""",
    )
    servers = found(project, home, {"LEVEL": "debug"})
    assert places(servers) == {
        "github": Place(url="https://api.example/mcp", headers={"Authorization": "Bearer ${GITHUB_TOKEN}"}),
        "db": Place(
            command=("npx", "-y", "db", "postgres://localhost"),
            env={"LEVEL": "${LEVEL}", "KEY": "${KEY}"},
            directory=str(project),
        ),
    }
    assert skipped(servers) == {
        "old": "it uses the deprecated SSE transport, which is not supported",
        "helped": "a program makes its headers",
    }


def test_claude_code_has_servers_of_the_user_and_of_each_project(project: Path, home: Path) -> None:
    write(
        home / ".claude.json",
        f"""{{
          "numStartups": 12,
          "mcpServers": {{"everywhere": {{"type": "stdio", "command": "a", "args": [], "env": {{}}}},
                          "tired": {{"command": "z"}}}},
          "projects": {{
            "{project}": {{"allowedTools": [], "disabledMcpServers": ["tired"],
                           "mcpServers": {{"here": {{"type": "stdio", "command": "b", "args": ["x"]}}}}}},
            "/elsewhere": {{"mcpServers": {{"there": {{"command": "c"}}}}}}
          }}
        }}""",
    )
    servers = found(project, home)
    assert places(servers) == {"everywhere": Place(command=("a",)), "here": Place(command=("b", "x"))}
    assert skipped(servers) == {
        "tired": "it is switched off there",
        "there": "it belongs to the project /elsewhere: import it there",
    }


@pytest.mark.parametrize(
    ("platform", "environment", "file"),
    [
        ("linux", {}, ".config/Claude/claude_desktop_config.json"),
        ("darwin", {}, "Library/Application Support/Claude/claude_desktop_config.json"),
        ("win32", {}, "AppData/Roaming/Claude/claude_desktop_config.json"),
    ],
)
def test_claude_desktop_takes_texts_as_they_stand(
    project: Path, home: Path, platform: str, environment: dict[str, str], file: str
) -> None:
    write(
        home / file,
        '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "fs", "/a b"], "env": {"K": "${T}"}}}}',
    )
    assert places(found(project, home, environment, platform)) == {
        "files": Place(command=("npx", "-y", "fs", "/a b"), env={"K": "$${T}"})
    }


def test_cursor_in_the_project_and_at_home(project: Path, home: Path) -> None:
    write(
        project / ".cursor/mcp.json",
        """{"mcpServers": {
          "web": {"url": "https://${env:HOST}/mcp", "headers": {"X-Key": "${env:KEY}"}},
          "root": {"command": "${userHome}/bin/run", "args": ["${workspaceFolder}", "--n"]},
          "filed": {"command": "x", "envFile": ".env"},
          "odd": {"command": "x", "args": ["${pathSeparator}"]},
          "signed": {"url": "https://s.example", "auth": {"CLIENT_ID": "x"}}
        }}""",
    )
    write(home / ".cursor/mcp.json", '{"mcpServers": {"events": {"url": "http://localhost:3000/sse"}}}')
    servers = found(project, home)
    assert places(servers) == {
        "web": Place(url="https://${HOST}/mcp", headers={"X-Key": "${KEY}"}),
        "root": Place(command=(f"{home}/bin/run", str(project), "--n"), directory=str(project)),
    }
    assert skipped(servers) == {
        "filed": "its variables are in a file of their own",
        "odd": "it has the placeholder ${pathSeparator}",
        "signed": "it signs in with OAuth",
        "events": "it uses the deprecated SSE transport, which is not supported",
    }


def test_vs_code_with_comments_inputs_and_its_older_settings(project: Path, home: Path) -> None:
    write(
        project / ".vscode/mcp.json",
        """{
          // Asked for once.
          "inputs": [{"type": "promptString", "id": "key", "description": "Key", "password": true}],
          "servers": {
            "asks": {"type": "stdio", "command": "npx", "env": {"KEY": "${input:key}"}},
            "plain": {"type": "stdio", "command": "uvx", "args": ["git", "--at", "http://x // y"], /* note */
                      "cwd": "${workspaceFolder}/sub"},
            "boxed": {"type": "stdio", "command": "x", "sandboxEnabled": true},
          },
        }""",
    )
    write(
        home / ".config/Code/User/mcp.json",
        '{"servers": {"mine": {"type": "http", "url": "https://m.example/mcp"}}, "inputs": []}',
    )
    write(
        home / ".config/Code/User/settings.json",
        '{"editor.fontSize": 12, "mcp": {"servers": {"older": {"command": "old"}}}}',
    )
    servers = found(project, home)
    assert places(servers) == {
        "plain": Place(command=("uvx", "git", "--at", "http://x // y"), directory=f"{project}/sub"),
        "mine": Place(url="https://m.example/mcp"),
        "older": Place(command=("old",)),
    }
    assert skipped(servers) == {
        "asks": "it asks for the input key when it starts",
        "boxed": "it runs in a sandbox there",
    }


def test_codex_has_keys_of_its_own_for_variables(project: Path, home: Path) -> None:
    write(
        home / ".codex/config.toml",
        """
        model = "x"
        [mcp_servers.web]
        url = "https://w.example/mcp"
        bearer_token_env_var = "W_TOKEN"
        http_headers = { X-Team = "${literal}" }
        env_http_headers = { X-Key = "X_KEY" }
        [mcp_servers.tool]
        command = "npx"
        args = ["-y", "tool"]
        env = { A = "b" }
        env_vars = ["PASSED", "NOT_SET"]
        startup_timeout_sec = 20
        [mcp_servers.off]
        command = "x"
        enabled = false
        """,
    )
    servers = found(project, home, {"PASSED": "1"})
    assert places(servers) == {
        "web": Place(
            url="https://w.example/mcp",
            token_env="W_TOKEN",
            headers={"X-Team": "$${literal}", "X-Key": "${X_KEY}"},
        ),
        "tool": Place(command=("npx", "-y", "tool"), env={"A": "b", "PASSED": "${PASSED}"}),
    }
    assert skipped(servers) == {"off": "it is switched off there"}


def test_gemini_cli_with_its_allowed_and_excluded_servers(project: Path, home: Path) -> None:
    write(
        home / ".gemini/settings.json",
        """{
          "mcp": {"excluded": ["noisy"], "allowed": ["web", "tool", "noisy", "events"]},
          "mcpServers": {
            "web": {"httpUrl": "http://localhost:3000/mcp", "headers": {"Authorization": "Bearer $TOKEN"}},
            "tool": {"command": "python", "args": ["-m", "x"], "cwd": "./sub", "timeout": 15000,
                     "env": {"A": "${EXTERNAL}", "B": "$5"}},
            "noisy": {"command": "n"},
            "events": {"url": "http://localhost:8080/sse"},
            "stranger": {"command": "s"}
          }
        }""",
    )
    servers = found(project, home)
    assert places(servers) == {
        "web": Place(url="http://localhost:3000/mcp", headers={"Authorization": "Bearer ${TOKEN}"}),
        "tool": Place(
            command=("python", "-m", "x"), env={"A": "${EXTERNAL}", "B": "$5"}, directory=f"{project}/sub"
        ),
    }
    assert skipped(servers) == {
        "noisy": "it is switched off there",
        "events": "it uses the deprecated SSE transport, which is not supported",
        "stranger": "it is not allowed there",
    }


def test_goose_has_servers_among_its_extensions(project: Path, home: Path) -> None:
    write(
        home / ".config/goose/config.yaml",
        """
GOOSE_MODEL: x
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    timeout: 300
    bundled: true
  files:
    enabled: true
    type: stdio
    name: files
    cmd: npx
    args: [-y, fs]
    envs: {LEVEL: "1"}
    env_keys: [SET_KEY]
    timeout: 300
  hidden:
    enabled: true
    type: stdio
    cmd: x
    args: []
    env_keys: [LOST_KEY]
  remote:
    enabled: true
    type: streamable_http
    name: remote
    uri: https://r.example/mcp
    headers: {X-Key: v}
  events:
    enabled: true
    type: sse
    uri: https://e.example/sse
  off:
    enabled: false
    type: stdio
    cmd: x
    args: []
""",
    )
    servers = found(project, home, {"SET_KEY": "s3cr3t"})
    assert places(servers) == {
        "files": Place(command=("npx", "-y", "fs"), env={"LEVEL": "1", "SET_KEY": "${SET_KEY}"}),
        "remote": Place(url="https://r.example/mcp", headers={"X-Key": "v"}),
    }
    assert skipped(servers) == {
        "developer": "it is a part of Goose, not a server",
        "hidden": "Goose keeps its secret LOST_KEY, which is not set here",
        "events": "it uses the deprecated SSE transport, which is not supported",
        "off": "it is switched off there",
    }


def test_one_server_of_several_clients_is_found_once_and_others_get_names_of_their_own(
    project: Path, home: Path
) -> None:
    same = '{"mcpServers": {"docs": {"command": "docs"}, "My Server!": {"command": "m"}}}'
    write(project / ".mcp.json", same)
    write(home / ".cursor/mcp.json", same)
    write(
        home / ".gemini/settings.json",
        '{"mcpServers": {"docs": {"command": "other"}, "local": {"command": "l"}}}',
    )
    servers = found(project, home)
    assert places(servers) == {
        "docs": Place(command=("docs",)),
        "My-Server": Place(command=("m",)),
        "docs-2": Place(command=("other",)),
        "local-server": Place(command=("l",)),
    }
    assert servers["docs"].clients == ("Cursor", "Claude Code")
    assert [(file.path, file.of_project) for file in servers["docs"].files] == [
        (home / ".cursor/mcp.json", False),
        (project / ".mcp.json", True),
    ]


def test_a_project_takes_no_name_from_a_server_of_the_user(project: Path, home: Path) -> None:
    write(project / ".mcp.json", '{"mcpServers": {"docs": {"command": "theirs"}}}')
    write(home / ".gemini/settings.json", '{"mcpServers": {"docs": {"command": "mine"}}}')
    assert places(found(project, home)) == {
        "docs": Place(command=("mine",)),
        "docs-2": Place(command=("theirs",), directory=str(project)),
    }


def test_at_home_the_users_files_are_no_projects(home: Path) -> None:
    write(home / ".cursor/mcp.json", '{"mcpServers": {"docs": {"command": "docs"}}}')
    write(home / ".mcp.json", '{"mcpServers": {"other": {"command": "other"}}}')
    servers = found(home, home)
    assert [file.of_project for label in ("docs", "other") for file in servers[label].files] == [False, True]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".mcp.json", '{"mcpServers": {"a": {"env": {"K": "s3cr3t"'),
        (".mcp.json", "[" * 100_000),
        (".codex/config.toml", 'token = "s3cr3t'),
    ],
)
def test_a_file_that_cannot_be_read_is_said_and_not_quoted(
    project: Path, home: Path, file: str, text: str
) -> None:
    write(project / file, text)
    [server] = found(project, home).values()
    assert server.skipped.startswith("the file cannot be read: it is not ")
    assert "s3cr3t" not in server.skipped


@pytest.mark.parametrize(
    "text",
    ["[]", "3", '{"mcpServers": []}', '{"mcpServers": {"a": 3}}', '{"mcpServers": {"a": {"command": 3}}}'],
)
def test_a_file_of_another_shape_does_no_harm(project: Path, home: Path, text: str) -> None:
    write(project / ".mcp.json", text)
    assert places(found(project, home)) == {}
