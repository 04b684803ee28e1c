"""Origin: where a skill comes from, with the label that the user gave it (ENT-4, ENT-5).

`Patterns` are what a policy compares origins with, in the one spelling that addresses have there.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote, urlsplit

from skillwire.errors import FormatError
from skillwire.text import shown

MAX_LABEL_LENGTH = 64
LOCAL_LABEL = "local"


class OriginKind(StrEnum):
    """Whose text it is: the user's own files, a project's, or an MCP server's."""

    LOCAL = "local"
    """The user's own files, which need no approval."""
    PROJECT = "project"
    """Files of a project, which others may have written. They are read from disk like the user's own, and
    need an approval like those of a server."""
    MCP = "mcp"
    """What an MCP server serves."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A local directory or an MCP server. Its label comes from the user, never from the server.

    A label is letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit, so that it can
    be part of handles, prompts and file names. No MCP server may be called `local`.
    """

    kind: OriginKind
    label: str

    def __post_init__(self) -> None:
        if message := _label_fault(self.kind, self.label):
            raise FormatError.of(
                rule="origin-label",
                message=f"the label '{shown(self.label)}' {message}",
                fix="choose another name"
                if "reserved" in message
                else "use letters, digits, hyphens, underscores and dots",
            )

    def __hash__(self) -> int:
        return hash(self.label)  # Hashed many times per skill; the kind would cost most.

    @classmethod
    def local(cls, label: str = LOCAL_LABEL) -> Origin:
        """A directory on this machine."""
        return cls(OriginKind.LOCAL, label)

    @classmethod
    def project(cls, label: str = "project") -> Origin:
        """A directory of a project on this machine. Its skills need approval like a server's."""
        return cls(OriginKind.PROJECT, label)

    @classmethod
    def mcp(cls, label: str) -> Origin:
        """An MCP server."""
        return cls(OriginKind.MCP, label)

    @property
    def is_local(self) -> bool:
        """Whether it is a directory on this machine, the user's own or a project's."""
        return self.kind is not OriginKind.MCP

    @property
    def is_own(self) -> bool:
        """Whether the files are the user's own, which need no approval."""
        return self.kind is OriginKind.LOCAL

    @property
    def fold(self) -> str:
        """The label in the form in which labels are compared, ignoring case."""
        return self.label.casefold()

    def __str__(self) -> str:
        kinds = {OriginKind.LOCAL: "local directory", OriginKind.PROJECT: "project directory"}
        return f"{kinds.get(self.kind, 'MCP server')} {self.label}"


def _label_fault(kind: OriginKind, label: str) -> str:
    if not label:
        return "is empty"
    if len(label) > MAX_LABEL_LENGTH:
        return f"has more than {MAX_LABEL_LENGTH} characters"
    if any(not char.isalnum() and char not in "-_." for char in label):
        return "has characters that are not allowed"
    if not (label[0].isalnum() and label[-1].isalnum()):
        return "does not start and end with a letter or digit"
    if not unicodedata.is_normalized("NFKC", label):
        # Two spellings that look alike would otherwise be two servers.
        return "has letters in a compatibility form"
    if kind is OriginKind.MCP and label.casefold() == LOCAL_LABEL:
        # SEC-1: text of a server never looks local.
        return "is reserved for local directories"
    return ""


_PORTS: Final = {"http": 80, "https": 443, "ssh": 22}
_SCP: Final = re.compile(r"(?:[^@/:]+@)?([^@/:]+):(?!//)(.+)", re.DOTALL)


class Patterns:
    """Patterns with `*` for any text, compiled once. `named` is the first that matches."""

    __slots__ = ("_each", "_heads", "_ignore_case", "_part", "_recent", "texts")

    def __init__(self, texts: Iterable[str], *, ignore_case: bool = False) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._ignore_case = ignore_case
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._each = [(text, self._literal(text), re.compile(_regular(text), flags)) for text in self.texts]
        # What a name begins with, or has in it, if any of the patterns matches it.
        self._heads = tuple(
            self._folded(text.partition("*")[0]) or "" for text in self.texts if text[:1] != "*"
        )
        parts = [re.escape(literal) for text, literal, _ in self._each if text[:1] == "*"]
        self._part = re.compile("|".join(parts)) if parts else None
        self._recent: re.Pattern[str] | None = None
        """The pattern that matched last: skills of one place come one after the other."""

    def matches(self, names: Iterable[str]) -> bool:
        every = tuple(names)
        recent = self._recent
        if recent is not None and any(map(recent.match, every)):
            return True
        return self._first(every) is not None

    def named(self, names: Iterable[str]) -> str:
        return self._first(names) or ""

    def _first(self, names: Iterable[str]) -> str | None:
        """The first pattern that matches. An expression is only tried on a name that has the longest literal
        part of its pattern, which is much faster to see, and faster still for all patterns together."""
        folded = [(name, plain) for name in names if self._may_match(plain := self._folded(name))]
        for text, literal, expression in self._each if folded else ():
            for name, plain in folded:
                if (plain is None or literal in plain) and expression.match(name):
                    self._recent = expression
                    return text
        return None

    def _may_match(self, plain: str | None) -> bool:
        if plain is None or plain.startswith(self._heads):
            return True
        return self._part is not None and self._part.search(plain) is not None

    def _literal(self, text: str) -> str:
        return self._folded(max(text.split("*"), key=len)) or ""

    def _folded(self, text: str) -> str | None:
        """The text as `in` compares it; `None` if only the expression knows its other spellings."""
        if not self._ignore_case:
            return text
        return text.lower() if text.isascii() else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Patterns) and other.texts == self.texts

    def __hash__(self) -> int:
        return hash(self.texts)

    def __repr__(self) -> str:
        return f"Patterns({list(self.texts)!r})"


def _regular(pattern: str) -> str:
    """A pattern as a regular expression, for a name and everything below it.

    It takes time by the length of the text, however many `*` the pattern has.
    """
    first, *rest = (re.escape(part) for part in re.split(r"\*+", pattern))
    *middle, last = rest or [""]
    found = first + "".join(f"(?>.*?{part})" for part in middle)
    return rf"{found}{f'.*{last}' if rest else ''}(?:/.*)?\Z"


NOTHING: Final = Patterns(())


def url_name(url: str) -> str:
    """An address in the one spelling that patterns are compared with: no user, query, default port, dots."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return "invalid:"  # It cannot be connected to either.
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != _PORTS.get(parts.scheme.lower()):
        host = f"{host}:{port}"
    path = posixpath.normpath(unquote(parts.path)) if parts.path.strip("/") else ""
    return f"{parts.scheme.lower()}://{host}{'/' + path.strip('/') if path.strip('/') else ''}"


def git_name(repository: str) -> str:
    """A repository as patterns name it: `git+https://HOST/OWNER/NAME`."""
    plain = repository.removeprefix("git+")
    if "://" not in plain and (match := _SCP.fullmatch(plain)):
        plain = f"ssh://{match[1]}/{match[2]}"
    if "://" not in plain:
        return f"git+file://{plain}"
    return f"git+{url_name(plain).removesuffix('.git')}"


def is_below(name: str, address: str) -> bool:
    """Whether a place is at an address or below it."""
    base = url_name(address)
    return name == base or name.startswith(f"{base}/")
