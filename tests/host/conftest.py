"""Fixtures for tests of a host."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from folder_server import in_thread
from skillwire import SkillServer
from skillwire.host import ServerConfig
from skillwire.server import ServerOptions
from trees import write_skill

AN_HOUR = 3_600_000


@pytest.fixture(params=["auto", "legacy"])
def notes_server(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[ServerConfig]:
    """A server that watches the folder `skills`, with the skills `notes` and `other`, on both eras.

    Its answers are valid for an hour, so a host learns of changes only from notifications.
    """
    era: Any = request.param
    write_skill(tmp_path / "skills/notes", {"references/a.md": b"# A\n"})
    write_skill(tmp_path / "skills/other", {"b.md": b"# B\n"})
    server = SkillServer(tmp_path / "skills", options=ServerOptions(ttl_ms=AN_HOUR))
    with in_thread(server.http_app()) as url:
        yield ServerConfig(url=f"{url}/mcp", era=era, connect_seconds=60)
