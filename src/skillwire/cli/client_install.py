"""One entry for the gateway in the configuration of a client, leaving the rest of the file unchanged.

The file is edited as text, so comments and layout stay. What is about to be written is parsed and compared:
it must be the previous content plus the entry, or nothing is written.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from skillwire.cli.client_config import ClientServer, client_config
from skillwire.errors import SourceError
from skillwire.files import write_atomic
from skillwire.host.importers.base import ClientFile, Surroundings
from skillwire.host.importers.clients import client_files

ENTRY: Final = "skillwire"
"""What the entry is called."""
_CLIENTS: Final = {
    "claude-desktop": ("Claude Desktop", "Restart Claude Desktop to use it."),
    "claude-code": ("Claude Code", "New sessions of Claude Code use it."),
    "cursor": ("Cursor", "Enable it in Cursor's settings, under MCP, if it asks."),
    "vscode": ("VS Code", "VS Code asks whether you trust it when it starts it."),
    "codex": ("Codex", "New sessions of Codex use it."),
    "gemini": ("Gemini CLI", "New sessions of Gemini CLI use it."),
    "goose": ("Goose", "New sessions of Goose use it."),
}
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BLANK: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """What would be written to a client's file."""

    client: str
    path: Path
    before: str | None
    """The text of the file; `None` if there is none yet."""
    after: str
    next_step: str

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after

    @property
    def backup(self) -> Path | None:
        """Where the previous file is saved."""
        return None if self.before is None else self.path.with_name(f"{self.path.name}.before-skillwire")

    def diff(self) -> str:
        """The lines that change, without those around them: other entries may have secrets."""
        before, after = self.before or "", self.after
        if "\n" not in before.strip():
            # The whole file is one line: show what is put into it.
            start = _shared_start(before, after)
            end = _shared_start(before[start:][::-1], after[start:][::-1])
            before, after = before[start : len(before) - end], after[start : len(after) - end]
        name = str(self.path)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, n=0, lineterm="")
        return "\n".join(lines)

    def apply(self) -> None:
        """Save the previous file beside it, and write the new text in one step."""
        if self.is_nothing:
            return
        path = self.path.resolve()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
            if self.before is not None and self.backup is not None:
                write_atomic(self.backup, self.before.encode("utf-8"), mode=mode)
            write_atomic(path, self.after.encode("utf-8"), mode=mode)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror}") from None

    def as_json(self) -> dict[str, object]:
        backup = str(self.backup) if self.backup and not self.is_nothing else None
        return {"client": self.client, "file": str(self.path), "backup": backup, "diff": self.diff()}


def _shared_start(one: str, other: str) -> int:
    """How many characters both texts start with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def install_entry(client: str, *, url: str = "", token_variable: str = "") -> ConfigChange:
    """The change that makes a client use the gateway: one that it starts, or one at a URL."""
    name, next_step = _CLIENTS[client]
    around = Surroundings(environment=os.environ, home=Path.home(), project=Path.cwd(), platform=sys.platform)
    file = next(one for one in client_files(around) if one.client == name and not one.of_project)
    try:
        before = file.path.read_text("utf-8") if file.path.exists() else None
    except (OSError, UnicodeError) as error:
        raise SourceError(f"{file.path} cannot be read: {error}") from None
    server = ClientServer(
        name=ENTRY, command=() if url else _command(), url=url, token_variable=token_variable
    )
    return ConfigChange(
        client=client,
        path=file.path,
        before=before,
        after=edited(client, file, before or "", server),
        next_step=next_step,
    )


def _command() -> tuple[str, ...]:
    """The gateway as a client starts it: from anywhere, and without the PATH of this shell."""
    program = shutil.which("skillwire")
    return (*((program,) if program else (sys.executable, "-m", "skillwire")), "gateway")


def edited(client: str, file: ClientFile, text: str, server: ClientServer) -> str:
    """The text of a client's file with the entry, or a `SourceError` if its layout cannot be edited."""
    snippet, _ = client_config(client, server)
    edit: Callable[[str, str, ClientServer], str] = {"codex": _with_toml, "goose": _with_yaml}.get(
        client, _with_json
    )
    if client == "claude-code":
        snippet = json.dumps({"mcpServers": {ENTRY: _claude_code(server)}})
    try:
        before = file.parse(text) if text.strip() else None
        after = edit(text, snippet, server)
        is_right = _without(file.parse(after)) == _without(before) and ENTRY in _servers(file.parse(after))
    except ValueError as error:
        raise SourceError(f"{file.path} cannot be edited: {error}; nothing was changed") from None
    if not is_right:
        raise SourceError(f"{file.path} has a layout that cannot be edited; add this by hand:\n{snippet}")
    return after


def _claude_code(server: ClientServer) -> dict[str, object]:
    """An entry of `~/.claude.json`, which `claude mcp add` would write."""
    if not server.url:
        return {"type": "stdio", "command": server.command[0], "args": [*server.command[1:]], "env": {}}
    return {"type": "http", "url": server.url, **({"headers": server.headers} if server.headers else {})}


def _table(values: object) -> dict[str, Any]:
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {}


def _servers(values: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("mcpServers", "servers", "mcp_servers", "extensions"):
        found |= _table(_table(values).get(key))
    return found


def _without(values: object) -> dict[str, Any]:
    """What a file says beside our entry."""
    rest = dict(_table(values))
    for key, value in rest.items():
        if isinstance(value, dict):
            rest[key] = {name: one for name, one in cast("dict[str, Any]", value).items() if name != ENTRY}
    return {key: value for key, value in rest.items() if value != {}}


# JSON, with comments


def _with_json(text: str, snippet: str, server: ClientServer) -> str:
    [(key, servers)] = json.loads(snippet).items()
    entry = json.dumps(servers[ENTRY], indent=2, ensure_ascii=False).replace("\n", "\n    ")
    if not text.strip():
        return json.dumps({key: {ENTRY: servers[ENTRY]}}, indent=2, ensure_ascii=False) + "\n"
    members = dict(_members(text, _start(text)))
    if key not in members:
        return _inserted(text, _start(text), f'"{key}": {{\n    "{ENTRY}": {entry}\n  }}', indent="  ")
    start, _ = members[key]
    known = dict(_members(text, start)).get(ENTRY)
    if known is not None:
        return text[: known[0]] + entry + text[known[1] :]
    return _inserted(text, start, f'"{ENTRY}": {entry}', indent="    ")


def _inserted(text: str, brace: int, member: str, *, indent: str) -> str:
    """The text with a new first member in the object whose brace is at this position."""
    is_empty = not list(_members(text, brace))
    rest = text[brace + 1 :]
    tail = f"\n{indent[2:]}{rest.lstrip()}" if is_empty else f",{rest}"
    return f"{text[: brace + 1]}\n{indent}{member}{tail}"


def _start(text: str) -> int:
    place = _skip(text, 1 if text.startswith("\ufeff") else 0)
    if text[place : place + 1] != "{":
        raise ValueError("it is not a JSON object")
    return place


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _members(text: str, brace: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The members of the object at a position: their names, and where their values start and end."""
    place = _skip(text, brace + 1)
    while (name := _STRING.match(text, place)) is not None:
        colon = _skip(text, name.end())
        start = _skip(text, colon + 1)
        end = _end(text, start)
        yield json.loads(name[0]), (start, end)
        comma = _skip(text, end)
        if text[comma : comma + 1] != ",":
            return
        place = _skip(text, comma + 1)


def _end(text: str, place: int) -> int:
    """Where the value that starts at a position ends."""
    depth = 0
    while place < len(text):
        if (string := _STRING.match(text, place)) is not None:
            place = string.end()
        elif text[place] in "{[":
            depth += 1
            place += 1
        elif text[place] in "}]":
            if depth == 0:
                return place
            depth -= 1
            place += 1
        elif depth == 0 and text[place] == ",":
            return place
        elif (after := _skip(text, place)) > place:
            if depth == 0:
                return place
            place = after
            continue
        else:
            place += 1
            if depth or text[place - 1] not in "}]":
                continue
        if depth == 0:
            return place
    return place


# TOML and YAML


def _with_toml(text: str, snippet: str, server: ClientServer) -> str:
    import tomlkit

    document = cast("dict[str, Any]", tomlkit.parse(text))
    [entry] = cast("dict[str, dict[str, Any]]", tomlkit.parse(snippet))["mcp_servers"].values()
    servers = document.setdefault("mcp_servers", tomlkit.table(is_super_table=True))
    servers[ENTRY] = entry
    return tomlkit.dumps(cast("Any", document))


def _with_yaml(text: str, snippet: str, server: ClientServer) -> str:
    head, *entry = snippet.splitlines()
    lines = text.splitlines()
    at = next(
        (n for n, line in enumerate(lines) if re.fullmatch(r"extensions:\s*(\{\s*\})?\s*(#.*)?", line)), None
    )
    if at is None:
        return "\n".join([*lines, head, *entry, ""])
    lines[at] = re.sub(r"\{\s*\}\s*", "", lines[at]).rstrip()
    first = next((line for line in lines[at + 1 :] if line.strip() and not line.lstrip().startswith("#")), "")
    own = len(first) - len(first.lstrip()) if first.startswith(" ") else 2
    entry = [" " * (own - 2) + line if own > 2 else line[2 - own :] for line in entry]
    start = next((n for n, line in enumerate(lines) if n > at and line.strip() == f"{ENTRY}:"), None)
    if start is None:
        return "\n".join([*lines[: at + 1], *entry, *lines[at + 1 :], ""])
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (own + 1))):
        end += 1
    return "\n".join([*lines[:start], *entry, *lines[end:], ""])
