"""VS Code: `mcp.json` of the user and of a project, and the settings that had servers once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.host.importers.base import ClientFile, FileContents, Surroundings, entries, fill_editor, table
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "VS Code"


def files(around: Surroundings) -> Iterator[ClientFile]:
    for file, reader in (("mcp.json", read), ("settings.json", read_settings)):
        for edition in ("Code", "Code - Insiders"):
            yield ClientFile(
                client=NAME, path=around.config / edition / "User" / file, parse=parse_jsonc, read=reader
            )
    yield ClientFile(
        client=NAME, path=around.project / ".vscode/mcp.json", parse=parse_jsonc, read=read, of_project=True
    )


def read(values: object, around: Surroundings) -> FileContents:
    """`servers`, with `${env:VAR}`, `${input:...}` and a few places."""
    found = entries(table(values, "servers"), lambda text: fill_editor(text, around))
    return FileContents(servers=tuple(found))


def read_settings(values: object, around: Surroundings) -> FileContents:
    """`settings.json`, which kept the servers under `mcp`."""
    return read(table(values, "mcp"), around)
