"""Violation: a rule that was not kept, with the place and what was seen. A finding in the making."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Violation:
    """`seen` and `uri` may hold what a server wrote; `expected` and `fix` overrule those of the rule."""

    rule: str
    seen: str
    uri: str = ""
    expected: str = ""
    fix: str = ""


def once(faults: Iterable[Violation]) -> Iterator[Violation]:
    """One fault for each rule: what is wrong with every answer of a method is said once."""
    first: dict[str, Violation] = {}
    more: dict[str, int] = {}
    for fault in faults:
        if fault.rule in first:
            more[fault.rule] = more.get(fault.rule, 0) + 1
        else:
            first[fault.rule] = fault
    for rule, fault in first.items():
        count = more.get(rule, 0)
        yield replace(fault, seen=f"{fault.seen}, and so {count} more") if count else fault
