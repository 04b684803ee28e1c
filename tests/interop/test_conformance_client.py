"""The official conformance suite finds nothing to remark on in a small client on `SkillHost`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from interop.peers import Peers
from skillwire.host.styles import all_styles

pytestmark = pytest.mark.peer

CLIENT = Path(__file__).parent / "conformance_client.py"
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def run_client(
    peers: Peers, scenario: str, era: str, folder: Path, styles: str = "spec"
) -> tuple[dict[str, str], list[str]]:
    """Each check's status, with its message if it has one, and the lines that the client printed."""
    command = f"{sys.executable} {CLIENT} {era} {styles} {folder / 'state'}"
    result = peers.run_conformance("client", scenario, ERAS[era], folder / "out", "--command", command)
    # A check that was skipped leaves the exit code at 0, so the code alone proves nothing.
    statuses = {
        check["id"]: f"{check['status']} {check.get('errorMessage') or ''}".strip()
        for check in json.loads((result / "checks.json").read_text())
    }
    said = (result / "stdout.txt").read_text().splitlines()
    return statuses, said


@pytest.mark.requirement("VER-5", "CAP-4")
@pytest.mark.parametrize("era", ERAS)
def test_the_suite_sees_that_nothing_is_fetched_ahead_of_need_in_any_style(
    peers: Peers, era: str, tmp_path: Path
) -> None:
    styles = [style.name for style in all_styles()]
    statuses, said = run_client(peers, "sep-2640-client-no-prefetch", era, tmp_path, ",".join(styles))
    assert statuses == {"sep-2640-host-no-prefetch": "SUCCESS"}
    assert said == [f"era {ERAS[era]}", "listed pdf-processing"] * len(styles)


@pytest.mark.requirement("VER-1", "VER-2", "VER-6", "CAP-4")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("scenario", "check", "error"),
    [
        ("sep-2640-client-verify-digest", "sep-2640-host-verify-digest", "DigestMismatch"),
        ("sep-2640-client-verify-size", "sep-2640-host-size-mismatch-failure", "SizeMismatch"),
        ("sep-2640-client-verify-frontmatter", "sep-2640-host-frontmatter-comparison", "FrontmatterMismatch"),
    ],
)
def test_the_suite_sees_that_what_does_not_verify_is_not_used(
    peers: Peers, scenario: str, check: str, error: str, era: str, tmp_path: Path
) -> None:
    statuses, said = run_client(peers, scenario, era, tmp_path)
    assert statuses == {check: "SUCCESS"}
    assert said == [f"era {ERAS[era]}", "listed pdf-processing", f"refused {error}"]
