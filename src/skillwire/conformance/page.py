"""The section of docs/verify.md that has the rules. Run as a program, it rewrites the section."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillwire.conformance.rules import AREAS, RULES, Rule
from skillwire.errors import SourceError

_BEGIN: Final = (
    "<!-- The rules, made by `python -m skillwire.conformance.page docs/verify.md`. Do not edit. -->"
)
_END: Final = "<!-- End of the rules. -->"


def with_rules(page: str) -> str:
    """The page with its section of rules as they are now, or a `SourceError` if it has no such section."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SourceError("the page has no section for the rules")
    section = "\n".join(_section())
    return f"{before}{_BEGIN}\n\n{section}\n{_END}{after}"


def _section() -> Iterator[str]:
    for area in AREAS.values():
        yield f"### {area}"
        yield ""
        yield "| Rule | Level | Expected | Based on |"
        yield "|---|---|---|---|"
        yield from (_row(rule) for rule in RULES if rule.area == area)
        yield ""


def _row(rule: Rule) -> str:
    level = f"{rule.level.value}, debatable" if rule.debatable else rule.level.value
    basis = f"{rule.requirement}: {rule.clause.says}"
    if rule.debatable:
        basis += f" Debatable: {rule.debatable}."
    return f"| `{rule.id}` | {level} | {rule.expected} | {basis} [source]({rule.clause.link}) |"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_rules(file.read_text("utf-8")), "utf-8")
