"""The adapters under test: all of them, or `--adapter NAME` for one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.contract.driver import driver_of

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
    return driver_of(adapter, monkeypatch)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
