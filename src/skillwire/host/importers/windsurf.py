"""Windsurf: `mcp_config.json` of the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.host.importers import cursor
from skillwire.host.importers.base import ClientFile, Surroundings
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "Windsurf"


def files(around: Surroundings) -> Iterator[ClientFile]:
    for folder in ("windsurf", "windsurf-next"):
        yield ClientFile(
            client=NAME,
            path=around.home / ".codeium" / folder / "mcp_config.json",
            parse=parse_jsonc,
            read=cursor.read,  # The same keys and variables; a URL may be called `serverUrl`.
        )
