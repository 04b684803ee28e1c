"""Claude Code: `~/.claude.json`, `.mcp.json` of a project, and settings that switch things off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, cast

from skillwire.host.importers.base import (
    ClientFile,
    ClientServer,
    FileContents,
    Surroundings,
    Table,
    as_table,
    entries,
    fill_shell,
    listed,
    names,
    table,
)
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Claude Code"
_SKILL: Final = re.compile(r"Skill\(([^()\s:*]+)(?::\*| \*)?\)")


def files(around: Surroundings) -> Iterator[ClientFile]:
    moved = around.environment.get("CLAUDE_CONFIG_DIR")
    settings = Path(moved) if moved else around.home / ".claude"
    yield ClientFile(
        client=NAME,
        path=(Path(moved) if moved else around.home) / ".claude.json",
        parse=parse_jsonc,
        read=read_user,
    )
    yield ClientFile(client=NAME, path=settings / "settings.json", parse=parse_jsonc, read=read_settings)
    for path, read in (
        (".mcp.json", read_project),
        (".claude/settings.json", read_settings),
        (".claude/settings.local.json", read_settings),
    ):
        yield ClientFile(
            client=NAME, path=around.project / path, parse=parse_jsonc, read=read, of_project=True
        )


def read_project(values: object, around: Surroundings) -> FileContents:
    """`.mcp.json`: `mcpServers`, with `${VAR}` and `${VAR:-default}`."""
    found = entries(table(values, "mcpServers"), lambda text: fill_shell(text, around))
    return FileContents(servers=tuple(found))


def read_user(values: object, around: Surroundings) -> FileContents:
    """`~/.claude.json`: servers of the user, and those of each project; only the current one's are taken."""
    projects = table(values, "projects")
    here = projects.get(str(around.project))
    servers = [
        server
        for found in (table(values, "mcpServers"), table(here, "mcpServers"))
        for server in entries(found, lambda text: fill_shell(text, around))
    ]
    for path in projects:
        if path != str(around.project):
            servers += [
                ClientServer(name=name, skipped=f"it belongs to the project {path}: import it there")
                for name in table(projects[path], "mcpServers")
            ]
    off = names(here, "disabledMcpServers") | names(here, "disabledMcpjsonServers")
    return FileContents(servers=tuple(servers), off=off)


def read_settings(values: object, around: Surroundings) -> FileContents:
    """`settings.json`: no servers, but what is switched off, denied and forbidden."""
    denied = as_table(values).get("deniedMcpServers")
    rules = [as_table(rule) for rule in cast("list[object]", denied)] if isinstance(denied, list) else []
    forbidden = listed(table(values, "permissions"), "deny") or ()
    return FileContents(
        off=names(values, "disabledMcpjsonServers"),
        denies=lambda server: any(_denies(rule, server) for rule in rules),
        skills="Skill" not in forbidden,
        exclude=tuple(match[1] for rule in forbidden if (match := _SKILL.fullmatch(rule))),
    )


def _denies(rule: Table, server: ClientServer) -> bool:
    place = server.place
    command, url = rule.get("serverCommand"), rule.get("serverUrl")
    if rule.get("serverName") == server.name or place is None:
        return True
    if isinstance(command, list):
        return list(place.command) == command
    return isinstance(url, str) and bool(place.url) and fnmatchcase(place.url, url)
