"""Killed before each of its changes, or failing at each: see `interrupted.py`, which makes the processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from install.interrupted import SCENARIOS

PROGRAM = Path(__file__).with_name("interrupted.py")
FULL = ("add", "update", "force")
DENIED = ("update-without-exchange", "remove")


@pytest.fixture(scope="module")
def program() -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "scenario"),
    [
        # `update-two` has all moments of `update`.
        *(("kill", name) for name in SCENARIOS if name != "update"),
        *(("full", name) for name in FULL),
        *(("denied", name) for name in DENIED),
    ],
)
def test_whenever_it_is_interrupted_a_folder_is_old_or_new_and_the_next_command_goes_on(
    program: subprocess.Popen[str], tmp_path: Path, fault: str, scenario: str
) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps([str(tmp_path), scenario, fault]) + "\n")
    program.stdin.flush()
    document = json.loads(program.stdout.readline())
    assert document["problems"] == []
    assert document["moments"] > 15  # It was interrupted, and more than once or twice.
