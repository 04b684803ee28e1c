"""Cursor: `mcp.json` of the user and of a project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.host.importers.base import ClientFile, FileContents, Surroundings, entries, fill_editor, table
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Cursor"


def files(around: Surroundings) -> Iterator[ClientFile]:
    yield ClientFile(client=NAME, path=around.home / ".cursor/mcp.json", parse=parse_jsonc, read=read)
    yield ClientFile(
        client=NAME, path=around.project / ".cursor/mcp.json", parse=parse_jsonc, read=read, of_project=True
    )


def read(values: object, around: Surroundings) -> FileContents:
    """`mcpServers`, with `${env:VAR}` and a few places."""
    found = entries(table(values, "mcpServers"), lambda text: fill_editor(text, around))
    return FileContents(servers=tuple(found))
