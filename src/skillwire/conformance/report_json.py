"""A report for programs: one JSON document of a shape that stays."""

from __future__ import annotations

import json
from typing import Final

from skillwire.conformance.report import EraReport, Finding, Report
from skillwire.conformance.rules import Level
from skillwire.json_types import JsonObject

VERSION: Final = 1
"""Raised when a field changes its meaning or goes. A field may be added without."""


def as_json(report: Report) -> str:
    """The document of docs/verify.md. ASCII alone: what a stranger wrote reaches a terminal as an escape."""
    document: JsonObject = {
        "version": VERSION,
        "target": report.target,
        "ok": not report.violations and not report.looked_at_nothing,
        "summary": {
            level.value: sum(finding.level is level for finding in report.findings) for level in Level
        },
        "eras": [_era(era) for era in report.eras],
        "findings": [_finding(finding) for finding in report.findings],
        "omitted": dict(report.omitted),
        "ignored": list(report.ignored),
    }
    return json.dumps(document, indent=2, ensure_ascii=True)


def _era(era: EraReport) -> JsonObject:
    return {
        "era": era.era,
        "spoken": era.is_spoken,
        "reason": era.reason,
        "declared": era.has_skills,
        "listed": era.listed,
        "checked": era.checked,
        "files": era.files,
        "directories": era.directories,
        "requestsLeftOut": era.requests_left_out,
    }


def _finding(finding: Finding) -> JsonObject:
    return {
        "rule": finding.rule,
        "requirement": finding.requirement,
        "area": finding.area,
        "level": finding.level.value,
        "uri": finding.uri,
        "expected": finding.expected,
        "seen": finding.seen,
        "fix": finding.fix,
        "eras": list(finding.eras),
    }
