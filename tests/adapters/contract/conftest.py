"""The adapters under test: all of them, or `--adapter NAME` for one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import simulator

ADAPTERS = sorted(
    file.stem.removeprefix("drive_") for file in (Path(__file__).parent / "drivers").glob("drive_*.py")
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--adapter", action="append", choices=ADAPTERS, help="the name of an adapter")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # Module scope: pytest runs all checks of one adapter before those of the next.
    adapters = metafunc.config.getoption("--adapter") or ADAPTERS
    metafunc.parametrize("adapter", adapters, scope="module")


@pytest.fixture
def driver(adapter: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = importlib.import_module(f"contract.drivers.drive_{adapter}")
    if hasattr(found, "through"):  # An adapter of servers: the simulated ones are reached through it.
        monkeypatch.setattr(simulator, "ServerConfig", found.through)
    return found


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
