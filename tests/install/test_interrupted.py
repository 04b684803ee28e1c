"""Killed before each of its changes, or failing at each: see `interrupted.py`, which makes the processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from install.interrupted import SCENARIOS

PROGRAM = Path(__file__).with_name("interrupted.py")
SECONDS = 300
FULL = ("add", "update", "force")
DENIED = ("update-without-exchange", "remove")


@pytest.mark.process
@pytest.mark.parametrize(
    ("fault", "scenario"),
    [
        *(("kill", name) for name in SCENARIOS),
        *(("full", name) for name in FULL),
        *(("denied", name) for name in DENIED),
    ],
)
def test_whenever_it_is_interrupted_a_folder_is_old_or_new_and_the_next_command_goes_on(
    tmp_path: Path, fault: str, scenario: str
) -> None:
    ended = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, scenario, fault], capture_output=True, text=True, timeout=SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert document["problems"] == []
    assert document["moments"] > 15  # It was interrupted, and more than once or twice.
