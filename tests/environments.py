"""Environments of their own for tests that need packages which cannot share one.

`tests/environments/NAME.txt` lists the packages, or `tests/environments/NAME/package.json` those of npm;
`make environments` installs them into `.envs/NAME`, once.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parent.parent


def environment(name: str) -> Path:
    """The Python of an environment; skips the test where it is not set up, and fails it in CI."""
    assert (_ROOT / "tests/environments" / f"{name}.txt").is_file(), (
        f"tests/environments/{name}.txt is missing"
    )
    return _installed(name) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def node_environment(name: str) -> Path:
    """The folder of an environment of npm packages; skips and fails in the same way."""
    assert (_ROOT / "tests/environments" / name / "package.json").is_file(), f"{name} is no such environment"
    return _installed(name)


def _installed(name: str) -> Path:
    folder = _ROOT / ".envs" / name
    if not (folder / "installed").exists():
        message = f"the environment {name} is not set up: run make .envs/{name}/installed"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return folder


def bubblewrap() -> Path:
    """The program `bwrap`: the one of `make .envs/bubblewrap`, or one that is installed."""
    found = _ROOT / ".envs/bubblewrap/usr/bin/bwrap"
    if found.exists():
        return found
    if (installed := shutil.which("bwrap")) is not None:
        return Path(installed)
    message = "there is no bubblewrap: run make .envs/bubblewrap"
    pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return None
