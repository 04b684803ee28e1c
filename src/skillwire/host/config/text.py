"""ConfigText: what one `skillwire.toml` says, checked but not yet put together with others.

Values still hold their `${VARIABLES}`: these are filled in for the servers that are used, and for no others.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillwire.errors import FormatError
from skillwire.host.config.server import place_of
from skillwire.host.config.table import ConfigTable
from skillwire.issues import Issue
from skillwire.skill.digests import Digest, digest_of
from skillwire.trust.approval import Policy
from skillwire.trust.origin import Origin

_OF_A_COMMAND: Final = ("args", "env", "directory")
_OF_A_URL: Final = ("headers", "token", "token_env")
_MOST_DOTS: Final = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server is. Anything in it may be, or name, a secret."""

    url: str = field(default="", repr=False)
    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    directory: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    token: str = field(default="", repr=False)
    token_env: str = ""

    @property
    def shown(self) -> str:
        return place_of(self.url, self.command[0] if self.command else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerText:
    """One `[servers.NAME]`. Without a place it only restricts what another file says about that server."""

    place: Place | None = None
    skills: bool | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    approval: Policy | None = None
    accept_drafts: bool | None = None
    bare_scan: bool | None = None
    connect_seconds: float | None = None
    call_seconds: float | None = None
    require: str = ""
    """The publisher who must have signed every skill of this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherText:
    """One `[publishers.NAME]`: whose signatures are recognized. Paths are as the file writes them."""

    key: str = ""
    root: str = ""
    timestamp_root: str = ""
    identity: str = ""
    issuer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """One `[sources."PATTERN"]`: what holds for skills from sources that match."""

    require: str = ""
    """The publisher who must have signed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileText:
    """One `[profiles.NAME]`. `servers` decides what is connected at all; `None` is all of them."""

    servers: tuple[str, ...] | None = None
    default_directories: bool | None = None
    disabled: tuple[str, ...] = ()
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigText:
    """One file."""

    file: Path
    text: str = field(default="", repr=False, compare=False)
    servers: Mapping[str, ServerText] = field(default_factory=dict[str, ServerText])
    profiles: Mapping[str, ProfileText] = field(default_factory=dict[str, ProfileText])
    publishers: Mapping[str, PublisherText] = field(default_factory=dict[str, PublisherText])
    sources: Mapping[str, SourceText] = field(default_factory=dict[str, SourceText])
    directories: tuple[str, ...] = ()
    default_directories: bool | None = None
    disabled: tuple[str, ...] = ()
    style: str = ""

    @property
    def digest(self) -> Digest:
        """Of the very bytes that were read: what the user trusts, or not."""
        return digest_of(self.text.encode())

    @property
    def names_servers(self) -> bool:
        """Whether it says where a server is, and does not only narrow."""
        return any(server.place is not None for server in self.servers.values())

    @property
    def needs_trust(self) -> bool:
        """Whether a project's file has something that waits for the user's trust."""
        return self.names_servers or bool(self.directories)


def parse_config(text: str, file: Path) -> ConfigText:
    """Read a file's text, or raise a `FormatError` with every mistake in it."""
    values = _toml(text, file)
    issues: list[Issue] = []
    table = ConfigTable(values, file=str(file), issues=issues)
    servers = {name: _server(below) for name, below in table.tables("servers").items()}
    for name in servers:
        issues += _label_issues(name, file)
    issues += _twin_issues(servers, file)
    config = ConfigText(
        file=file,
        text=text,
        servers=servers,
        profiles={name: _profile(below) for name, below in table.tables("profiles").items()},
        publishers={name: _publisher(below) for name, below in table.tables("publishers").items()},
        sources={name: _source(below) for name, below in table.tables("sources").items()},
        directories=table.strings("directories") or (),
        default_directories=table.boolean("default_directories", old="usual"),
        disabled=table.strings("disabled") or (),
        style=table.string("style"),
    )
    table.finish()
    if issues:
        raise FormatError(issues)
    return config


def _toml(text: str, file: Path) -> dict[str, Any]:
    """The values of a TOML text that may have been written to do harm."""

    def wrong(message: str, fix: str) -> FormatError:
        return FormatError.of(rule="config", file=str(file), message=message, fix=fix)

    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") > _MOST_DOTS:  # A key of many parts keeps the parser busy for hours.
            raise wrong(f"has more than {_MOST_DOTS} dots in line {number}", "shorten that line")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise wrong(f"is not TOML: {error}", "fix that line") from None
    except RecursionError:
        raise wrong(
            "has values that are nested too deeply", "use the keys of docs/configuration.md"
        ) from None
    except ValueError:
        raise wrong(
            "has a number that is too long to be read", "use the keys of docs/configuration.md"
        ) from None


def _server(table: ConfigTable) -> ServerText:
    policy = table.choice("approval", [policy.value for policy in Policy])
    server = ServerText(
        place=_place(table),
        skills=table.boolean("skills"),
        include=table.strings("include"),
        exclude=table.strings("exclude") or (),
        approval=Policy(policy) if policy else None,
        accept_drafts=table.boolean("accept_drafts"),
        bare_scan=table.boolean("bare_scan"),
        connect_seconds=table.seconds("connect_seconds"),
        call_seconds=table.seconds("call_seconds"),
        require=table.string("require"),
    )
    table.finish()
    return server


def _place(table: ConfigTable) -> Place | None:
    url, program = table.string("url"), table.string("command")
    arguments = table.strings("args") or ()
    place = Place(
        url=url,
        command=(program, *arguments) if program else (),
        env=table.string_map("env"),
        directory=table.string("directory"),
        headers=table.string_map("headers"),
        token=table.string("token"),
        token_env=table.string("token_env"),
    )
    if "url" in table and "command" in table:
        table.blame("", "has both url and command", "keep the one by which the server is reached")
        return None
    wrong = {"url": _OF_A_COMMAND, "command": _OF_A_URL}
    for key in wrong.get("url" if "url" in table else "command", ()):
        if ("url" in table or "command" in table) and key in table:
            other = "command" if "url" in table else "url"
            table.blame(key, f"belongs to a server with a {other}", "leave it out")
    if "token" in table and "token_env" in table:
        table.blame("", "has both token and token_env", "keep one of them")
    if " " in program.strip() and not {"/", "\\"} & set(program) and "args" not in table:
        table.blame(
            "command", "has spaces in it, and there are no args", 'write command = "npx" and args = ["-y"]'
        )
    if url and "$" not in url.partition("://")[0] and not url.lower().startswith(("http://", "https://")):
        table.blame("url", "is not an http:// or https:// URL", "give the URL of its MCP endpoint")
    if "url" in table or "command" in table:
        return place
    for key in (*_OF_A_COMMAND, *_OF_A_URL):
        if key in table:
            table.blame(key, "says how to reach a server, but not where it is", "add url or command")
    return None


def _publisher(table: ConfigTable) -> PublisherText:
    publisher = PublisherText(
        key=table.string("key"),
        root=table.string("root"),
        timestamp_root=table.string("timestamp_root"),
        identity=table.string("identity"),
        issuer=table.string("issuer"),
    )
    if not (publisher.key or publisher.root or publisher.identity):
        table.blame("", "has no key, root or identity", "add the one by which its signatures are recognized")
    if publisher.identity and not publisher.issuer:
        table.blame("identity", "has no issuer beside it", "add the issuer that confirms this identity")
    if publisher.timestamp_root and not publisher.root:
        table.blame("timestamp_root", "belongs to a publisher with a root", "add root, or leave it out")
    table.finish()
    return publisher


def _source(table: ConfigTable) -> SourceText:
    source = SourceText(require=table.string("require"))
    if not source.require:
        table.blame(
            "", "says nothing", "add require, the publisher who must have signed what comes from there"
        )
    table.finish()
    return source


def _profile(table: ConfigTable) -> ProfileText:
    # Some clients write `mcp_servers`; both together would be one list too many.
    servers, others = table.strings("servers"), table.strings("mcp_servers")
    if servers is not None and others is not None:
        table.blame("mcp_servers", "says the same as servers", "keep one of them")
    profile = ProfileText(
        servers=servers if servers is not None else others,
        style=table.string("style"),
        default_directories=table.boolean("default_directories", old="usual"),
        disabled=table.strings("disabled") or (),
        include=table.strings("include"),
        exclude=table.strings("exclude") or (),
    )
    table.finish()
    return profile


def _label_issues(name: str, file: Path) -> list[Issue]:
    try:
        Origin.mcp(name)
    except FormatError as error:
        return [
            Issue(rule="config", file=str(file), message=f"servers: {issue.message}", fix=issue.fix)
            for issue in error.issues
        ]
    return []


def _twin_issues(names: Iterable[str], file: Path) -> list[Issue]:
    """Labels that differ in case alone would be one server to every reader but this one."""
    seen: dict[str, str] = {}
    issues: list[Issue] = []
    for name in names:
        first = seen.setdefault(name.casefold(), name)
        if first != name:
            message = f"servers.{name} and servers.{first} differ in case alone"
            issues.append(Issue(rule="config", file=str(file), message=message, fix="give one another name"))
    return issues
