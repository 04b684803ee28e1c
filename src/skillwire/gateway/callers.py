"""Caller: who uses a gateway, and what they may see. `CallerFile` holds the callers of a team.

The file is TOML, one table for each caller, with the digest of a token in place of the token:

    [callers.alice]
    token = "sha256:…"
    labels = ["docs", "github"]
    include = ["docs/*"]
    exclude = ["*/internal/*"]

    [callers.alice.credentials.github]
    token_env = "ALICE_GITHUB_TOKEN"

It is read again when it changes, so a caller can be added or revoked while the gateway runs.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Protocol, cast

from skillwire.errors import FormatError, SourceError
from skillwire.files import RereadFile, read_regular, unreadable
from skillwire.gateway.uris import label_segment
from skillwire.issues import Issue, shown
from skillwire.server.http.auth import DEFAULT_NAME, Tokens
from skillwire.skill.uris import SkillUri, split_uri

LOCAL: Final = ""
"""The name of the one caller of a gateway without tokens: the user who started it."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_KEYS: Final = frozenset({"token", "labels", "include", "exclude", "credentials"})
_MOST_BYTES: Final = 4 << 20
# What a client sends to be let in here must not reach another server.
_NEVER_PASSED: Final = frozenset({"authorization", "cookie", "host", "proxy-authorization"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of a caller for one server, instead of the configured one.

    `variable` is an environment variable with a bearer token. `header` is a header of the caller's own
    requests that is passed on as the server's bearer token.
    """

    variable: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who uses the gateway. Without `labels`, every server; without `include`, every skill.

    Patterns are over a skill's path with the server's label first, such as `docs/guides/*`.
    """

    name: str = LOCAL
    labels: frozenset[str] | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    credentials: Mapping[str, Credential] = field(default_factory=dict[str, Credential])

    def __post_init__(self) -> None:
        if self.name and not _NAME.fullmatch(self.name):
            raise FormatError(
                _issue(f"{shown(self.name)!r} is not a name of a caller: use letters, digits, . _ @ and -")
            )

    @property
    def is_restricted(self) -> bool:
        return self.labels is not None or bool(self.include) or bool(self.exclude)

    def allows(self, root: SkillUri) -> bool:
        """Whether the caller may see a skill with this directory. The URI alone decides, so nothing about
        what is there can be learned from the answer or from the time that it takes."""
        if not self.is_restricted:
            return True
        parts = split_uri(root)
        if self.labels is not None and parts.authority not in self.labels:
            return False
        path = "/".join((parts.authority, *parts.segments))
        if self.include and not any(fnmatchcase(path, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(path, pattern) for pattern in self.exclude)

    def sees_label(self, label: str) -> bool:
        """Whether the caller may see anything of a server."""
        return self.labels is None or label_segment(label) in self.labels


class Callers(Protocol):
    """Those who may use a gateway, by their tokens."""

    def find(self, token: bytes) -> Caller | None:
        """The caller with this token; `None` for a token that is not valid."""
        ...

    def get(self, name: str) -> Caller | None:
        """The caller of this name; `None` for one who has been revoked."""
        ...

    def refresh(self) -> None:
        """Read the callers again if they changed. May block."""
        ...


def token_digest(token: bytes) -> str:
    """How a token is stored. A token is random, so a plain digest cannot be reversed."""
    return f"sha256:{hashlib.sha256(token).hexdigest()}"


def new_token() -> str:
    """A token that nobody can guess."""
    return f"skw_{secrets.token_urlsafe(32)}"


class CallerFile:
    """The callers in a file. If it cannot be read later, they stay unchanged, and that is reported once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = RereadFile(path, self._read, log=_log, kept="the callers are unchanged")

    def find(self, token: bytes) -> Caller | None:
        return self._file.value.get(token_digest(token))

    def get(self, name: str) -> Caller | None:
        return next((caller for caller in self._file.value.values() if caller.name == name), None)

    def refresh(self) -> None:
        replaced = self._file.refresh()
        if replaced is None:
            return
        before = {caller.name for caller in replaced.values()}
        after = {caller.name for caller in self._file.value.values()}
        _log.warning(
            "the callers changed: %d in all, added: %s, removed: %s",
            len(after),
            ", ".join(sorted(after - before)) or "none",
            ", ".join(sorted(before - after)) or "none",
        )

    def _read(self) -> dict[str, Caller]:
        return parse_callers(read_caller_file(self.path), str(self.path))


def read_caller_file(path: Path) -> str:
    """The text of a file of callers, or a `SourceError`."""
    try:
        data = read_regular(path, _MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise SourceError(f"the callers in {path} take more than {_MOST_BYTES:,} bytes")
        return data.decode("utf-8")
    except (OSError, UnicodeError) as error:
        reason = unreadable(error)
        raise SourceError(
            f"the callers in {path} cannot be read: {reason}; "
            f"add one with `skillwire gateway add-caller NAME --tokens {path}`"
        ) from None


def parse_callers(text: str, place: str) -> dict[str, Caller]:
    """The callers by the digests of their tokens, or a `FormatError` that names every mistake."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FormatError(_issue(f"it is not TOML: {error}", place)) from None
    issues: list[Issue] = []
    tables = document.get("callers", {})
    issues += [_issue(f"there is no key {shown(key)}", place) for key in document if key != "callers"]
    callers: dict[str, Caller] = {}
    if not isinstance(tables, dict):
        raise FormatError(_issue("callers is not a table", place))
    for name, table in cast("dict[str, Any]", tables).items():
        try:
            digest, caller = _caller(name, table)
        except FormatError as error:
            issues += [_issue(f"callers.{shown(name)}: {issue.message}", place) for issue in error.issues]
            continue
        if digest in callers:
            issues.append(_issue(f"{shown(name)} has the token of {callers[digest].name}", place))
        callers[digest] = caller
    if issues:
        raise FormatError(issues)
    return callers


def _caller(name: str, table: object) -> tuple[str, Caller]:
    if not isinstance(table, dict):
        raise FormatError(_issue("it is not a table"))
    values = cast("dict[str, Any]", table)
    issues = [_issue(f"there is no key {shown(key)}") for key in values.keys() - _KEYS]
    digest = values.get("token", "")
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        issues.append(
            _issue("token is not sha256: and 64 hexadecimal digits; the token itself is not stored")
        )
    if issues:
        raise FormatError(issues)
    labels = _texts(values, "labels")
    return digest, Caller(
        name=name,
        labels=None if labels is None else frozenset(map(label_segment, labels)),
        include=tuple(_texts(values, "include") or ()),
        exclude=tuple(_texts(values, "exclude") or ()),
        credentials=_credentials(values.get("credentials", {})),
    )


def _texts(values: Mapping[str, Any], key: str) -> list[str] | None:
    given = values.get(key)
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(one, str) for one in cast("list[Any]", given)):
        raise FormatError(_issue(f"{key} is not a list of strings"))
    return cast("list[str]", given)


def _credentials(given: object) -> dict[str, Credential]:
    if not isinstance(given, dict):
        raise FormatError(_issue("credentials is not a table"))
    found: dict[str, Credential] = {}
    for label, value in cast("dict[str, Any]", given).items():
        table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        variable, header = table.get("token_env", ""), table.get("pass_header", "")
        is_one = isinstance(variable, str) and isinstance(header, str) and bool(variable) != bool(header)
        if not is_one or table.keys() - {"token_env", "pass_header"}:
            raise FormatError(_issue(f"credentials.{shown(label)} needs one of token_env and pass_header"))
        header = header.lower()
        if variable and not _VARIABLE.fullmatch(variable):
            raise FormatError(
                _issue(f"credentials.{shown(label)}: {shown(variable)} is not the name of a variable")
            )
        if header and (not _HEADER.fullmatch(header) or header in _NEVER_PASSED):
            raise FormatError(_issue(f"credentials.{shown(label)}: {shown(header)} is not passed on"))
        found[label] = Credential(variable, header)
    return found


def with_caller(
    text: str,
    name: str,
    token: str,
    *,
    labels: Iterable[str] = (),
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    replace: bool = False,
) -> str:
    """The text of a file with one more caller, or with a new token for an existing one."""
    import tomlkit

    known = {caller.name for caller in parse_callers(text, "the file").values()}
    Caller(name=name)  # Refuses an invalid name.
    if name in known and not replace:
        raise SourceError(f"there is a caller {name} already: remove them first, or add --replace")
    document = cast("dict[str, Any]", tomlkit.parse(text))
    tables = cast("dict[str, Any]", document.setdefault("callers", tomlkit.table(is_super_table=True)))
    table = cast("dict[str, Any]", tables.get(name) or tomlkit.table())
    table["token"] = token_digest(token.encode())
    for key, values in (("labels", labels), ("include", include), ("exclude", exclude)):
        if given := list(values):
            table[key] = given
    tables[name] = table
    return _checked(tomlkit.dumps(cast("Any", document)))


def without_caller(text: str, name: str) -> str:
    """The text of a file without one caller."""
    import tomlkit

    if name not in {caller.name for caller in parse_callers(text, "the file").values()}:
        raise SourceError(f"there is no caller {shown(name)}: `skillwire gateway callers` lists them")
    document = cast("dict[str, dict[str, Any]]", tomlkit.parse(text))
    del document["callers"][name]
    return _checked(tomlkit.dumps(cast("Any", document)))


def _checked(text: str) -> str:
    parse_callers(text, "the file")
    return text


class NamedTokens:
    """The tokens of a token file as callers: each with approvals of their own, and all with every skill.

    A single token without a name is the user's: the approvals of `skillwire approve` apply to it.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def find(self, token: bytes) -> Caller | None:
        name = self._tokens.name_for([(b"authorization", b"Bearer " + token)])
        return None if name is None else _named(name)

    def get(self, name: str) -> Caller | None:
        known = map(_named, self._tokens.names())
        return next((caller for caller in known if caller.name == name), None)

    def refresh(self) -> None:
        self._tokens.refresh()


def _named(name: str) -> Caller:
    return Caller(name=LOCAL if name == DEFAULT_NAME else name)


def resolve(credential: Credential, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The bearer token that a credential stands for in a request; empty where there is none."""
    if credential.variable:
        return os.environ.get(credential.variable, "")
    name = credential.header.encode("ascii")
    given = [value for key, value in headers if key == name]
    return given[0].decode("latin-1").strip() if len(given) == 1 else ""


def _issue(message: str, place: str = "") -> Issue:
    return Issue(rule="callers", message=message, file=place)
