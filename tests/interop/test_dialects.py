"""A host on servers of every dialect: real peers, and our own server cut down to one dialect at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server

from interop.peers import Peers
from served import SKILLWIRE
from simulator import agree, make_host
from skillwire.host import ServerConfig
from skillwire.server import LegacyFeatures, ServerOptions, SkillServer
from skillwire.server.handlers import Context
from skillwire.server.library import ALL_OFF
from skillwire.skill import DYNAMIC, Dialect, path_below, skill_root
from skillwire.wire import EXTENSION_ID
from trees import write_skill

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dialects")
    write_skill(folder / "refunds", {"references/guide.md": b"# Guide\n", "data/raw.bin": bytes(range(256))})
    write_skill(folder / "notes")
    return folder


def only(legacy_features: LegacyFeatures, folder: Path) -> Server[Any]:
    """Our own server without the extension, so that it tells of its skills in one older way alone."""
    server = SkillServer(
        folder, options=ServerOptions(legacy_features=legacy_features, watch=False)
    ).low_level
    del server.extensions[EXTENSION_ID]

    async def undeclared(ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method == "initialize" and isinstance(result, dict):
            result["capabilities"].pop("extensions", None)
        return result

    server.middleware.insert(0, undeclared)
    return server


def without_sizes(folder: Path) -> Server[Any]:
    """Our own server as the draft of summer 2026 had it: no sizes, no advice on keeping answers."""
    server = SkillServer(folder, options=ServerOptions(legacy_features=ALL_OFF, watch=False)).low_level

    async def drafted(ctx: Context, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if isinstance(result, dict) and ctx.method in ("skills/list", "skills/get"):
            for entry in result.get("skills", [result.get("skill")]):
                entry["resources"] = [{"uri": f["uri"], "digest": f["digest"]} for f in entry["resources"]]
            return {key: value for key, value in result.items() if key not in ("ttlMs", "cacheScope")}
        return result

    server.middleware.append(drafted)
    return server


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("dialect", "is_bound"),
    [
        (Dialect.SUMMER_DRAFT, True),
        (Dialect.INDEX_WITH_FRONTMATTER, False),
        (Dialect.INDEX_WITH_DIGESTS, True),
        (Dialect.INDEX, False),
        (Dialect.MANIFEST, True),
        (Dialect.BARE_SCAN, False),
    ],
)
async def test_our_own_server_is_read_in_each_dialect_alone(
    skills: Path, dialect: Dialect, is_bound: bool, era: Any, tmp_path: Path
) -> None:
    off: dict[str, Any] = {"manifests": False, "prompt_xml": False, "tools": "never", "prompts": False}
    server = {
        Dialect.SUMMER_DRAFT: lambda: without_sizes(skills),
        Dialect.INDEX_WITH_FRONTMATTER: lambda: only(LegacyFeatures(**off, index="june-2026"), skills),
        Dialect.INDEX_WITH_DIGESTS: lambda: only(LegacyFeatures(**off, index="early-june-2026"), skills),
        Dialect.INDEX: lambda: only(LegacyFeatures(**off, index="april-2026"), skills),
        Dialect.MANIFEST: lambda: only(
            LegacyFeatures(**{**off, "manifests": True, "list_legacy": True}, index="off"), skills
        ),
        Dialect.BARE_SCAN: lambda: only(ALL_OFF, skills),
    }[dialect]()
    config = ServerConfig(instance=server, era=era, bare_scan=True)
    async with make_host(tmp_path, servers={"peer": config}, ask=agree) as host:
        assert [state.dialects for state in host.places.servers()] == [(dialect,)]
        assert {skill.handle for skill in host.skills()} == {"refunds", "notes"}
        skill = await host.find("refunds")
        assert skill.entry.is_dynamic is not is_bound
        assert "# refunds" in (await host.load("refunds")).text
        for path in ("references/guide.md", "data/raw.bin"):
            file = await host.read_bytes("refunds", path)
            assert (file.data, file.bound) == ((skills / "refunds" / path).read_bytes(), is_bound)


async def test_a_skill_md_among_plain_resources_is_a_skill_that_nobody_confirmed(
    skills: Path, tmp_path: Path
) -> None:
    config = ServerConfig(instance=only(ALL_OFF, skills))
    async with make_host(tmp_path, servers={"peer": config}, ask=agree, style="spec") as host:
        drafts = [skill.entry.draft for skill in host.skills()]
        assert drafts
        assert all(draft is not None and not draft.confirmed for draft in drafts)
        # To load it, and the user's yes to that, confirm nothing; nor does another listing.
        assert "# refunds" in (await host.load("refunds")).text
        await host.refresh()
        loaded = (await host.find("refunds")).entry
        assert loaded.dialect is Dialect.BARE_SCAN
        assert loaded.draft is not None
        assert not loaded.draft.confirmed
        assert loaded.is_dynamic


@pytest.fixture(
    params=[
        pytest.param("fastmcp provider", marks=pytest.mark.process),
        pytest.param("fastmcp extension", marks=pytest.mark.process),
        pytest.param("ext-skills", marks=pytest.mark.peer),
        pytest.param("skillwire", marks=pytest.mark.process),
    ]
)
def peer(request: pytest.FixtureRequest, skills: Path) -> tuple[tuple[str, ...], Dialect]:
    """The command of a real server, and the dialect that it speaks."""
    match request.param:
        case "fastmcp provider":
            return (sys.executable, str(HERE / "fastmcp_provider.py"), str(skills)), Dialect.MANIFEST
        case "fastmcp extension":
            return (sys.executable, str(HERE / "fastmcp_peer.py"), str(skills)), Dialect.FINAL
        case "ext-skills":
            peers: Peers = request.getfixturevalue("peers")
            return (*peers.skills_server, str(skills)), Dialect.FINAL
        case _:
            return (SKILLWIRE, "serve", str(skills)), Dialect.FINAL


async def test_every_real_peer_is_listed_loaded_and_verified(
    peer: tuple[tuple[str, ...], Dialect], skills: Path, tmp_path: Path
) -> None:
    command, dialect = peer
    config = ServerConfig(command=command, connect_seconds=60, call_seconds=60)
    async with make_host(tmp_path, servers={"peer": config}, ask=agree) as host:
        assert [state.dialects for state in host.places.servers()] == [(dialect,)], host.log.events_so_far()
        for name in ("refunds", "notes"):
            skill = await host.find(name)
            await host.load(name)
            assert skill.entry.resources is not DYNAMIC
            for resource in skill.entry.resources:
                path = "/".join(path_below(resource.uri, skill_root(skill.uri)))
                assert (await host.read_bytes(name, path)).data == (skills / name / path).read_bytes()


@pytest.mark.peer
def test_the_command_line_names_the_dialect_that_answered(
    peer: tuple[tuple[str, ...], Dialect], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, dialect = peer
    for variable in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    done = subprocess.run(
        [
            *(SKILLWIRE, "list", "--json", "--no-default-directories", "--timeout", "100"),
            *("--server", f"peer={' '.join(command)}"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert {skill["dialect"] for skill in listed["skills"]} == {dialect.value}
