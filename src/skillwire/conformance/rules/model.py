"""Rule, Level and Clause: what a rule consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Level(StrEnum):
    """How serious a violation is."""

    MUST = "must"
    SHOULD = "should"
    ADVICE = "advice"

    @property
    def is_violation(self) -> bool:
        """Whether it makes `skillwire verify` fail. Advice does not."""
        return self is not Level.ADVICE

    def is_at_least(self, other: Level) -> bool:
        """Whether it is as serious as another level, or more."""
        order = list(Level)
        return order.index(self) <= order.index(other)


AREAS: Final[Mapping[str, str]] = {
    "MCP": "Protocol",
    "CAP": "Capability",
    "LST": "Listing",
    "GET": "Getting one skill",
    "ENT": "Entries",
    "FMT": "Format and names",
    "RD": "Reading files",
    "DIR": "Directories",
    "SIG": "Signatures",
    "LINT": "Advice for authors",
    "TEXT": "Hidden text",
    "PROFILE": "Demands of a profile",
}
"""The areas of a report, in order, by the start of a rule's id."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence of a specification, in our words, and where it is.

    `page` is the URL of the document, and `section` the anchor in it; without one, the whole page is meant.
    """

    says: str
    page: str
    section: str = ""

    @property
    def link(self) -> str:
        return f"{self.page}#{self.section}" if self.section else self.page


@dataclass(frozen=True, slots=True)
class Rule:
    """`expected` is what a conforming server does; `fix` says how to repair one that does not.

    `debatable` says why some readers of the clause might disagree with the rule.
    """

    id: str
    level: Level
    expected: str
    fix: str
    clause: Clause
    debatable: str = ""

    @property
    def requirement(self) -> str:
        return self.id.partition("/")[0]

    @property
    def area(self) -> str:
        return AREAS[self.requirement.partition("-")[0]]


def must(id: str, expected: str, fix: str, clause: Clause) -> Rule:
    return Rule(id, Level.MUST, expected, fix, clause)


def should(id: str, expected: str, fix: str, clause: Clause, *, debatable: str = "") -> Rule:
    return Rule(id, Level.SHOULD, expected, fix, clause, debatable)


def advice(id: str, expected: str, fix: str, clause: Clause) -> Rule:
    return Rule(id, Level.ADVICE, expected, fix, clause)


FORMAT: Final = "https://agentskills.io/specification"
RFC3986: Final = "https://datatracker.ietf.org/doc/html/rfc3986"
_EXTENSION: Final = "https://skills.extensions.modelcontextprotocol.io/specification/stable/skills"
_PROTOCOL: Final = "https://modelcontextprotocol.io/specification/2026-07-28"


def extension(says: str, section: str) -> Clause:
    """A clause of the Skills extension."""
    return Clause(says, _EXTENSION, section)


def protocol(says: str, page: str, section: str = "") -> Clause:
    """A clause of the base protocol."""
    return Clause(says, f"{_PROTOCOL}/{page}", section)
