"""ConfigText: what one `skillwire.toml` says, checked but not yet put together with others.

Values still hold their `${VARIABLES}`: these are filled in for the servers that are used, and for no others.
A secret that is written in clear text instead is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from skillwire.documents import DocumentError, read_toml
from skillwire.errors import FormatError, Issue, SourceError
from skillwire.files import make_folder, write_atomic
from skillwire.host.config.server import ConfigTable, place_of
from skillwire.skill import Digest, digest_of
from skillwire.sources.reference import is_host
from skillwire.text import is_secret_name, secrets_in_arguments, shown
from skillwire.trust import ApprovalMode, Origin

_OF_A_COMMAND: Final = ("args", "env", "directory")
_OF_A_URL: Final = ("headers", "token", "token_env")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
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

    place: ServerAddress | None = None
    skills: bool | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    approval: ApprovalMode | None = None
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
    token_env: str = ""
    """The variable with the token that a site asks for. Only the user's own file can name one."""


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
    agents_may_install: bool | None = None
    """Whether agents may install skills for the user. Only the user's own file can say so."""
    bundled: tuple[str, ...] = ()
    """Directories of skills that are part of the agent. Only the user's own file has any."""
    model: str = ""
    """The model of `skillwire chat`. Only the user's own file can say so: it decides where texts are sent."""
    usage: bool | None = None
    semantic: bool | None = None
    """Whether the use of skills is counted on this machine. Only the user's own file can say so."""
    repository_host: str = ""
    """Where the repository `OWNER/NAME` is. Only the user's own file can say so."""
    approvers: tuple[str, ...] = ()
    """The publishers whose signed approvals are imported without a question. Only the user's own file has
    any."""

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
    config = ConfigText(
        file=file,
        text=text,
        servers=read_servers(table, file, issues),
        profiles={name: _profile(below) for name, below in table.tables("profiles").items()},
        publishers={name: _publisher(below) for name, below in table.tables("publishers").items()},
        sources={name: _source(below) for name, below in table.tables("sources").items()},
        directories=table.strings("directories") or (),
        default_directories=table.boolean("default_directories"),
        disabled=table.strings("disabled") or (),
        style=table.string("style"),
        agents_may_install=table.boolean("agents_may_install"),
        approvers=table.strings("approvers") or (),
        repository_host=table.string("repository_host"),
        bundled=table.strings("bundled") or (),
        model=table.string("model"),
        usage=table.boolean("usage"),
        semantic=table.boolean("semantic"),
    )
    if config.repository_host and not is_host(config.repository_host):
        table.blame("repository_host", "is not the name of a host", 'write one such as "git.example.org"')
    table.finish()
    if issues:
        raise FormatError(issues)
    return config


def read_servers(table: ConfigTable, file: Path, issues: list[Issue]) -> dict[str, ServerText]:
    """The tables `[servers.NAME]` below a table; mistakes are added to the issues."""
    servers = {name: _server(below) for name, below in table.tables("servers").items()}
    for name in servers:
        issues += _label_issues(name, file)
    issues += _twin_issues(servers, file)
    return servers


def _toml(text: str, file: Path) -> dict[str, Any]:
    """The values of a TOML text that may have been written to do harm."""
    try:
        return read_toml(text, what=str(file))
    except DocumentError as error:
        raise FormatError.of(
            rule="config", file=str(file), message=str(error), fix="use the keys of docs/configuration.md"
        ) from None


def _server(table: ConfigTable) -> ServerText:
    approval_mode = table.choice("approval", [approval_mode.value for approval_mode in ApprovalMode])
    server = ServerText(
        place=_place(table),
        skills=table.boolean("skills"),
        include=table.strings("include"),
        exclude=table.strings("exclude") or (),
        approval=ApprovalMode(approval_mode) if approval_mode else None,
        accept_drafts=table.boolean("accept_drafts"),
        bare_scan=table.boolean("bare_scan"),
        connect_seconds=table.seconds("connect_seconds"),
        call_seconds=table.seconds("call_seconds"),
        require=table.string("require"),
    )
    table.finish()
    return server


def _place(table: ConfigTable) -> ServerAddress | None:
    url, program = table.string("url"), table.string("command")
    arguments = table.strings("args") or ()
    place = ServerAddress(
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
    source = SourceText(require=table.string("require"), token_env=table.string("token_env"))
    if not source.require and not source.token_env:
        table.blame(
            "",
            "says nothing",
            "add require, the publisher who must have signed what comes from there, or token_env, the "
            "variable with the token of a site",
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
        default_directories=table.boolean("default_directories"),
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


def with_server(text: str, label: str, server: ServerText, *, file: Path, replaces: bool = False) -> str:
    """The text with one server more, or a `SourceError` when it has one of that name, unless this one
    `replaces` it."""
    import tomlkit

    if not replaces and label in parse_config(text, file).servers:
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
    import tomlkit

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
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

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
    import tomlkit

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
        make_folder(real.parent)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        write_atomic(real, text.encode("utf-8"), mode=mode)
    except OSError as error:
        raise SourceError(f"{file} cannot be written: {error.strerror}") from None


def _keys(server: ServerText) -> dict[str, object]:
    place = server.place or ServerAddress()
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
    import tomlkit

    table = tomlkit.inline_table()
    for key, value in values.items():
        table.append(key, value)
    return table


def _checked(document: Mapping[str, Any], file: Path, label: str, wanted: ServerText | None) -> str:
    """Parse what is about to be written: it must have the intended meaning."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        text = tomlkit.dumps(document)
    except TOMLKitError:
        raise SourceError(f"{file} has a layout that cannot be edited: change it by hand") from None
    if parse_config(text, file).servers.get(label) != wanted:
        raise SourceError(f"{file} has a layout that cannot be edited: change it by hand")
    return text


_VARIABLE: Final = re.compile(r"\$(\$)?\{([^{}]*)\}")


def names_in(text: str) -> list[str]:
    """The variables that a text asks for."""
    return [match[2] for match in _VARIABLE.finditer(text) if not match[1]]


class Variables:
    """Fills in variables, and keeps an issue for each that is not set. No value is ever quoted."""

    def __init__(self, environment: Mapping[str, str], *, file: str, issues: list[Issue]) -> None:
        self._environment = environment
        self._file = file
        self._issues = issues

    def fill(self, text: str, key: str) -> str:
        """The text with every `${NAME}` filled in. `$${NAME}` stays as `${NAME}`."""

        def value(match: re.Match[str]) -> str:
            return f"${{{match[2]}}}" if match[1] else self.get(match[2], key)

        return _VARIABLE.sub(value, text)

    def fill_map(self, values: Mapping[str, str], key: str) -> dict[str, str]:
        return {name: self.fill(value, f"{key}.{name}") for name, value in values.items()}

    def get(self, name: str, key: str) -> str:
        """The value of a variable; empty, with an issue, when it is not set."""
        value = self._environment.get(name) if name else None
        if value is None:
            self._issues.append(
                Issue(
                    rule="config",
                    file=self._file,
                    message=f"{shown(key, 100)} needs the variable {shown(name)!r}, which is not set",
                    fix="set it in the environment",
                )
            )
        return value or ""


_NO_NAME: Final = re.compile(r"[^A-Z0-9]+")
_SCHEME: Final = re.compile(r"(\w+)\s+(?=\S)")
_PASSWORD: Final = re.compile(r"(?<=://)([^/?#\s@]*:)([^/?#\s@]+)(?=@)")
_PARAMETER: Final = re.compile(r"(?<=[?&])([^=&#]+=)([^&#]+)")
_SECRET_HEADERS: Final = ("cookie", "authorization")


@dataclass(frozen=True, slots=True)
class ClearSecret:
    """Where a secret is in clear text, and the variable that can replace it. Its value is not stored."""

    where: str
    variable: str


def with_variables(label: str, place: ServerAddress) -> tuple[ServerAddress, tuple[ClearSecret, ...]]:
    """A server's place with `${NAME}` in place of what looks like a secret in clear, and what that was.

    A bearer token becomes `token_env`. What holds a variable already stays as it is.
    """
    found: list[ClearSecret] = []

    def variable(where: str, name: str) -> str:
        given = _variable(name) if where.startswith("the variable") else _variable(label, name)
        taken = {one.variable for one in found}
        number = 1
        wanted = given
        while wanted in taken:
            number += 1
            wanted = f"{given}_{number}"
        found.append(ClearSecret(where, wanted))
        return wanted

    token_env = place.token_env
    if place.token and not names_in(place.token):
        token_env = variable("token", "token")
    headers: dict[str, str] = {}
    for name, value in place.headers.items():
        if not value.strip() or names_in(value) or not _is_secret_header(name):
            headers[name] = value
            continue
        where, scheme = f"the header {name}", _SCHEME.match(value)
        if name.lower() == "authorization" and scheme and scheme[1].lower() == "bearer" and not token_env:
            token_env = variable(where, "token")
            continue
        headers[name] = f"{scheme[0] if scheme else ''}${{{variable(where, name)}}}"
    env = {
        name: f"${{{variable(f'the variable {name}', name)}}}"
        if value and is_secret_name(name) and not names_in(value)
        else value
        for name, value in place.env.items()
    }
    changed = replace(
        place,
        url=_bare_url(place.url, lambda: variable("the URL", "url_secret")),
        command=_bare_command(place.command, lambda: variable("an argument", "secret")),
        env=env,
        headers=headers,
        token="" if token_env else place.token,
        token_env=token_env,
    )
    return (changed, tuple(found)) if found else (place, ())


def _is_secret_header(name: str) -> bool:
    return name.lower() in _SECRET_HEADERS or is_secret_name(name)


def _variable(*parts: str) -> str:
    name = _NO_NAME.sub("_", "_".join(parts).upper()).strip("_")
    return name if name[:1].isalpha() else f"SKILLWIRE_{name}".rstrip("_")


def _bare_url(url: str, variable: Callable[[], str]) -> str:
    def password(match: re.Match[str]) -> str:
        return match[0] if names_in(match[2]) else f"{match[1]}${{{variable()}}}"

    def parameter(match: re.Match[str]) -> str:
        is_clear = is_secret_name(match[1]) and not names_in(match[2])
        return f"{match[1]}${{{variable()}}}" if is_clear else match[0]

    return _PARAMETER.sub(parameter, _PASSWORD.sub(password, url))


def _bare_command(command: tuple[str, ...], variable: Callable[[], str]) -> tuple[str, ...]:
    names: Mapping[str, str] = {
        secret: variable()
        for secret in sorted(set(secrets_in_arguments(command)), key=lambda one: (-len(one), one))
        if secret and not names_in(secret) and not secret.startswith("-")
    }
    words = list(command)
    for secret, name in names.items():
        words = [words[0], *(word.replace(secret, f"${{{name}}}") for word in words[1:])]
    return tuple(words)
