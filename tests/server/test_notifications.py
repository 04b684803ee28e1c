"""Clients of both revisions are notified of what they subscribed to and nothing else, and leave no trace."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated

from clients import call, refusal
from folder_server import in_task
from skillwire import FunctionSource, SkillServer
from skillwire.server import ServerOptions
from skillwire.server.notifications import Notifier
from skillwire.sources import Change
from trees import skill_md, write, write_skill
from waiting import until

pytestmark = pytest.mark.anyio

SOON_SECONDS = 60
LISTS = ["prompts/list_changed", "resources/list_changed", "tools/list_changed"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "a", {"refs/x.txt": b"old"})
    write_skill(tmp_path / "team/b")
    return tmp_path


class Heard:
    """What a client was told, as short words: `updated skill://a`, `resources/list_changed`."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._changed = anyio.Event()

    async def take(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.note(f"updated {message.params.uri}")
        elif isinstance(message, types.Notification):
            self.note(str(message.method).removeprefix("notifications/"))

    def note(self, word: str) -> None:
        self.words.append(word)
        self._changed.set()
        self._changed = anyio.Event()

    async def more(self) -> None:
        await self._changed.wait()

    async def all_of(self, *words: str) -> None:
        """Wait until exactly these were heard, in any order."""
        with anyio.fail_after(SOON_SECONDS):
            while len(self.words) < len(words):
                await self._changed.wait()
        assert sorted(self.words) == sorted(words)
        self.words.clear()


@asynccontextmanager
async def legacy(target: Any) -> AsyncGenerator[tuple[Client, Heard]]:
    heard = Heard()
    async with Client(target, mode="legacy", message_handler=heard.take) as client:
        yield client, heard


@asynccontextmanager
async def modern(target: Any, *uris: str) -> AsyncGenerator[Heard]:
    heard = Heard()
    everything = {"resources_list_changed": True, "tools_list_changed": True, "prompts_list_changed": True}
    async with (
        Client(target, mode="auto") as client,
        client.listen(**everything, resource_subscriptions=uris) as events,
        anyio.create_task_group() as tasks,
    ):

        async def listen() -> None:
            async for event in events:
                name = type(event).__name__.removesuffix("ListChanged").lower()
                heard.note(
                    f"updated {event.uri}" if isinstance(event, ResourceUpdated) else f"{name}/list_changed"
                )

        tasks.start_soon(listen)
        yield heard
        tasks.cancel_scope.cancel()


async def subscribe(client: Client, *uris: str) -> None:
    for uri in uris:
        await call(client, "resources/subscribe", uri=uri)


def announcer_of(server: SkillServer) -> Notifier:
    watch = server._watcher  # pyright: ignore[reportPrivateUsage]
    assert watch is not None
    notifier = watch.notifier
    assert notifier is not None
    return notifier


URIS = [
    "skill://a",
    "skill://a/refs",
    "skill://a/refs/x.txt",
    "skill://a/_manifest",
    "skill://team/",
    "skill://index.json",
    "skill://prompt-xml",
    "skill://later",
]


async def the_story(folder: Path, heard: Heard) -> None:
    """Changes on disk, and what a subscriber to `URIS` hears of each."""
    write(folder / "a/refs/x.txt", b"new")
    await heard.all_of(*(f"updated {uri}" for uri in URIS[:4]))
    write(folder / "team/b/SKILL.md", skill_md("b", "Says something else."))
    await heard.all_of(
        *LISTS, "updated skill://team/", "updated skill://index.json", "updated skill://prompt-xml"
    )
    write(folder / "team/b/more.txt", b"more")
    await heard.all_of("updated skill://team/")
    write_skill(folder / "later")
    await heard.all_of(
        *LISTS, "updated skill://later", "updated skill://index.json", "updated skill://prompt-xml"
    )
    (folder / "later/SKILL.md").unlink()
    await heard.all_of(
        *LISTS, "updated skill://later", "updated skill://index.json", "updated skill://prompt-xml"
    )


async def test_a_client_of_a_2025_revision_subscribes_and_is_notified(folder: Path) -> None:
    server = SkillServer(folder)
    async with legacy(server.low_level) as (client, heard):
        capabilities = client.server_capabilities
        assert capabilities.resources == types.ResourcesCapability(subscribe=True, list_changed=True)
        assert capabilities.tools == types.ToolsCapability(list_changed=True)
        assert capabilities.prompts == types.PromptsCapability(list_changed=True)
        await subscribe(client, *URIS)
        await the_story(folder, heard)
        for uri in URIS[1:]:
            await call(client, "resources/unsubscribe", uri=uri)
        write(folder / "a/refs/x.txt", b"newest")
        await heard.all_of("updated skill://a")
    assert announcer_of(server).is_idle


async def test_a_client_of_2026_07_28_listens_and_is_notified(folder: Path) -> None:
    server = SkillServer(folder)
    async with modern(server.low_level, *URIS, "other://not/ours", "no uri at all") as heard:
        await the_story(folder, heard)
    assert announcer_of(server).is_idle


async def test_both_revisions_are_notified_over_http_and_a_session_that_ends_is_forgotten(
    folder: Path,
) -> None:
    server = SkillServer(folder)
    numbers = count()
    async with in_task(server.http_app()) as http:
        async with legacy(http.url) as (client, heard), modern(http.url, "skill://a") as listener:
            await subscribe(client, "skill://a")

            def both_heard() -> bool:
                # The stream on which the server speaks is opened in the background: change until it is there.
                write(folder / "a/refs/x.txt", b"%d" % next(numbers))
                return bool(heard.words and listener.words)

            await until(both_heard)
            assert {*heard.words, *listener.words} == {"updated skill://a"}
        await until(lambda: announcer_of(server).is_idle)


@pytest.mark.parametrize(("watch", "stateless"), [(True, True), (False, False)])
async def test_what_cannot_be_delivered_is_not_promised(folder: Path, watch: bool, stateless: bool) -> None:
    app = SkillServer(folder, options=ServerOptions(watch=watch)).http_app(stateless=stateless)
    async with in_task(app) as http, legacy(http.url) as (client, _):
        capabilities = client.server_capabilities
        assert capabilities.resources is not None
        assert not capabilities.resources.subscribe
        assert not capabilities.resources.list_changed
        assert capabilities.tools is not None
        assert not capabilities.tools.list_changed
        # Clients subscribe to what was never advertised.
        error = await refusal(client, "resources/subscribe", uri="skill://a")
        assert error.code == types.METHOD_NOT_FOUND


async def test_without_a_watch_nothing_is_promised_on_2026_07_28_either(folder: Path) -> None:
    async with Client(
        SkillServer(folder, options=ServerOptions(watch=False)).low_level, mode="auto"
    ) as client:
        assert client.server_capabilities.resources == types.ResourcesCapability(
            subscribe=False, list_changed=False
        )
        with pytest.raises(MCPError):
            async with client.listen(resources_list_changed=True):
                pass


@pytest.mark.slow
async def test_ten_thousand_subscriptions_meet_a_limit_and_the_server_goes_on(folder: Path) -> None:
    server = SkillServer(folder)
    async with legacy(server.low_level) as (client, heard):
        await subscribe(client, "skill://a")
        await subscribe(client, *(f"skill://none/{number}" for number in range(999)))
        for number in range(999, 1100):
            error = await refusal(client, "resources/subscribe", uri=f"skill://none/{number}")
            assert error.code == types.INVALID_PARAMS
            assert "a client can have 1000:" in error.message
        write(folder / "a/refs/x.txt", b"new")
        await heard.all_of("updated skill://a")
    async with Client(server.low_level, mode="auto") as client:
        many = [f"skill://none/{number}" for number in range(10_000)]
        with pytest.raises(MCPError, match="Too many subscriptions"):
            async with client.listen(resource_subscriptions=many):
                pass
    assert announcer_of(server).is_idle


@pytest.mark.parametrize("uri", ["no uri", "skill://a/../b", "file:///etc/passwd"])
async def test_what_is_no_uri_of_a_skill_cannot_be_subscribed_to(folder: Path, uri: str) -> None:
    async with legacy(SkillServer(folder).low_level) as (client, _):
        assert (await refusal(client, "resources/subscribe", uri=uri)).code == types.INVALID_PARAMS


async def test_a_change_that_a_read_saw_first_is_still_notified(folder: Path) -> None:
    async with legacy(SkillServer(folder).low_level) as (client, heard):
        await subscribe(client, "skill://a")
        write(folder / "a/refs/x.txt", b"new")
        await client.read_resource("skill://a/refs/x.txt")
        await heard.all_of("updated skill://a")


async def test_a_connection_that_takes_over_the_watch_is_still_notified(folder: Path) -> None:
    server = SkillServer(folder)
    is_first, may_go = anyio.Event(), anyio.Event()

    async def first() -> None:
        async with legacy(server.low_level):
            is_first.set()
            await may_go.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await is_first.wait()
        async with legacy(server.low_level) as (client, heard):
            await subscribe(client, "skill://a")
            may_go.set()
            write(folder / "a/refs/x.txt", b"new")
            await heard.all_of("updated skill://a")


async def test_any_source_that_can_be_watched_is(folder: Path) -> None:
    class Diary(FunctionSource):
        async def changes(self) -> AsyncGenerator[Change]:
            await written.wait()
            yield Change()

    written = anyio.Event()
    source = Diary()
    async with legacy(SkillServer(source, folder).low_level) as (client, heard):
        await client.list_tools()

        @source.dynamic("diary")
        def diary() -> str:
            return skill_md("diary").decode()

        written.set()
        await heard.all_of(*LISTS)
