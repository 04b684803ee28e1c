"""GitHub Copilot CLI: `mcp-config.json` of the user, `.github/mcp.json` of a project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.host.importers.base import (
    ClientFile,
    FileContents,
    Surroundings,
    as_table,
    entry,
    fill_shell,
    names,
    table,
)
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Copilot CLI"


def files(around: Surroundings) -> Iterator[ClientFile]:
    folder = around.directory("COPILOT_HOME", around.home / ".copilot")
    yield ClientFile(client=NAME, path=folder / "mcp-config.json", parse=parse_jsonc, read=read)
    for file in ("config.json", "settings.json"):
        yield ClientFile(client=NAME, path=folder / file, parse=parse_jsonc, read=read_settings)
    yield ClientFile(
        client=NAME, path=around.project / ".github/mcp.json", parse=parse_jsonc, read=read, of_project=True
    )


def read(values: object, around: Surroundings) -> FileContents:
    """`mcpServers`, with `${VAR}`. A `local` server is one over stdio."""
    return FileContents(
        servers=tuple(
            entry(name, given, lambda text: fill_shell(text, around))
            for name, given in table(values, "mcpServers").items()
        ),
        off=names(values, "disabledMcpServers"),
    )


def read_settings(values: object, around: Surroundings) -> FileContents:
    """Its settings have no servers, but the names of those that are switched off."""
    known = as_table(values)
    off = frozenset[str]()
    for key in ("disabledMcpServers", "disabled_mcp_servers"):
        off |= names(known, key)
    return FileContents(off=off, exclude=tuple(sorted(names(known, "disabledSkills"))))
