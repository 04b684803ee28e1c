"""The Wayland engine: `config.toml`, whose profile says which servers are connected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skillwire.host.importers.base import (
    ClientFile,
    FileContents,
    Surroundings,
    entries,
    fill_shell,
    listed,
    parse_toml,
    table,
)

NAME: Final = "Wayland"
_FOLDER: Final = "wayland-core"


def files(around: Surroundings) -> Iterator[ClientFile]:
    folders = [around.config / _FOLDER]
    if around.environment.get("XDG_DATA_HOME"):
        folders.insert(0, around.directory("XDG_DATA_HOME", around.home) / _FOLDER)
    if around.environment.get("WAYLAND_HOME"):
        folders.insert(0, around.directory("WAYLAND_HOME", around.home))
    for folder in folders:
        yield ClientFile(client=NAME, path=folder / "config.toml", parse=parse_toml, read=read)
    for path in (f".{_FOLDER}.toml", f".{_FOLDER}/config.toml"):
        yield ClientFile(
            client=NAME, path=around.project / path, parse=parse_toml, read=read, of_project=True
        )


def read(values: object, around: Surroundings) -> FileContents:
    """`mcp.servers`, with `${VAR}`; `mcp_servers` of the default profile says which are connected."""
    found = entries(table(table(values, "mcp"), "servers"), lambda text: fill_shell(text, around))
    profile = table(table(values, "profiles"), "default")
    allowed = listed(profile, "mcp_servers")
    return FileContents(servers=tuple(found), allowed=None if allowed is None else frozenset(allowed))
