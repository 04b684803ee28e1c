"""LineWriter: whole messages to a descriptor, one after the other, without ever holding up the event loop."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import sys
import threading
from contextlib import suppress
from typing import Final

# What POSIX promises that a pipe takes whole when it is ready.
_PIPE_BUF: Final = getattr(select, "PIPE_BUF", 0)
# `select` knows no descriptor beyond this.
_SELECTABLE: Final = 1024


class LineWriter:
    """Writes at once what the descriptor takes at once; a thread of its own waits for the rest."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._room = _PipeRoom(descriptor)
        self._turn = asyncio.Lock()
        self._is_torn = False
        self._work: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def write_at_once(self, data: bytes) -> bool:
        """Write one message, whole, if that needs no waiting; false when nothing was written."""
        if self._is_torn or self._turn.locked() or not self._takes_at_once(len(data)):
            return False
        _write_all(self._descriptor, data)
        return True

    async def write(self, data: bytes) -> None:
        """Write one message, whole. Nothing is written after one that was cut off."""
        async with self._turn:
            if self._is_torn:
                return
            if self._takes_at_once(len(data)):
                _write_all(self._descriptor, data)
                return
            # A client that does not read must hold up itself, not every other task, nor the end of them.
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="skillwire-stdout", daemon=True)
                self._thread.start()
            done: asyncio.Future[None] = self._loop.create_future()
            self._work.put((data, done))
            try:
                await done
            except asyncio.CancelledError:
                self._is_torn = True  # Who knows how much of it went out.
                raise

    def _takes_at_once(self, size: int) -> bool:
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
    """How much a pipe takes without waiting. Only Linux says, and only of pipes; elsewhere it is nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._capacity = 0
        if sys.platform == "linux":
            import fcntl

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
        # A pipe is kept in pages, and a page that is begun counts whole: half of the rest is surely free.
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
