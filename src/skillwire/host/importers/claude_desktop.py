"""Claude Desktop: `claude_desktop_config.json`, whose texts stand for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.host.importers.base import ClientFile, FileContents, Surroundings, entries, literal, table
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Claude Desktop"


def files(around: Surroundings) -> Iterator[ClientFile]:
    yield ClientFile(
        client=NAME,
        path=around.config / "Claude/claude_desktop_config.json",
        parse=parse_jsonc,
        read=read,
    )


def read(values: object, around: Surroundings) -> FileContents:
    """`mcpServers`, every text unchanged."""
    return FileContents(servers=tuple(entries(table(values, "mcpServers"), literal)))
