"""Every adapter keeps the contract of `contract/checks.py`, with the real package of its framework."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from environments import environment

HERE = Path(__file__).parent
CONTRACT = HERE / "contract"
ADAPTERS = sorted(file.stem.removeprefix("drive_") for file in (CONTRACT / "drivers").glob("drive_*.py"))
CHECKS = (CONTRACT / "checks.py").read_text("utf-8").count("def test_")
SECONDS = 600


@pytest.mark.process
@pytest.mark.peer
def test_every_adapter_keeps_the_contract(tmp_path: Path) -> None:
    # One process for all: most of what each would take is the import of pytest, the SDK and its framework.
    done = subprocess.run(
        [environment("frameworks"), "-m", "pytest", "-c", "pytest.ini", "--confcutdir=.", "checks.py",
         f"--basetemp={tmp_path / 'runs'}"],
        cwd=CONTRACT,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(rf"^{CHECKS * len(ADAPTERS)} passed in", done.stdout, re.MULTILINE), done.stdout


def test_every_adapter_is_held_to_the_contract() -> None:
    source = HERE.parent.parent / "src/skillwire/adapters"
    # Not held to it: what adapters share, and one that writes folders and runs no tools.
    others = {"__init__", "calls", "claude_agent_sdk"}
    adapters = {file.stem for file in source.glob("*.py")} - others
    assert adapters <= set(ADAPTERS)


@pytest.mark.parametrize(
    "file", sorted((HERE.parent.parent / "src/skillwire/adapters").glob("*.py")), ids=str
)
def test_an_adapter_is_small(file: Path) -> None:
    if file.stem != "calls":  # What all adapters share.
        assert len(file.read_text("utf-8").splitlines()) < 150
