"""Changes on disk are seen within a moment, by events where there are any, and otherwise by polling."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from skillwire import DirectorySource
from skillwire.sources.directory import watch
from skillwire.sources.directory.watch import (
    await_directories,
    is_without_events,
    start_delay,
    watch_directories,
)
from trees import scanned, skill_md, write, write_skill
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], bool]], Awaitable[None]]


@asynccontextmanager
async def watching(source: DirectorySource) -> AsyncGenerator[Until]:
    """Watch a source; give a function that waits until something is so."""
    changed = anyio.Condition()

    async def follow() -> None:
        async with aclosing(source.changes()) as changes:
            async for _ in changes:
                async with changed:
                    changed.notify_all()

    async def until(is_so: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            async with changed:
                while not is_so():
                    await changed.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        yield until
        tasks.cancel_scope.cancel()


def names(source: DirectorySource) -> list[str]:
    return [entry.name for entry in source.snapshot.entries]


async def test_edits_additions_renames_and_deletions_are_seen(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", {"x.txt": b"old"})
    source = scanned([tmp_path])
    async with watching(source) as until:
        write(tmp_path / "a/x.txt", b"newer")
        await until(lambda: source.snapshot.entries[0].total_size == len(skill_md("a")) + len(b"newer"))
        write_skill(tmp_path / "team/b")
        await until(lambda: names(source) == ["a", "b"])
        write_skill(tmp_path / "team/c")
        (tmp_path / "team").rename(tmp_path / "crew")
        await until(
            lambda: [*source.snapshot.skills][1:] == ["skill://crew/b/SKILL.md", "skill://crew/c/SKILL.md"]
        )
        shutil.rmtree(tmp_path / "crew")
        await until(lambda: names(source) == ["a"])


async def test_hundreds_of_files_changed_at_once_are_seen_together(tmp_path: Path) -> None:
    for number in range(300):
        write_skill(tmp_path / f"skill-{number}")
    source = scanned([tmp_path])
    async with watching(source) as until:
        for number in range(300):
            write(tmp_path / f"skill-{number}/SKILL.md", skill_md(f"skill-{number}", "Checked out."))
        await until(lambda: {entry.description for entry in source.snapshot.entries} == {"Checked out."})


async def test_a_skill_that_became_invalid_is_removed_with_a_warning_and_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b")
    source = scanned([tmp_path])
    async with watching(source) as until:
        with caplog.at_level(logging.WARNING, "skillwire"):
            write(tmp_path / "a/SKILL.md", b"---\nname: a\n---\n")
            await until(lambda: names(source) == ["b"])
            write(tmp_path / "a/SKILL.md", skill_md("a"))
            await until(lambda: names(source) == ["a", "b"])
        [line] = [record.getMessage() for record in caplog.records]
        assert str(tmp_path / "a") in line
        assert "description" in line


@pytest.mark.slow
async def test_a_root_that_is_removed_and_restored_is_still_followed(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    write_skill(root / "a")
    source = scanned([root])
    async with watching(source) as until:
        root.rename(tmp_path / "aside")
        await until(lambda: names(source) == [])
        (tmp_path / "aside").rename(root)
        await until(lambda: names(source) == ["a"])
        write_skill(root / "b")
        await until(lambda: names(source) == ["a", "b"])


async def test_what_changed_before_anybody_watched_is_seen_too(tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    source = scanned([tmp_path])
    write_skill(tmp_path / "b")
    async with watching(source) as until:
        await until(lambda: names(source) == ["a", "b"])


async def test_without_events_the_directories_are_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "is_without_events", lambda _directory: True)
    write_skill(tmp_path / "a")
    source = scanned([tmp_path])
    async with watching(source) as until:
        write_skill(tmp_path / "b")
        await until(lambda: names(source) == ["a", "b"])
        write_skill(tmp_path / "c")
        await until(lambda: names(source) == ["a", "b", "c"])


async def test_if_the_system_refuses_events_directories_are_polled_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_paths: Path, **_options: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", refuse)
    write_skill(tmp_path / "a")
    source = scanned([tmp_path])
    async with watching(source) as until:
        write_skill(tmp_path / "b")
        await until(lambda: names(source) == ["a", "b"])
    [line] = [record.getMessage() for record in caplog.records]
    assert "watch limit reached" in line


class Pauses:
    """Takes the place of sleeping: notes the pauses, and waits no longer than other tasks need."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await anyio.lowlevel.checkpoint()


async def test_watching_starts_after_a_pause_that_grows_with_the_number_of_skills(tmp_path: Path) -> None:
    pauses: list[float] = []
    taken: list[object] = []
    asked, may_start, started = anyio.Event(), anyio.Event(), anyio.Event()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        asked.set()
        await may_start.wait()

    async def take(paths: frozenset[str] | None) -> bool:
        taken.append(paths)
        started.set()
        return True

    async def run() -> None:
        await watch_directories([tmp_path], take, cares=lambda _: True, skills=30_000, sleep=sleep)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(PATIENCE):
            await asked.wait()
            await anyio.wait_all_tasks_blocked()
            assert taken == []
            may_start.set()
            await started.wait()
        tasks.cancel_scope.cancel()
    assert pauses == [start_delay(30_000)]
    assert [round(start_delay(skills), 1) for skills in (1, 1000, 30_000)] == [0.1, 0.2, 3.1]


async def test_a_failed_rescan_is_retried_after_a_pause(tmp_path: Path) -> None:
    pauses = Pauses()
    calls: list[object] = []
    done = anyio.Event()

    async def take(paths: frozenset[str] | None) -> bool:
        calls.append(paths)
        if len(calls) == 3:
            done.set()
        return len(calls) >= 3

    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await watch_directories([tmp_path], take, cares=lambda _: True, sleep=pauses)

        tasks.start_soon(run)
        with anyio.fail_after(PATIENCE):
            await done.wait()
        tasks.cancel_scope.cancel()
    assert calls == [None, None, None]
    assert pauses.seconds == [start_delay(0), 1, 1]


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("/srv/skills", False),
        ("/mnt/share", True),
        ("/mnt/share/deep", True),
        ("/mnt/shared", False),
        ("/mnt/with blank/x", True),
        ("/mnt/ssh", True),
    ],
)
def test_network_file_systems_are_known_by_their_mount(
    tmp_path: Path, directory: str, expected: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/share nfs4 rw 0 0\n"
        "//server/x /mnt/with\\040blank cifs rw 0 0\nssh /mnt/ssh fuse.sshfs rw 0 0\n"
    )
    assert is_without_events(Path(directory), mounts=mounts) is expected


def test_a_system_without_a_list_of_mounts_is_taken_to_have_events(tmp_path: Path) -> None:
    assert is_without_events(tmp_path, mounts=tmp_path / "none") is False


@pytest.mark.parametrize("has_events", [True, False])
@pytest.mark.slow
async def test_directories_are_awaited_through_all_that_happens_above_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_events: bool
) -> None:
    pauses = Pauses()
    monkeypatch.setattr(watch, "is_without_events", lambda _: not has_events)
    first, deeper, moved = tmp_path / "a/x", tmp_path / "a/b/c/y", tmp_path / "a/z"
    linked = tmp_path / "link"
    linked.symlink_to(tmp_path / "elsewhere/skills")
    send, receive = anyio.create_memory_object_stream[Path](10)
    refusals = [first]

    async def take(path: Path) -> bool:
        await send.send(path)
        if path in refusals:
            refusals.remove(path)
            return False
        return True

    async with anyio.create_task_group() as tasks, send, receive:
        tasks.start_soon(partial(await_directories, [first, deeper, moved, linked], take, sleep=pauses))
        with anyio.fail_after(PATIENCE):
            first.mkdir(parents=True)
            assert await receive.receive() == first
            first.chmod(0o700)
            assert await receive.receive() == first
            deeper.mkdir(parents=True)
            assert await receive.receive() == deeper
            (tmp_path / "a").rename(tmp_path / "old")
            moved.mkdir(parents=True)
            assert await receive.receive() == moved
            (tmp_path / "elsewhere/skills").mkdir(parents=True)
            assert await receive.receive() == linked
    assert set(pauses.seconds) == ({start_delay(0)} if has_events else {start_delay(0), 3})
