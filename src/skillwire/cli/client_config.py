"""The configuration for an MCP client to start or reach a Skillwire server, in the client's format."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientServer:
    """A server as a client needs it: a command over stdio, or a URL."""

    name: str = "skills"
    command: tuple[str, ...] = ()
    url: str = ""
    token_variable: str = ""
    """The environment variable that holds the bearer token, if the server asks for one."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer ${{{self.token_variable}}}"} if self.token_variable else {}


@dataclass(frozen=True, slots=True)
class ClientFormat:
    """Where a client keeps its servers, and how it writes one."""

    place: str
    render: Callable[[ClientServer], str]


def client_config(client: str, server: ClientServer) -> tuple[str, str]:
    """The snippet for a client, and a line that says where it goes."""
    known = CLIENTS[client]
    return known.render(server), known.place


def _json(key: str, entry: Callable[[ClientServer], Mapping[str, object]]) -> Callable[[ClientServer], str]:
    return lambda server: json.dumps({key: {server.name: entry(server)}}, indent=2, ensure_ascii=False)


def _stdio(server: ClientServer) -> dict[str, object]:
    program, *arguments = server.command
    return {"command": program, "args": arguments}


def _remote(server: ClientServer, key: str) -> dict[str, object]:
    return {key: server.url, **({"headers": server.headers} if server.headers else {})}


def _claude_desktop(server: ClientServer) -> Mapping[str, object]:
    if not server.url:
        return _stdio(server)
    # Its file supports only commands; remote servers need a bridge.
    headers = [word for name, value in server.headers.items() for word in ("--header", f"{name}: {value}")]
    return {"command": "npx", "args": ["-y", "mcp-remote", server.url, *headers]}


def _claude_code(server: ClientServer) -> str:
    if not server.url:
        return shlex.join(["claude", "mcp", "add", server.name, "--", *server.command])
    # In double quotes, so that the shell fills in the variable.
    headers = "".join(f' --header "{name}: {value}"' for name, value in server.headers.items())
    return shlex.join(["claude", "mcp", "add", "--transport", "http", server.name, server.url]) + headers


def _cursor(server: ClientServer) -> Mapping[str, object]:
    if not server.url:
        return _stdio(server)
    entry = _remote(server, "url")
    if server.token_variable:
        entry["headers"] = {"Authorization": f"Bearer ${{env:{server.token_variable}}}"}
    return entry


def _vscode(server: ClientServer) -> Mapping[str, object]:
    if not server.url:
        return {"type": "stdio", **_stdio(server)}
    return {"type": "http", **_cursor(server)}


def _codex(server: ClientServer) -> str:
    lines = [f"[mcp_servers.{server.name}]"]
    if not server.url:
        lines += [f"command = {_quoted(server.command[0])}", f"args = {_list(server.command[1:])}"]
    else:
        lines.append(f"url = {_quoted(server.url)}")
        if server.token_variable:
            lines.append(f"bearer_token_env_var = {_quoted(server.token_variable)}")
    return "\n".join(lines)


def _gemini(server: ClientServer) -> Mapping[str, object]:
    return _remote(server, "httpUrl") if server.url else _stdio(server)


def _goose(server: ClientServer) -> str:
    lines = [
        "extensions:",
        f"  {server.name}:",
        "    enabled: true",
        f"    name: {server.name}",
        "    timeout: 300",
    ]
    if not server.url:
        lines += [
            "    type: stdio",
            f"    cmd: {_quoted(server.command[0])}",
            "    args:",
            *(f"      - {_quoted(word)}" for word in server.command[1:]),
        ]
    else:
        lines += ["    type: streamable_http", f"    uri: {_quoted(server.url)}"]
        if server.headers:
            lines += [
                "    headers:",
                *(f"      {name}: {_quoted(value)}" for name, value in server.headers.items()),
            ]
    return "\n".join(lines)


def _zed(server: ClientServer) -> Mapping[str, object]:
    return _remote(server, "url") if server.url else {"source": "custom", **_stdio(server)}


def _windsurf(server: ClientServer) -> Mapping[str, object]:
    return _remote(server, "serverUrl") if server.url else _stdio(server)


def _quoted(text: str) -> str:
    """A string as JSON, which is a string of TOML and of YAML as well."""
    return json.dumps(text, ensure_ascii=False)


def _list(words: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, words))}]"


CLIENTS: Final[Mapping[str, ClientFormat]] = {
    "claude-desktop": ClientFormat(
        "Merge this into claude_desktop_config.json (Settings > Developer > Edit Config) and restart.",
        _json("mcpServers", _claude_desktop),
    ),
    "claude-code": ClientFormat("Run this command, with --scope user for all your projects.", _claude_code),
    "cursor": ClientFormat(
        "Merge this into ~/.cursor/mcp.json, or .cursor/mcp.json of a project.", _json("mcpServers", _cursor)
    ),
    "vscode": ClientFormat("Merge this into .vscode/mcp.json of a project.", _json("servers", _vscode)),
    "codex": ClientFormat("Add this to ~/.codex/config.toml.", _codex),
    "gemini": ClientFormat("Merge this into ~/.gemini/settings.json.", _json("mcpServers", _gemini)),
    "goose": ClientFormat("Merge this into ~/.config/goose/config.yaml.", _goose),
    "zed": ClientFormat("Merge this into Zed's settings.json.", _json("context_servers", _zed)),
    "windsurf": ClientFormat(
        "Merge this into ~/.codeium/windsurf/mcp_config.json.", _json("mcpServers", _windsurf)
    ),
}
"""The clients that `serve --print-config` knows."""
