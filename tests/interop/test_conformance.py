"""The official conformance suite finds nothing to remark on in `skillwire serve --http`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.peers import Peers

pytestmark = pytest.mark.peer

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
BAD = {"FAILURE", "WARNING"}

# Caching attributes came with 2026-07-28, so the suite leaves them out on the older era.
LEFT_OUT_ON_LEGACY = {"sep-2640-skills-list-cache-attributes", "sep-2640-skills-get-cache-attributes"}


def run_scenario(peers: Peers, url: str, scenario: str, era: str, output: Path) -> dict[str, str]:
    """Run one scenario and give each check's status, with its message where it did not succeed."""
    result = peers.run_conformance("server", scenario, era, output, "--url", url)
    checks = json.loads((result / "checks.json").read_text())
    statuses = {
        check["id"]: check["status"] + (f": {check['errorMessage']}" if check["status"] in BAD else "")
        for check in checks
    }
    assert statuses.get("wire-schema-valid") == "SUCCESS", statuses
    return statuses


def not_passed(statuses: dict[str, str]) -> dict[str, str]:
    return {check: status for check, status in statuses.items() if status != "SUCCESS"}


@pytest.mark.requirement("CAP-1", "CAP-2", "CAP-4", "ENT-1", "ENT-2", "ENT-3", "LST-1", "GET-1", "GET-2")
@pytest.mark.parametrize("era", [MODERN, LEGACY])
def test_the_suite_enumerates_skills(peers: Peers, url: str, era: str, tmp_path: Path) -> None:
    statuses = run_scenario(peers, url, "sep-2640-skills-enumeration", era, tmp_path)
    expected = dict.fromkeys(LEFT_OUT_ON_LEGACY, "SKIPPED") if era == LEGACY else {}
    assert not_passed(statuses) == expected
    assert len(statuses) > 30


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("scenario", "checks"),
    [
        pytest.param(
            "sep-2640-skills-manifest",
            5,
            marks=pytest.mark.requirement("CAP-4", "FMT-3", "FMT-7", "RD-1"),
            id="a skill",
        ),
        pytest.param(
            "sep-2640-skills-directory",
            6,
            marks=pytest.mark.requirement("CAP-1", "CAP-4", "DIR-1", "DIR-3"),
            id="directories",
        ),
        pytest.param(
            "sep-2164-resource-not-found",
            3,
            marks=pytest.mark.requirement("CAP-4", "RD-1"),
            id="a resource that does not exist",
        ),
    ],
)
def test_the_suite_reads_resources(
    peers: Peers, url: str, era: str, tmp_path: Path, scenario: str, checks: int
) -> None:
    statuses = run_scenario(peers, url, scenario, era, tmp_path)
    assert not_passed(statuses) == {}
    assert len(statuses) > checks


@pytest.mark.requirement("CAP-4")
def test_the_suite_enumerates_skills_on_the_older_revision_without_sessions(
    peers: Peers, stateless_url: str, tmp_path: Path
) -> None:
    statuses = run_scenario(peers, stateless_url, "sep-2640-skills-enumeration", LEGACY, tmp_path)
    assert not_passed(statuses) == dict.fromkeys(LEFT_OUT_ON_LEGACY, "SKIPPED")
    assert len(statuses) > 30
