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


@pytest.mark.anyio
@pytest.mark.parametrize("adapter", ["anthropic", "fastmcp", "openai", "pydantic_ai"])
async def test_a_framework_of_the_development_environment_gets_what_was_approved_and_verified(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three checks of the contract; `make peers` has all, for all frameworks."""
    from adapters.contract import checks
    from adapters.contract.driver import driver_of

    driver = driver_of(adapter, monkeypatch)
    await checks.test_a_host_with_ask_asks_there_and_the_text_arrives_fenced(driver, tmp_path / "asks")
    await checks.test_a_no_loads_nothing_and_the_run_continues(driver, tmp_path / "declines")
    await checks.test_a_lying_server_is_refused(driver, tmp_path / "lies")
