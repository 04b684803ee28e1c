"""Reads and writes lines on file descriptors without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

from skillwire.limits import DEFAULT_LIMITS

_CHUNK: Final = 1 << 16
_READ_AHEAD: Final = 4
# What a writable pipe accepts atomically, according to POSIX.
_PIPE_BUF: Final = getattr(select, "PIPE_BUF", 0)
# The size of the pipe for responses, if it can be set: the maximum for every user on Linux.
_PIPE_BYTES: Final = 1 << 20
# `select` does not support larger descriptors.
_SELECTABLE: Final = 1024


class LineSplitter:
    """Splits incoming bytes into lines. `None` stands for a line beyond the limit, which is not buffered."""

    def __init__(self, limit: int = DEFAULT_LIMITS.message_bytes) -> None:
        self._limit = limit
        self._held = bytearray()
        self._dropping = False

    @property
    def is_empty(self) -> bool:
        """Whether the next byte begins a line."""
        return not self._held and not self._dropping

    def take(self, chunk: bytes) -> list[bytes | None]:
        """The lines that this chunk completes."""
        *ends, rest = chunk.split(b"\n")
        lines: list[bytes | None] = []
        for end in ends:
            if not self._dropping:
                lines.append(bytes(self._held) + end if self._held else end)
            self._held.clear()
            self._dropping = False
        if not self._dropping:
            self._held += rest
        if len(self._held) > self._limit:
            lines.append(None)
            self._held.clear()
            self._dropping = True
        return lines

    def rest(self) -> list[bytes | None]:
        """The last line, if the input ended without a line ending."""
        return [bytes(self._held)] if self._held else []


async def lines_from(
    descriptor: int, respond_now: Callable[[bytes], bytes] | None = None
) -> AsyncGenerator[list[bytes | None]]:
    """The lines as they arrive, several at a time, until the end of input.

    While nothing is queued, `respond_now` gets each chunk first and returns what it did not handle. Pipes and
    sockets are read by the event loop, files by a daemon thread.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(_READ_AHEAD)
    splitter = LineSplitter()
    is_idle = False

    def readable() -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk and respond_now is not None and is_idle and splitter.is_empty:
            chunk = respond_now(chunk)
            if not chunk:
                return
        chunks.put_nowait(chunk)
        if not chunk or chunks.full():
            loop.remove_reader(descriptor)

    watched = _watch(loop, descriptor, readable)
    if not watched:
        threading.Thread(target=_read_all, args=(descriptor, chunks, loop), daemon=True).start()
    try:
        while True:
            is_idle = chunks.empty()
            chunk = await chunks.get()
            is_idle = False
            if not chunk:
                break
            if watched and chunks.empty():
                loop.add_reader(descriptor, readable)
            if lines := splitter.take(chunk):
                yield lines
        if lines := splitter.rest():
            yield lines
    finally:
        if watched:
            loop.remove_reader(descriptor)


def _watch(loop: asyncio.AbstractEventLoop, descriptor: int, readable: object) -> bool:
    try:
        loop.add_reader(descriptor, readable)  # pyright: ignore[reportArgumentType]
    except (OSError, NotImplementedError, PermissionError):
        return False
    return True


def _read_all(descriptor: int, chunks: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # The loop has ended.
        while True:
            try:
                chunk = os.read(descriptor, _CHUNK)
            except OSError:
                chunk = b""
            asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
            if not chunk:
                return


class LineWriter:
    """Writes what the descriptor accepts immediately; a thread writes the rest."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._room = _PipeRoom(descriptor)
        self._turn = asyncio.Lock()
        self._is_torn = False
        self._work: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def write_now(self, data: bytes) -> bool:
        """Write a message if that does not block; false if nothing was written."""
        if self._is_torn or self._turn.locked() or not self._fits(len(data)):
            return False
        _write_all(self._descriptor, data)
        return True

    async def write(self, data: bytes) -> None:
        """Write a message. Nothing is written after a message that was cut off."""
        async with self._turn:
            if self._is_torn:
                return
            if self._fits(len(data)):
                _write_all(self._descriptor, data)
                return
            # A client that does not read must not block other tasks or the shutdown.
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="skillwire-stdout", daemon=True)
                self._thread.start()
            done: asyncio.Future[None] = self._loop.create_future()
            self._work.put((data, done))
            try:
                await done
            except asyncio.CancelledError:
                self._is_torn = True  # Part of it may have been written.
                raise

    def _fits(self, size: int) -> bool:
        if size > _PIPE_BUF:
            return size <= self._room.free()
        return self._descriptor < _SELECTABLE and bool(select.select([], [self._descriptor], [], 0)[1])

    def _run(self) -> None:
        while True:
            data, done = self._work.get()
            error: OSError | None = None
            try:
                _write_all(self._descriptor, data)
            except OSError as failure:
                error = failure
            with suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(_conclude, done, error)


class _PipeRoom:
    """How much can be written to a pipe without blocking; 0 if unknown (not on Linux)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._capacity = 0
        if sys.platform == "linux":
            import fcntl

            # A page of a listing is larger than the default size of a pipe.
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            with suppress(OSError):
                self._capacity = fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)

    def free(self) -> int:
        if sys.platform != "linux" or not self._capacity:
            return 0
        import fcntl
        import termios

        waiting = bytearray(4)
        try:
            fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
        except OSError:
            return 0
        # A pipe consists of pages, and a partly used page counts as full: half of the rest is certainly free.
        return (self._capacity - int.from_bytes(waiting, sys.byteorder)) // 2


def _conclude(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
