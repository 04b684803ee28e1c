"""Bearer tokens: named secrets from a file, which is reread when it changes."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from skillwire.errors import SourceError
from skillwire.files import RereadFile, unreadable
from skillwire.issues import shown

CHALLENGE: Final = b'Bearer realm="skillwire"'
INVALID_TOKEN: Final = b'Bearer realm="skillwire", error="invalid_token"'
DEFAULT_NAME: Final = "token"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_MOST_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The bearer token in a request's single `Authorization` header; `None` without one."""
    given = [value for name, value in headers if name == b"authorization"]
    scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return token.strip() if scheme.lower() == b"bearer" else None


class Tokens:
    """The valid tokens, by name."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens or not all(tokens.values()):
            raise ValueError("a token is empty")
        self._tokens = {name: token.encode("utf-8") for name, token in tokens.items()}

    def name_for(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The name of the token in a request's single `Authorization` header; `None` without a valid one."""
        token = bearer_token(headers)
        if token is None:
            return None
        found: str | None = None
        # Every token is compared in constant time, so that timing reveals nothing.
        for name, known in self._tokens.items():
            if hmac.compare_digest(token, known):
                found = name
        return found

    def names(self) -> Iterable[str]:
        """The names of all tokens."""
        return tuple(self._tokens)

    def refresh(self) -> None:
        """Reread the tokens if their file changed."""


class TokenFile(Tokens):
    """Tokens from a file with one `NAME TOKEN` on each line, or with a single token and nothing else.

    If the file becomes unreadable or invalid later, the tokens are kept, and an error is logged once.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file = RereadFile(self._path, self._read, log=_log, kept="the tokens are unchanged")
        super().__init__(self._file.value)

    def refresh(self) -> None:
        before = self._file.refresh()
        if before is None:
            return
        tokens = self._file.value
        self._tokens = {name: token.encode("utf-8") for name, token in tokens.items()}
        added, removed = sorted(tokens.keys() - before.keys()), sorted(before.keys() - tokens.keys())
        _log.warning(
            "the token file changed: %d token%s, added: %s, removed: %s",
            len(tokens),
            "" if len(tokens) == 1 else "s",
            ", ".join(added) or "none",
            ", ".join(removed) or "none",
        )

    def _read(self) -> dict[str, str]:
        try:
            with self._path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            text = data.decode("utf-8")
        except (OSError, UnicodeError) as error:
            reason = unreadable(error)
            raise SourceError(
                f"the token file {self._path} cannot be read: {reason}; check the path"
            ) from None
        if len(data) > _MOST_BYTES:
            raise SourceError(f"the token file {self._path} has more than {_MOST_BYTES:,} bytes")
        return parse_tokens(text, str(self._path))


def parse_tokens(text: str, place: str) -> dict[str, str]:
    """The tokens in a file by their names, or a `SourceError` that names `place` and the line."""
    lines = [
        (number, line.split())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) == 1 and len(lines[0][1]) == 1:
        return {DEFAULT_NAME: checked_token(lines[0][1][0], place)}
    if not lines:
        raise SourceError(f"there is no token in {place}; write one, or NAME TOKEN on each line")
    tokens: dict[str, str] = {}
    for number, words in lines:
        where = f"{place}, line {number}"
        if len(words) != 2 or not _NAME.fullmatch(words[0]):
            raise SourceError(f"{where}: write NAME TOKEN, with a name of letters, digits and . _ @ -")
        name, token = words
        if name in tokens:
            raise SourceError(f"{where}: the name {shown(name)} is used twice")
        tokens[name] = checked_token(token, where)
    return tokens


def checked_token(token: str, place: str) -> str:
    """The token, or a `SourceError` if it cannot be sent in an HTTP header."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise SourceError(f"the token in {place} must be one word of printable ASCII")
    return token
