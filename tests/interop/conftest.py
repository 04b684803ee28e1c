"""Fixtures for tests that run real peers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import NodeMissing, Peers, find_node, install
from interop.processes import SKILLWIRE, listening
from interop.tree import PAGE_SIZE, plant


@pytest.fixture(scope="session")
def peers() -> Peers:
    """The installed npm peers; without Node a skip on a desk, a failure in CI."""
    try:
        return install(find_node())
    except NodeMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="session")
def stdio_command(folder: Path) -> list[str]:
    return [*SKILLWIRE, "serve", str(folder), "--strict", "--page-size", str(PAGE_SIZE)]


@pytest.fixture(scope="session")
def url(stdio_command: list[str]) -> Iterator[str]:
    """Where `skillwire serve --http` listens."""
    with listening([*stdio_command, "--http", "127.0.0.1:0"]) as url:
        yield url


@pytest.fixture(scope="session")
def stateless_url(stdio_command: list[str]) -> Iterator[str]:
    """Where `skillwire serve --http --stateless` listens."""
    with listening([*stdio_command, "--http", "127.0.0.1:0", "--stateless"]) as url:
        yield url
