"""Watches directories, and reports changes in batches after a short quiet period.

Events come from the operating system, through `watchfiles`, in a thread. Where there are none, mainly on
network file systems, the directories are polled.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.from_thread
import anyio.to_thread

QUIET_MS: Final = 100
"""How long a change waits for others, because programs save files in several steps."""
LONGEST_MS: Final = 400
"""The maximum duration of a batch."""
# `watchfiles` polls once per step. A batch ends at the first poll that finds nothing new, so a change waits
# for one to two steps.
_STEP_MS: Final = QUIET_MS // 2
_TICK_MS: Final = 250
_RETRY_SECONDS: Final = 1.0
# In a burst of this size, events may be lost, because the kernel's queue is finite.
_BURST: Final = 2000
# Polling uses at most a tenth of one CPU.
_POLL_SECONDS: Final = 0.5
_POLL_SHARE: Final = 10
# How often to look for a directory that does not exist yet, if there are no events.
_LOOK_SECONDS: Final = 3.0
# File systems without events for changes that other machines make.
_WITHOUT_EVENTS: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "drvfs", "glusterfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf"}
)
# `watchfiles` blocks the whole process while it starts: 10 ms with a thousand directories, 0.3 s with thirty
# thousand. Clients ask for the first lists before that.
_START_SECONDS: Final = 0.1
_START_SECONDS_PER_SKILL: Final = 1e-4
_MOUNTS: Final = Path("/proc/self/mounts")

Take: TypeAlias = Callable[[frozenset[str] | None], Awaitable[bool]]
"""Handles changed paths, or `None` if anything may have changed; returns false to be called again soon."""

Sleep: TypeAlias = Callable[[float], Awaitable[object]]

_log = logging.getLogger(__name__)


def start_delay(skills: int) -> float:
    """The seconds until so many skills are watched: three with thirty thousand."""
    return _START_SECONDS + skills * _START_SECONDS_PER_SKILL


async def watch_directories(
    directories: Sequence[Path],
    take: Take,
    *,
    cares: Callable[[str], bool],
    skills: int = 0,
    sleep: Sleep = anyio.sleep,
) -> None:
    """Call `take` after every change below the directories that `cares` about, until canceled.

    It starts after the `start_delay` of so many skills, with one call for earlier changes. Without events,
    the directories are polled.
    """
    await sleep(start_delay(skills))
    if not any(map(is_without_events, directories)):
        reason = await _follow_events(directories, take, cares, sleep)
        _log.warning("no events from the file system, so the directories are polled: %s", reason)
    await _poll(take, sleep)


async def await_directories(
    directories: Iterable[Path],
    take: Callable[[Path], Awaitable[bool]],
    *,
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
) -> None:
    """Call `take` with each directory once it exists; ends after all were accepted. Watches the nearest
    existing parents. If `take` returns false, it is called again at the next event.
    """
    await sleep(start_delay(0))
    missing = list(directories)

    async def look() -> None:
        for directory in _existing(missing):
            if await take(directory):
                missing.remove(directory)

    while missing:
        signs = _signs_of(missing)
        above = sorted({Path(sign).parent for sign in signs})
        identities = _identities(above)
        # This includes moved or removed parents.
        telling = signs.union(map(str, above))
        feed = _Feed(above, telling.__contains__, recursive=False)
        if any(map(is_without_events, above)):
            feed.failure = "a file system without events"
        async with anyio.create_task_group() as tasks:
            if feed.failure is None:
                tasks.start_soon(feed.run)
            try:
                while feed.failure is None:
                    if await feed.next_batch() or feed.is_owed:
                        feed.is_owed = False
                        await look()
                        if _signs_of(missing) != signs or _identities(above) != identities:
                            break
            finally:
                feed.stop()
            tasks.cancel_scope.cancel()
        if feed.failure is not None:
            await look()
            await sleep(_LOOK_SECONDS)


def _existing(directories: Iterable[Path]) -> list[Path]:
    return [directory for directory in directories if os.path.isdir(directory)]


def _signs_of(missing: Iterable[Path]) -> frozenset[str]:
    """The paths to wait for, each in an existing directory."""
    signs: set[str] = set()
    for directory in missing:
        # For a dangling link, also its target.
        for path in {os.path.abspath(directory), os.path.realpath(directory)}:
            sign, above = path, os.path.dirname(path)
            while not os.path.isdir(above) and above != os.path.dirname(above):
                sign, above = above, os.path.dirname(above)
            signs.add(os.path.join(os.path.realpath(above), os.path.basename(sign)))
    return frozenset(signs)


def is_without_events(directory: Path, *, mounts: Path = _MOUNTS) -> bool:
    """Whether a directory is on a file system that does not report changes made elsewhere."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False  # not Linux
    inside = os.path.join(directory, "")
    best, kind = "", ""
    for line in lines:
        _, mounted, found, *_ = line.split(" ")
        # Blanks in a path are written in octal.
        at = os.path.join(mounted.replace("\\040", " "), "")
        if inside.startswith(at) and len(at) >= len(best):
            best, kind = at, found
    return kind in _WITHOUT_EVENTS or kind.startswith("fuse.")


async def _poll(take: Take, sleep: Sleep) -> None:
    # Not by `force_polling` of `watchfiles`, which blocks the process while it walks the directories: for as
    # long as a file server does not answer. `take` walks them in a thread.
    while True:
        began = anyio.current_time()
        await take(None)
        await sleep(max(_POLL_SECONDS, _POLL_SHARE * (anyio.current_time() - began)))


async def _follow_events(
    directories: Sequence[Path], take: Take, cares: Callable[[str], bool], sleep: Sleep
) -> str:
    """Follow events, and restart if a directory was replaced. Returns only if the operating system provides
    no events, with the reason.
    """
    while True:
        identities = _identities(directories)
        # A missing directory cannot be watched, so wait for it.
        present = [directory for directory, found in zip(directories, identities, strict=True) if found]
        feed = _Feed(present, cares)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed.run)
            try:
                while await _take_batch(feed, take, sleep) and _identities(directories) == identities:
                    pass
            finally:
                feed.stop()
            tasks.cancel_scope.cancel()
        if feed.failure is not None:
            return feed.failure


async def _take_batch(feed: _Feed, take: Take, sleep: Sleep) -> bool:
    """Pass on changes, if any; false if there will be no more."""
    batch = await feed.next_batch()
    if feed.failure is not None:
        return False
    if batch or feed.is_owed:
        is_burst = len(batch) > _BURST
        is_taken = await take(None if feed.is_owed or is_burst else batch)
        # Once more after a burst, because events may have been lost.
        feed.is_owed = is_burst or not is_taken
        if not is_taken:
            await sleep(_RETRY_SECONDS)
    return True


class _Feed:
    """Batches of changed paths, collected by a thread. An empty batch means that nothing changed. `is_owed`
    means that changes may have been missed, as before the first batch.
    """

    def __init__(
        self, directories: Sequence[Path], cares: Callable[[str], bool], *, recursive: bool = True
    ) -> None:
        self._directories = directories
        self._recursive = recursive
        self._cares = cares
        self._stopping = threading.Event()
        self._waiting: set[str] = set()
        self.is_owed = True
        self.failure: str | None = None
        self._arrived = anyio.Event()

    async def run(self) -> None:
        """Collect until stopped, in a dedicated thread outside of the pool."""
        limiter = anyio.CapacityLimiter(1)
        await anyio.to_thread.run_sync(self._gather, abandon_on_cancel=True, limiter=limiter)

    def stop(self) -> None:
        self._stopping.set()

    async def next_batch(self) -> frozenset[str]:
        """The changes since the last batch, as soon as there are any; empty after a quiet period."""
        await self._arrived.wait()
        self._arrived = anyio.Event()
        batch, self._waiting = frozenset(self._waiting), set()
        return batch

    def _gather(self) -> None:
        # Imported on demand, because it is slow and not every server watches.
        import watchfiles

        def is_wanted(_change: watchfiles.Change, path: str) -> bool:
            return self._cares(path)

        # Our thread may outlive the loop by a moment.
        with suppress(RuntimeError):
            try:
                for changes in watchfiles.watch(
                    *self._directories,
                    watch_filter=is_wanted,
                    step=_STEP_MS,
                    debounce=LONGEST_MS,
                    rust_timeout=_TICK_MS,
                    yield_on_timeout=True,
                    stop_event=self._stopping,
                    raise_interrupt=False,
                    recursive=self._recursive,
                    ignore_permission_denied=True,
                ):
                    self._tell({path for _, path in changes})
            except Exception as error:  # Whatever the error is, polling still works.
                self._tell((), failure=str(error) or type(error).__name__)

    def _tell(self, paths: Iterable[str], *, failure: str | None = None) -> None:
        if not self._stopping.is_set():
            anyio.from_thread.run_sync(self._arrive, paths, failure)

    def _arrive(self, paths: Iterable[str], failure: str | None) -> None:
        self._waiting.update(paths)
        self.failure = failure
        self._arrived.set()


def _identities(directories: Sequence[Path]) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for directory in directories:
        try:
            status = os.stat(directory)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino))
    return found
