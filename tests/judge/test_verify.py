"""Every defect of the defective server is named by its rule, and by no other; the clean one has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

import skillwire
from judge.defective_server import DEFECTS, make_server
from skillwire.judge.rules import RULES
from skillwire.limits import DEFAULT_LIMITS, Limits

pytestmark = pytest.mark.anyio

IN_PROCESS = sorted(name for name, defect in DEFECTS.items() if defect.transport == "app")
OVER_STDIO = sorted(name for name, defect in DEFECTS.items() if defect.transport == "stdio")


def limits_for(name: str) -> Limits:
    """Tight where a defect would otherwise make the test wait or the machine sweat."""
    if name == "mute":
        return replace(DEFAULT_LIMITS, call_seconds=0.4, connect_seconds=0.4)
    if name.startswith("ever-more"):
        return replace(DEFAULT_LIMITS, pages=20)
    if name.startswith("huge"):
        return replace(DEFAULT_LIMITS, answer_bytes=1_000_000)
    return DEFAULT_LIMITS


async def test_the_clean_server_has_no_finding() -> None:
    report = await skillwire.verify(make_server())
    assert report.findings == ()
    assert [(era.listed, era.checked, era.files) for era in report.eras] == [(3, 5, 9)] * 2


@pytest.mark.parametrize("name", IN_PROCESS)
async def test_a_defect_is_found_under_its_rule_and_no_other(name: str) -> None:
    report = await skillwire.verify(make_server(name), limits=limits_for(name))
    assert {finding.rule for finding in report.findings} == {DEFECTS[name].rule}, list(
        map(str, report.findings)
    )


def test_every_rule_has_a_defect() -> None:
    # `LINT/other` is for remarks that a later linter may make; no text causes one today.
    assert {defect.rule for defect in DEFECTS.values()} == {rule.id for rule in RULES} - {"LINT/other"}
    assert len(DEFECTS) > 150
