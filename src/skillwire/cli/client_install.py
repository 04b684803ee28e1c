"""One entry for the gateway in the configuration of a client, leaving the rest of the file unchanged.

The file is edited as text, so comments and layout stay. What is about to be written is parsed and compared:
it must be the previous content with the entry added or removed, or nothing is written.
"""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from skillwire.cli.client_config import ClientServer, client_config
from skillwire.cli.client_edit import (
    ENTRY,
    with_json,
    with_toml,
    with_yaml,
    without_json,
    without_toml,
    without_yaml,
)
from skillwire.errors import SourceError
from skillwire.files import write_atomic
from skillwire.host.importers.base import ClientFile, Surroundings
from skillwire.host.importers.clients import client_files

_CLIENTS: Final = {
    "claude-desktop": ("Claude Desktop", "Restart Claude Desktop to use it."),
    "claude-code": ("Claude Code", "New sessions of Claude Code use it."),
    "cursor": ("Cursor", "Enable it in Cursor's settings, under MCP, if it asks."),
    "vscode": ("VS Code", "VS Code asks whether you trust it when it starts it."),
    "codex": ("Codex", "New sessions of Codex use it."),
    "gemini": ("Gemini CLI", "New sessions of Gemini CLI use it."),
    "goose": ("Goose", "New sessions of Goose use it."),
}
_KEYS: Final = {"vscode": "servers", "codex": "mcp_servers", "goose": "extensions"}
"""Where the servers are in a client's file, unless under `mcpServers`."""
_REMOVERS: Final[dict[str, Callable[[str, str], tuple[str, str]]]] = {
    "codex": without_toml,
    "goose": without_yaml,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """What would be written to a client's file."""

    client: str
    path: Path
    before: str | None
    """The text of the file; `None` if there is none yet."""
    after: str
    next_step: str
    removed: str = ""
    """The text of the entry that is removed; empty if one is added."""

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after

    @property
    def backup(self) -> Path | None:
        """Where the previous file is saved."""
        return None if self.before is None else self.path.with_name(f"{self.path.name}.before-skillwire")

    def diff(self) -> str:
        """The lines that change, without those around them: other entries may have secrets."""
        if self.removed:
            lines = (f"-{line}" for line in self.removed.splitlines())
            return "\n".join([f"--- {self.path}", f"+++ {self.path}", *lines])
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
    file = _file(client)
    before = _read(file.path)
    server = ClientServer(
        name=ENTRY, command=() if url else _command(), url=url, token_variable=token_variable
    )
    return ConfigChange(
        client=client,
        path=file.path,
        before=before,
        after=_with_line_endings(before or "", lambda text: edited(client, file, text, server)),
        next_step=_CLIENTS[client][1],
    )


def uninstall_entry(client: str) -> ConfigChange | None:
    """The change that removes what `install_entry` wrote; `None` if the client has no such entry."""
    file = _file(client)
    before = _read(file.path)
    if before is None or not before.strip():
        return None
    key = _KEYS.get(client, "mcpServers")
    removed = ""

    def edit(text: str) -> str:
        nonlocal removed
        after, removed = _REMOVERS.get(client, without_json)(text, key)
        return after

    try:
        values = file.parse(before)
        entry = _table(_table(values).get(key)).get(ENTRY)
        if entry is None:
            return None
        if not _is_gateway(_table(entry)):
            raise SourceError(
                f"the entry {ENTRY} in {file.path} is not a gateway, so `gateway install` did not write it: "
                "remove it by hand if you do not need it"
            )
        after = _with_line_endings(before, edit)
        rest = file.parse(after)
        is_right = _without(rest) == _without(values) and ENTRY not in _table(_table(rest).get(key))
    except ValueError as error:
        raise SourceError(f"{file.path} cannot be edited: {error}; nothing was changed") from None
    if not is_right:
        raise SourceError(
            f"{file.path} has a layout that cannot be edited: remove the entry {ENTRY} under {key} by hand"
        )
    name = _CLIENTS[client][0]
    return ConfigChange(
        client=client,
        path=file.path,
        before=before,
        after=after,
        next_step=f"Restart {name} to stop using the gateway.",
        removed=removed,
    )


def config_path(client: str) -> Path:
    """The file that the entry of a client is in, whether or not it exists."""
    return _file(client).path


def _file(client: str) -> ClientFile:
    around = Surroundings(environment=os.environ, home=Path.home(), project=Path.cwd(), platform=sys.platform)
    name = _CLIENTS[client][0]
    return next(one for one in client_files(around) if one.client == name and not one.of_project)


def _read(path: Path) -> str | None:
    """The text of a file with its own line endings; `None` if there is no file."""
    try:
        return path.read_bytes().decode("utf-8") if path.exists() else None
    except (OSError, UnicodeError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from None


def _with_line_endings(text: str, edit: Callable[[str], str]) -> str:
    """An edited text with the line endings that it had."""
    if "\r\n" not in text or text.count("\n") != text.count("\r\n"):
        return edit(text)
    return edit(text.replace("\r\n", "\n")).replace("\n", "\r\n")


def _is_gateway(entry: dict[str, Any]) -> bool:
    """Whether an entry starts a gateway, or reaches a server at a URL."""
    words = [entry.get("command"), entry.get("cmd"), *cast("list[object]", entry.get("args") or [])]
    return "gateway" in words or "mcp-remote" in words or bool({"url", "httpUrl", "uri"} & entry.keys())


def _command() -> tuple[str, ...]:
    """The gateway as a client starts it: from anywhere, and without the PATH of this shell."""
    program = shutil.which("skillwire")
    return (*((program,) if program else (sys.executable, "-m", "skillwire")), "gateway")


def edited(client: str, file: ClientFile, text: str, server: ClientServer) -> str:
    """The text of a client's file with the entry, or a `SourceError` if its layout cannot be edited."""
    snippet, _ = client_config(client, server)
    edit: Callable[[str, str], str] = {"codex": with_toml, "goose": with_yaml}.get(client, with_json)
    if client == "claude-code":
        snippet = json.dumps({"mcpServers": {ENTRY: _claude_code(server)}})
    try:
        before = file.parse(text) if text.strip() else None
        after = edit(text, snippet)
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
