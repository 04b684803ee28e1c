"""Shared by the importers of all clients: pure, from the values of a file to servers.

What cannot be said in `skillwire.toml`, or would be weaker there, is skipped with the reason. A client's own
way to write a variable becomes ours; a text that only looks like a variable stays what it is. What a client
disables or restricts stays so: an import never grants more.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias, cast

from skillwire.clients import BaseDirectories
from skillwire.documents import Data, read_json, read_toml, read_yaml
from skillwire.host.config.text import ServerAddress
from skillwire.limits import DEFAULT_LIMITS

# A string is matched first, so that nothing inside one is taken for a comment. A comment after a comma is
# skipped as a whole (`*+`, `(?>`), so that no bracket inside one makes the comma a trailing one. What is not
# closed reaches to the end, so that every character is read at most twice.
_TOKENS: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|//[^\n]*+|/\*.*?(?:\*/|\Z)'
    rb"|,(?=(?:\s|//[^\n]*+|(?>/\*.*?(?:\*/|\Z)))*+[}\]])",
    re.DOTALL,
)
_QUOTE: Final = ord('"')
_BRACES: Final = re.compile(r"\$\{([^{}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BEARER: Final = re.compile(r"Bearer \$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.IGNORECASE)
_HTTP: Final = frozenset({"", "http", "streamable-http", "streamablehttp", "streamable_http", "remote"})
_BRIDGE_VARIABLE: Final = re.compile(r"\$?\$\{([^{}]*)\}")  # It fills in its own environment.
_BRIDGE: Final = re.compile(r"mcp-remote(@[\w.^~-]+)?")
_BRIDGE_SWITCHES: Final = frozenset({"--allow-http", "--debug", "--silent", "--enable-proxy"})
_BRIDGE_VALUES: Final = frozenset({"--host", "--auth-timeout"})
Table: TypeAlias = Mapping[str, object]
OFF: Final = "it is disabled there"


class Skip(Exception):
    """Why an entry is skipped, for a person to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServer:
    """An entry of a client's configuration: a place, or the reason why it is skipped."""

    name: str
    place: ServerAddress | None = None
    skipped: str = ""
    skills: bool = True
    """Whether the client uses its skills at all."""
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    signs_in: bool = False
    """Whether the client signs in with OAuth."""
    client_id: str = ""
    """The OAuth client that somebody registered for it, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContents:
    """The servers and switches of one file of a client. It can disable servers of its other files."""

    servers: tuple[ImportedServer, ...] = ()
    off: frozenset[str] = frozenset()
    """The names of disabled servers."""
    allowed: frozenset[str] | None = None
    """The names of servers that are allowed at all; `None` is every one."""
    denies: Callable[[ImportedServer], bool] = field(default=lambda server: False)
    """Whether a server is forbidden by something other than its name."""
    skills: bool = True
    """Whether skills are used at all."""
    include: tuple[str, ...] | None = None
    """The only skills that are allowed, whichever server they come from; `None` is every one."""
    exclude: tuple[str, ...] = ()
    """Disabled skills, whichever server they come from."""


Fill: TypeAlias = Callable[[str], str]
Reader: TypeAlias = Callable[[object, BaseDirectories], FileContents]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A file that a client may keep servers in."""

    client: str
    path: Path
    read: Reader
    of_project: bool = False
    """Whether it comes with the project, perhaps from somebody else. What the user has as well is theirs."""

    def parse(self, text: bytes | str) -> object:
        """The value of the file's text, or a `ValueError` that says what is wrong."""
        return parse_text(text, self.path.suffix)


def narrowed(server: ImportedServer, files: Iterable[FileContents]) -> ImportedServer:
    """A server with everything that the files of its client disable."""
    for said in files:
        if server.place is not None and (server.name in said.off or said.denies(server)):
            server = replace(server, place=None, skipped=OFF)
        if server.place is not None and said.allowed is not None and server.name not in said.allowed:
            server = replace(server, place=None, skipped="it is not allowed there")
        rules = ImportedServer(name="", skills=said.skills, include=said.include, exclude=said.exclude)
        server = both(server, rules)
    return server


def both(one: ImportedServer, other: ImportedServer) -> ImportedServer:
    """One server that two files have, with what each of them disables."""
    include = one.include if other.include is None else other.include
    if one.include is not None and other.include is not None:
        include = tuple(
            dict.fromkeys(
                [
                    *(name for name in one.include if _fits(name, other.include)),
                    *(name for name in other.include if _fits(name, one.include)),
                ]
            )
        )
    return replace(
        one,
        skills=one.skills and other.skills,
        include=include,
        exclude=tuple(dict.fromkeys((*one.exclude, *other.exclude))),
        signs_in=one.signs_in or other.signs_in,
        client_id=one.client_id or other.client_id,
    )


def entries(tables: Table, fill: Fill) -> Iterator[ImportedServer]:
    """The entries of a table of servers."""
    for name, values in tables.items():
        yield entry(name, values, fill)


def entry(
    name: str, values: object, fill: Fill, *, keep: bool = False, token_env: str = ""
) -> ImportedServer:
    """One entry. With `keep`, headers and variables are written our way already."""
    try:
        if not isinstance(values, dict):
            raise Skip("it is not a table")
        given = cast("Table", values)
        place = canonical(_place(given, fill, keep=keep, token_env=token_env))
        if _starts_gateway(place.command):
            raise Skip("it is your own gateway, which would connect to itself")
    except Skip as reason:
        return ImportedServer(name=name, skipped=str(reason))
    signs_in, client_id = _oauth(given, fill) if place.url else (False, "")
    # Apart from passing messages on, a bridge to a URL does the login.
    bridged = bool(place.url) and not any(given.get(key) for key in ("httpUrl", "url", "serverUrl"))
    secret = place.token or place.token_env or any(key.lower() == "authorization" for key in place.headers)
    return ImportedServer(
        name=name, place=place, signs_in=signs_in or (bridged and not secret), client_id=client_id
    )


def _starts_gateway(command: Sequence[str]) -> bool:
    """Whether a command starts the gateway, as `skillwire gateway install` writes it."""
    words = [word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe") for word in command]
    return ("skillwire", "gateway") in pairwise(words)


def canonical(place: ServerAddress) -> ServerAddress:
    """One way to write what can be written in several, so that the same server is known as such."""
    place = _unbridged(place)
    for key, value in place.headers.items():
        bearer = _BEARER.fullmatch(value) if key.lower() == "authorization" else None
        if bearer is not None and not (place.token or place.token_env):
            others = {name: text for name, text in place.headers.items() if name != key}
            return replace(place, headers=others, token_env=bearer[1])
    return place


def _unbridged(place: ServerAddress) -> ServerAddress:
    """The URL behind `npx mcp-remote URL`, if nothing else is asked of the bridge than to reach it."""
    words = [word for word in place.command[1:] if word not in ("-y", "--yes")]
    runner = Path(place.command[0].replace("\\", "/")).name.lower() if place.command else ""
    if runner.removesuffix(".cmd") in ("npx", "bunx", "pnpx") and words and _BRIDGE.fullmatch(words[0]):
        words = words[1:]
    elif runner == "mcp-remote":
        words = list(place.command[1:])
    else:
        return place
    if not words or not words[0].lower().startswith(("http://", "https://")):
        return place
    headers: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if word == "--header":
            key, _, value = next(rest, "").partition(":")
            if not key.strip():
                return place
            headers[key.strip()] = _BRIDGE_VARIABLE.sub(
                lambda match: place.env.get(match[1], f"${{{match[1]}}}"), value.strip()
            )
        elif word in _BRIDGE_VALUES:
            next(rest, "")
        elif word not in _BRIDGE_SWITCHES and not word.isdecimal():
            return place
    return ServerAddress(url=words[0], headers=headers)


def _place(given: Table, fill: Fill, *, keep: bool, token_env: str) -> ServerAddress:
    kind = str(given.get("type") or given.get("transport") or "").lower()
    if given.get("disabled") is True or given.get("enabled") is False:
        raise Skip(OFF)
    for key, reason in (
        ("headersHelper", "a program makes its headers"),
        ("envFile", "its variables are in a file of their own"),
        ("sandboxEnabled", "it runs in a sandbox there"),
        ("sandbox", "it runs in a sandbox there"),
    ):
        if given.get(key):
            raise Skip(reason)
    if given.get("authProviderType") not in (None, "", "dynamic_discovery"):
        raise Skip("it signs in with Google credentials")
    inside = _same if keep else fill
    headers = {key: inside(value) for key, value in texts(given.get("headers")).items()}
    env = {key: inside(value) for key, value in texts(given.get("env")).items()}
    url = given.get("httpUrl") or given.get("url") or given.get("serverUrl")
    if isinstance(url, str) and url:
        if kind == "sse" or (kind == "" and "httpUrl" not in given and url.rstrip("/").endswith("/sse")):
            raise Skip("it uses the deprecated SSE transport, which is not supported")
        if kind not in _HTTP:
            raise Skip(f"it speaks {kind}, which is not a supported transport")
        filled = fill(url)
        if not filled.lower().startswith(("http://", "https://", "${")):
            raise Skip("its URL is not an HTTP URL")
        return ServerAddress(url=filled, headers=headers, token_env=token_env)
    command, arguments = given.get("command"), given.get("args")
    if not isinstance(command, str) or not command.strip():
        raise Skip("it has neither a command nor a URL")
    words = cast("list[object]", arguments) if isinstance(arguments, list) else []
    directory = given.get("cwd")
    return ServerAddress(
        command=(fill(command), *(fill(str(word)) for word in words)),
        env=env,
        directory=fill(directory) if isinstance(directory, str) else "",
    )


def _oauth(given: Table, fill: Fill) -> tuple[bool, str]:
    """Whether an entry says that it signs in with OAuth, and with which client."""
    found = given.get("oauth") or given.get("auth")
    tables = as_table(found)
    names = ("clientId", "CLIENT_ID", "client_id")
    client = next((tables[name] for name in names if isinstance(tables.get(name), str)), "")
    client = client or given.get("oauthClientId") or ""
    signs_in = bool(found) or bool(client) or isinstance(found, dict) or "authProviderType" in given
    return signs_in, fill(client) if isinstance(client, str) else ""


def fill_shell(text: str, around: BaseDirectories) -> str:
    """`${VAR}` and `${VAR:-default}`, as Claude Code and others write variables."""

    def value(match: re.Match[str]) -> str:
        name, has_default, default = match[1].partition(":-")
        if not _NAME.fullmatch(name):
            raise Skip(f"it has the placeholder ${{{match[1]}}}")
        if has_default and name not in around.environment:
            return literal(default)
        return f"${{{name}}}"

    return _BRACES.sub(value, text)


def fill_editor(text: str, around: BaseDirectories) -> str:
    """`${env:VAR}` and a few places, as VS Code, Cursor and Windsurf write them."""
    places = {
        "userHome": str(around.home),
        "workspaceFolder": str(around.project),
        "workspaceFolderBasename": around.project.name,
    }

    def value(match: re.Match[str]) -> str:
        kind, colon, name = match[1].partition(":")
        if kind == "env" and colon and _NAME.fullmatch(name):
            return f"${{{name}}}"
        if match[1] in places:
            return places[match[1]]
        if kind == "input":
            raise Skip(f"it asks for the input {name} when it starts")
        if kind == "file":
            raise Skip("it reads a value from a file of its own")
        raise Skip(f"it has the placeholder ${{{match[1]}}}")

    return _BRACES.sub(value, text)


def literal(text: str) -> str:
    """Text that its client uses unchanged."""
    return text.replace("${", "$${")


def as_table(value: object) -> dict[str, object]:
    """The value if it is a table, otherwise an empty one."""
    return dict(cast("Table", value)) if isinstance(value, dict) else {}


def table(values: object, key: str) -> Table:
    return as_table(as_table(values).get(key))


def texts(value: object) -> dict[str, str]:
    """A table of texts; numbers and switches count as the texts that a client would make of them."""
    if not isinstance(value, dict):
        return {}
    return {
        key: item if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else str(item)
        for key, item in cast("Table", value).items()
        if item is not None
    }


def names(values: object, key: str) -> frozenset[str]:
    return frozenset(listed(values, key) or ())


def listed(values: object, key: str) -> tuple[str, ...] | None:
    """A list of texts; `None` when there is no list, which is not the same as an empty one."""
    inner = as_table(values).get(key)
    if not isinstance(inner, list):
        return None
    return tuple(item for item in cast("list[object]", inner) if isinstance(item, str))


def _same(text: str) -> str:
    return text


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in patterns)


def parse_text(text: Data, suffix: str) -> object:
    """The value of a file with this suffix, or a `ValueError` whose message quotes nothing of the text."""
    return {".toml": read_toml, ".yaml": read_yaml}.get(suffix, parse_jsonc)(text)


def parse_jsonc(text: Data) -> object:
    """JSON as people write it, with comments and trailing commas, which several clients allow."""
    # As bytes, and without a list of all strings: a text may have very many, or need four bytes a character.
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    plain = io.BytesIO()
    start = 0
    if len(data) <= DEFAULT_LIMITS.document_bytes:  # What is longer is refused unread.
        for token in _TOKENS.finditer(data):
            if data[token.start()] != _QUOTE:
                plain.write(memoryview(data)[start : token.start()])
                plain.write(b" ")
                start = token.end()
    if not start:
        return read_json(data, what="the file")
    plain.write(memoryview(data)[start:])
    return read_json(plain.getvalue(), what="the file")
