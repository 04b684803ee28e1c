"""A row of the table of clients: where it looks for skills, where it keeps its servers, how to know it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientServer:
    """A server as a client needs it: a command over stdio, or a URL."""

    name: str = "skills"
    command: tuple[str, ...] = ()
    url: str = ""
    token_variable: str = ""
    """The environment variable that holds the bearer token, if the server asks for one."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file in which a client may keep servers."""

    path: str
    """As in the table. A relative path is one of a project."""
    dialect: str
    """The meaning of its keys; `skillwire.host.importers` has a reader for each dialect."""
    windows: str = ""
    """Its path on Windows, if that is another one."""

    @property
    def of_project(self) -> bool:
        """Whether it comes with the project, perhaps from somebody else."""
        return not self.path.startswith(("~", "<", "$"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Where a client keeps its MCP servers, and how it writes one."""

    files: tuple[ConfigFile, ...]
    """The first is the one that a server is added to, unless only another of its dialect exists."""
    key: str = "mcpServers"
    """The name of the table of servers."""
    entry: Callable[[ClientServer], dict[str, object]] | None = None
    """One server as a value of that table; `None` if Skillwire only reads the files."""
    command: Callable[[ClientServer], str] | None = None
    """The client's own command that adds a server, if it has one."""
    place: str = ""
    """Where a printed entry goes, as a sentence for the user."""
    next_step: str = ""
    """The next step of the user once the entry is in the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A row of the table. Its paths are as written there, with `~` and variables: `BaseDirectories` resolves
    them."""

    id: str
    """The name that `--agent` and `--print-config` take, such as `claude-code`."""
    name: str
    project: str = ""
    """Its folder of skills, from the top of a project; empty if it reads no folders of skills. It can be the
    canonical one, `.agents/skills`, which many clients read."""
    home: str = ""
    """Its folder of the user's skills; empty if it reads only skills of projects."""
    signs: tuple[str, ...] = ()
    """Files and folders that only exist where the client is used: `detect_agents` looks for them, and for its
    own folder in a project."""
    inside: tuple[str, ...] = ()
    """Which variables the client gives to the commands that it runs. Each text is a name that is set, or
    `NAME=PATTERN`; several with spaces between them must hold together."""
    built_in: tuple[str, ...] = ()
    """The names of skills that it brings along. An installed skill of the same name replaces one."""
    config: ClientConfig | None = None

    @property
    def has_plain_project_folder(self) -> bool:
        """Whether its folder in a project is one that people use for other things, such as `skills`."""
        return not self.project.startswith(".")


def _stdio(server: ClientServer) -> dict[str, object]:
    program, *arguments = server.command
    return {"command": program, "args": arguments}


def _headers(server: ClientServer, variable: str = "${%s}") -> dict[str, object]:
    if not server.token_variable:
        return {}
    return {"headers": {"Authorization": f"Bearer {variable % server.token_variable}"}}


def json_entry(
    url: str = "url",
    variable: str = "${%s}",
    *,
    local: dict[str, object] | None = None,
    remote: dict[str, object] | None = None,
) -> Callable[[ClientServer], dict[str, object]]:
    """An entry of `command` and `args`, or of a URL under this key and headers with such variables."""

    def entry(server: ClientServer) -> dict[str, object]:
        if not server.url:
            return {**(local or {}), **_stdio(server)}
        return {**(remote or {}), url: server.url, **_headers(server, variable)}

    return entry


def claude_desktop(server: ClientServer) -> dict[str, object]:
    if not server.url:
        return _stdio(server)
    # Its file supports only commands; remote servers need a bridge.
    headers = cast("dict[str, str]", _headers(server).get("headers", {}))
    words = [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
    return {"command": "npx", "args": ["-y", "mcp-remote", server.url, *words]}


def claude_code(server: ClientServer) -> dict[str, object]:
    """An entry of `~/.claude.json`, as `claude mcp add` writes it, and `alwaysLoad`: Claude Code then waits
    up to five seconds for the server, and the first request to its model has all tools, not only names.
    """
    if not server.url:
        return {"type": "stdio", **_stdio(server), "env": {}, "alwaysLoad": True}
    return {"type": "http", "url": server.url, **_headers(server), "alwaysLoad": True}


def claude_mcp_add(server: ClientServer) -> str:
    if not server.url:
        return shlex.join(["claude", "mcp", "add", server.name, "--", *server.command])
    words = ["claude", "mcp", "add", "--transport", "http", server.name, server.url]
    # In single quotes: Claude Code fills in the variable when it connects, and stores no token.
    headers = cast("dict[str, str]", _headers(server).get("headers", {}))
    words += [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
    return shlex.join(words)


def codex(server: ClientServer) -> dict[str, object]:
    """A table of `config.toml`. Codex waits for a command that is `required`, so that the first request to
    its model has the tools, and does not start without it; a URL can be unavailable, so it is not required.
    """
    if not server.url:
        return {**_stdio(server), "required": True, "startup_timeout_sec": 60}
    token = {"bearer_token_env_var": server.token_variable} if server.token_variable else {}
    return {"url": server.url, **token}


def goose(server: ClientServer) -> dict[str, object]:
    entry: dict[str, object] = {"enabled": True, "name": server.name, "timeout": 300}
    if not server.url:
        return {**entry, "type": "stdio", "cmd": server.command[0], "args": list(server.command[1:])}
    return {**entry, "type": "streamable_http", "uri": server.url, **_headers(server)}


def opencode(server: ClientServer) -> dict[str, object]:
    if not server.url:
        return {"type": "local", "command": list(server.command), "enabled": True}
    return {"type": "remote", "url": server.url, **_headers(server, "{env:%s}"), "enabled": True}


def shown_entry(client: Client, server: ClientServer) -> str:
    """The entry that a person gives to a client, so that it uses a server: its own command, or a part of
    its file."""
    config = client.config
    return config.command(server) if config and config.command else render_entry(client, server)


def render_entry(client: Client, server: ClientServer) -> str:
    """One server in the format of the client's file, with the table that it goes into."""
    config = client.config
    if config is None or config.entry is None:
        raise ValueError(f"{client.id} keeps no servers in a file that Skillwire writes")
    entry = config.entry(server)
    match Path(config.files[0].path).suffix:
        case ".toml":
            lines = [
                f"[{config.key}.{server.name}]",
                *(f"{key} = {_quoted(value)}" for key, value in entry.items()),
            ]
            return "\n".join(lines)
        case ".yaml":
            return "\n".join([f"{config.key}:", f"  {server.name}:", *_yaml_lines(entry, "    ")])
        case _:
            return json.dumps({config.key: {server.name: entry}}, indent=2, ensure_ascii=False)


def _quoted(value: object) -> str:
    """A value as JSON, which is TOML and YAML as well for texts, lists of them, numbers and truth values."""
    return json.dumps(value, ensure_ascii=False)


def _yaml_lines(values: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _yaml_lines(cast("dict[str, object]", value), f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {_quoted(item)}" for item in cast("list[object]", value))
        else:
            yield f"{indent}{key}: {_quoted(value)}"
