"""Real peers under `verify`: they deviate as the page says, on each transport."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

import skillwire
from interop import fastmcp_peer
from interop.peers import PINS, Peers
from interop.processes import listening
from skillwire.limits import DEFAULT_LIMITS

pytestmark = pytest.mark.anyio

# A peer may take long to start on a busy machine, and silence would end the run.
PATIENT = replace(DEFAULT_LIMITS, call_seconds=300)

PAGE = Path(__file__).parents[2] / "docs/verify.md"
ROW = re.compile(r"^\| `([^`]+)` ([\d.]+) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def said(peer: str) -> tuple[str, set[str], set[str]]:
    """The version, violations and advice that the page has for a peer."""
    rows = {row[1]: row for row in ROW.finditer(PAGE.read_text("utf-8"))}
    row = rows[peer]
    return row[2], set(re.findall(r"`([^`]+)`", row[3])), set(re.findall(r"`([^`]+)`", row[4]))


def departures(report: skillwire.Report) -> tuple[set[str], set[str]]:
    """Rules by id, without what is wrong with the text of our sample skills."""
    assert any(revision.files > 10 for revision in report.revisions)
    advice = {finding.rule for finding in report.advice if finding.area != "Advice for authors"}
    return {finding.rule for finding in report.violations}, advice


@pytest.mark.peer
async def test_ext_skills_deviates_as_the_page_says(peers: Peers, folder: Path) -> None:
    pinned, violations, advice = said("@olaservo/ext-skills")
    assert json.loads((PINS / "package.json").read_text())["dependencies"]["@olaservo/ext-skills"] == pinned
    report = await skillwire.verify([*peers.skills_server, str(folder)], limits=PATIENT)
    assert departures(report) == (violations, advice)
    with listening([*peers.skills_server, str(folder), "--http"]) as url:
        assert departures(await skillwire.verify(url, limits=PATIENT)) == (violations, advice)


async def test_fastmcp_deviates_as_the_page_says(folder: Path) -> None:
    installed, violations, advice = said("fastmcp")
    assert version("fastmcp") == installed
    report = await skillwire.verify(fastmcp_peer.make_server(str(folder)))
    assert departures(report) == (violations, advice)


@pytest.mark.peer
async def test_fastmcp_deviates_over_stdio_as_the_page_says(folder: Path) -> None:
    _, violations, advice = said("fastmcp")
    report = await skillwire.verify([sys.executable, fastmcp_peer.__file__, str(folder)], limits=PATIENT)
    assert departures(report) == (violations, advice)
