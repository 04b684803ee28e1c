"""Every defect of the defective server is named by its rule, and by no other; the clean one has none."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import skillwire
from conformance.clean_server import CleanServer
from conformance.defective_server import DEFECTS, LEGACY, MODERN, make_server, serving_http
from conformance.defects_consistency import consistency_defects
from conformance.switches import Defect
from skillwire.conformance import RULES, Level
from skillwire.conformance.rules import AREAS
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from timeless import without_waiting

pytestmark = pytest.mark.anyio

COMMAND = [sys.executable, "-m", "conformance.defective_server"]
ENV = {"PYTHONPATH": str(Path(__file__).parent.parent)}
NOT_QUICK = (
    "CAP-4",
    "accepted",
    "before-list",
    "changing",
    "concurrent",
    "lossy",
    "neighbor",
    "no-params",
    "opening",
    "order",
)
"""Requirements and parts of rules whose defects show on the older revision, on both together, or only when
something is asked again, at once, or near a real URI."""


def is_whole(defect: Defect) -> bool:
    """Whether a defect shows in a whole check only."""
    requirement, _, part = defect.rule.partition("/")
    return requirement in NOT_QUICK or part in NOT_QUICK


APP = [defect for defect in DEFECTS.values() if defect.transport == "app"]
FIRST = {defect.rule.partition("/")[0]: defect for defect in reversed(APP)}
"""One defect of each requirement."""
WHOLE = sorted(defect.name for defect in APP if is_whole(defect) or defect in FIRST.values())
QUICK = sorted({defect.name for defect in APP} - set(WHOLE))
OVER_STDIO = sorted(name for name, defect in DEFECTS.items() if defect.transport == "stdio")
OVER_HTTP = ["html-error", "digest-wrong", "list-without-ttl", "stream-ends", "crowded-list"]


def limits_for(name: str) -> Limits:
    """Tight where a defect would otherwise make the machine sweat."""
    if name.startswith("ever-more"):
        return replace(DEFAULT_LIMITS, pages=20)
    if name.startswith("huge"):
        return replace(DEFAULT_LIMITS, answer_bytes=1_000_000)
    return DEFAULT_LIMITS


def rules_in(report: skillwire.Report) -> set[str]:
    return {finding.rule for finding in report.findings}


async def test_the_clean_server_has_no_finding() -> None:
    report = await skillwire.verify(make_server())
    assert report.findings == ()
    assert [(revision.listed, revision.checked, revision.files) for revision in report.revisions] == [
        (3, 5, 9)
    ] * 2


@pytest.mark.slow
@without_waiting
@pytest.mark.parametrize("name", WHOLE)
async def test_a_defect_is_found_under_its_rule_and_no_other(name: str) -> None:
    report = await skillwire.verify(make_server(name), limits=limits_for(name))
    assert rules_in(report) == {DEFECTS[name].rule}, list(map(str, report.findings))


@pytest.mark.parametrize("name", QUICK)
async def test_a_defect_is_found_by_a_quick_check_under_its_rule_and_no_other(name: str) -> None:
    """The checks are the same as those of a whole check, over the observations of one revision."""
    report = await skillwire.verify(make_server(name), limits=limits_for(name), quick=True)
    assert rules_in(report) == {DEFECTS[name].rule}, list(map(str, report.findings))


@pytest.mark.parametrize("defect", list(consistency_defects()), ids=lambda defect: defect.name)
async def test_answers_that_disagree_are_found(defect: Defect) -> None:
    server = CleanServer()
    defect.switch_on(server)
    limits = replace(DEFAULT_LIMITS, pages=20)
    report = await skillwire.verify(server, limits=limits, quick=not is_whole(defect))
    assert defect.rule in rules_in(report), list(map(str, report.findings))


@pytest.mark.process
@pytest.mark.parametrize("name", ["clean", "digest-wrong", *OVER_STDIO])
async def test_a_defect_is_found_over_stdio(name: str) -> None:
    report = await skillwire.verify([*COMMAND, name], env=ENV)
    expected = set() if name == "clean" else {DEFECTS[name].rule}
    assert rules_in(report) == expected, list(map(str, report.findings))
    assert [revision.is_supported for revision in report.revisions] == [True, True]


@pytest.mark.parametrize("name", ["clean", *OVER_HTTP])
async def test_a_defect_is_found_over_http(name: str) -> None:
    async with serving_http(make_server(name)) as url:
        report = await skillwire.verify(url)
    expected = set() if name == "clean" else {DEFECTS[name].rule}
    assert rules_in(report) == expected, list(map(str, report.findings))
    assert [revision.is_supported for revision in report.revisions] == [True, True]


def test_every_rule_has_a_defect() -> None:
    # `LINT/other` is for remarks that a later linter may make; no text causes one today.
    defects = [*DEFECTS.values(), *consistency_defects()]
    # Those of a profile depend on the profile, not on the server.
    of_profiles = {rule.id for rule in RULES if rule.requirement == "PROFILE"}
    assert {defect.rule for defect in defects} == {rule.id for rule in RULES} - {"LINT/other"} - of_profiles
    assert len(DEFECTS) > 200


def test_rules_have_unique_ids_an_area_and_texts() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert {rule.area for rule in RULES} == set(AREAS.values())
    assert all(rule.expected and rule.fix for rule in RULES)


async def test_a_finding_says_where_what_was_expected_what_was_seen_and_what_to_do() -> None:
    report = await skillwire.verify(make_server("size-wrong"))
    [finding] = report.findings
    assert finding.rule == "ENT-3/size"
    assert finding.requirement == "ENT-3"
    assert finding.level is Level.MUST
    assert finding.uri == "skill://acme/billing/refunds/notes/bom.txt"
    assert (finding.expected, finding.seen) == ("15 bytes, the number that was read", "3 bytes in the entry")
    assert finding.fix == "count the raw bytes, not characters"
    assert finding.revisions == (LEGACY, MODERN)
    assert report.of("ENT-3") == report.of("ENT-3/size") == report.violations == (finding,)


async def test_advice_is_not_a_violation() -> None:
    report = await skillwire.verify(make_server("no-when"))
    assert report.violations == ()
    assert [finding.level for finding in report.advice] == [Level.ADVICE]


async def test_one_revision_can_be_chosen() -> None:
    report = await skillwire.verify(make_server("list-without-ttl"), revisions=[LEGACY])
    assert report.findings == ()
    assert [revision.revision for revision in report.revisions] == [LEGACY]


async def test_a_requested_revision_that_is_not_supported_cannot_be_verified() -> None:
    with pytest.raises(
        SourceError, match=r"in this process cannot be verified \(protocol 2026-07-28\): .*-32601"
    ):
        await skillwire.verify(make_server("no-modern"), revisions=[MODERN])


async def test_a_rule_or_a_whole_requirement_can_be_ignored() -> None:
    for name in ("ENT-3/size", "ENT-3"):
        report = await skillwire.verify(make_server("size-wrong"), ignore=[name])
        assert (report.findings, report.ignored) == ((), (name,))
    with pytest.raises(SourceError, match="ENT-33 is not a rule"):
        await skillwire.verify(make_server(), ignore=["ENT-33"])


async def test_the_number_of_skills_read_is_limited_but_the_listing_is_complete() -> None:
    report = await skillwire.verify(make_server(), max_skills=1)
    assert report.findings == ()
    assert [(revision.listed, revision.checked) for revision in report.revisions] == [(3, 1)] * 2


async def test_the_number_of_bytes_read_is_limited() -> None:
    report = await skillwire.verify(make_server(), max_bytes=4000)
    assert report.findings == ()
    assert all(revision.skipped_requests > 20 for revision in report.revisions)


@pytest.mark.process
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ftp://example.org/mcp", "not an http"),
        ("http://", "not an http"),
        ("http://[::1/mcp", "not an http"),
        ("http://127.0.0.1:99999/mcp", "not an http"),
        ("unclosed 'quote", "not a command line"),
        ("", "empty"),
        ([], "empty"),
        (7, "type int is not a server"),
        ("no-such-command-of-skillwire --x", "is not installed"),
    ],
)
async def test_an_invalid_target_is_refused(target: object, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        await skillwire.verify(target)


async def test_what_could_be_secret_in_a_target_is_not_shown() -> None:
    with pytest.raises(SourceError) as caught:
        await skillwire.verify("http://me:secret@127.0.0.1:9/mcp?key=secret", token="secret")
    assert "secret" not in str(caught.value)
    assert "http://127.0.0.1:9/mcp" in str(caught.value)


def test_every_remark_of_the_linter_has_a_rule() -> None:
    """The linter's advice is read from its source: a new remark wants a rule of its own."""
    source = Path(skillwire.__file__).parent / "skill"
    remarks = set(re.findall(r'_advise\(\s*"([a-z-]+)"', (source / "lint.py").read_text("utf-8")))
    assert {"description-when", "body-lines", "reference-missing"} <= remarks
    assert remarks - {"metadata-reserved"} <= {rule.id.removeprefix("LINT/") for rule in RULES}
