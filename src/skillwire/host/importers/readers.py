"""Servers of other MCP clients: what each client's files say, and all servers together, each once.

Each client has its own keys and its own way to write variables. `READERS` says how a file of each dialect is
read; readers are pure functions from the values of a file to servers. Each server has a label of its own.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TypeAlias, cast

from skillwire.catalog import clean_handle
from skillwire.clients import BaseDirectories
from skillwire.files import expand_user, read_regular
from skillwire.host.config.server import SeenFile
from skillwire.host.config.text import ServerAddress
from skillwire.host.importers.base import (
    ClientFile,
    FileContents,
    ImportedServer,
    Reader,
    Skip,
    Table,
    as_table,
    both,
    entries,
    entry,
    fill_editor,
    fill_shell,
    listed,
    literal,
    names,
    narrowed,
    table,
    texts,
)
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import digest_of
from skillwire.trust import LOCAL_LABEL, MAX_LABEL_LENGTH

_CLAUDE_SKILL: Final = re.compile(r"Skill\(([^()\s:*]+)(?::\*| \*)?\)")
_GEMINI_VARIABLE: Final = re.compile(r"\$(?:\{([^{}]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_OPENCODE_VARIABLE: Final = re.compile(r"\{(env|file):([^{}]*)\}")


# An entry of a server. Most clients have the same keys, and differ in how they write variables.
ReadServer: TypeAlias = Callable[[str, object, BaseDirectories], ImportedServer]


def _standard(fill: Callable[[str, BaseDirectories], str]) -> ReadServer:
    def read(name: str, given: object, around: BaseDirectories) -> ImportedServer:
        return entry(name, given, lambda text: fill(text, around))

    return read


def _unchanged(text: str, around: BaseDirectories) -> str:
    return literal(text)


def _fill_gemini(text: str, around: BaseDirectories) -> str:
    def value(match: re.Match[str]) -> str:
        return f"${{{match[2]}}}" if match[2] else fill_shell(match[0], around)

    return _GEMINI_VARIABLE.sub(value, text)


_plain_server: Final = _standard(_unchanged)
_shell_server: Final = _standard(fill_shell)
_editor_server: Final = _standard(fill_editor)
_gemini_entry: Final = _standard(_fill_gemini)


def _gemini_server(name: str, given: object, around: BaseDirectories) -> ImportedServer:
    values = as_table(given)
    return replace(
        _gemini_entry(name, given, around),
        skills=values.get("skillsEnabled") is not False,
        include=listed(values, "includeSkills"),
        exclude=listed(values, "excludeSkills") or (),
    )


def _zed_server(name: str, given: object, around: BaseDirectories) -> ImportedServer:
    values = as_table(given)
    if values.get("enabled") is not False and (
        values.get("source") == "extension" or not ({"command", "url"} & set(values))
    ):
        return ImportedServer(name=name, skipped="an extension of Zed starts it")
    inner = values.get("command")
    if isinstance(inner, dict):  # Older settings have a table there.
        command = cast("Table", inner)
        values |= {"command": command.get("path"), "args": command.get("args"), "env": command.get("env")}
    return _plain_server(name, values, around)


def _codex_server(name: str, given: object, around: BaseDirectories) -> ImportedServer:
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


def _goose_server(name: str, given: object, around: BaseDirectories) -> ImportedServer:
    values = as_table(given)
    inner = values.pop("config", None)
    values |= as_table(inner)
    kind = str(values.pop("type", ""))
    if kind not in ("stdio", "streamable_http", "sse"):
        return ImportedServer(name=name, skipped="it is a part of Goose, not a server")
    secrets = names(values, "env_keys")
    missing = sorted(secret for secret in secrets if secret not in around.environment)
    if missing:
        reason = f"Goose keeps its secret {missing[0]}, which is not set here"
        return ImportedServer(name=name, skipped=reason)
    env = {**texts(values.pop("envs", None)), **{secret: f"${{{secret}}}" for secret in sorted(secrets)}}
    renamed = {"type": kind, "enabled": values.get("enabled") != "false", "args": values.get("args")}
    renamed |= {"command": values.get("cmd"), "url": values.get("uri"), "headers": values.get("headers")}
    if kind == "stdio":
        renamed["env"] = env
    return entry(name, renamed, lambda text: fill_shell(text, around))


def _opencode_server(name: str, given: object, around: BaseDirectories) -> ImportedServer:
    values = as_table(given)
    words = values.get("command")
    if isinstance(words, list):
        spelled = [str(word) for word in cast("list[object]", words)]
        values |= {"command": spelled[0] if spelled else "", "args": spelled[1:]}
    values["env"] = values.pop("environment", None)
    return entry(name, values, _opencode_fill)


def _opencode_fill(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] == "file":
            raise Skip("it reads a value from a file of its own")
        return f"${{{match[2]}}}"

    return _OPENCODE_VARIABLE.sub(value, literal(text))


# What a file disables or restricts, apart from its servers.


def _nothing(values: object) -> FileContents:
    return FileContents()


def _claude_settings(values: object) -> FileContents:
    """`settings.json`: no servers, but what is disabled, denied and forbidden."""
    denied = as_table(values).get("deniedMcpServers")
    rules = [as_table(rule) for rule in cast("list[object]", denied)] if isinstance(denied, list) else []
    forbidden = listed(table(values, "permissions"), "deny") or ()
    return FileContents(
        off=names(values, "disabledMcpjsonServers"),
        denies=lambda server: any(_claude_denies(rule, server) for rule in rules),
        skills="Skill" not in forbidden,
        exclude=tuple(match[1] for rule in forbidden if (match := _CLAUDE_SKILL.fullmatch(rule))),
    )


def _claude_denies(rule: Table, server: ImportedServer) -> bool:
    place = server.place
    command, url = rule.get("serverCommand"), rule.get("serverUrl")
    if rule.get("serverName") == server.name or place is None:
        return True
    if isinstance(command, list):
        return list(place.command) == command
    return isinstance(url, str) and bool(place.url) and fnmatchcase(place.url, url)


def _codex_skills(values: object) -> FileContents:
    skills = table(values, "skills").get("config")
    tables = map(as_table, cast("list[object]", skills) if isinstance(skills, list) else [])
    off = [one["name"] for one in tables if one.get("enabled") is False]
    return FileContents(exclude=tuple(name for name in off if isinstance(name, str)))


def _copilot_servers(values: object) -> FileContents:
    return FileContents(off=names(values, "disabledMcpServers"))


def _copilot_settings(values: object) -> FileContents:
    off = names(values, "disabledMcpServers") | names(values, "disabled_mcp_servers")
    return FileContents(off=off, exclude=tuple(sorted(names(values, "disabledSkills"))))


def _gemini_settings(values: object) -> FileContents:
    mcp, skills, admin = (table(values, key) for key in ("mcp", "skills", "admin"))
    allowed = names(mcp, "allowed") if listed(mcp, "allowed") is not None else None
    if table(admin, "mcp").get("enabled") is False:
        allowed = frozenset[str]()
    return FileContents(
        off=names(mcp, "excluded"),
        allowed=allowed,
        skills=skills.get("enabled") is not False and table(admin, "skills").get("enabled") is not False,
        exclude=listed(skills, "disabled") or (),
    )


def _opencode_permissions(values: object) -> FileContents:
    permission = table(values, "permission").get("skill")
    rules = table(table(values, "permission"), "skill")
    closed = rules.get("*") == "deny"
    return FileContents(
        skills=permission != "deny",
        include=tuple(pattern for pattern, rule in rules.items() if rule != "deny") if closed else None,
        exclude=tuple(pattern for pattern, rule in rules.items() if rule == "deny" and pattern != "*"),
    )


def _wayland_profile(values: object) -> FileContents:
    """`mcp_servers` of the default profile says which servers are connected."""
    allowed = listed(table(table(values, "profiles"), "default"), "mcp_servers")
    return FileContents(allowed=None if allowed is None else frozenset(allowed))


@dataclass(frozen=True, slots=True)
class Dialect:
    """The reader of a file: the keys that lead to its servers, how each is written, and what it restricts."""

    keys: tuple[str, ...]
    server: ReadServer = _plain_server
    restrictions: Callable[[object], FileContents] = _nothing

    def __call__(self, values: object, around: BaseDirectories) -> FileContents:
        found = values
        for key in self.keys:
            found = table(found, key)
        servers = as_table(found).items() if self.keys else ()
        return replace(
            self.restrictions(values),
            servers=tuple(self.server(name, given, around) for name, given in servers),
        )


def read_claude_user(values: object, around: BaseDirectories) -> FileContents:
    """`~/.claude.json`: servers of the user and of each project; only the current project's are used."""
    projects = table(values, "projects")
    here = projects.get(str(around.project))
    servers = [
        server
        for found in (table(values, "mcpServers"), table(here, "mcpServers"))
        for server in entries(found, lambda text: fill_shell(text, around))
    ]
    for path in projects:
        if path != str(around.project):
            servers += [
                ImportedServer(name=name, skipped=f"it belongs to the project {path}: import it there")
                for name in table(projects[path], "mcpServers")
            ]
    off = names(here, "disabledMcpServers") | names(here, "disabledMcpjsonServers")
    return FileContents(servers=tuple(servers), off=off)


READERS: Final[Mapping[str, Reader]] = {
    "claude-project": Dialect(("mcpServers",), _shell_server),
    "claude-settings": Dialect((), restrictions=_claude_settings),
    "claude-user": read_claude_user,
    "codex": Dialect(("mcp_servers",), _codex_server, _codex_skills),
    "copilot": Dialect(("mcpServers",), _shell_server, _copilot_servers),
    "copilot-settings": Dialect((), restrictions=_copilot_settings),
    "editor": Dialect(("mcpServers",), _editor_server),
    "gemini": Dialect(("mcpServers",), _gemini_server, _gemini_settings),
    "goose": Dialect(("extensions",), _goose_server),
    "opencode": Dialect(("mcp",), _opencode_server, _opencode_permissions),
    "plain": Dialect(("mcpServers",)),
    "vscode": Dialect(("servers",), _editor_server),
    # It used to have the servers.
    "vscode-settings": Dialect(("mcp", "servers"), _editor_server),
    "wayland": Dialect(("mcp", "servers"), _shell_server, _wayland_profile),
    "zed": Dialect(("context_servers",), _zed_server),
}
"""The reader of each dialect in the table of clients."""


def client_files(places: BaseDirectories) -> list[ClientFile]:
    """Every file to look at, the user's first, so that a project cannot take the name of a user's server."""
    known: dict[Path, ClientFile] = {}
    for client, file, path in places.config_files():
        read = ClientFile(
            client=client.name, path=path, read=READERS[file.dialect], of_project=file.of_project
        )
        known.setdefault(path, read)
    return list(known.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server of other clients. `label` is its name here; `skipped` says why it is not taken."""

    label: str
    name: str
    clients: tuple[str, ...]
    files: tuple[SeenFile, ...]
    """Every file that names it, the user's own first."""
    server: ImportedServer
    also: tuple[str, ...] = ()
    """Other clients' names for it."""

    @property
    def file(self) -> Path:
        return self.files[0].path

    @property
    def place(self) -> ServerAddress | None:
        return self.server.place

    @property
    def skipped(self) -> str:
        return self.server.skipped

    @property
    def switches(self) -> tuple[str, ...]:
        """Return what its clients disable or restrict, which stays so here."""
        server, found = self.server, list[str]()
        if not server.skills:
            found.append("its skills stay disabled")
        if server.include is not None:
            found.append(f"only the skills {', '.join(server.include)}" if server.include else "no skill")
        if server.exclude:
            found.append(f"not the skills {', '.join(server.exclude)}")
        return tuple(found)

    @property
    def login(self) -> str:
        """The command that signs the user in; empty if none is needed."""
        if not self.server.signs_in or self.place is None:
            return ""
        client = f" --client-id {self.server.client_id}" if self.server.client_id else ""
        return f"skillwire servers login {self.label}{client}"


@dataclass(frozen=True, slots=True)
class _Found:
    client: str
    file: SeenFile
    server: ImportedServer


def find_servers(
    project: Path, home: Path, environment: Mapping[str, str], *, platform: str = sys.platform
) -> tuple[FoundServer, ...]:
    """The servers of every client that is here. Reads files and starts nothing."""
    around = BaseDirectories(project, home, environment, platform)
    read = [(file, *_contents(file, around)) for file in client_files(around)]
    found: list[_Found] = []
    for file, seen, contents in read:
        # What one file of a client disables is disabled in all of them.
        others = [said for other, _, said in read if other.client == file.client]
        for server in contents.servers:
            found.append(_Found(file.client, seen, _anchored(narrowed(server, others), project)))
    return tuple(_at_home(server, project) for server in _labelled(found))


def _contents(file: ClientFile, around: BaseDirectories) -> tuple[SeenFile, FileContents]:
    data = b""
    try:
        read = _read(file.path)
        data = read or b""
        contents = file.read(file.parse(data), around) if read is not None else FileContents()
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        unread = ImportedServer(name=file.path.name, skipped=f"the file cannot be read: {reason}")
        contents = FileContents(servers=(unread,))
    return SeenFile(file.path, digest_of(data), file.of_project), contents


def _labelled(found: Iterable[_Found]) -> list[FoundServer]:
    """Each place once, whatever it is called; two places of one name get labels of their own."""
    servers: list[FoundServer] = []
    for one in found:
        server = one.server
        known = next((other for other in servers if other.place and other.place == server.place), None)
        if known is not None:
            names = [*known.also, *([server.name] if server.name != known.name else [])]
            servers[servers.index(known)] = replace(
                known,
                clients=tuple(dict.fromkeys((*known.clients, one.client))),
                files=(*known.files, one.file),
                server=both(known.server, server),
                also=tuple(dict.fromkeys(names)),
            )
            continue
        label = _label(server.name)
        if server.place is not None:
            taken = {other.label.casefold() for other in servers if other.place is not None}
            wish = label
            number = 1
            while label.casefold() in taken:
                number += 1
                label = f"{wish[: MAX_LABEL_LENGTH - 4]}-{number}"
        servers.append(
            FoundServer(
                label=label, name=server.name, clients=(one.client,), files=(one.file,), server=server
            )
        )
    return servers


def _at_home(found: FoundServer, project: Path) -> FoundServer:
    """A command that only the project names is started there; one of the user's in no project at all (S1)."""
    place = found.place
    if place is None or not place.command or place.directory or not all(f.of_project for f in found.files):
        return found
    return replace(found, server=replace(found.server, place=replace(place, directory=str(project))))


def _anchored(server: ImportedServer, project: Path) -> ImportedServer:
    """With a working directory that does not depend on the file that it is written to."""
    place = server.place
    if place is None or not place.directory or place.directory.startswith("${"):
        return server
    return replace(server, place=replace(place, directory=str(project / expand_user(place.directory))))


def _label(name: str) -> str:
    """A label from a client's name for a server."""
    plain = clean_handle(unicodedata.normalize("NFKC", name), marks="-_.")[:MAX_LABEL_LENGTH].strip("-_.")
    plain = unicodedata.normalize("NFKC", plain) or "server"
    return f"{plain}-server" if plain.casefold() == LOCAL_LABEL else plain


def _read(path: Path) -> bytes | None:
    try:
        data = read_regular(path, DEFAULT_LIMITS.document_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) > DEFAULT_LIMITS.document_bytes:
        raise ValueError(f"it has more than {DEFAULT_LIMITS.document_bytes:,} bytes")
    return data
