"""Where other MCP clients keep their configuration, and all servers found there, each under one label."""

from __future__ import annotations

import os
import sys
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from skillwire.catalog.naming import clean_handle
from skillwire.host.config.text import Place
from skillwire.host.config.trust import SeenFile
from skillwire.host.importers.jsonc import parse_jsonc
from skillwire.host.importers.parse import (
    ClientServer,
    Reader,
    Surroundings,
    read_claude,
    read_claude_code,
    read_claude_desktop,
    read_codex,
    read_cursor,
    read_gemini,
    read_goose,
    read_vscode,
    read_vscode_settings,
)
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.digests import digest_of
from skillwire.trust.origin import LOCAL_LABEL, MAX_LABEL_LENGTH

_EDITORS: Final = ("Code", "Code - Insiders")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A file that a client may keep servers in."""

    client: str
    path: Path
    parse: Callable[[str], object]
    read: Reader
    of_project: bool
    """Whether it comes with the project, perhaps from somebody else. What the user has as well is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server of other clients. `label` is its name here; `skipped` says why it is not taken."""

    label: str
    name: str
    clients: tuple[str, ...]
    files: tuple[SeenFile, ...]
    """Every file that names it so, the user's own first."""
    place: Place | None = None
    skipped: str = ""

    @property
    def file(self) -> Path:
        return self.files[0].path


@dataclass(frozen=True, slots=True)
class _Found:
    client: str
    file: SeenFile
    server: ClientServer


def find_servers(
    project: Path, home: Path, environment: Mapping[str, str], *, platform: str = sys.platform
) -> tuple[FoundServer, ...]:
    """The servers of every client that is here. Reads files and starts nothing."""
    around = Surroundings(environment=environment, home=home, project=project)
    found: list[_Found] = []
    for file in client_files(project, home, environment, platform=platform):
        data = b""
        try:
            read = _read(file.path)
            if read is None:
                continue
            data = read
            servers = [*file.read(file.parse(_decoded(data)), around)]
        except (ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            servers = [ClientServer(name=file.path.name, skipped=f"the file cannot be read: {reason}")]
        seen = SeenFile(file.path, digest_of(data), file.of_project)
        found += [_Found(file.client, seen, _anchored(server, project)) for server in servers]
    return tuple(_at_home(server, project) for server in _labelled(found))


def client_files(
    project: Path, home: Path, environment: Mapping[str, str], *, platform: str = sys.platform
) -> list[ClientFile]:
    """Every place to look at, the user's first: a project does not take a name from a server of theirs."""
    config = _config_home(home, environment, platform)
    goose = config / "Block/goose/config" if platform == "win32" else _xdg(home, environment) / "goose"
    claude = Path(environment["CLAUDE_CONFIG_DIR"]) if environment.get("CLAUDE_CONFIG_DIR") else home
    codex = Path(environment["CODEX_HOME"]) if environment.get("CODEX_HOME") else home / ".codex"
    users = [
        ("Claude Code", claude / ".claude.json", parse_jsonc, read_claude_code),
        ("Claude Desktop", config / "Claude/claude_desktop_config.json", parse_jsonc, read_claude_desktop),
        ("Cursor", home / ".cursor/mcp.json", parse_jsonc, read_cursor),
        *(("VS Code", config / f"{name}/User/mcp.json", parse_jsonc, read_vscode) for name in _EDITORS),
        *(
            ("VS Code", config / f"{name}/User/settings.json", parse_jsonc, read_vscode_settings)
            for name in _EDITORS
        ),
        ("Codex", codex / "config.toml", _parse_toml, read_codex),
        ("Gemini CLI", home / ".gemini/settings.json", parse_jsonc, read_gemini),
        ("Goose", goose / "config.yaml", _parse_yaml, read_goose),
    ]
    projects = [
        ("Claude Code", project / ".mcp.json", parse_jsonc, read_claude),
        ("Cursor", project / ".cursor/mcp.json", parse_jsonc, read_cursor),
        ("VS Code", project / ".vscode/mcp.json", parse_jsonc, read_vscode),
        ("Codex", project / ".codex/config.toml", _parse_toml, read_codex),
        ("Gemini CLI", project / ".gemini/settings.json", parse_jsonc, read_gemini),
    ]
    known: dict[Path, ClientFile] = {}
    for of_project, files in ((False, users), (True, projects)):
        for client, path, parse, read in files:
            file = ClientFile(client=client, path=path, parse=parse, read=read, of_project=of_project)
            known.setdefault(path, file)
    return list(known.values())


def _labelled(found: Iterable[_Found]) -> list[FoundServer]:
    """Each place once; two places of one name get labels of their own."""
    servers: list[FoundServer] = []
    for one in found:
        server = one.server
        label = _label(server.name)
        same = [
            other
            for other in servers
            if other.place is not None and other.place == server.place and _label(other.name) == label
        ]
        if same:
            [known] = same
            clients = tuple(dict.fromkeys((*known.clients, one.client)))
            servers[servers.index(known)] = replace(known, clients=clients, files=(*known.files, one.file))
            continue
        if server.place is not None:
            taken = {other.label.casefold() for other in servers if other.place is not None}
            wish = label
            number = 1
            while label.casefold() in taken:
                number += 1
                label = f"{wish[: MAX_LABEL_LENGTH - 4]}-{number}"
        servers.append(
            FoundServer(
                label=label,
                name=server.name,
                clients=(one.client,),
                files=(one.file,),
                place=server.place,
                skipped=server.skipped,
            )
        )
    return servers


def _at_home(server: FoundServer, project: Path) -> FoundServer:
    """A command that only the project names is started there; one of the user's in no project at all (S1)."""
    place = server.place
    if place is None or not place.command or place.directory or not all(f.of_project for f in server.files):
        return server
    return replace(server, place=replace(place, directory=str(project)))


def _anchored(server: ClientServer, project: Path) -> ClientServer:
    """With a working directory that does not depend on the file that it is written to."""
    place = server.place
    if place is None or not place.directory or place.directory.startswith("${"):
        return server
    return replace(server, place=replace(place, directory=str(project / Path(place.directory).expanduser())))


def _label(name: str) -> str:
    """A label from a client's name for a server."""
    plain = clean_handle(unicodedata.normalize("NFKC", name), marks="-_.")[:MAX_LABEL_LENGTH].strip("-_.")
    plain = unicodedata.normalize("NFKC", plain) or "server"
    return f"{plain}-server" if plain.casefold() == LOCAL_LABEL else plain


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(DEFAULT_LIMITS.config_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) > DEFAULT_LIMITS.config_bytes:
        raise ValueError(f"it has more than {DEFAULT_LIMITS.config_bytes:,} bytes")
    return data


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None


def _parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _parse_yaml(text: str) -> object:
    try:
        # Every scalar as its text: `off` is a name to Goose, and no false.
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - makes texts, lists and tables alone
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ValueError(f"it is not YAML{f' in line {mark.line + 1}' if mark else ''}") from None


def _config_home(home: Path, environment: Mapping[str, str], platform: str) -> Path:
    """Where applications of this system keep their settings."""
    if platform == "darwin":
        return home / "Library/Application Support"
    if platform == "win32":
        return Path(environment.get("APPDATA") or home / "AppData/Roaming")
    return _xdg(home, environment)


def _xdg(home: Path, environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_CONFIG_HOME")
    return Path(given) if given and os.path.isabs(given) else home / ".config"  # noqa: PTH117 - a plain test
