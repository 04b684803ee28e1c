"""Adding, switching and removing servers in the text of a `skillwire.toml`, leaving the rest unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError

from skillwire.errors import SourceError
from skillwire.files import write_atomic
from skillwire.host.config.text import Place, ServerText, parse_config


def with_server(text: str, label: str, server: ServerText, *, file: Path) -> str:
    """The text with one server more, or a `SourceError` when it has one of that name."""
    if label in parse_config(text, file).servers:
        raise SourceError(f"{file} has a server called {label}: remove it first, or choose another name")
    document = cast("dict[str, Any]", tomlkit.parse(text))
    if "servers" not in document:
        document["servers"] = tomlkit.table(is_super_table=True)
    table = tomlkit.table()
    for key, value in _keys(server).items():
        table.add(key, _inline(cast("Mapping[str, str]", value)) if isinstance(value, dict) else value)
    document["servers"][label] = table
    return _checked(document, file, label, server)


def with_switch(text: str, label: str, *, on: bool, file: Path) -> str:
    """The text with a server's skills enabled or disabled. A table that says nothing else is removed."""
    document = cast("dict[str, Any]", tomlkit.parse(text))
    tables = document.setdefault("servers", tomlkit.table(is_super_table=True))
    table = tables.setdefault(label, tomlkit.table())
    if on:
        table.pop("skills", None)
    else:
        table["skills"] = False
    if not table:
        del tables[label]
    if not tables:
        del document["servers"]
    before = parse_config(text, file).servers.get(label, ServerText())
    after = replace(before, skills=None if on else False)
    return _checked(document, file, label, None if after == ServerText() else after)


def with_disabled(text: str, names: Sequence[str], *, file: Path) -> str:
    """The text with these skills as all that it disables; without any, the key is removed."""
    document = cast("dict[str, Any]", tomlkit.parse(text))
    if names:
        document["disabled"] = list(names)
    else:
        document.pop("disabled", None)
    try:
        made = tomlkit.dumps(document)
    except TOMLKitError:
        made = ""
    if parse_config(made, file).disabled != tuple(names):
        raise SourceError(f"{file} has a layout that cannot be edited: change it by hand")
    return made


def without_server(text: str, label: str, *, file: Path) -> str:
    """The text without one server, also not in a profile; its comments go with it, all others stay."""
    document = cast("dict[str, Any]", tomlkit.parse(text))
    del document["servers"][label]
    for profile in document.get("profiles", {}).values():
        for names in (profile.get(key) for key in ("servers", "mcp_servers")):
            for name in [name for name in names or () if str(name).casefold() == label.casefold()]:
                names.remove(name)
    if not document["servers"]:
        del document["servers"]
    return _checked(document, file, label, None)


def write_config(file: Path, text: str) -> None:
    """Write the text in one step. Only the user can read a new file, as it may hold secrets."""
    real = file.resolve()
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        write_atomic(real, text.encode("utf-8"), mode=mode)
    except OSError as error:
        raise SourceError(f"{file} cannot be written: {error.strerror}") from None


def _keys(server: ServerText) -> dict[str, object]:
    place = server.place or Place()
    keys: dict[str, object] = {
        "url": place.url,
        "command": place.command[0] if place.command else "",
        "args": list(place.command[1:]),
        "env": dict(place.env),
        "directory": place.directory,
        "headers": dict(place.headers),
        "token": place.token,
        "token_env": place.token_env,
        "approval": server.approval.value if server.approval else "",
        "exclude": list(server.exclude),
    }
    kept = {key: value for key, value in keys.items() if value}
    if server.include is not None:  # An empty list denies all.
        kept["include"] = list(server.include)
    return kept if server.skills is None else {**kept, "skills": server.skills}


def _inline(values: Mapping[str, str]) -> object:
    table = tomlkit.inline_table()
    for key, value in values.items():
        table.append(key, value)
    return table


def _checked(document: Mapping[str, Any], file: Path, label: str, wanted: ServerText | None) -> str:
    """Parse what is about to be written: it must have the intended meaning."""
    try:
        text = tomlkit.dumps(document)
    except TOMLKitError:
        raise SourceError(f"{file} has a layout that cannot be edited: change it by hand") from None
    if parse_config(text, file).servers.get(label) != wanted:
        raise SourceError(f"{file} has a layout that cannot be edited: change it by hand")
    return text
