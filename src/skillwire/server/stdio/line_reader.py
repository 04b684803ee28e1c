"""Inlet: whole lines from a descriptor, as they arrive, with a limit on each."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final

from skillwire.limits import DEFAULT_LIMITS

_CHUNK: Final = 1 << 16
_READ_AHEAD: Final = 4


class LineSplitter:
    """Cuts what arrives into lines; `None` stands for a line beyond the limit, which is never gathered."""

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
        """What came without an end of line, when nothing more will come."""
        return [bytes(self._held)] if self._held else []


async def lines_from(
    descriptor: int, at_once: Callable[[bytes], bytes] | None = None
) -> AsyncGenerator[list[bytes | None]]:
    """Lines as they arrive, several at a time, until the end of input.

    While nothing waits, what arrives is shown to `at_once` first, which returns what it leaves.
    A pipe or a socket is watched by the event loop, which costs no thread. A file cannot be watched; a thread
    of our own reads it, not one of the pool: nobody waits for it, so a signal need not either.
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
        if chunk and at_once is not None and is_idle and splitter.is_empty:
            chunk = at_once(chunk)
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
