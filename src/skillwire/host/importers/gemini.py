"""Gemini CLI: `settings.json`, which also says which servers and skills are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from skillwire.host.importers.base import (
    ClientFile,
    ClientServer,
    FileContents,
    Surroundings,
    as_table,
    entry,
    fill_shell,
    listed,
    names,
    table,
)
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Gemini CLI"
_VARIABLE: Final = re.compile(r"\$(?:\{([^{}]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


def files(around: Surroundings) -> Iterator[ClientFile]:
    for root, of_project in ((around.home, False), (around.project, True)):
        yield ClientFile(
            client=NAME,
            path=root / ".gemini/settings.json",
            parse=parse_jsonc,
            read=read,
            of_project=of_project,
        )


def read(values: object, around: Surroundings) -> FileContents:
    """`mcpServers`, with `$VAR`; `mcp`, `skills` and `admin` narrow them."""
    mcp, skills, admin = (table(values, key) for key in ("mcp", "skills", "admin"))
    allowed = names(mcp, "allowed") if listed(mcp, "allowed") is not None else None
    if table(admin, "mcp").get("enabled") is False:
        allowed = frozenset[str]()
    return FileContents(
        servers=tuple(_server(name, given, around) for name, given in table(values, "mcpServers").items()),
        off=names(mcp, "excluded"),
        allowed=allowed,
        skills=skills.get("enabled") is not False and table(admin, "skills").get("enabled") is not False,
        exclude=listed(skills, "disabled") or (),
    )


def _server(name: str, given: object, around: Surroundings) -> ClientServer:
    values = as_table(given)
    return replace(
        entry(name, given, lambda text: _fill(text, around)),
        skills=values.get("skillsEnabled") is not False,
        include=listed(values, "includeSkills"),
        exclude=listed(values, "excludeSkills") or (),
    )


def _fill(text: str, around: Surroundings) -> str:
    def value(match: re.Match[str]) -> str:
        return f"${{{match[2]}}}" if match[2] else fill_shell(match[0], around)

    return _VARIABLE.sub(value, text)
