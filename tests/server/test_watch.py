"""A server follows its folders while it runs, however it was created."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from fastmcp import FastMCP
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

from clients import both_eras, call, connected
from served import serving_stdio
from skillwire import FunctionSource, SkillServer, SkillsExtension, add_skills
from skillwire.server import ServerOptions
from skillwire.server.library import ALL_OFF
from skillwire.sources import Change
from skillwire.wire import METHOD_LIST
from trees import skill_md, write, write_skill

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SOON_SECONDS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "a", {"x.txt": b"old"})
    return tmp_path


def low_level(folder: Path) -> Any:
    server = Server("shop")
    add_skills(server, folder)
    return server


def mcp_server(folder: Path) -> Any:
    server = MCPServer("shop")
    add_skills(server, folder)
    return server


def with_extension(folder: Path) -> Any:
    skills = SkillsExtension(folder)
    return MCPServer(
        "shop",
        extensions=[skills],
        middleware=[skills],
        lifespan=skills.lifespan,
        subscriptions=skills.bus,
    )


def fast_mcp(folder: Path) -> Any:
    server: Any = FastMCP("shop")
    add_skills(server, folder)
    return server._mcp_server


def own(folder: Path) -> Any:
    return SkillServer(folder).low_level


every_way = pytest.mark.parametrize("build", [own, low_level, mcp_server, with_extension, fast_mcp])


@every_way
async def test_a_subscriber_of_a_2025_revision_is_notified_however_a_server_was_made(
    folder: Path, build: Callable[[Path], Any]
) -> None:
    told = anyio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.set()

    async with Client(build(folder), mode="legacy", message_handler=hear) as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        await call(client, "resources/subscribe", uri="skill://a")
        write(folder / "a/x.txt", b"new")
        with anyio.fail_after(SOON_SECONDS):
            await told.wait()


@every_way
async def test_a_listener_of_2026_07_28_is_notified_however_a_server_was_made(
    folder: Path, build: Callable[[Path], Any]
) -> None:
    async with (
        Client(build(folder), mode="auto") as client,
        client.listen(resource_subscriptions=["skill://a"]) as events,
    ):
        write(folder / "a/x.txt", b"new")
        with anyio.fail_after(SOON_SECONDS):
            async for event in events:
                assert getattr(event, "uri", None) == "skill://a"
                break


async def test_an_extension_without_its_lifespan_promises_nothing(folder: Path) -> None:
    skills = SkillsExtension(folder)
    server = MCPServer("shop", extensions=[skills], middleware=[skills])
    async with Client(server, mode="legacy") as client:
        assert client.server_capabilities.resources is not None
        assert not client.server_capabilities.resources.subscribe


@pytest.mark.process
async def test_the_first_change_over_stdio_is_notified(folder: Path) -> None:
    def story() -> None:
        with serving_stdio(folder) as served:
            assert served.ask("resources/subscribe", uri="skill://a")["result"] == {}
            write(folder / "a/x.txt", b"new")
            assert served.receive() == {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "skill://a"},
            }
            write_skill(folder / "b")
            changed = [served.receive()["method"].rpartition("notifications/")[2] for _ in range(3)]
            assert sorted(changed) == ["prompts/list_changed", "resources/list_changed", "tools/list_changed"]
            names = [skill["frontmatter"]["name"] for skill in served.ask(METHOD_LIST)["result"]["skills"]]
            assert names == ["a", "b"]

    await anyio.to_thread.run_sync(story)


async def test_without_a_watch_a_new_skill_is_not_seen(folder: Path) -> None:
    async with connected(
        SkillServer(folder, options=ServerOptions(watch=False)).low_level, "2026-07-28"
    ) as client:
        write_skill(folder / "b")
        assert len((await call(client, METHOD_LIST))["skills"]) == 1


async def test_the_servers_own_lifespan_and_its_errors_stay_as_they_were(folder: Path) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def lifespan(server: object) -> AsyncGenerator[str]:
        yield "state"
        ended.append("lifespan")

    server: Any = Server("shop", lifespan=lifespan)
    add_skills(server, folder)
    async with server.lifespan(server) as state:
        assert state == "state"
    assert ended == ["lifespan"]
    with pytest.raises(KeyError, match="mine"):
        async with server.lifespan(server):
            raise KeyError("mine")


async def test_a_source_whose_watch_fails_does_not_stop_the_server(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Blind(FunctionSource):
        async def changes(self) -> AsyncGenerator[Change]:
            raise RuntimeError("no eyes")
            yield

    source = Blind()

    @source.static("made")
    def made() -> str:
        return skill_md("made").decode()

    with caplog.at_level(logging.ERROR):
        async with connected(
            SkillServer(folder, source, options=ServerOptions(legacy_features=ALL_OFF)).low_level,
            "2026-07-28",
        ) as client:
            assert len((await call(client, METHOD_LIST))["skills"]) == 2
    assert "no longer detected: no eyes" in caplog.text


@pytest.mark.requirement("LST-1")
@both_eras
async def test_a_walk_over_pages_that_spans_reloads_sees_all_that_did_not_change_once(
    tmp_path: Path, version: str
) -> None:
    for number in range(20):
        write_skill(tmp_path / f"stays-{number:02}")
        write_skill(tmp_path / f"moves-{number:02}")
    server = SkillServer(tmp_path, options=ServerOptions(page_size=3))
    source: Any = server.library.sources[0]
    async with connected(server.low_level, version) as client:
        for method, key in (
            (METHOD_LIST, "skills"),
            ("resources/list", "resources"),
            ("prompts/list", "prompts"),
        ):
            seen: list[str] = []
            params: dict[str, Any] = {}
            for turn in range(1000):
                page = await call(client, method, **params)
                seen += [item["name"] if key == "prompts" else item["uri"] for item in page[key]]
                # Between any two pages, skills come, go and break, before the place of the walk and after.
                moving = tmp_path / f"moves-{turn % 20:02}"
                shutil.rmtree(moving) if moving.exists() else write_skill(moving)
                write(tmp_path / f"moves-{(turn + 7) % 20:02}/SKILL.md", b"broken")
                await source.rescan()
                if "nextCursor" not in page:
                    break
                params = {"cursor": page["nextCursor"]}
            stays = [item for item in seen if "stays-" in item and not item.endswith("_manifest")]
            assert len(seen) == len(set(seen))
            assert len(stays) == 20
