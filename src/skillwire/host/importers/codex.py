"""Codex: `config.toml`, with keys of its own for variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, cast

from skillwire.host.importers.base import (
    ClientFile,
    ClientServer,
    FileContents,
    Surroundings,
    Table,
    as_table,
    entry,
    listed,
    literal,
    parse_toml,
    table,
    texts,
)

NAME: Final = "Codex"


def files(around: Surroundings) -> Iterator[ClientFile]:
    folder = around.directory("CODEX_HOME", around.home / ".codex")
    yield ClientFile(client=NAME, path=folder / "config.toml", parse=parse_toml, read=read)
    yield ClientFile(
        client=NAME, path=around.project / ".codex/config.toml", parse=parse_toml, read=read, of_project=True
    )


def read(values: object, around: Surroundings) -> FileContents:
    """`mcp_servers`, every text unchanged; `mcp_skills = false` and disabled skills stay so."""
    servers = tuple(_server(name, given, around) for name, given in table(values, "mcp_servers").items())
    skills = table(values, "skills").get("config")
    off = [
        str(cast("Table", one)["name"])
        for one in (cast("list[object]", skills) if isinstance(skills, list) else [])
        if isinstance(one, dict)
        and cast("Table", one).get("enabled") is False
        and isinstance(cast("Table", one).get("name"), str)
    ]
    return FileContents(servers=servers, exclude=tuple(off))


def _server(name: str, given: object, around: Surroundings) -> ClientServer:
    values = as_table(given)
    headers = {key: literal(value) for key, value in texts(values.pop("http_headers", None)).items()}
    for key, variable in texts(values.pop("env_http_headers", None)).items():
        headers[key] = f"${{{variable}}}"
    env = {key: literal(value) for key, value in texts(values.pop("env", None)).items()}
    for variable in listed(values, "env_vars") or ():
        if variable in around.environment:
            env[variable] = f"${{{variable}}}"
    token_env = values.pop("bearer_token_env_var", "")
    skills = values.pop("mcp_skills", True)
    server = entry(
        name,
        {**values, "headers": headers, "env": env},
        literal,
        keep=True,
        token_env=str(token_env or ""),
    )
    return replace(server, skills=skills is not False)
