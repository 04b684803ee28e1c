"""One remark about one place in a skill: what is wrong, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a host would refuse the skill, or a reader would only wish it better."""

    ERROR = "error"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A finding with its place and its fix.

    `rule` is a stable, machine-readable name such as `name-not-directory`.
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


def shown(text: str, limit: int = 60) -> str:
    """Text that others wrote, made fit for a message: on one line, printable, and not all of it."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in cut)
