"""Variables: `${NAME}` in a configuration stands for a variable of the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from skillwire.issues import Issue, shown

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
