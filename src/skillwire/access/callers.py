"""Callers in files: `TokenFile` has a name and a token on each line, `CallerFile` also what each may see.

The file of a gateway's team is TOML, one table for each caller, with the digest of a token in place of the
token:

    [callers.alice]
    token = "sha256:…"
    labels = ["docs", "github"]
    include = ["docs/*"]
    exclude = ["*/internal/*"]
    operator = true

    [callers.alice.credentials.github]
    token_env = "ALICE_GITHUB_TOKEN"

Both are read again when they change, so a caller can be added or revoked while a server runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from skillwire.access.identity import LOCAL, BearerIdentity, Caller, Credential, Headers, token_digest
from skillwire.documents import DocumentError, read_toml
from skillwire.errors import FormatError, Issue, SourceError
from skillwire.files import RereadFile, read_regular, unreadable
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.text import shown

OPERATOR: Final = "operator"
"""The word that gives a token of a token file access to the metrics and the health in detail."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_KEYS: Final = frozenset({"token", "labels", "include", "exclude", "run", "credentials", "operator"})
_MOST_BYTES: Final = 4 << 20
# What a client sends to be let in here must not reach another server.
_NEVER_PASSED: Final = frozenset({"authorization", "cookie", "host", "proxy-authorization"})

_log = logging.getLogger(__name__)


class Callers(BearerIdentity[Caller]):
    """The callers by the digests of their tokens."""

    def __init__(self, callers: Mapping[str, Caller], *, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._by_digest = callers
        self._let_in: dict[bytes, Caller] = {}

    @classmethod
    def of_token(cls, token: str, *, limits: Limits = DEFAULT_LIMITS) -> Callers:
        """One token: that of the user, who is also the operator."""
        if not token:
            raise ValueError("a token is empty")
        return cls(parse_tokens(token, "the token"), limits=limits)

    def find(self, token: bytes) -> Caller | None:
        """The caller with this token; `None` for a token that is not valid."""
        # Looked up by its digest: the time that takes reveals nothing about any token.
        return self._by_digest.get(token_digest(token))

    async def recheck(self, callers: Sequence[Caller]) -> Sequence[Caller | None]:
        return [self._by_digest.get(caller.credential) for caller in callers]

    async def refresh(self) -> None:
        """Read the callers again if they changed."""

    def _recent(self, token: bytes) -> Caller | None:
        return self._let_in.get(token)

    async def _find(self, token: bytes) -> Caller | None:
        caller = self.find(token)
        if caller is not None:
            self._let_in[token] = caller
        return caller

    def _replace(self, callers: Mapping[str, Caller]) -> None:
        self._by_digest = callers
        self._let_in = {}


class _File(Callers):
    """Callers in a file. If it cannot be read later, they stay unchanged, and that is reported once."""

    def __init__(
        self, path: str | Path, read: Callable[[Path], dict[str, Caller]], what: str, limits: Limits
    ) -> None:
        self.path = Path(path)
        self._what = what
        self._file = RereadFile(
            self.path, lambda: read(self.path), log=_log, kept=f"the {what} are unchanged"
        )
        super().__init__(self._file.value, limits=limits)

    async def refresh(self) -> None:
        replaced = await asyncio.to_thread(self._file.refresh)
        if replaced is None:
            return
        self._replace(self._file.value)
        before = {caller.name for caller in replaced.values()}
        after = {caller.name for caller in self._file.value.values()}
        _log.warning(
            "the %s changed: %d in all, added: %s, removed: %s",
            self._what,
            len(self._file.value),
            ", ".join(sorted(after - before)) or "none",
            ", ".join(sorted(before - after)) or "none",
        )


class TokenFile(_File):
    """Callers from a file with one `NAME TOKEN` on each line, or with a single token and nothing else.

    All of them may see every skill. A third word, `operator`, lets a token read the metrics.
    """

    def __init__(self, path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(path, _read_tokens, "tokens", limits)


class CallerFile(_File):
    """The callers of a team, from a file with a table for each."""

    def __init__(self, path: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(path, _read_callers, "callers", limits)


def new_token() -> str:
    """A token that nobody can guess."""
    return f"skw_{secrets.token_urlsafe(32)}"


def _read_tokens(path: Path) -> dict[str, Caller]:
    try:
        with path.open("rb") as file:  # A pipe works too, as shells make one.
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeError) as error:
        raise SourceError(
            f"the token file {path} cannot be read: {unreadable(error)}; check the path"
        ) from None
    if len(data) > _MOST_BYTES:
        raise SourceError(f"the token file {path} has more than {_MOST_BYTES:,} bytes")
    return parse_tokens(text, str(path))


def parse_tokens(text: str, place: str) -> dict[str, Caller]:
    """The callers in a token file by the digests of their tokens, or a `SourceError` that names `place` and
    the line."""
    lines = [
        (number, line.split())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) == 1 and len(lines[0][1]) == 1:
        token = checked_token(lines[0][1][0], place)
        return _table([(LOCAL, token, True)])
    if not lines:
        raise SourceError(f"there is no token in {place}; write one, or NAME TOKEN on each line")
    found: list[tuple[str, str, bool]] = []
    names: set[str] = set()
    for number, words in lines:
        where = f"{place}, line {number}"
        is_operator = words[2:] == [OPERATOR]
        if len(words) not in (2, 3) or (words[2:] and not is_operator) or not _NAME.fullmatch(words[0]):
            raise SourceError(
                f"{where}: write NAME TOKEN, with a name of letters, digits and . _ @ -, "
                f"or NAME TOKEN {OPERATOR} for one that may read the metrics"
            )
        name, token = words[:2]
        if name in names:
            raise SourceError(f"{where}: the name {shown(name)} is used twice")
        names.add(name)
        found.append((name, checked_token(token, where), is_operator))
    table = _table(found)
    if len(table) != len(found):
        raise SourceError(f"{place}: two names have the same token; give each a token of their own")
    return table


def _table(rows: Iterable[tuple[str, str, bool]]) -> dict[str, Caller]:
    return {
        digest: Caller(name=name, is_operator=is_operator, credential=digest)
        for name, token, is_operator in rows
        for digest in (token_digest(token.encode()),)
    }


def checked_token(token: str, place: str) -> str:
    """The token, or a `SourceError` if it cannot be sent in an HTTP header."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise SourceError(f"the token in {place} must be one word of printable ASCII")
    return token


def _read_callers(path: Path) -> dict[str, Caller]:
    return parse_callers(read_caller_file(path), str(path))


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
            f"add one with `skillwire gateway callers add NAME --tokens {path}`"
        ) from None


def parse_callers(text: str, place: str) -> dict[str, Caller]:
    """The callers by the digests of their tokens, or a `FormatError` that names every mistake."""
    try:
        document: dict[str, Any] = read_toml(text, what=place)
    except DocumentError as error:
        raise FormatError(_issue(str(error), place)) from None
    issues: list[Issue] = []
    tables = document.get("callers", {})
    unknown = [key for key in document if key != "callers"][: DEFAULT_LIMITS.issues_per_file]
    issues += [_issue(f"there is no key {shown(key)}", place) for key in unknown]
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
    is_operator = values.get("operator", False)
    if not isinstance(is_operator, bool):
        issues.append(_issue("operator is not true or false"))
    if issues:
        raise FormatError(issues)
    _check_name(name)
    labels = _texts(values, "labels")
    return digest, Caller(
        name=name,
        labels=None if labels is None else frozenset(label.casefold() for label in labels),
        include=tuple(_texts(values, "include") or ()),
        exclude=tuple(_texts(values, "exclude") or ()),
        run=tuple(_texts(values, "run") or ()),
        credentials=_credentials(values.get("credentials", {})),
        is_operator=is_operator,
        credential=digest,
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise FormatError(
            Issue(
                rule="callers",
                message=f"{shown(name)!r} is not a name of a caller",
                fix="use letters, digits, . _ @ and -",
            )
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
    _check_name(name)
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


def credentials_of(caller: Caller, headers: Headers) -> tuple[tuple[str, str], ...]:
    """The bearer tokens that a caller has for servers behind a gateway, each after the server's label.

    A server without one in this request is left out.
    """
    given = tuple(headers) if caller.credentials else ()
    found = ((label, resolve(credential, given)) for label, credential in caller.credentials.items())
    return tuple((label, token) for label, token in found if token)


def resolve(credential: Credential, headers: Headers) -> str:
    """The bearer token that a credential stands for in a request; empty where there is none."""
    if credential.variable:
        return os.environ.get(credential.variable, "")
    name = credential.header.encode("ascii")
    given = [value for key, value in headers if key == name]
    return given[0].decode("latin-1").strip() if len(given) == 1 else ""


def _issue(message: str, place: str = "") -> Issue:
    return Issue(rule="callers", message=message, file=place)
