"""The adapter under test: `--adapter NAME`."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import simulator


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--adapter", required=True, help="the name of an adapter")


@pytest.fixture
def driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = importlib.import_module(f"contract.drivers.drive_{request.config.getoption('--adapter')}")
    if hasattr(found, "through"):  # An adapter of servers: the simulated ones are reached through it.
        monkeypatch.setattr(simulator, "ServerConfig", found.through)
    return found


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
