"""ConfigTable: a table of a configuration file, read key by key, with every mistake kept.

A value that is not what it should be becomes an issue with its file, its key and a fix, and reads as if it
were absent. No issue quotes a value: it may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import cast

from skillwire.issues import Issue, shown


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
        value = self._get(key)
        if value is None:
            return None
        items = cast("list[object]", value) if isinstance(value, list) else []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in items):
            self.blame(key, "is not a list of texts", f'write {key} = ["...", "..."]')
            return None
        return tuple(cast("list[str]", items))

    def string_map(self, key: str) -> dict[str, str]:
        """A table of texts."""
        value = self._get(key)
        if value is None:
            return {}
        table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in table.values()):
            self.blame(key, "is not a table of texts", f'write {key} = {{ NAME = "value" }}')
            return {}
        return cast("dict[str, str]", table)

    def boolean(self, key: str, *, old: str = "") -> bool | None:
        """True or false, or `None` when the key is absent. `old` is its name in earlier versions."""
        if old and old in self._values:
            self._known.add(key)
            return self.boolean(old)
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            self.blame(key, f"is {_kind(value)}, not true or false", f"write {key} = true or {key} = false")
            return None
        return value

    def seconds(self, key: str) -> float | None:
        """A number of seconds, more than none and at most an hour."""
        value = self._get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
            self.blame(key, "is not a number of seconds from above 0 to 3600", f"write {key} = 10")
            return None
        return float(value)

    def choice(self, key: str, choices: Iterable[str]) -> str:
        value = self.string(key)
        known = list(choices)
        if value and value not in known:
            self.blame(key, f"has no meaning as {shown(value)!r}", _advice(value, known, "it can be"))
            return ""
        return value

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
        """Report every key that was not read."""
        for key in self._values:
            if key not in self._known:
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

    def _get(self, key: str) -> object:
        self._known.add(key)
        return self._values.get(key)

    def _path(self, key: str) -> str:
        return f"{self._key}.{key}" if self._key else key


def near(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?` if a known word is similar, otherwise nothing."""
    folded = {item.casefold(): item for item in known}
    found = get_close_matches(word.casefold()[:100], folded, n=1)
    return f"did you mean {shown(folded[found[0]])}?" if found else ""


def _advice(word: str, known: list[str], otherwise: str) -> str:
    return near(word, known) or f"{otherwise} {', '.join(known)}"


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
