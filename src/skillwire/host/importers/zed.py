"""Zed: `context_servers` of its settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from skillwire.host.importers.base import (
    ClientFile,
    ClientServer,
    FileContents,
    Surroundings,
    Table,
    as_table,
    entry,
    literal,
    table,
)
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Zed"


def files(around: Surroundings) -> Iterator[ClientFile]:
    windows = around.platform == "win32"
    user = (around.config / "Zed" if windows else around.xdg / "zed") / "settings.json"
    yield ClientFile(client=NAME, path=user, parse=parse_jsonc, read=read)
    yield ClientFile(
        client=NAME, path=around.project / ".zed/settings.json", parse=parse_jsonc, read=read, of_project=True
    )


def read(values: object, around: Surroundings) -> FileContents:
    """`context_servers`, every text unchanged. Zed starts those of its extensions by itself."""
    found = table(values, "context_servers").items()
    return FileContents(servers=tuple(_server(name, given) for name, given in found))


def _server(name: str, given: object) -> ClientServer:
    values = as_table(given)
    if values.get("enabled") is not False and (
        values.get("source") == "extension" or not ({"command", "url"} & set(values))
    ):
        return ClientServer(name=name, skipped="an extension of Zed starts it")
    inner = values.get("command")
    if isinstance(inner, dict):  # Older settings have a table there.
        command = cast("Table", inner)
        values |= {"command": command.get("path"), "args": command.get("args"), "env": command.get("env")}
    return entry(name, values, literal)
