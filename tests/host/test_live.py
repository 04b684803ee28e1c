"""A host that is notified: changes on a server are reported on both revisions, without polling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest

from served import SKILLWIRE
from simulator import Simulator, agree, make_host
from skillwire.errors import ApprovalRequired
from skillwire.host import Event, EventKind, Layer, LocalDirectory, ServerConfig, SkillHost
from skillwire.limits import Limits
from skillwire.trust import Origin
from trees import write, write_skill
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

SWIFT = replace(Limits(), min_ttl_seconds=0.05)


async def hear(host: SkillHost, wanted: Callable[[Event], bool]) -> Event:
    with anyio.fail_after(PATIENCE):
        async for event in host.log.events():
            if wanted(event):
                return event
    raise AssertionError("the host was closed")


async def test_a_new_skill_is_there_without_a_refresh(notes_server: ServerConfig, tmp_path: Path) -> None:
    async with make_host(tmp_path, servers={"shop": notes_server}, ask=agree, limits=SWIFT) as host:
        write_skill(tmp_path / "skills/later")
        await hear(host, lambda event: event.kind is EventKind.ADDED and event.handle == "later")
        assert "later" in {skill.handle for skill in host.skills()}


@pytest.mark.process
async def test_a_server_over_stdio_tells_of_a_new_skill(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/notes")
    command = (SKILLWIRE, "serve", str(tmp_path / "skills"), "--ttl", "3600")
    config = ServerConfig(command=command, connect_seconds=PATIENCE)
    async with make_host(tmp_path, servers={"shop": config}, limits=SWIFT) as host:
        write_skill(tmp_path / "skills/later")
        await hear(host, lambda event: event.kind is EventKind.ADDED and event.handle == "later")


async def test_a_change_to_a_skill_in_use_is_reported_and_revokes_its_approval(
    notes_server: ServerConfig, tmp_path: Path
) -> None:
    async with make_host(tmp_path, servers={"shop": notes_server}, ask=agree, limits=SWIFT) as host:
        await host.load("notes")
        # A supporting file: the listing of resources does not change, so only a subscription tells of it.
        write(tmp_path / "skills/notes/references/a.md", b"# Another\n")
        outdated = await hear(host, lambda event: event.kind is EventKind.OUTDATED)
        assert outdated.message == "notes from MCP server shop changed while it is in use; load it again"
        assert EventKind.REVOKED in {event.kind for event in host.log.events_so_far()}
        with pytest.raises(ApprovalRequired, match="changed since it was approved"):
            await host.read("notes", "references/a.md")
        await host.load("notes")
        assert "# Another" in await host.read("notes", "references/a.md")


async def test_what_is_not_in_use_is_not_reported_as_outdated(
    notes_server: ServerConfig, tmp_path: Path
) -> None:
    async with make_host(tmp_path, servers={"shop": notes_server}, ask=agree, limits=SWIFT) as host:
        await host.load("notes")
        await host.load("other")
        host.release("other")
        write(tmp_path / "skills/other/b.md", b"# New\n")
        write(tmp_path / "skills/notes/references/a.md", b"# New\n")
        await hear(host, lambda event: event.kind is EventKind.OUTDATED)
        assert [event.handle for event in host.log.events_so_far() if event.kind is EventKind.OUTDATED] == [
            "notes"
        ]


async def test_a_quick_server_is_listened_to_only_when_the_slow_ones_have_answered(tmp_path: Path) -> None:
    quick, slow, done = Simulator(), Simulator(), anyio.Event()
    quick.skill("notes")
    slow.skill("orders")
    slow.hold("skills/list", done)
    asked = anyio.Event()

    async def listen(context: Any, params: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    quick.server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listen)
    servers = {label: ServerConfig(instance=sim.server) for label, sim in (("a", quick), ("b", slow))}
    host = make_host(tmp_path, servers=servers)
    async with anyio.create_task_group() as tasks:

        async def answer_late() -> None:
            while not (quick.asked("skills/list") and slow.asked("skills/list")):
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert not asked.is_set()
            done.set()

        tasks.start_soon(answer_late)
        async with host:
            assert {skill.handle for skill in host.skills()} == {"notes", "orders"}
            with anyio.fail_after(PATIENCE):
                await asked.wait()


async def test_a_running_host_knows_new_and_changed_local_skills_without_polling_or_refresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillwire.sources.directory.watch._poll", refuse_to_poll)
    folder = tmp_path / "own"
    write_skill(folder / "notes")
    async with make_host(tmp_path, directories=[folder]) as host:
        with anyio.fail_after(PATIENCE):
            write_skill(folder / "later", {"a.md": b"# A\n"})
            await hear(host, lambda event: event.kind is EventKind.ADDED and event.handle == "later")
        assert "<name>later</name>" in host.catalog()
        with anyio.fail_after(PATIENCE):
            write_skill(folder / "notes", description="Something new.")
            await hear(host, lambda event: event.kind is EventKind.CHANGED and event.handle == "notes")
        assert "Something new." in host.catalog()
        assert "# A" in await load_and_read(host, "later", "a.md")
        with anyio.fail_after(PATIENCE):
            (folder / "later/SKILL.md").unlink()
            await hear(host, lambda event: event.kind is EventKind.REMOVED and event.handle == "later")


async def load_and_read(host: SkillHost, name: str, path: str) -> str:
    await host.load(name)
    return await host.read(name, path)


async def test_flat_command_files_are_followed_too(tmp_path: Path) -> None:
    folder = tmp_path / "commands"
    write(folder / "ship.md", b"Ship it.\n")
    directory = LocalDirectory(Origin.local("mine"), folder, Layer.COMMANDS)
    async with make_host(tmp_path, directories=[directory], style="wayland") as host:
        with anyio.fail_after(PATIENCE):
            write(folder / "db/migrate.md", b"Move it.\n")
            await hear(host, lambda event: event.kind is EventKind.ADDED and event.handle == "db:migrate")
        with anyio.fail_after(PATIENCE):
            write(folder / "ship.md", b"Ship it now.\n")
            await hear(host, lambda event: event.kind is EventKind.CHANGED and event.handle == "ship")


def refuse_to_poll(*_: object) -> None:
    raise AssertionError("this file system has events: nothing is polled")


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looked again and again would have to wait for longer than a test."""
    monkeypatch.setattr("skillwire.sources.directory.watch._LOOK_SECONDS", 60)
    monkeypatch.setattr("skillwire.sources.directory.watch._poll", refuse_to_poll)


@pytest.mark.usefixtures("no_polling")
async def test_a_named_folder_that_is_created_later_is_noticed_by_events_of_the_folders_above(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "deep/down/own"
    async with make_host(tmp_path, directories=[folder]) as host:
        assert [failure.origin for failure in host.log.failures()] == [Origin.local("own")]
        with anyio.fail_after(PATIENCE):
            write_skill(folder / "notes", {"a.md": b"# A\n"})
            await hear(host, lambda event: event.kind is EventKind.ADDED and event.handle == "notes")
        assert not host.log.failures()
        assert "# A" in await load_and_read(host, "notes", "a.md")
        with anyio.fail_after(PATIENCE):
            write_skill(folder / "later")
            await hear(host, lambda event: event.kind is EventKind.ADDED and event.handle == "later")


@pytest.mark.usefixtures("no_polling")
async def test_a_default_folder_that_is_created_later_becomes_part_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    write_skill(home / ".agents/skills/old")
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(home))
    async with make_host(tmp_path, default_directories=True, style="gemini") as host:
        assert [origin.label for origin in host.places.origins()] == ["user"]
        assert not host.log.failures()
        for path, label in ((home / ".claude", "user-claude"), (project / ".agents", "project")):
            with anyio.fail_after(PATIENCE):
                write_skill(path / f"skills/in-{label}")
                added = await hear(host, lambda event, name=f"in-{label}": event.handle == name)
            assert added.kind is EventKind.ADDED
            assert added.origin is not None
            # As after a new start: what came with a project is not the user's own.
            assert (added.origin.label, added.origin.is_own) == (label, path.is_relative_to(home))
        assert [origin.label for origin in host.places.origins()] == ["user", "user-claude", "project"]


async def test_without_watching_a_refresh_finds_the_folders_that_were_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own = tmp_path / "own"
    async with make_host(tmp_path, default_directories=True, directories=[own], watch=False) as host:
        write_skill(tmp_path / ".agents/skills/notes")
        write_skill(own / "mine")
        assert not host.skills()
        await host.refresh()
        assert {skill.handle for skill in host.skills()} == {"notes", "mine"}


async def test_a_folder_that_is_created_inside_the_cache_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "cache/project"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with make_host(tmp_path, default_directories=True, watch=False) as host:
        write_skill(project / ".agents/skills/notes")
        await host.refresh()
        assert not host.skills()
        assert "overlap; move one" in host.log.failures()[0].message
