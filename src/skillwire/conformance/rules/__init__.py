"""Rules: what a conforming server does, the clause that each rule is based on, and how to fix a violation.

The ids are stable: reports, tests, `--ignore`, `--only` and baselines use them. The part before the slash is
the requirement; `MCP` stands for the base protocol, `SIG`, `LINT` and `TEXT` for what the files say,
`IDX` for a discovery index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from skillwire.conformance.rules.entries import CONTENT_RULES, ENTRY_RULES
from skillwire.conformance.rules.methods import METHOD_RULES
from skillwire.conformance.rules.protocol import AREAS, PROTOCOL_RULES, Clause, Level, Rule
from skillwire.errors import SourceError
from skillwire.text import shown

__all__ = [
    "AREAS",
    "BY_ID",
    "RULES",
    "Clause",
    "Level",
    "Rule",
    "Violation",
    "check_names",
    "matches",
    "once",
]

RULES: Final = (*PROTOCOL_RULES, *METHOD_RULES, *ENTRY_RULES, *CONTENT_RULES)
BY_ID: Final[Mapping[str, Rule]] = {rule.id: rule for rule in RULES}


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Rules and requirements as given on a command line, or a `SourceError`."""
    found = tuple(names)
    for name in found:
        if name not in BY_ID and all(name != rule.requirement for rule in RULES):
            raise SourceError(f"{shown(name)} is not a rule; `skillwire verify --rules` lists them")
    return found


def matches(rule: str, names: Collection[str]) -> bool:
    """Whether a rule is among `names`, which are ids of rules or requirements."""
    return rule in names or BY_ID[rule].requirement in names


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that was broken, the place, and what was seen.

    `seen` and `uri` may hold text that a server wrote. `expected` and `fix` replace those of the rule.
    """

    rule: str
    seen: str
    uri: str = ""
    expected: str = ""
    fix: str = ""


def once(violations: Iterable[Violation]) -> Iterator[Violation]:
    """One violation for each rule: what is wrong with every answer is reported once, with a count."""
    first: dict[str, Violation] = {}
    more: dict[str, int] = {}
    for violation in violations:
        if violation.rule in first:
            more[violation.rule] = more.get(violation.rule, 0) + 1
        else:
            first[violation.rule] = violation
    for rule, violation in first.items():
        count = more.get(rule, 0)
        yield replace(violation, seen=f"{violation.seen}, and {count} more like this") if count else violation
