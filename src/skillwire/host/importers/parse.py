"""Servers that other MCP clients have, read from their configuration: pure, from values to places.

What cannot be said in `skillwire.toml`, or would be weaker there, is skipped with the reason. A client's own
way to write a variable becomes ours; a text that only looks like a variable stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, cast

from skillwire.host.config.text import Place

_BRACES: Final = re.compile(r"\$\{([^{}]*)\}")
_GEMINI: Final = re.compile(r"\$(?:\{([^{}]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HTTP: Final = frozenset({"", "http", "streamable-http", "streamablehttp", "streamable_http"})
Table: TypeAlias = Mapping[str, object]


class Skip(Exception):
    """Why an entry is not taken, in words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a client's variables can refer to."""

    environment: Mapping[str, str]
    home: Path
    project: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientServer:
    """An entry of a client's configuration: a place, or the reason why it is skipped."""

    name: str
    place: Place | None = None
    skipped: str = ""


Fill: TypeAlias = Callable[[str], str]
Reader: TypeAlias = Callable[[object, Surroundings], Iterator[ClientServer]]


def read_claude(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`.mcp.json`: `mcpServers`, with `${VAR}` and `${VAR:-default}`."""
    yield from _entries(_table(values, "mcpServers"), lambda text: _fill_claude(text, around))


def read_claude_code(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`~/.claude.json`: servers of the user, and those of each project; only the current one's are taken."""
    projects = _table(values, "projects")
    here = projects.get(str(around.project))
    off = _names(here, "disabledMcpServers")

    def fill(text: str) -> str:
        return _fill_claude(text, around)

    for found in (_table(values, "mcpServers"), _table(here, "mcpServers")):
        yield from _entries(found, fill, off=off)
    for path in projects:
        if path != str(around.project) and (others := _table(projects[path], "mcpServers")):
            for name in others:
                yield ClientServer(name=name, skipped=f"it belongs to the project {path}: import it there")


def read_claude_desktop(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`claude_desktop_config.json`: `mcpServers`, every text as it stands."""
    yield from _entries(_table(values, "mcpServers"), _literal)


def read_cursor(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`mcp.json` of Cursor: `mcpServers`, with `${env:VAR}` and a few places."""
    yield from _entries(_table(values, "mcpServers"), lambda text: _fill_editor(text, around))


def read_vscode(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`mcp.json` of VS Code: `servers`, with `${env:VAR}`, `${input:...}` and a few places."""
    yield from _entries(_table(values, "servers"), lambda text: _fill_editor(text, around))


def read_vscode_settings(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`settings.json` of VS Code, which kept the servers under `mcp` once."""
    yield from read_vscode(_table(values, "mcp"), around)


def read_gemini(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`settings.json` of Gemini CLI: `mcpServers`, with `$VAR`; `mcp` says which are allowed and excluded."""
    mcp = _table(values, "mcp")
    allowed = _names(mcp, "allowed") if "allowed" in mcp else None
    for server in _entries(
        _table(values, "mcpServers"), lambda text: _fill_gemini(text, around), off=_names(mcp, "excluded")
    ):
        if allowed is not None and server.name not in allowed:
            yield ClientServer(name=server.name, skipped="it is not allowed there")
        else:
            yield server


def read_codex(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`config.toml` of Codex: `mcp_servers`, every text as it stands; variables have keys of their own."""
    for name, entry in _table(values, "mcp_servers").items():
        table = dict(cast("Table", entry)) if isinstance(entry, dict) else {}
        headers = {key: _literal(value) for key, value in _texts(table.pop("http_headers", None)).items()}
        for key, variable in _texts(table.pop("env_http_headers", None)).items():
            headers[key] = f"${{{variable}}}"
        env = {key: _literal(value) for key, value in _texts(table.pop("env", None)).items()}
        inherited = table.pop("env_vars", None)
        for variable in cast("list[object]", inherited) if isinstance(inherited, list) else []:
            if isinstance(variable, str) and variable in around.environment:
                env[variable] = f"${{{variable}}}"
        token_env = table.pop("bearer_token_env_var", "")
        yield _entry(
            name,
            {**table, "headers": headers, "env": env},
            _literal,
            keep=True,
            token_env=str(token_env or ""),
        )


def read_goose(values: object, around: Surroundings) -> Iterator[ClientServer]:
    """`config.yaml` of Goose: `extensions`, some of which are MCP servers."""
    for name, entry in _table(values, "extensions").items():
        table = dict(cast("Table", entry)) if isinstance(entry, dict) else {}
        inner = table.pop("config", None)
        table |= cast("Table", inner) if isinstance(inner, dict) else {}
        kind = str(table.pop("type", ""))
        if kind not in ("stdio", "streamable_http", "sse"):
            yield ClientServer(name=name, skipped="it is a part of Goose, not a server")
            continue
        secrets = _names(table, "env_keys")
        missing = sorted(secret for secret in secrets if secret not in around.environment)
        if missing:
            yield ClientServer(
                name=name, skipped=f"Goose keeps its secret {missing[0]}, which is not set here"
            )
            continue
        env = {**_texts(table.pop("envs", None)), **{secret: f"${{{secret}}}" for secret in sorted(secrets)}}
        renamed = {"type": kind, "enabled": table.get("enabled") != "false", "args": table.get("args")}
        renamed |= {"command": table.get("cmd"), "url": table.get("uri"), "headers": table.get("headers")}
        if kind == "stdio":
            renamed["env"] = env
        yield _entry(name, renamed, lambda text: _fill_claude(text, around))


def _entries(tables: Table, fill: Fill, *, off: frozenset[str] = frozenset()) -> Iterator[ClientServer]:
    for name, entry in tables.items():
        if name in off:
            yield ClientServer(name=name, skipped="it is switched off there")
        else:
            yield _entry(name, entry, fill)


def _entry(name: str, entry: object, fill: Fill, *, keep: bool = False, token_env: str = "") -> ClientServer:
    """One entry. With `keep`, headers and variables are written our way already."""
    try:
        if not isinstance(entry, dict):
            raise Skip("it is not a table")
        return ClientServer(
            name=name, place=_place(cast("Table", entry), fill, keep=keep, token_env=token_env)
        )
    except Skip as reason:
        return ClientServer(name=name, skipped=str(reason))


def _place(entry: Table, fill: Fill, *, keep: bool, token_env: str) -> Place:
    kind = str(entry.get("type") or entry.get("transport") or "").lower()
    if entry.get("disabled") is True or entry.get("enabled") is False:
        raise Skip("it is switched off there")
    for key, reason in (
        ("headersHelper", "a program makes its headers"),
        ("oauth", "it signs in with OAuth"),
        ("auth", "it signs in with OAuth"),
        ("authProviderType", "it signs in with OAuth"),
        ("envFile", "its variables are in a file of their own"),
        ("sandboxEnabled", "it runs in a sandbox there"),
        ("sandbox", "it runs in a sandbox there"),
    ):
        if entry.get(key):
            raise Skip(reason)
    inside = _same if keep else fill
    headers = {key: inside(value) for key, value in _texts(entry.get("headers")).items()}
    env = {key: inside(value) for key, value in _texts(entry.get("env")).items()}
    url = entry.get("httpUrl") or entry.get("url") or entry.get("serverUrl")
    if isinstance(url, str) and url:
        if kind == "sse" or (kind == "" and "httpUrl" not in entry and url.rstrip("/").endswith("/sse")):
            raise Skip("it uses the deprecated SSE transport, which is not supported")
        if kind not in _HTTP:
            raise Skip(f"it speaks {kind}, which is not a transport of ours")
        filled = fill(url)
        if not filled.lower().startswith(("http://", "https://", "${")):
            raise Skip("its URL is not one of HTTP")
        return Place(url=filled, headers=headers, token_env=token_env)
    command, arguments = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not command.strip():
        raise Skip("it has neither a command nor a URL")
    words = cast("list[object]", arguments) if isinstance(arguments, list) else []
    directory = entry.get("cwd")
    return Place(
        command=(fill(command), *(fill(str(word)) for word in words)),
        env=env,
        directory=fill(directory) if isinstance(directory, str) else "",
    )


def _fill_claude(text: str, around: Surroundings) -> str:
    def value(match: re.Match[str]) -> str:
        name, has_default, default = match[1].partition(":-")
        if not _NAME.fullmatch(name):
            raise Skip(f"it has the placeholder ${{{match[1]}}}")
        if has_default and name not in around.environment:
            return _literal(default)
        return f"${{{name}}}"

    return _BRACES.sub(value, text)


def _fill_gemini(text: str, around: Surroundings) -> str:
    def value(match: re.Match[str]) -> str:
        return f"${{{match[2]}}}" if match[2] else _fill_claude(match[0], around)

    return _GEMINI.sub(value, text)


def _fill_editor(text: str, around: Surroundings) -> str:
    places = {
        "userHome": str(around.home),
        "workspaceFolder": str(around.project),
        "workspaceFolderBasename": around.project.name,
    }

    def value(match: re.Match[str]) -> str:
        kind, colon, name = match[1].partition(":")
        if kind == "env" and colon and _NAME.fullmatch(name):
            return f"${{{name}}}"
        if match[1] in places:
            return places[match[1]]
        if kind == "input":
            raise Skip(f"it asks for the input {name} when it starts")
        raise Skip(f"it has the placeholder ${{{match[1]}}}")

    return _BRACES.sub(value, text)


def _literal(text: str) -> str:
    """Text that its client takes as it stands."""
    return text.replace("${", "$${")


def _same(text: str) -> str:
    return text


def _table(values: object, key: str) -> Table:
    inner = cast("Table", values).get(key) if isinstance(values, dict) else None
    return cast("Table", inner) if isinstance(inner, dict) else {}


def _texts(value: object) -> dict[str, str]:
    """A table of texts; numbers and switches count as the texts that a client would make of them."""
    if not isinstance(value, dict):
        return {}
    return {
        key: item if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else str(item)
        for key, item in cast("Table", value).items()
        if item is not None
    }


def _names(values: object, key: str) -> frozenset[str]:
    inner = cast("Table", values).get(key) if isinstance(values, dict) else None
    items = cast("list[object]", inner) if isinstance(inner, list) else []
    return frozenset(item for item in items if isinstance(item, str))
