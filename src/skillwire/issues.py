"""Issue: one problem with a skill, where it is, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The consequence of an issue."""

    ERROR = "error"
    """The skill or file is left out by a server, and refused by every host that checks."""
    WARNING = "warning"
    """Served despite a format problem. Some hosts refuse it, and so does `--strict`."""
    ADVICE = "advice"
    """Valid, but could be better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A problem with its place and fix.

    `rule` is a stable, machine-readable name such as `name-not-directory`. `file` is a path or a URI, and
    empty if the issue is not about a file. `fix` is empty where the message says it all.
    """

    rule: str
    message: str
    fix: str = ""
    file: str = ""
    line: int | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} ({self.fix})" if self.fix else text
