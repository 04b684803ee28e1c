"""ServerConfig: one MCP server that a user has, and what the user says about its skills."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS
from skillwire.trust.approval import Policy

Era: TypeAlias = Literal["auto", "legacy", "2026-07-28"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Where a server is, by `url`, `command` or, inside this process, `instance`; and how it is treated.

    `headers`, `token` and `env` may hold secrets; they are never printed.
    """

    url: str = ""
    command: tuple[str, ...] = ()
    instance: object = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    token: str = field(default="", repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    directory: str = ""
    approval: Policy = Policy.PROMPT
    era: Era = "auto"
    connect_seconds: float = DEFAULT_LIMITS.connect_seconds
    call_seconds: float = DEFAULT_LIMITS.call_seconds

    def __post_init__(self) -> None:
        given = [bool(self.url), bool(self.command), self.instance is not None]
        if given.count(True) != 1:
            raise SourceError("a server needs exactly one of url, command and instance")
        if self.url and not self.url.lower().startswith(("http://", "https://")):
            raise SourceError(f"{shown(self.url)} is not an http:// or https:// URL")

    @property
    def place(self) -> str:
        """Where the server is, fit for a screen: no query, user name or argument that could be secret."""
        if self.url:
            scheme, _, rest = self.url.partition("://")
            authority, slash, path = rest.partition("/")
            return shown(f"{scheme}://{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}")
        return shown(self.command[0]) if self.command else "in this process"


def parse_server(given: str | ServerConfig | object) -> ServerConfig:
    """A server from a URL, a command line, a `ServerConfig` or an MCP server object of this process."""
    if isinstance(given, ServerConfig):
        return given
    if not isinstance(given, str):
        return ServerConfig(instance=given)
    if "://" in given.partition(" ")[0]:
        return ServerConfig(url=given)
    try:
        command = tuple(shlex.split(given))
    except ValueError as error:
        raise SourceError(f"{shown(given)} is not a command line: {error}") from None
    if not command:
        raise SourceError("the command of a server is empty")
    return ServerConfig(command=command)
