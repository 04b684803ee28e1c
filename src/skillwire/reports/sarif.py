"""SARIF 2.1.0, which code scanning reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from skillwire.documents import JsonObject
from skillwire.version import VERSION

SarifLevel: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class SarifRule:
    """A rule that results refer to. Without a `level`, that of SARIF holds: a warning."""

    id: str
    link: str
    expected: str = ""
    help: str = ""
    level: SarifLevel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifResult:
    """A finding, in a `file` or at a `place` that is not a file, such as a URI on a server."""

    rule: str
    level: SarifLevel
    text: str
    file: str = ""
    line: int | None = None
    place: str = ""
    fingerprint: str = ""
    is_known: bool = False
    """Whether the baseline has it already."""


def sarif_log(
    tool: str, rules: Iterable[SarifRule], results: Iterable[SarifResult], *, about: str = ""
) -> str:
    """A SARIF log of one run. `rules` has the rule of each result. ASCII only, so that text from elsewhere
    reaches a terminal escaped.
    """
    listed = list(rules)
    numbers = {rule.id: number for number, rule in enumerate(listed)}
    driver: JsonObject = {"name": tool, "version": VERSION}
    if about:
        driver["informationUri"] = about
    driver["rules"] = [_rule(rule) for rule in listed]
    log: JsonObject = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": driver}, "results": [_result(one, numbers[one.rule]) for one in results]}
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=True)


def _rule(rule: SarifRule) -> JsonObject:
    document: JsonObject = {"id": rule.id}
    if rule.expected:
        document["shortDescription"] = {"text": rule.expected}
    if rule.help:
        document["help"] = {"text": rule.help}
    document["helpUri"] = rule.link
    if rule.level:
        document["defaultConfiguration"] = {"level": rule.level}
    return document


def _result(result: SarifResult, number: int) -> JsonObject:
    document: JsonObject = {
        "ruleId": result.rule,
        "ruleIndex": number,
        "level": result.level,
        "message": {"text": result.text},
        "locations": [_location(result)],
    }
    if result.fingerprint:
        document["partialFingerprints"] = {"skillwire/v1": result.fingerprint}
    if result.is_known:
        document["baselineState"] = "unchanged"
    return document


def _location(result: SarifResult) -> JsonObject:
    if result.place:
        return {"logicalLocations": [{"fullyQualifiedName": result.place}]}
    physical: JsonObject = {"artifactLocation": {"uri": result.file.replace("\\", "/")}}
    if result.line:
        physical["region"] = {"startLine": result.line}
    return {"physicalLocation": physical}
