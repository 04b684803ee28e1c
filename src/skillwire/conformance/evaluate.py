"""From surveys to a report: run every check, merge what both eras show, and keep an order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from skillwire.conformance.checks.capability import check_capability
from skillwire.conformance.checks.content import check_content
from skillwire.conformance.checks.directories import check_directories
from skillwire.conformance.checks.eras import check_eras
from skillwire.conformance.checks.files import check_entries, check_files
from skillwire.conformance.checks.getting import check_getting
from skillwire.conformance.checks.listing import check_listing
from skillwire.conformance.checks.protocol import check_protocol
from skillwire.conformance.observations import Observations
from skillwire.conformance.report import EraReport, Finding, Report
from skillwire.conformance.rules import BY_ID, RULES, Level
from skillwire.conformance.session import Era
from skillwire.conformance.violations import Violation
from skillwire.text import safe_line

CHECKS: Final[tuple[Callable[[Observations], Iterator[Violation]], ...]] = (
    check_protocol,
    check_capability,
    check_listing,
    check_getting,
    check_entries,
    check_files,
    check_directories,
    check_content,
)
MOST_PER_RULE: Final = 100
_ORDER: Final = {rule.id: number for number, rule in enumerate(RULES)}
_LEVELS: Final = list(Level)
_LONGEST: Final = 500


def judge(
    target: str, surveys: Sequence[Observations], silent: Mapping[Era, str], *, ignore: Collection[str] = ()
) -> Report:
    """The report on everything that was seen. `ignore` names rules, or requirements with all their rules."""
    eras: dict[Violation, list[str]] = {}
    for survey in surveys:
        for fault in faults_of(survey, surveys):
            eras.setdefault(fault, [])
            if survey.era not in eras[fault]:
                eras[fault].append(survey.era)
    for fault in check_eras(surveys, silent):
        eras[fault] = []
    kept = [fault for fault in eras if not _is_ignored(fault, ignore)]
    kept.sort(key=lambda fault: (_LEVELS.index(BY_ID[fault.rule].level), _ORDER[fault.rule]))
    findings: list[Finding] = []
    counts: dict[str, int] = {}
    for fault in kept:
        counts[fault.rule] = counts.get(fault.rule, 0) + 1
        if counts[fault.rule] <= MOST_PER_RULE:
            findings.append(_finding(fault, eras[fault]))
    return Report(
        target=target,
        findings=tuple(findings),
        eras=(*map(_era_report, surveys), *_silent_reports(silent)),
        omitted={rule: count - MOST_PER_RULE for rule, count in counts.items() if count > MOST_PER_RULE},
        ignored=tuple(sorted(ignore)),
    )


def faults_of(survey: Observations, surveys: Sequence[Observations]) -> Iterator[Violation]:
    """Every fault on one era. Skills on the other era alone are advice (CAP-4), not a breach."""
    elsewhere = any(other.settings is not None for other in surveys)
    for check in CHECKS:
        for fault in check(survey):
            if not (fault.rule == "CAP-1/declared" and elsewhere):
                yield fault


def _is_ignored(fault: Violation, ignore: Iterable[str]) -> bool:
    rule = BY_ID[fault.rule]
    return any(name in (rule.id, rule.requirement) for name in ignore)


def _finding(fault: Violation, eras: Sequence[str]) -> Finding:
    rule = BY_ID[fault.rule]
    return Finding(
        rule=rule.id,
        level=rule.level,
        # SEC-11: whatever a server wrote is cleaned before anybody sees it.
        uri=safe_line(fault.uri, limit=_LONGEST),
        expected=safe_line(fault.expected or rule.expected, limit=_LONGEST),
        seen=safe_line(fault.seen, limit=_LONGEST),
        fix=safe_line(fault.fix or rule.fix, limit=_LONGEST),
        eras=tuple(eras),
    )


def _era_report(survey: Observations) -> EraReport:
    return EraReport(
        era=survey.era,
        is_spoken=True,
        has_skills=survey.settings is not None,
        listed=len(survey.entries),
        checked=len(survey.checked),
        files=sum(bool(seen.digest) for seen in survey.files.values()),
        directories=len(survey.directories),
        requests_left_out=survey.unread,
    )


def _silent_reports(silent: Mapping[Era, str]) -> Iterator[EraReport]:
    for era, reason in silent.items():
        yield EraReport(era=era, is_spoken=False, reason=safe_line(reason, limit=_LONGEST))
