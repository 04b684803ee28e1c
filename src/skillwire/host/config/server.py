"""ServerConfig: one MCP server that a user has, and what the user says about its skills."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from skillwire.catalog.selection import EVERYTHING, Selection
from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS
from skillwire.sources.command_line import split_command
from skillwire.text import is_secret_name, redact_url, secrets_in_arguments, secrets_in_urls
from skillwire.trust.approval import Policy

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
    approval: Policy = Policy.PROMPT
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
        """What identifies this server, independent of its label: a digest of its URL or command. Approvals
        and cached files are stored under it. It holds no secret and does not change when one is replaced that
        is sent in a header, a variable or the usual parameters of a URL. Empty for a server of this process.
        """
        if self.url:
            return f"url:{_fingerprint(_bare_url(self.url))}"
        if self.command:
            return f"command:{_fingerprint(*self.command, self.directory)}"
        return ""

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
    """What identifies a server in a URL: no user, no fragment, no parameter that looks like a credential."""
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
    """What a client connects to: a low-level server, also one inside a `SkillServer` or FastMCP server.

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
