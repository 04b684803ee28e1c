"""MCP over this process's standard input and output.

It replaces the SDK's transport for four reasons: a signal ends it at once, even if the client does not read;
a line that is not JSON-RPC gets an error; small messages are written without a thread; and the fast path
responds before the SDK is imported, to clients of every revision. Everything else that the process prints to
standard output goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import select
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import anyio.abc

from skillwire.documents import JsonObject, is_object
from skillwire.limits import DEFAULT_LIMITS
from skillwire.server.fastpath import (
    ENVELOPE,
    HEAD,
    LISTS,
    VERSION_KEY,
    FastPath,
    FastRequest,
    declares_extension,
    encode,
    is_plain_client,
    plain_id,
)
from skillwire.server.library import Catalog

if TYPE_CHECKING:
    from skillwire.server.attach import SdkSession

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


REVISIONS: Final = ("2025-06-18", "2025-11-25")
"""The revisions that are answered here. In earlier ones tools and prompts have fewer fields."""
_INITIALIZED: Final = "notifications/initialized"
_NO_PARAMS: Final[Mapping[str, object]] = {}
_NAMED: Final = ("experimental", "extensions")
_CAPABILITIES: Final = frozenset({"roots", "sampling", "elicitation", "tasks", *_NAMED})
_NESTING: Final = 6


class EarlySession:
    """One client. `lines` are its first messages, for the SDK; `seen` is the catalog of its first list."""

    def __init__(self, fast_path: FastPath) -> None:
        self._fast_path = fast_path
        self._has_extension = False
        self.lines: list[bytes] = []
        self.seen: Catalog | None = None

    @property
    def is_open(self) -> bool:
        """Whether the client has been greeted."""
        return bool(self.lines)

    async def is_outdated(self) -> bool:
        """Whether the client has a list of something that has changed since."""
        return self.seen is not None and not await self._fast_path.is_current(self.seen)

    async def respond(self, line: bytes) -> bytes | None:
        """The response to a message, which is empty for a notification; `None` if it is for the SDK."""
        message = _parse(line)
        if message is None:
            return None
        method, params = message["method"], message.get("params", _NO_PARAMS)
        if not isinstance(method, str) or not is_object(params):
            return None
        if "id" not in message:
            if method != _INITIALIZED or len(self.lines) != 1 or params:
                return None
            self.lines.append(line)
            return b""
        id_json = plain_id(message["id"])
        if id_json is None:
            return None
        result: JsonObject | None
        if not self.is_open:
            result = await self._greet(line, params) if method == "initialize" else None
        elif method == "ping":
            result = None if _without_progress(params) else {}
        else:
            result = await self._list(method, id_json, params)
        return None if result is None else HEAD + id_json + b',"result":' + encode(result) + b"}"

    async def _greet(self, line: bytes, params: Mapping[str, object]) -> JsonObject | None:
        revision, capabilities = params.get("protocolVersion"), params.get("capabilities")
        if (
            set(params) != {"protocolVersion", "capabilities", "clientInfo"}
            or not isinstance(revision, str)
            or revision not in REVISIONS
            or not is_plain_client(params["clientInfo"])
            or not _are_plain(capabilities)
        ):
            return None
        result = await self._fast_path.introduction(revision)
        if result is not None:
            self._has_extension = declares_extension(capabilities)
            self.lines.append(line)
        return result

    async def _list(self, method: str, id_json: bytes, params: Mapping[str, object]) -> JsonObject | None:
        rest = _without_progress(params)
        cursor = rest.pop("cursor", None)
        if method not in LISTS or rest or ("cursor" in params and cursor is None):
            return None
        if cursor is not None and not isinstance(cursor, str):
            return None
        asked = FastRequest(method, id_json, None, cursor, self._has_extension)
        found = await self._fast_path.listing(asked)
        if found is None:
            return None
        listed, catalog = found
        self.seen = self.seen or catalog
        return listed


def _parse(line: bytes) -> Mapping[str, object] | None:
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not is_object(message) or message.get("jsonrpc") != "2.0" or "method" not in message:
        return None
    return message if {"jsonrpc", "id", "method", "params"}.issuperset(message) else None


def _without_progress(params: Mapping[str, object]) -> dict[str, object]:
    """The parameters without a token for progress, which no answer here takes long enough to report."""
    meta = params.get("_meta")
    if not is_object(meta) or meta.keys() - {"progressToken"}:
        return dict(params)
    token = meta.get("progressToken", 0)
    is_plain = isinstance(token, str) or type(token) is int
    return {key: value for key, value in params.items() if key != "_meta" or not is_plain}


def _are_plain(capabilities: object) -> bool:
    """Whether the SDK would accept these capabilities as they are."""
    if not is_object(capabilities) or not _CAPABILITIES.issuperset(capabilities):
        return False
    roots = capabilities.get("roots", _NO_PARAMS)
    if not is_object(roots) or roots.keys() - {"listChanged"} or not _is_boolean(roots.get("listChanged")):
        return False
    return all(
        _is_tree(value, most=2 if key in _NAMED else _NESTING)
        for key, value in capabilities.items()
        if key != "roots"
    )


def _is_boolean(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_tree(value: object, *, most: int) -> bool:
    """Whether a value is an object of objects, as far as `most` levels; below them, anything is."""
    return most == 0 or (
        is_object(value) and all(_is_tree(member, most=most - 1) for member in value.values())
    )


PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

SessionFactory: TypeAlias = Callable[[Callable[[bytes], Awaitable[None]], Catalog | None], "SdkSession"]
"""Creates an SDK session, given the function that writes its messages and the catalog that the client has
seen."""
OnConnect: TypeAlias = Callable[[Callable[[], Awaitable[None]]], None]
"""Gets a function to call after a change. If the client has seen what was before, that function imports the
SDK, which notifies the client."""


async def serve_stdio(
    fast_path: FastPath | None, make_session: SessionFactory, on_connect: OnConnect | None = None
) -> None:
    """Serve one client over descriptors 0 and 1 until it disconnects."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:  # noqa: ASYNC230, PTH123 - opening the null device does not wait
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    await serve_lines(wire_in, wire_out, fast_path, make_session, on_connect)


async def serve_lines(
    wire_in: int,
    wire_out: int,
    fast_path: FastPath | None,
    make_session: SessionFactory,
    on_connect: OnConnect | None = None,
) -> None:
    """Serve one client over a descriptor to read from and one to write to."""
    async with anyio.create_task_group() as tasks:
        conversation = _Conversation(fast_path, make_session, LineWriter(wire_out), tasks)
        if on_connect is not None:
            on_connect(conversation.after_change)
        try:
            async for lines in lines_from(wire_in, conversation.respond_now):
                for line in lines:
                    await conversation.take(line)
            await conversation.end()
        except BrokenPipeError:
            tasks.cancel_scope.cancel()


@dataclass(eq=False)
class _Conversation:
    """One client. Its first request determines the protocol revision. The fast path answers requests of
    2026-07-28 at any time, and those of a 2025 revision until the SDK is there.
    """

    fast_path: FastPath | None
    make_session: SessionFactory
    writer: LineWriter
    tasks: anyio.abc.TaskGroup
    _sdk_session: SdkSession | None = field(default=None, init=False)
    _is_modern: bool = field(default=False, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._early = None if self.fast_path is None else EarlySession(self.fast_path)

    async def take(self, line: bytes | None) -> None:
        async with self._turn:
            if line is None:
                await self.writer.write(_refusal(None))
            elif line.strip() and not await self._respond(line):
                sdk_session = self._sdk_session or await self._open()
                if self.fast_path is not None and not self._is_modern:
                    self._decide_era(line)
                if not await sdk_session.feed(line):
                    await self.writer.write(_refusal(line))

    async def after_change(self) -> None:
        """Import the SDK if the client has to be notified of a change."""
        if self._early is not None and await self._early.is_outdated():
            async with self._turn:
                if self._sdk_session is None:
                    await self._open()

    def respond_now(self, chunk: bytes) -> bytes:
        """Send cached responses to the first requests of a chunk. Returns the rest of the chunk."""
        start = 0
        while self.fast_path is not None and (end := chunk.find(b"\n", start)) >= 0:
            found = self.fast_path.cached(chunk[start:end])
            if found is None:
                break
            id_json, cached = found
            try:
                if not self.writer.write_now(cached.to(id_json) + b"\n"):
                    break
            except BrokenPipeError:
                break  # The next write raises it again, and ends the connection.
            start = end + 1
        return chunk[start:] if start else chunk

    async def end(self) -> None:
        if self._sdk_session is not None:
            await self._sdk_session.end()

    async def _respond(self, line: bytes) -> bool:
        """Respond from the fast path; false if the request is for the SDK."""
        if self.fast_path is None:
            return False
        if self._early is not None and not self._is_modern:
            answer = await self._early.respond(line)
            if answer:
                await self.writer.write(answer + b"\n")
            if answer is not None or self._early.is_open:
                return answer is not None
        request = self.fast_path.parse(line)
        response = None if request is None else await self.fast_path.respond(request)
        if response is None:
            return False
        self._is_modern = True
        await self.writer.write(response + b"\n")
        return True

    async def _open(self) -> SdkSession:
        # Importing the SDK takes a while; in a thread, signals are handled meanwhile.
        early, self._early = self._early, None
        seen = None if early is None else early.seen
        sdk_session = await asyncio.to_thread(self.make_session, self.writer.write, seen)
        self._sdk_session = sdk_session
        sdk_session.start(self.tasks)
        if self._is_modern:
            await sdk_session.open_modern(dict(ENVELOPE))
        elif early is not None and early.is_open:
            self.fast_path = None
            await sdk_session.resume(early.lines)
        return sdk_session

    def _decide_era(self, line: bytes) -> None:
        """The SDK determines the revision. The 2025 revisions have no fast path beside the SDK."""
        try:
            message: object = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not is_object(message) or "method" not in message or "id" not in message:
            return
        params = message.get("params")
        meta = params.get("_meta") if is_object(params) else None
        self._is_modern = message["method"] != "initialize" and is_object(meta) and VERSION_KEY in meta
        if not self._is_modern:
            self.fast_path = None


def _refusal(line: bytes | None) -> bytes:
    """The JSON-RPC error for a line that is not a message; `None` stands for one that is too long."""
    identity: object = None
    code, message = INVALID_REQUEST, "Not a JSON-RPC 2.0 message"
    if line is None:
        message = f"The message has more than {DEFAULT_LIMITS.message_bytes} bytes"
    else:
        try:
            value: Any = json.loads(line)
        except (ValueError, RecursionError):
            code, message = PARSE_ERROR, "Not valid JSON"
        else:
            if is_object(value):
                given = value.get("id")
                identity = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": identity, "error": error}).encode() + b"\n"
