"""Fixtures that every test may use."""

from __future__ import annotations

import logging
from collections.abc import Generator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Servers that tests start keep their indexes here, and not in the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def logging_of_its_own() -> Generator[None]:
    """A command sets up logging to standard error; a later test must not inherit that."""
    root = logging.getLogger()
    level, handlers = root.level, set(root.handlers)
    yield
    root.setLevel(level)
    for handler in root.handlers[:]:
        # pytest adds and removes its own handlers around each phase of a test.
        if handler not in handlers and not type(handler).__module__.startswith("_pytest"):
            root.removeHandler(handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
