"""Rule: one thing that a skill server has to keep, with the clause it comes from and how to mend a breach.

The ids are stable: reports, tests and `--ignore` name them. The part before the slash is the requirement;
`MCP` stands for the base protocol, `LINT` and `TEXT` for what the files say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skillwire.conformance.rules_content import CONTENT_RULES
from skillwire.conformance.rules_entries import ENTRY_RULES
from skillwire.conformance.rules_methods import METHOD_RULES


class Level(StrEnum):
    """How bad a breach is."""

    MUST = "must"
    SHOULD = "should"
    ADVICE = "advice"

    @property
    def is_violation(self) -> bool:
        """Whether it makes `skillwire verify` fail. Advice does not."""
        return self is not Level.ADVICE


AREAS: Final[Mapping[str, str]] = {
    "MCP": "Protocol",
    "CAP": "Capability",
    "LST": "Listing",
    "GET": "Getting one skill",
    "ENT": "Entries",
    "FMT": "Format and names",
    "RD": "Reading files",
    "DIR": "Directories",
    "LINT": "Advice for authors",
    "TEXT": "Hidden text",
}
"""The areas of a report, in its order, by the start of a rule's id."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`expected` is what a server does that keeps the rule; `fix` says how to mend one that does not."""

    id: str
    level: Level
    expected: str
    fix: str

    @property
    def requirement(self) -> str:
        return self.id.partition("/")[0]

    @property
    def area(self) -> str:
        return AREAS[self.requirement.partition("-")[0]]


RULES: Final = tuple(
    Rule(id, Level(level), expected, fix)
    for id, level, expected, fix in (*METHOD_RULES, *ENTRY_RULES, *CONTENT_RULES)
)
BY_ID: Final[Mapping[str, Rule]] = {rule.id: rule for rule in RULES}
