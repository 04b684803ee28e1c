"""Patterns of a policy, and the one spelling of addresses that they are compared with."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

_PORTS: Final = {"http": 80, "https": 443, "ssh": 22}
_SCP: Final = re.compile(r"(?:[^@/:]+@)?([^@/:]+):(?!//)(.+)", re.DOTALL)


class Patterns:
    """Patterns with `*` for any text, compiled once. `named` is the first that matches."""

    __slots__ = ("_each", "_heads", "_ignore_case", "_parts", "_recent", "texts")

    def __init__(self, texts: Iterable[str], *, ignore_case: bool = False) -> None:
        self.texts = tuple(dict.fromkeys(texts))
        self._ignore_case = ignore_case
        flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
        self._each = [(text, self._literal(text), re.compile(_regular(text), flags)) for text in self.texts]
        # What a name begins with, or has in it, if any of the patterns matches it.
        self._heads = tuple(
            self._folded(text.partition("*")[0]) or "" for text in self.texts if text[:1] != "*"
        )
        self._parts = tuple(literal for text, literal, _ in self._each if text[:1] == "*")
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

    def candidates(self, names: Sequence[str]) -> Patterns:
        """Those of the patterns that may match one of many names: most of a long list match none of them."""
        every = "\n".join(names)
        plain = self._folded(every)
        if plain is None:
            return self
        texts = [text for text, literal, _ in self._each if literal in plain]
        return Patterns(texts, ignore_case=self._ignore_case)

    def _may_match(self, plain: str | None) -> bool:
        return plain is None or plain.startswith(self._heads) or any(map(plain.__contains__, self._parts))

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
