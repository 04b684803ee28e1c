"""The SARIF log of a scanner: which findings it has, and everything else is not a scan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skillwire.errors import Issue, Severity
from skillwire.skill.lint_report import Linted, as_sarif
from skillwire.trust.scans import Finding, FindingLevel, parse_sarif

ERROR, WARNING, NOTE, NONE = FindingLevel.ERROR, FindingLevel.WARNING, FindingLevel.NOTE, FindingLevel.NONE


def log(*results: object, **run: Any) -> dict[str, Any]:
    driver = {"name": "s", "rules": run.pop("rules", [])}
    return {"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": list(results), **run}]}


def at(uri: str, line: int = 0) -> list[dict[str, Any]]:
    region = {"region": {"startLine": line}} if line else {}
    return [{"physicalLocation": {"artifactLocation": {"uri": uri}, **region}}]


@pytest.mark.parametrize(
    ("result", "rules", "finding"),
    [
        ({"message": {"text": "a"}, "ruleId": "r"}, [], Finding(WARNING, "r", "a")),
        ({"message": {"text": "a"}, "level": "error"}, [], Finding(ERROR, "", "a")),
        ({"message": {"text": "a"}, "level": "none"}, [], Finding(NONE, "", "a")),
        ({"message": {"text": "a"}, "kind": "pass", "level": "error"}, [], Finding(NONE, "", "a")),
        ({"message": {"text": "a"}, "kind": "review"}, [], Finding(WARNING, "", "a")),
        # The level and the words of its rule, by index or by id.
        (
            {"message": {}, "ruleIndex": 0},
            [{"id": "r", "defaultConfiguration": {"level": "note"}, "shortDescription": {"text": "short"}}],
            Finding(NOTE, "r", "short"),
        ),
        (
            {"message": {"id": "m"}, "ruleId": "r"},
            [{"id": "q"}, {"id": "r", "messageStrings": {"m": {"text": "long"}}}],
            Finding(WARNING, "r", "long"),
        ),
        ({"message": {"text": "a"}, "rule": {"id": "r", "index": 9}}, [], Finding(WARNING, "r", "a")),
        # Places.
        ({"message": {"text": "a"}, "locations": at("x.py", 3)}, [], Finding(WARNING, "", "a", "x.py", 3)),
        (
            {"message": {"text": "a"}, "locations": at("file:///skill/b/x.py")},
            [],
            Finding(WARNING, "", "a", "b/x.py"),
        ),
        ({"message": {"text": "a"}, "locations": [{}]}, [], Finding(WARNING, "", "a")),
        # A comment in the skill does not suppress a finding.
        (
            {"message": {"text": "a"}, "level": "error", "suppressions": [{"kind": "inSource"}]},
            [],
            Finding(ERROR, "", "a"),
        ),
        # What strangers wrote is cleaned, and short.
        ({"message": {"text": "a\x1b[31m\nb\u202ec"}, "ruleId": "r\n"}, [], Finding(WARNING, "r", "a bc")),
    ],
)
def test_a_result_is_a_finding(result: object, rules: list[Any], finding: Finding) -> None:
    scan = parse_sarif(json.dumps(log(result, rules=rules)), "s")
    assert scan.problem == ""
    assert scan.findings == (finding,)
    assert scan.worst is finding.level


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not JSON"),
        ("nonsense", "it is not JSON"),
        ("[]", "did not print a SARIF log of version 2.1.0"),
        ("{}", "did not print a SARIF log of version 2.1.0"),
        ('{"version": "2.2.0", "runs": []}', "did not print a SARIF log of version 2.1.0"),
        ('{"version": "2.1.0"}', "has no run"),
        ('{"version": "2.1.0", "runs": []}', "has no run"),
        ('{"version": "2.1.0", "runs": "x"}', "is malformed"),
        ('{"version": "2.1.0", "runs": [1]}', "is malformed"),
        ('{"version": "2.1.0", "runs": [{"tool": {"driver": {}}}]}', "has a run without results"),
        (json.dumps(log("x")), "is malformed"),
        (json.dumps(log({"level": "critical", "message": {"text": "a"}})), "is malformed"),
        (json.dumps(log({"message": "a"})), "is malformed"),
        (json.dumps(log({"message": {}, "locations": [[]]})), "is malformed"),
        (json.dumps(log(invocations=[{"executionSuccessful": False}])), "reports in its SARIF log that it"),
        (json.dumps(log(invocations=[{}])), "is malformed"),
        ("[" * 100_000, "nested too deeply"),
        ('{"version": ' + "9" * 100_000 + "}", "number with too many digits"),
        (" " * (9 * 1024 * 1024), "what it printed"),
    ],
)
def test_anything_else_is_not_a_scan(text: str, problem: str) -> None:
    scan = parse_sarif(text, "s")
    assert problem in scan.problem
    assert scan.findings == ()
    assert scan.words.startswith("not scanned: ")


def test_findings_are_counted_sorted_and_the_first_are_kept() -> None:
    results = [{"level": "note", "message": {"text": f"n{number}"}} for number in range(200)]
    results.append({"level": "error", "message": {"text": "e"}})
    scan = parse_sarif(json.dumps(log(*results)), "s")
    assert scan.words == "1 error, 200 notes"
    assert (len(scan.findings), scan.findings[0].message, scan.worst) == (100, "e", ERROR)
    assert scan.lines(1) == ["s: 1 error, 200 notes", "error: e", "and 200 more findings"]
    assert parse_sarif(json.dumps(log()), "s").words == "no findings"


def test_a_report_of_our_own_is_a_scan() -> None:
    issue = Issue(
        rule="name", file="a/SKILL.md", message="bad", fix="mend it", line=2, severity=Severity.ERROR
    )
    scan = parse_sarif(as_sarif([Linted("a", (issue,))]), "lint")
    assert list(map(str, scan.findings)) == ["error: a/SKILL.md:2: name: bad (mend it)"]
