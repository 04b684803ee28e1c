"""opencode: `opencode.json` of the user and of a project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, cast

from skillwire.host.importers.base import (
    ClientFile,
    ClientServer,
    FileContents,
    Skip,
    Surroundings,
    as_table,
    entry,
    literal,
    table,
)
from skillwire.host.importers.jsonc import parse_jsonc

NAME: Final = "opencode"
_FILES: Final = ("opencode.json", "opencode.jsonc")
_VARIABLE: Final = re.compile(r"\{(env|file):([^{}]*)\}")


def files(around: Surroundings) -> Iterator[ClientFile]:
    user = [around.xdg / "opencode" / name for name in ("config.json", *_FILES)]
    if around.environment.get("OPENCODE_CONFIG"):
        user.append(around.directory("OPENCODE_CONFIG", around.home))
    for path in user:
        yield ClientFile(client=NAME, path=path, parse=parse_jsonc, read=read)
    for folder in (around.project, around.project / ".opencode"):
        for name in _FILES:
            yield ClientFile(client=NAME, path=folder / name, parse=parse_jsonc, read=read, of_project=True)


def read(values: object, around: Surroundings) -> FileContents:
    """`mcp`, with `{env:VAR}`; skills that `permission` denies stay out."""
    permission = table(values, "permission").get("skill")
    rules = table(table(values, "permission"), "skill")
    closed = rules.get("*") == "deny"
    return FileContents(
        servers=tuple(_server(name, given) for name, given in table(values, "mcp").items()),
        skills=permission != "deny",
        include=tuple(pattern for pattern, rule in rules.items() if rule != "deny") if closed else None,
        exclude=tuple(pattern for pattern, rule in rules.items() if rule == "deny" and pattern != "*"),
    )


def _server(name: str, given: object) -> ClientServer:
    values = as_table(given)
    words = values.get("command")
    if isinstance(words, list):
        texts = [str(word) for word in cast("list[object]", words)]
        values |= {"command": texts[0] if texts else "", "args": texts[1:]}
    values["env"] = values.pop("environment", None)
    return entry(name, values, _fill)


def _fill(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] == "file":
            raise Skip("it reads a value from a file of its own")
        return f"${{{match[2]}}}"

    return _VARIABLE.sub(value, literal(text))
