"""The MCP Inspector verifies every file of every skill that `skillwire serve` gives out."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from interop.peers import Peers
from interop.tree import SKILLS

pytestmark = pytest.mark.peer

INSPECT_SECONDS = 300
ATTEMPTS = 3
"""The Inspector gives a server 15 seconds to start, which a busy machine may need."""


def verify(peers: Peers, era: str, home: Path, *, target: list[str]) -> list[dict[str, Any]]:
    """Let the Inspector list and verify; give its report on each skill."""
    options = ["--method", "skills/list", "--verify", "--require-digests", "--protocol-era", era]
    for attempt in range(1, ATTEMPTS + 1):
        run = subprocess.run(
            [*peers.inspector, *options, *target],
            # The Inspector keeps a catalog of servers at home: a home of its own for each run.
            env={"HOME": str(home), "PATH": str(Path(peers.node).parent)},
            capture_output=True,
            text=True,
            timeout=INSPECT_SECONDS,
            check=False,
        )
        is_late = run.returncode != 0 and re.search("tim(ed|e) ?out", run.stderr, re.IGNORECASE)
        if not is_late or attempt == ATTEMPTS:
            return _reports(run)
    raise AssertionError("unreachable")


def _reports(run: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    remarks = [remark for report in reports for remark in report["conformance"] + report["frontmatter"]]
    bad_files = [file for report in reports for file in report["files"] if file["status"] != "verified"]
    assert (remarks, bad_files, run.returncode) == ([], [], 0), run.stderr
    return reports


def expect_every_file(reports: list[dict[str, Any]], folder: Path) -> None:
    """Every skill was verified, with exactly the files that are in its directory, nested skills' included."""
    verified = {report["uri"]: sorted(unquote(file["uri"]) for file in report["files"]) for report in reports}
    assert verified == {
        f"skill://{skill}/SKILL.md": sorted(
            f"skill://{file.relative_to(folder).as_posix()}"
            for file in (folder / skill).rglob("*")
            if file.is_file()
        )
        for skill in SKILLS
    }
    assert {report["outcome"] for report in reports} == {"verified"}


@pytest.mark.requirement("CAP-4", "ENT-1", "ENT-2", "ENT-3", "FMT-8", "LST-1", "RD-2")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_verifies_every_file_over_http(
    peers: Peers, url: str, folder: Path, era: str, tmp_path: Path
) -> None:
    expect_every_file(verify(peers, era, tmp_path, target=["--server-url", url]), folder)


@pytest.mark.requirement("CAP-4", "ENT-1", "ENT-2", "ENT-3", "FMT-8", "LST-1", "RD-2")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_the_inspector_verifies_every_file_over_stdio(
    peers: Peers, stdio_command: list[str], folder: Path, era: str, tmp_path: Path
) -> None:
    expect_every_file(verify(peers, era, tmp_path, target=["--", *stdio_command]), folder)
