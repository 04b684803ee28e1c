"""Goose: `config.yaml`, with servers among its extensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import yaml

from skillwire.host.importers.base import (
    ClientFile,
    ClientServer,
    FileContents,
    Surroundings,
    as_table,
    entry,
    fill_shell,
    names,
    table,
    texts,
)

NAME: Final = "Goose"


def files(around: Surroundings) -> Iterator[ClientFile]:
    windows = around.platform == "win32"
    folder = around.config / "Block/goose/config" if windows else around.xdg / "goose"
    yield ClientFile(client=NAME, path=folder / "config.yaml", parse=_parse, read=read)


def read(values: object, around: Surroundings) -> FileContents:
    """`extensions`, some of which are MCP servers."""
    found = table(values, "extensions").items()
    return FileContents(servers=tuple(_server(name, given, around) for name, given in found))


def _server(name: str, given: object, around: Surroundings) -> ClientServer:
    values = as_table(given)
    inner = values.pop("config", None)
    values |= as_table(inner)
    kind = str(values.pop("type", ""))
    if kind not in ("stdio", "streamable_http", "sse"):
        return ClientServer(name=name, skipped="it is a part of Goose, not a server")
    secrets = names(values, "env_keys")
    missing = sorted(secret for secret in secrets if secret not in around.environment)
    if missing:
        reason = f"Goose keeps its secret {missing[0]}, which is not set here"
        return ClientServer(name=name, skipped=reason)
    env = {**texts(values.pop("envs", None)), **{secret: f"${{{secret}}}" for secret in sorted(secrets)}}
    renamed = {"type": kind, "enabled": values.get("enabled") != "false", "args": values.get("args")}
    renamed |= {"command": values.get("cmd"), "url": values.get("uri"), "headers": values.get("headers")}
    if kind == "stdio":
        renamed["env"] = env
    return entry(name, renamed, lambda text: fill_shell(text, around))


def _parse(text: str) -> object:
    try:
        # Every scalar as its text: `off` is a name to Goose, and no false.
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes texts, lists and tables alone
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"it is not YAML{f' in line {mark.line + 1}' if mark else ''}") from None
