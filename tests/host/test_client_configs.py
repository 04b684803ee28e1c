"""Configuration files as other clients write them: what is imported, and what is skipped and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from skillwire.host import ServerAddress
from skillwire.host.importers.base import parse_jsonc
from skillwire.host.importers.readers import FoundServer, find_servers


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


def places(servers: Mapping[str, FoundServer]) -> dict[str, ServerAddress]:
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
        "github": ServerAddress(url="https://api.example/mcp", token_env="GITHUB_TOKEN"),
        "db": ServerAddress(
            command=("npx", "-y", "db", "postgres://localhost"),
            env={"LEVEL": "${LEVEL}", "KEY": "${KEY}"},
            directory=str(project),
        ),
    }
    assert skipped(servers) == {
        "old": "it uses the deprecated SSE transport, which is not supported",
        "helped": "a program makes its headers",
    }


@pytest.mark.parametrize(
    "command",
    [
        ["/opt/bin/skillwire", "gateway"],
        ["C:\\Tools\\skillwire.exe", "gateway", "--ttl", "5"],
        ["/usr/bin/python3", "-m", "skillwire", "gateway"],
    ],
)
def test_our_own_gateway_is_not_imported_into_itself(project: Path, home: Path, command: list[str]) -> None:
    entry = {"command": command[0], "args": command[1:]}
    other = {"command": "/opt/bin/skillwire", "args": ["serve", "gateway"]}
    write(home / ".cursor/mcp.json", json.dumps({"mcpServers": {"own": entry, "skills": other}}))
    servers = found(project, home)
    assert skipped(servers) == {"own": "it is your own gateway, which would connect to itself"}
    assert set(places(servers)) == {"skills"}


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
    assert places(servers) == {
        "everywhere": ServerAddress(command=("a",)),
        "here": ServerAddress(command=("b", "x")),
    }
    assert skipped(servers) == {
        "tired": "it is disabled there",
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
def test_claude_desktop_takes_values_literally(
    project: Path, home: Path, platform: str, environment: dict[str, str], file: str
) -> None:
    write(
        home / file,
        '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "fs", "/a b"], "env": {"K": "${T}"}}}}',
    )
    assert places(found(project, home, environment, platform)) == {
        "files": ServerAddress(command=("npx", "-y", "fs", "/a b"), env={"K": "$${T}"})
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
        "web": ServerAddress(url="https://${HOST}/mcp", headers={"X-Key": "${KEY}"}),
        "root": ServerAddress(command=(f"{home}/bin/run", str(project), "--n"), directory=str(project)),
        "signed": ServerAddress(url="https://s.example"),
    }
    assert servers["signed"].login == "skillwire servers login signed --client-id x"
    assert skipped(servers) == {
        "filed": "its variables are in a file of their own",
        "odd": "it has the placeholder ${pathSeparator}",
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
        "plain": ServerAddress(command=("uvx", "git", "--at", "http://x // y"), directory=f"{project}/sub"),
        "mine": ServerAddress(url="https://m.example/mcp"),
        "older": ServerAddress(command=("old",)),
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
        "web": ServerAddress(
            url="https://w.example/mcp",
            token_env="W_TOKEN",
            headers={"X-Team": "$${literal}", "X-Key": "${X_KEY}"},
        ),
        "tool": ServerAddress(command=("npx", "-y", "tool"), env={"A": "b", "PASSED": "${PASSED}"}),
    }
    assert skipped(servers) == {"off": "it is disabled there"}


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
        "web": ServerAddress(url="http://localhost:3000/mcp", token_env="TOKEN"),
        "tool": ServerAddress(
            command=("python", "-m", "x"), env={"A": "${EXTERNAL}", "B": "$5"}, directory=f"{project}/sub"
        ),
    }
    assert skipped(servers) == {
        "noisy": "it is disabled there",
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
        "files": ServerAddress(command=("npx", "-y", "fs"), env={"LEVEL": "1", "SET_KEY": "${SET_KEY}"}),
        "remote": ServerAddress(url="https://r.example/mcp", headers={"X-Key": "v"}),
    }
    assert skipped(servers) == {
        "developer": "it is a part of Goose, not a server",
        "hidden": "Goose keeps its secret LOST_KEY, which is not set here",
        "events": "it uses the deprecated SSE transport, which is not supported",
        "off": "it is disabled there",
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
        "docs": ServerAddress(command=("docs",)),
        "My-Server": ServerAddress(command=("m",)),
        "docs-2": ServerAddress(command=("other",)),
        "local-server": ServerAddress(command=("l",)),
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
        "docs": ServerAddress(command=("mine",)),
        "docs-2": ServerAddress(command=("theirs",), directory=str(project)),
    }


def test_at_home_the_users_files_are_no_projects(home: Path) -> None:
    write(home / ".cursor/mcp.json", '{"mcpServers": {"docs": {"command": "docs"}}}')
    write(home / ".mcp.json", '{"mcpServers": {"other": {"command": "other"}}}')
    servers = found(home, home)
    assert [file.of_project for label in ("docs", "other") for file in servers[label].files] == [False, True]


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        (".mcp.json", '{"mcpServers": {"a": {"env": {"K": "s3cr3t"', "it is not JSON"),
        (".mcp.json", "[" * 100_000, "its values are nested too deeply"),
        (".codex/config.toml", 'token = "s3cr3t', "it is not TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_and_not_quoted(
    project: Path, home: Path, file: str, text: str, reason: str
) -> None:
    write(project / file, text)
    [server] = found(project, home).values()
    assert server.skipped.startswith(f"the file cannot be read: {reason}")
    assert "s3cr3t" not in server.skipped


@pytest.mark.parametrize(
    "text",
    ["[]", "3", '{"mcpServers": []}', '{"mcpServers": {"a": 3}}', '{"mcpServers": {"a": {"command": 3}}}'],
)
def test_a_file_of_another_shape_does_no_harm(project: Path, home: Path, text: str) -> None:
    write(project / ".mcp.json", text)
    assert places(found(project, home)) == {}


def test_windsurf_has_server_urls(project: Path, home: Path) -> None:
    write(
        home / ".codeium/windsurf/mcp_config.json",
        """{"mcpServers": {
          "web": {"serverUrl": "https://w.example/mcp", "headers": {"Authorization": "Bearer ${env:KEY}"}},
          "tool": {"command": "npx", "args": ["-y", "x"], "disabledTools": ["a"], "disabled": false},
          "off": {"command": "x", "disabled": true},
          "filed": {"serverUrl": "https://f.example", "headers": {"X": "${file:/secret}"}}
        }}""",
    )
    servers = found(project, home)
    assert places(servers) == {
        "web": ServerAddress(url="https://w.example/mcp", token_env="KEY"),
        "tool": ServerAddress(command=("npx", "-y", "x")),
    }
    assert skipped(servers) == {
        "off": "it is disabled there",
        "filed": "it reads a value from a file of its own",
    }


@pytest.mark.parametrize(
    ("platform", "file"),
    [
        ("linux", ".config/zed/settings.json"),
        ("darwin", ".config/zed/settings.json"),
        ("win32", "AppData/Roaming/Zed/settings.json"),
    ],
)
def test_zed_has_context_servers_of_its_own_and_of_extensions(
    project: Path, home: Path, platform: str, file: str
) -> None:
    write(
        home / file,
        """{
          "theme": "One", // a comment
          "context_servers": {
            "now": {"source": "custom", "command": "npx", "args": ["-y", "${x}"], "env": {"A": "b"}},
            "before": {"command": {"path": "/bin/old", "args": ["run"], "env": {"K": "v"}}, "settings": {}},
            "far": {"url": "https://z.example/mcp", "headers": {"X": "y"}},
            "part": {"source": "extension", "settings": {"token": "t"}},
            "older-part": {"settings": {}},
            "off": {"enabled": false, "command": "x"},
          },
        }""",
    )
    servers = found(project, home, platform=platform)
    assert places(servers) == {
        "now": ServerAddress(command=("npx", "-y", "$${x}"), env={"A": "b"}),
        "before": ServerAddress(command=("/bin/old", "run"), env={"K": "v"}),
        "far": ServerAddress(url="https://z.example/mcp", headers={"X": "y"}),
    }
    assert skipped(servers) == {
        "part": "an extension of Zed starts it",
        "older-part": "an extension of Zed starts it",
        "off": "it is disabled there",
    }


def test_copilot_cli_has_local_servers_and_a_list_of_disabled_ones(project: Path, home: Path) -> None:
    write(
        home / ".copilot/mcp-config.json",
        """{"mcpServers": {
          "near": {"type": "local", "command": "uvx", "args": ["x"], "env": {"K": "${K}"}, "tools": ["*"]},
          "far": {"type": "http", "url": "https://c.example/mcp", "tools": ["*"]},
          "tired": {"type": "local", "command": "t"}
        }}""",
    )
    write(home / ".copilot/config.json", '{"disabledMcpServers": ["tired", "shared"]}')
    write(project / ".github/mcp.json", '{"mcpServers": {"shared": {"type": "local", "command": "s"}}}')
    servers = found(project, home)
    assert places(servers) == {
        "near": ServerAddress(command=("uvx", "x"), env={"K": "${K}"}),
        "far": ServerAddress(url="https://c.example/mcp"),
    }
    assert skipped(servers) == {"tired": "it is disabled there", "shared": "it is disabled there"}


def test_opencode_writes_commands_as_lists_and_variables_in_braces(project: Path, home: Path) -> None:
    write(
        home / ".config/opencode/opencode.json",
        """{"mcp": {
          "near": {"type": "local", "command": ["npx", "-y", "x"], "environment": {"K": "{env:KEY}"}},
          "far": {"type": "remote", "url": "https://o.example/mcp", "oauth": {"clientId": "abc"},
                  "headers": {"X": "${literal}"}},
          "bare": {"type": "remote", "url": "https://b.example/mcp", "oauth": false},
          "off": {"type": "local", "command": ["x"], "enabled": false},
          "filed": {"type": "remote", "url": "https://f.example", "headers": {"X": "{file:~/.key}"}}
        }, "permission": {"skill": {"*": "allow", "internal-*": "deny"}}}""",
    )
    servers = found(project, home)
    assert places(servers) == {
        "near": ServerAddress(command=("npx", "-y", "x"), env={"K": "${KEY}"}),
        "far": ServerAddress(url="https://o.example/mcp", headers={"X": "$${literal}"}),
        "bare": ServerAddress(url="https://b.example/mcp"),
    }
    assert skipped(servers) == {
        "off": "it is disabled there",
        "filed": "it reads a value from a file of its own",
    }
    assert servers["far"].login == "skillwire servers login far --client-id abc"
    assert servers["bare"].login == ""
    assert servers["near"].switches == ("not the skills internal-*",)


def test_wayland_connects_what_its_default_profile_names(project: Path, home: Path) -> None:
    write(
        home / ".config/wayland-core/config.toml",
        """
        [mcp.servers.web]
        transport = "streamable-http"
        url = "https://y.example/mcp"
        [mcp.servers.tool]
        transport = "stdio"
        command = "tool"
        args = ["--x"]
        [mcp.servers.other]
        command = "other"
        [profiles.default]
        mcp_servers = ["web", "tool", "here"]
        """,
    )
    write(project / ".wayland-core.toml", '[mcp.servers.here]\ncommand = "here"\n')
    servers = found(project, home)
    assert places(servers) == {
        "web": ServerAddress(url="https://y.example/mcp"),
        "tool": ServerAddress(command=("tool", "--x")),
        "here": ServerAddress(command=("here",), directory=str(project)),
    }
    assert skipped(servers) == {"other": "it is not allowed there"}


def test_what_gemini_restricts_stays_restricted(project: Path, home: Path) -> None:
    write(
        home / ".gemini/settings.json",
        """{
          "skills": {"disabled": ["noisy"]},
          "mcpServers": {
            "some": {"command": "s", "includeSkills": ["a-*", "b"], "excludeSkills": ["a-x"]},
            "none": {"command": "n", "includeSkills": []},
            "mute": {"command": "m", "skillsEnabled": false}
          }
        }""",
    )
    # The project's file speaks of the same server: both hold.
    write(
        project / ".gemini/settings.json",
        """{"mcp": {"excluded": ["mute"]},
            "mcpServers": {"some": {"command": "s", "includeSkills": ["a-1", "c"]}}}""",
    )
    servers = found(project, home)
    some = servers["some"].server
    assert (some.include, some.exclude, some.skills) == (("a-1",), ("a-x", "noisy"), True)
    assert servers["some"].switches == ("only the skills a-1", "not the skills a-x, noisy")
    assert servers["none"].switches == ("no skill", "not the skills noisy")
    assert servers["mute"].skipped == "it is disabled there"


def test_what_codex_and_claude_code_disable_stays_disabled(project: Path, home: Path) -> None:
    write(
        home / ".codex/config.toml",
        """
        [mcp_servers.quiet]
        command = "q"
        mcp_skills = false
        [[skills.config]]
        name = "draft"
        enabled = false
        """,
    )
    write(
        project / ".mcp.json",
        """{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"url": "https://c.bad.example/mcp"},
             "d": {"command": "d", "args": ["--x"]}, "e": {"command": "e"}}}""",
    )
    write(home / ".claude/settings.json", '{"deniedMcpServers": [{"serverName": "b"}]}')
    write(
        project / ".claude/settings.local.json",
        """{"disabledMcpjsonServers": ["a"],
            "permissions": {"deny": ["Bash", "Skill(deploy)", "Skill(x *)"]},
            "deniedMcpServers": [{"serverUrl": "https://*.bad.example/*"},
                                 {"serverCommand": ["d", "--x"]}]}""",
    )
    servers = found(project, home)
    assert servers["quiet"].switches == ("its skills stay disabled", "not the skills draft")
    assert skipped(servers) == dict.fromkeys("abcd", "it is disabled there")
    assert servers["e"].switches == ("not the skills deploy, x",)


def test_one_server_is_found_once_whatever_it_is_called_and_however_it_is_reached(
    project: Path, home: Path
) -> None:
    write(
        home / ".config/Code/User/mcp.json",
        '{"servers": {"platform": {"type": "http", "url": "https://p.example/mcp"}}}',
    )
    write(
        home / ".cursor/mcp.json",
        """{"mcpServers": {
          "platform-skills": {"url": "https://p.example/mcp"},
          "data": {"url": "https://d.example/mcp", "headers": {"Authorization": "Bearer ${env:DATA_TOKEN}"}}
        }}""",
    )
    write(
        home / ".codex/config.toml",
        """
        [mcp_servers.data]
        url = "https://d.example/mcp"
        bearer_token_env_var = "DATA_TOKEN"
        [mcp_servers.bridge]
        command = "npx"
        args = ["-y", "mcp-remote@latest", "https://p.example/mcp", "3334", "--debug"]
        """,
    )
    servers = found(project, home)
    assert places(servers) == {
        "bridge": ServerAddress(url="https://p.example/mcp"),
        "data": ServerAddress(url="https://d.example/mcp", token_env="DATA_TOKEN"),
    }
    assert servers["bridge"].also == ("platform-skills", "platform")
    assert servers["bridge"].clients == ("Codex", "Cursor", "VS Code")
    assert servers["bridge"].login == "skillwire servers login bridge"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["npx", "mcp-remote", "https://x.example/mcp"], ServerAddress(url="https://x.example/mcp")),
        (
            [r"C:\nodejs\npx.cmd", "-y", "mcp-remote", "https://x.example"],
            ServerAddress(url="https://x.example"),
        ),
        (
            [
                "npx",
                "mcp-remote",
                "https://x.example",
                "--header",
                "Authorization: Bearer ${T}",
                "--allow-http",
            ],
            ServerAddress(url="https://x.example", headers={"Authorization": "Bearer s"}),
        ),
        (["npx", "mcp-remote", "https://x.example", "--transport", "sse-only"], None),
        (["npx", "mcp-remote", "https://x.example", "--header"], None),
        (["npx", "mcp-remote"], None),
        (["npx", "-y", "other", "https://x.example"], None),
    ],
)
def test_a_plain_bridge_is_imported_as_the_url_behind_it(
    project: Path, home: Path, words: list[str], place: ServerAddress | None
) -> None:
    entry = {"command": words[0], "args": words[1:], "env": {"T": "s"}}
    write(
        home / ".config/Claude/claude_desktop_config.json",
        json.dumps({"mcpServers": {"x": entry}}),
    )
    [server] = found(project, home).values()
    expected = place or ServerAddress(command=tuple(words), env={"T": "s"})
    assert server.place == expected


def test_oauth_of_another_client_is_skipped(project: Path, home: Path) -> None:
    write(
        home / ".gemini/settings.json",
        """{"mcpServers": {
          "google": {"httpUrl": "https://g.example", "authProviderType": "google_credentials"},
          "plain": {"httpUrl": "https://p.example", "oauth": {"enabled": true}}
        }}""",
    )
    servers = found(project, home)
    assert skipped(servers) == {"google": "it signs in with Google credentials"}
    assert servers["plain"].login == "skillwire servers login plain"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".gemini/settings.json", '{"skills": {"enabled": false}, "mcpServers": {"x": {"command": "x"}}}'),
        (
            ".gemini/settings.json",
            '{"admin": {"skills": {"enabled": false}}, "mcpServers": {"x": {"command": "x"}}}',
        ),
        (
            ".config/opencode/opencode.json",
            '{"permission": {"skill": "deny"}, "mcp": {"x": {"type": "local", "command": ["x"]}}}',
        ),
        (".claude.json", '{"mcpServers": {"x": {"command": "x"}}}'),
    ],
)
def test_a_client_that_uses_no_skills_at_all_stays_so(
    project: Path, home: Path, file: str, text: str
) -> None:
    write(home / file, text)
    write(home / ".claude/settings.json", '{"permissions": {"deny": ["Skill"]}}')
    # Another client that has the same server does not switch them on again.
    write(home / ".codeium/windsurf/mcp_config.json", '{"mcpServers": {"y": {"command": "x"}}}')
    [server] = found(project, home).values()
    assert server.switches == ("its skills stay disabled",)
    assert {server.name, *server.also} == {"x", "y"}


def test_a_wildcard_that_is_denied_leaves_what_is_allowed(project: Path, home: Path) -> None:
    write(
        home / ".config/opencode/opencode.json",
        """{"permission": {"skill": {"*": "deny", "a-*": "allow", "b": "ask", "a-x": "deny"}},
            "mcp": {"x": {"type": "local", "command": ["x"]}}}""",
    )
    [server] = found(project, home).values()
    assert server.switches == ("only the skills a-*, b", "not the skills a-x")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, // not } or ]\n "b": [2]}',
        '{"a": 1, /* } */ "b": [2] /* end */}',
        '{"a": 1, /* first */ "b": [2], /* last */ // end\n}',
        '{"a": 1, // one\n /* two */ "b": [2 // ]\n, ], }',
        '{"a": 1, "b": [2], /* , } */ }',
    ],
)
def test_comments_with_brackets_do_not_hide_a_comma(text: str) -> None:
    assert parse_jsonc(text) == {"a": 1, "b": [2]}
