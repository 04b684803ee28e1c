"""Fixtures for tests of a host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from served import SKILLWIRE
from skillwire.host import ServerConfig
from trees import write_skill


@pytest.fixture(params=["auto", "legacy"])
def notes_server(request: pytest.FixtureRequest, tmp_path: Path) -> ServerConfig:
    """A server in a process of its own, with the skill `notes` of the folder `skills`, on both eras."""
    era: Any = request.param
    write_skill(tmp_path / "skills/notes", {"references/a.md": b"# A\n"})
    command = (SKILLWIRE, "serve", str(tmp_path / "skills"))
    return ServerConfig(command=command, era=era, connect_seconds=60)
