"""Watching directories: what changed is told in batches, each after a short quiet spell.

Events come from the operating system, through `watchfiles`, in a thread of their own. Where there are none,
on network file systems above all, the directories are polled instead.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.from_thread
import anyio.to_thread

QUIET_MS: Final = 100
"""The longest that one change waits for others: whoever saves a file in steps is done by then."""
LONGEST_MS: Final = 400
"""A batch ends after so long, however busy it is."""
# `watchfiles` looks every so often, at times of its own. A change waits for the next look, and a batch ends
# at the first look after it that finds nothing new: between one step and two.
_STEP_MS: Final = QUIET_MS // 2
_TICK_MS: Final = 250
_RETRY_SECONDS: Final = 1.0
# In a burst of this size events get lost: the kernel's queue is finite.
_BURST: Final = 2000
# Polling takes at most a tenth of one processor.
_POLL_SECONDS: Final = 0.5
_POLL_SHARE: Final = 10
# A directory that is not there yet is looked for this often where no event can tell of it.
_LOOK_SECONDS: Final = 3.0
# File systems whose changes, made elsewhere, cause no event here.
_WITHOUT_EVENTS: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "drvfs", "glusterfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf"}
)
# A process that uses less than this share of a processor for this long is idle.
_IDLE_SECONDS: Final = 0.1
_IDLE_SHARE: Final = 0.2
_IDLE_WAITS: Final = 30
_MOUNTS: Final = Path("/proc/self/mounts")

Take: TypeAlias = Callable[[frozenset[str] | None], Awaitable[bool]]
"""Takes in changed paths, or `None` when anything may have changed; false asks to be called again soon."""

_log = logging.getLogger(__name__)


async def wait_until_idle(sleep: Callable[[float], Awaitable[object]]) -> None:
    """Wait until this process uses next to no processor time, for a few seconds at most.

    `sleep` is that of the event loop in use.
    """
    for _ in range(_IDLE_WAITS):
        before = time.process_time()
        await sleep(_IDLE_SECONDS)
        if time.process_time() - before < _IDLE_SHARE * _IDLE_SECONDS:
            return


async def watch_directories(
    directories: Sequence[Path], take: Take, *, cares: Callable[[str], bool], poll: bool | None = None
) -> None:
    """Call `take` after every change below the directories that `cares` about, until cancelled.

    It begins when the process has a moment, and calls once then, for what changed before anybody watched.
    `poll` looks again and again instead of waiting for events; by default only where there are none.
    """
    # To begin takes a second where there are thousands of directories, and nothing else runs meanwhile.
    await wait_until_idle(anyio.sleep)
    if poll is None:
        poll = any(map(is_without_events, directories))
    if not poll:
        reason = await _follow_events(directories, take, cares)
        _log.warning("no events from the file system, so the directories are polled: %s", reason)
    await _poll(take)


async def await_directories(directories: Iterable[Path], take: Callable[[Path], Awaitable[bool]]) -> None:
    """Call `take` with each directory once it is there; ends when all were taken.

    Events of the nearest directories above them tell of it. False asks to be called at the next event.
    """
    await wait_until_idle(anyio.sleep)
    missing = list(directories)

    async def look() -> None:
        for directory in _present(missing):
            if await take(directory):
                missing.remove(directory)

    while missing:
        signs = _signs_of(missing)
        above = sorted({Path(sign).parent for sign in signs})
        identities = _identities(above)
        # Also that a directory above was moved or removed.
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
            await anyio.sleep(_LOOK_SECONDS)


def _present(directories: Iterable[Path]) -> list[Path]:
    return [directory for directory in directories if os.path.isdir(directory)]


def _signs_of(missing: Iterable[Path]) -> frozenset[str]:
    """The paths whose appearance may bring a directory: each lies in a directory that is there."""
    signs: set[str] = set()
    for directory in missing:
        # Of a link that leads nowhere yet, also the place that it leads to.
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


async def _poll(take: Take) -> None:
    while True:
        began = anyio.current_time()
        await take(None)
        await anyio.sleep(max(_POLL_SECONDS, _POLL_SHARE * (anyio.current_time() - began)))


async def _follow_events(directories: Sequence[Path], take: Take, cares: Callable[[str], bool]) -> str:
    """Follow events, and start anew whenever a directory was replaced by another.

    It ends only when the operating system gives no events, and says why.
    """
    while True:
        identities = _identities(directories)
        # A directory that is not there cannot be watched. Its return can be waited for.
        present = [directory for directory, found in zip(directories, identities, strict=True) if found]
        feed = _Feed(present, cares)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed.run)
            try:
                while await _take_batch(feed, take) and _identities(directories) == identities:
                    pass
            finally:
                feed.stop()
            tasks.cancel_scope.cancel()
        if feed.failure is not None:
            return feed.failure


async def _take_batch(feed: _Feed, take: Take) -> bool:
    """Hand on what changed, when anything did; false when there will be no more."""
    batch = await feed.next_batch()
    if feed.failure is not None:
        return False
    if batch or feed.is_owed:
        is_burst = len(batch) > _BURST
        is_taken = await take(None if feed.is_owed or is_burst else batch)
        # After a burst once more, when it is quiet: something may have been missed.
        feed.is_owed = is_burst or not is_taken
        if not is_taken:
            await anyio.sleep(_RETRY_SECONDS)
    return True


class _Feed:
    """Batches of changed paths, gathered by a thread. An empty batch says that all is quiet.

    `is_owed` says that anything may have changed unseen, as it may have before the first batch.
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
        """Gather until stopped. A thread of its own, which does not count among those of the pool."""
        limiter = anyio.CapacityLimiter(1)
        await anyio.to_thread.run_sync(self._gather, abandon_on_cancel=True, limiter=limiter)

    def stop(self) -> None:
        self._stopping.set()

    async def next_batch(self) -> frozenset[str]:
        """What changed since the last batch, as soon as there is any; empty after a quiet while."""
        await self._arrived.wait()
        self._arrived = anyio.Event()
        batch, self._waiting = frozenset(self._waiting), set()
        return batch

    def _gather(self) -> None:
        # Imported late: it costs as much as all the rest, and a server that does not watch need not pay.
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
            except Exception as error:  # Whatever it is: without events there is still another way.
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
