"""The adapter under test: `--adapter NAME`."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--adapter", required=True, help="the name of an adapter")


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(f"contract.drivers.drive_{request.config.getoption('--adapter')}")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
