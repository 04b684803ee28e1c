"""ServerConfig: a server of a configuration, and which files are trusted to name one.

`ConfigTable` reads a table key by key and keeps every mistake. `TrustedFiles` records which files of projects
the user trusts: a file of a project may come from somebody else, with a repository, and it can name commands.
Trust is for one path and exactly these bytes. Each trusted file has its own record, written in one step, so
that processes do not interfere; a damaged record trusts nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urlsplit, urlunsplit

from skillwire.catalog import EVERYTHING, Selection
from skillwire.documents import is_list, is_object
from skillwire.errors import Issue, SourceError
from skillwire.files import make_folder, read_regular, write_atomic
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import Digest, digest_of
from skillwire.sources.process import split_command
from skillwire.text import is_secret_name, redact_url, secrets_in_arguments, secrets_in_urls, shown
from skillwire.trust import ApprovalMode, url_name


class ConfigTable:
    """One table. Keys that are read are known; `finish` reports the rest."""

    def __init__(
        self, values: Mapping[str, object], *, file: str, issues: list[Issue], key: str = ""
    ) -> None:
        self._values = values
        self._file = file
        self._issues = issues
        self._key = key
        self._known: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def string(self, key: str) -> str:
        """Text, or the empty string when there is none."""
        value = self._get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.blame(key, f"is {_kind(value)}, not text", f'write {key} = "..."')
            return ""
        if not value.strip():
            self.blame(key, "is empty", "give it a value, or leave it out")
            return ""
        return value

    def strings(self, key: str) -> tuple[str, ...] | None:
        """A list of texts; `None` when the key is absent, which is not the same as an empty list."""
        value = self._checked(key, _is_texts, "is not a list of texts", f'write {key} = ["...", "..."]')
        return None if value is None else tuple(value)

    def string_map(self, key: str) -> dict[str, str]:
        """A table of texts."""
        fix = f'write {key} = {{ NAME = "value" }}'
        return self._checked(key, _is_text_table, "is not a table of texts", fix) or {}

    def boolean(self, key: str) -> bool | None:
        """True or false, or `None` when the key is absent."""
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            self.blame(key, f"is {_kind(value)}, not true or false", f"write {key} = true or {key} = false")
            return None
        return value

    def seconds(self, key: str) -> float | None:
        """A number of seconds, more than none and at most an hour."""
        problem = "is not a number of seconds from above 0 to 3600"
        value = self._checked(key, _is_seconds, problem, f"write {key} = 10")
        return None if value is None else float(value)

    def integer(self, key: str, *, most: int = 2**53) -> int | None:
        """A whole number from 1 on, or `None` when the key is absent."""

        def is_valid(value: object) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most

        return self._checked(key, is_valid, f"is not a whole number from 1 to {most:,}", f"write {key} = 1")

    def time(self, key: str) -> datetime | None:
        """A time with its offset, or `None` when the key is absent."""
        fix = f"write {key} = 2030-01-31T00:00:00Z"
        return self._checked(key, _is_exact_time, "is not a time with an offset", fix)

    def choice(self, key: str, choices: Iterable[str]) -> str:
        value = self.string(key)
        known = list(choices)
        if value and value not in known:
            self.blame(key, f"has no meaning as {shown(value)!r}", _advice(value, known, "it can be"))
            return ""
        return value

    def table(self, key: str) -> ConfigTable:
        """The one table of a key, empty when it is absent."""
        value = self._get(key)
        if value is not None and not isinstance(value, dict):
            self.blame(key, f"is {_kind(value)}, not a table", f"write [{key}]")
        values = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return ConfigTable(values, file=self._file, issues=self._issues, key=self._path(key))

    def tables(self, key: str) -> dict[str, ConfigTable]:
        """The tables below a key, by name."""
        value = self._get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.blame(key, f"is {_kind(value)}, not a table", f"write [{key}.NAME]")
            return {}
        found: dict[str, ConfigTable] = {}
        for name, below in cast("dict[str, object]", value).items():
            path = f"{self._path(key)}.{name}"
            if isinstance(below, dict):
                table = cast("dict[str, object]", below)
                found[name] = ConfigTable(table, file=self._file, issues=self._issues, key=path)
            else:
                self.blame(f"{key}.{name}", f"is {_kind(below)}, not a table", f"write [{path}]")
        return found

    def finish(self) -> None:
        """Report the keys that were not read, up to the limit of issues per file."""
        unknown = [key for key in self._values if key not in self._known]
        for key in unknown[: DEFAULT_LIMITS.issues_per_file]:
            self.blame(key, "is not known here", _advice(key, sorted(self._known), "known are"))

    def blame(self, key: str, message: str, fix: str) -> None:
        place = self._path(key) if key else self._key
        self._issues.append(
            Issue(
                rule="config",
                file=shown(self._file, 300),
                message=f"{shown(place, 100)} {message}",
                fix=fix,
            )
        )

    def _checked(self, key: str, is_valid: Callable[[object], bool], problem: str, fix: str) -> Any:
        """The value of a key; `None` when it is absent, or not valid, which is reported."""
        value = self._get(key)
        if value is None or is_valid(value):
            return value
        self.blame(key, problem, fix)
        return None

    def _get(self, key: str) -> object:
        self._known.add(key)
        return self._values.get(key)

    def _path(self, key: str) -> str:
        return f"{self._key}.{key}" if self._key else key


def _is_texts(value: object) -> bool:
    return is_list(value) and all(isinstance(item, str) for item in value)


def _is_text_table(value: object) -> bool:
    return is_object(value) and all(isinstance(item, str) for item in value.values())


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 3600


def _is_exact_time(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?` if a known word is similar, otherwise nothing."""
    folded = {item.casefold(): item for item in known}
    found = get_close_matches(word.casefold()[:100], folded, n=1)
    return f"did you mean {shown(folded[found[0]])}?" if found else ""


def _advice(word: str, known: list[str], otherwise: str) -> str:
    return did_you_mean(word, known) or f"{otherwise} {', '.join(known)}"


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


Era: TypeAlias = Literal["auto", "legacy", "2026-07-28"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServerConfig:
    """Where a server is, by `url`, `command` or, inside this process, `instance`; and how it is treated.

    `headers`, `token` and `env` may hold secrets, and so may a URL and the arguments of a command: of these
    only `place` is ever printed.
    """

    url: str = ""
    command: tuple[str, ...] = ()
    instance: object = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    directory: str = ""
    """Where a command is started. The user's home by default: the working directory may belong to anyone."""
    approval: ApprovalMode = ApprovalMode.PROMPT
    era: Era = "auto"
    connect_seconds: float = DEFAULT_LIMITS.connect_seconds
    call_seconds: float = DEFAULT_LIMITS.call_seconds
    skills: bool = True
    """Whether its skills are used at all. If not, it is not connected."""
    selection: Selection = EVERYTHING
    """Which of its skills are used; the others are never seen."""
    accept_drafts: bool = False
    """Whether entries of earlier drafts, which leave out what is mandatory now, count as dynamic skills."""
    bare_scan: bool = False
    """Whether any `skill://` resource counts as a skill, even if its server does not say so."""

    require: tuple[str, ...] = ()
    """The publishers who must have signed every skill of this server."""

    def __post_init__(self) -> None:
        given = [bool(self.url), bool(self.command), self.instance is not None]
        if given.count(True) != 1:
            raise SourceError("a server needs exactly one of url, command and instance")
        if self.url and not self.url.lower().startswith(("http://", "https://")):
            raise SourceError(f"{shown(self.url.partition(':')[0])}: is not an http:// or https:// URL")

    def __repr__(self) -> str:
        return f"ServerConfig({self.place!r}, approval={self.approval.value!r}, skills={self.skills})"

    @property
    def identity(self) -> str:
        """The identity of this server, independent of its label: a digest of its URL or command. Approvals
        and cached files are stored under it. It holds no secret and does not change when one is replaced that
        is sent in a header, a variable or the usual parameters of a URL. Empty for a server of this process.
        """
        if self.url:
            return f"url:{_fingerprint(_bare_url(self.url))}"
        if self.command:
            return f"command:{_fingerprint(*self.command, self.directory)}"
        return ""

    def source_names(self, label: str) -> tuple[str, ...]:
        """Its place, as the patterns of a policy name it. What may be secret is left out of it."""
        if self.url:
            return (url_name(self.url),)
        if self.command:
            secrets = secrets_in_arguments(self.command)
            return ("command:" + " ".join("***" if one in secrets else one for one in self.command),)
        return (f"object:{label}",)

    @property
    def place(self) -> str:
        """Where the server is, without what could be secret: credentials, query, arguments."""
        return place_of(self.url, self.command[0] if self.command else "") or "in this process"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that the server was given. It may repeat them in an error."""
        return (
            self.token,
            *self.headers.values(),
            *self.env.values(),
            *(secret for text in (self.url, *self.env.values()) for secret in secrets_in_urls(text)),
            *secrets_in_arguments(self.command),
        )


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def _bare_url(url: str) -> str:
    """Return a server's URL without user, fragment, and parameters that look like credentials."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    try:
        port = parts.port
    except ValueError:  # No port at all: nothing will be reached there, either.
        return redact_url(url)
    default = {"http": 80, "https": 443}.get(parts.scheme.lower())
    where = host if port in (None, default) else f"{host}:{port}"
    kept = [pair for pair in parts.query.split("&") if pair and not is_secret_name(pair.partition("=")[0])]
    return urlunsplit((parts.scheme.lower(), where, parts.path or "/", "&".join(kept), ""))


def place_of(url: str, program: str) -> str:
    """A redacted URL, or the name of a program: the part of a server's place that is no secret."""
    if url:
        return shown(redact_url(url), 120)
    return shown(program)


_INNER_SERVERS: Final = ("low_level", "_lowlevel_server", "_mcp_server")


def _server_object(given: object) -> object:
    """Return the low-level server to connect to, also of a `SkillServer` or FastMCP server.

    A transport of the SDK, which is an asynchronous context manager, is taken as it is.
    """
    for name in _INNER_SERVERS:
        inner = getattr(given, name, None)
        if inner is not None:
            return inner
    if hasattr(given, "create_initialization_options") or hasattr(given, "__aenter__"):
        return given
    raise TypeError(
        f"{type(given).__name__} is not an MCP server: give a URL, a command line, a ServerConfig or a server"
    )


def parse_server(given: str | ServerConfig | object) -> ServerConfig:
    """A server from a URL, a command line, a `ServerConfig` or an MCP server object of this process."""
    if isinstance(given, ServerConfig):
        return given
    if not isinstance(given, str):
        return ServerConfig(instance=_server_object(given))
    if "://" in given.partition(" ")[0]:
        return ServerConfig(url=given)
    try:
        command = split_command(given, windows=os.name == "nt")
    except ValueError as error:
        # The line may hold a secret, so it is not quoted.
        raise SourceError(f"the command line of a server cannot be read: {error}") from None
    if not command:
        raise SourceError("the command of a server is empty")
    # A command line is relative to the working directory, as in a shell.
    return ServerConfig(command=command, directory=str(Path.cwd()))


_LONGEST_RECORD: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as it was read."""

    path: Path
    digest: Digest
    """The digest of what was read. Trust is bound to it, so a file that changes has to be trusted
    again."""
    of_project: bool = True
    """Whether it came with the project; otherwise it is the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedServer:
    """A server that is left out: until the user trusts the file that names it, or for `problem`."""

    label: str
    file: Path
    problem: str = ""

    @property
    def reason(self) -> str:
        """Why, and what to do about it."""
        return self.problem or (
            f"is not trusted: it comes from {self.file}; "
            "to review it and trust it, run `skillwire trust` in that project"
        )


def seen_digest(path: Path) -> Digest | None:
    """The digest of a file as it is now; `None` when it is not there or not readable."""
    try:
        data = read_regular(path, DEFAULT_LIMITS.document_bytes + 1)
    except OSError:
        return None
    return digest_of(data)


class TrustedFiles:
    """The files of projects that the user trusts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def trusts(self, file: SeenFile) -> bool:
        """Whether the user trusts this file with exactly these bytes. Their own files are always trusted."""
        return not file.of_project or self._digest(file.path) == file.digest

    def trust(self, file: SeenFile) -> None:
        """Trust a file as it was seen, replacing any earlier trust in it."""
        record = self.record(file.path)
        text = json.dumps({"version": 1, "path": str(file.path), "digest": file.digest})
        try:
            make_folder(record.parent)
            write_atomic(record, text.encode("ascii"))
        except OSError as error:
            raise SourceError(f"{record} cannot be written: {error.strerror}") from None

    def paths(self) -> list[Path]:
        """The files that the user trusted once, whatever is in them now."""
        found: list[Path] = []
        try:
            records = sorted(self._directory.glob("*.json"))
        except OSError:
            return []
        for record in records:
            with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
                found.append(Path(json.loads(read_regular(record, _LONGEST_RECORD))["path"]))
        return found

    def records(self) -> list[SeenFile]:
        """Every file that the user trusts, with the bytes that it is trusted with."""
        found: list[SeenFile] = []
        for path in self.paths():
            digest = self._digest(path)
            if isinstance(digest, str):
                found.append(SeenFile(path, Digest(digest)))
        return sorted(found, key=lambda one: one.path)

    def forget(self, path: Path) -> bool:
        """Stop trusting a file; false when it was not trusted."""
        record = self.record(path)
        try:
            record.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise SourceError(f"{record} cannot be removed: {error.strerror}") from None
        return True

    def _digest(self, path: Path) -> object:
        try:
            values: Any = json.loads(read_regular(self.record(path), _LONGEST_RECORD))
            return values["digest"] if values["path"] == str(path) else None
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None  # Fail closed: what cannot be read trusts nothing.

    def record(self, path: Path) -> Path:
        """Where the trust in a file is recorded."""
        name = hashlib.sha256(os.fsencode(path)).hexdigest()
        return self._directory / f"{name}.json"
