"""Report: what the judge found, for programs and for test suites. Rendering is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillwire.conformance.rules import BY_ID, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that was not kept. All text is fit to be shown: nothing in it acts on a terminal."""

    rule: str
    level: Level
    uri: str
    expected: str
    seen: str
    fix: str
    eras: tuple[str, ...]

    @property
    def area(self) -> str:
        return BY_ID[self.rule].area

    @property
    def requirement(self) -> str:
        return BY_ID[self.rule].requirement

    def __str__(self) -> str:
        where = f" {self.uri}" if self.uri else ""
        return f"{self.rule}{where}: expected: {self.expected}; seen: {self.seen}; to mend it: {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EraReport:
    """One era: whether the server speaks it, and how much was looked at."""

    era: str
    is_spoken: bool
    reason: str = ""
    has_skills: bool = False
    listed: int = 0
    checked: int = 0
    files: int = 0
    directories: int = 0
    requests_left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings, worst first, and what they are about.

    `omitted` counts findings beyond the first hundred of a rule.
    """

    target: str
    findings: tuple[Finding, ...]
    eras: tuple[EraReport, ...]
    omitted: Mapping[str, int] = field(default_factory=dict[str, int])
    ignored: tuple[str, ...] = ()

    @property
    def violations(self) -> tuple[Finding, ...]:
        """Breaches of MUST and SHOULD. A server that keeps the extension has none."""
        return tuple(finding for finding in self.findings if finding.level.is_violation)

    @property
    def advice(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.level.is_violation)

    @property
    def looked_at_nothing(self) -> bool:
        """Whether no skill was there to be checked, so that a clean report says little."""
        return not any(era.checked for era in self.eras)

    def of(self, rule: str) -> tuple[Finding, ...]:
        """The findings of one rule, or of all rules of a requirement such as `ENT-3`."""
        return tuple(finding for finding in self.findings if rule in (finding.rule, finding.requirement))
