"""A host on real servers: our own and one on @olaservo/ext-skills, over stdio and HTTP, on both revisions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.peers import Peers
from interop.processes import listening
from interop.tree import SKILLS
from simulator import agree, make_host
from skillwire.host import ConnectionStatus, ServerConfig
from skillwire.skill import DYNAMIC, path_below, skill_root

pytestmark = [pytest.mark.peer, pytest.mark.anyio]

# It passes over a SKILL.md that opens with a byte order mark.
THEIRS = set(SKILLS) - {"notes"}
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


@pytest.fixture(scope="session")
def peer_url(peers: Peers, folder: Path) -> Iterator[str]:
    """Where a server on @olaservo/ext-skills listens."""
    with listening([*peers.skills_server, str(folder), "--http"]) as url:
        yield url


@pytest.fixture(params=["ours over stdio", "ours over http", "theirs over stdio", "theirs over http"])
def server(request: pytest.FixtureRequest, peers: Peers, folder: Path) -> tuple[dict[str, object], set[str]]:
    """Where a server is, and the skills that it serves."""
    match request.param:
        case "ours over stdio":
            return {"command": tuple(request.getfixturevalue("stdio_command"))}, set(SKILLS)
        case "ours over http":
            return {"url": request.getfixturevalue("url")}, set(SKILLS)
        case "theirs over stdio":
            return {"command": (*peers.skills_server, str(folder))}, THEIRS
        case _:
            return {"url": request.getfixturevalue("peer_url")}, THEIRS


@pytest.mark.requirement("CAP-4", "LST-1", "ENT-1", "ENT-3", "VER-1", "VER-2", "FMT-8", "FMT-9", "SEC-5")
@pytest.mark.parametrize("era", ERAS)
async def test_every_skill_is_discovered_approved_and_loaded_and_every_file_verified(
    server: tuple[dict[str, object], set[str]], folder: Path, era: str, tmp_path: Path
) -> None:
    place, served = server
    config = ServerConfig(**place, era=era, connect_seconds=60, call_seconds=60)  # type: ignore[arg-type]
    async with make_host(tmp_path, servers={"peer": config}, ask=agree) as host:
        (state,) = host.places.servers()
        assert (state.status, state.era) == (ConnectionStatus.READY, ERAS[era]), state
        assert {skill.uri for skill in host.skills()} == {f"skill://{name}/SKILL.md" for name in served}
        for skill in host.skills():
            loaded = await host.load(skill.handle)
            assert "the MCP server peer" in loaded.text
            root = skill_root(skill.uri)
            assert skill.entry.resources is not DYNAMIC
            for resource in skill.entry.resources:
                path = "/".join(path_below(resource.uri, root))
                file = await host.read_bytes(skill.handle, path)
                assert file.data == (folder / root.removeprefix("skill://") / path).read_bytes(), path
        assert [event.message for event in host.log.events_so_far() if event.kind == "failure"] == []
