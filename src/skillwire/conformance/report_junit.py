"""A report for CI systems that read JUnit's XML: a suite for each area, a case for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skillwire.conformance.report import Finding, Report
from skillwire.conformance.rules import AREAS, RULES, Rule
from skillwire.text import escape_xml


def as_junit(report: Report) -> str:
    """Violations are failures. Advice passes, and says what it has to say as output of its case."""
    failures = len({finding.rule for finding in report.violations})
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuites name="skillwire verify" tests="{len(RULES)}" failures="{failures}" errors="0">',
            *(line for area in AREAS.values() for line in _suite(report, area)),
            "</testsuites>",
            "",
        ]
    )


def _suite(report: Report, area: str) -> Iterator[str]:
    rules = [rule for rule in RULES if rule.area == area]
    failures = len({finding.rule for finding in report.violations if finding.area == area})
    name = escape_xml(area)
    yield f'  <testsuite name="{name}" tests="{len(rules)}" failures="{failures}" errors="0" skipped="0">'
    for rule in rules:
        yield from _case(rule, report.of(rule.id), name)
    yield "  </testsuite>"


def _case(rule: Rule, findings: Sequence[Finding], area: str) -> Iterator[str]:
    opening = f'    <testcase classname="{area}" name="{escape_xml(f"{rule.id}: {rule.expected}")}"'
    if not findings:
        yield f"{opening}/>"
        return
    text = escape_xml("\n".join(str(finding) for finding in findings))
    yield f"{opening}>"
    if rule.level.is_violation:
        message = escape_xml(findings[0].seen)
        yield f'      <failure type="{rule.level.value}" message="{message}">{text}</failure>'
    else:
        yield f"      <system-out>{text}</system-out>"
    yield "    </testcase>"
