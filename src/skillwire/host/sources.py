"""The open sources of a host, and the listings of servers that are cached on disk.

A server has a connection; everything else is only opened. Commands use a cached listing for as long as its
server allows. A gateway begins with the last one, expired or not, and connects to its servers then. A listing
is only what the server said: what is loaded from it is approved and verified as always, and an entry that is
out of date is refreshed then (VER-6). The files are the user's alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import anyio
import anyio.to_thread

from skillwire.errors import (
    FormatError,
    Issue,
)
from skillwire.files import make_folder, write_atomic
from skillwire.host.config.server import ServerConfig
from skillwire.host.state import ConnectionStatus, ServerState
from skillwire.host.styles.base import Style
from skillwire.lazy import import_sdk
from skillwire.limits import Limits
from skillwire.skill import Dialect, SkillEntry, SkillUri, parse_uri
from skillwire.sources import Problem, Source
from skillwire.sources.listing import DialectOptions, Listing
from skillwire.sources.mcp import McpSource
from skillwire.trust import ApprovalMode, Origin
from skillwire.wire import entry_as_stored, entry_to_stored

if TYPE_CHECKING:
    from skillwire.host.connection import Connection

_VERSION: Final = 2
_UNREADABLE: Final = (OSError, FormatError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


class ListingCache:
    """Listings by server: by its place and by all that it is given, which may decide what it lists."""

    def __init__(self, directory: Path, *, limits: Limits, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._limits = limits
        self._clock = clock

    async def get(self, config: ServerConfig, *, clock: Callable[[], float]) -> Listing | None:
        """The listing of a server while it is current. `clock` is the one that `good_until` refers to."""
        if config.instance is not None:
            return None
        found = await anyio.to_thread.run_sync(self._read, self._path(config))
        if found is None:
            return None
        listing, seconds = found
        if seconds <= 0:
            return None
        return Listing(
            listing.entries, listing.problems, clock() + seconds, listing.spellings, listing.ttl_seconds
        )

    async def last(self, config: ServerConfig) -> tuple[SkillEntry, ...] | None:
        """Return the last listing of a server, however long ago; `None` if that is not known."""
        if config.instance is not None:
            return None
        found = await anyio.to_thread.run_sync(self._read, self._path(config))
        return None if found is None else found[0].entries

    async def put(self, config: ServerConfig, listing: Listing) -> None:
        """Store a listing. A full disk only costs speed."""
        if config.instance is None:
            await anyio.to_thread.run_sync(self._write, self._path(config), listing)

    async def expire(self, config: ServerConfig) -> None:
        """The listing of a server is known to be out of date: it is `last`, and no longer current."""
        if config.instance is None:
            await anyio.to_thread.run_sync(self._expire, self._path(config))

    def forget(self, config: ServerConfig) -> None:
        """Delete the listing of a server: the next caller may get another."""
        with suppress(OSError):
            self._path(config).unlink()

    def _path(self, config: ServerConfig) -> Path:
        identity = [
            config.url,
            list(config.command),
            config.directory,
            config.token,
            sorted(config.headers.items()),
            sorted(config.env.items()),
            config.era,
            config.accept_drafts,
            config.bare_scan,
        ]
        return self._directory / f"{hashlib.sha256(json.dumps(identity).encode()).hexdigest()}.json"

    def _write(self, path: Path, listing: Listing) -> None:
        stored = {
            "version": _VERSION,
            "until": self._clock() + listing.ttl_seconds,
            "ttl": listing.ttl_seconds,
            "entries": [entry_to_stored(entry) for entry in listing.entries],
            "spellings": dict(listing.spellings),
            "problems": [
                [
                    problem.place,
                    [[issue.rule, issue.message, issue.fix, issue.file] for issue in problem.issues],
                ]
                for problem in listing.problems
            ],
        }
        with suppress(OSError, ValueError):
            make_folder(path.parent)
            data = json.dumps(stored).encode("utf-8")
            write_atomic(path, hashlib.sha256(data).digest() + data)

    def _expire(self, path: Path) -> None:
        if (stored := self._read(path)) is not None and stored[1] > 0:
            self._write(path, replace(stored[0], ttl_seconds=0.0))

    def _read(self, path: Path) -> tuple[Listing, float] | None:
        """The listing and for how long it is good, which may be over; `None` when there is none of ours."""
        try:
            if path.stat().st_size > self._limits.listing_chars:
                return None
            content = path.read_bytes()
            seal, data = content[: hashlib.sha256().digest_size], content[hashlib.sha256().digest_size :]
            if hashlib.sha256(data).digest() != seal:
                return None
            # It is as it was written, so the entries in it are not checked once more.
            stored = cast("dict[str, Any]", json.loads(data))
            seconds = float(stored["until"]) - self._clock()
            ttl = float(stored["ttl"])
            if stored["version"] != _VERSION:
                return None
            # A clock that was set back must not keep a listing for longer than its server said.
            if seconds > ttl:
                seconds = 0.0
            problems = tuple(
                Problem(str(place), tuple(Issue(rule=r, message=m, fix=x, file=f) for r, m, x, f in issues))
                for place, issues in stored["problems"]
            )
            spellings = {parse_uri(uri): str(text) for uri, text in stored["spellings"].items()}
            entries = tuple([entry_as_stored(entry) for entry in stored["entries"]])
        except _UNREADABLE:
            return None
        return Listing(entries, problems, 0, spellings, ttl), min(seconds, self._limits.max_ttl_seconds)


@dataclass(slots=True)
class Work:
    """The tasks that run for one place, and end together when it is removed from the host."""

    _scopes: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])
    is_over: bool = False

    async def run(self, function: Callable[..., Awaitable[None]], *args: object) -> None:
        """Run a function until it returns or the place is removed."""
        if self.is_over:
            return
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await function(*args)
            finally:
                self._scopes.discard(scope)

    def end(self) -> None:
        self.is_over = True
        for scope in self._scopes:
            scope.cancel()


@dataclass(slots=True)
class LocalSource:
    """A directory, or a source of the user's own."""

    origin: Origin
    source: Source
    is_open: bool = False
    is_followed: bool = False
    work: Work = field(default_factory=lambda: Work())


@dataclass(slots=True)
class ServerSource:
    """An MCP server, with its connection."""

    origin: Origin
    source: McpSource
    config: ServerConfig
    connection: Connection
    is_cached: bool = False
    """Whether its skills come from a listing that was cached by an earlier host."""
    listed: anyio.Event = field(default_factory=anyio.Event)
    stored: Listing | None = None
    """The listing that was stored on disk."""
    directories: tuple[SkillUri, ...] = ()
    """The directories of skills that are followed."""
    listed_at: datetime | None = None
    """When it was last listed."""
    work: Work = field(default_factory=lambda: Work())

    def follow(self) -> None:
        """Subscribe to changes in the directories that are followed, and of the index if there is one."""
        self.connection.follow([*self.directories, *self.source.followed])

    def state(self, dialects: Iterable[Dialect]) -> ServerState:
        """The server for a person to look at, with the dialects that its skills came in."""
        connection = self.connection
        return ServerState(
            origin=self.origin,
            place=self.config.place,
            status=connection.status,
            reason=connection.reason,
            last_output=connection.last_output,
            era=connection.era,
            declares_skills=connection.declaration is not None,
            declared_in=connection.declaration.place if connection.declaration else "",
            directory_read=connection.declaration is not None and connection.declaration.directory_read,
            capabilities=connection.capabilities,
            revisions=connection.revisions,
            explanation=self.source.explanation if connection.status is ConnectionStatus.READY else "",
            dialects=tuple(sorted(dialects, reverse=True)),
            approval_mode=self.config.approval,
            cached=self.is_cached,
            listed_at=self.listed_at,
            list_seconds=self.source.lists_again_after,
            notifies=connection.notifies,
        )


def import_sessions() -> None:
    """Import what connects to servers. The MCP SDK takes a second of processor time, and local skills do
    without it.
    """
    import_sdk()
    import skillwire.host.connection  # noqa: F401 # pyright: ignore[reportUnusedImport]


class _IdleConnection:
    """Stands for a connection until something is asked of the server, so that a command that needs only its
    cached listing does not import the MCP SDK. It reads as an idle one; everything else is the real one's."""

    _VALUES: ClassVar[Mapping[str, object]] = {
        "status": ConnectionStatus.IDLE,
        "reason": "",
        "last_output": (),
        "era": "",
        "declaration": None,
        "capabilities": (),
        "revisions": (),
        "notifies": False,
        "retry_seconds": 0.0,
    }

    def __init__(self, origin: Origin, make: Callable[[], Connection]) -> None:
        self.origin = origin
        self._make = make
        self._real: Connection | None = None
        self._is_made = anyio.Event()

    async def run(self) -> None:
        """Wait until something is asked of the server; then connect, and stay connected."""
        await self._is_made.wait()
        if self._real is not None:
            await self._real.run()

    def __getattr__(self, name: str) -> Any:
        if self._real is None:
            if name in self._VALUES:
                return self._VALUES[name]
            self._real = self._make()
            self._is_made.set()
        return getattr(self._real, name)


async def server_place(
    origin: Origin,
    config: ServerConfig,
    *,
    style: Style,
    limits: Limits,
    listings: ListingCache | None,
    on_change: Callable[[Connection], Awaitable[None]],
    listen_after: anyio.Event | None,
    discover: bool,
    on_remark: Callable[[str], None],
) -> ServerSource:
    """A server that is not connected yet, with its cached listing if there is one."""
    cached = None
    if listings is not None and discover:
        cached = await listings.get(config, clock=anyio.current_time)
    is_lazy = cached is not None or not discover

    def make() -> Connection:
        import_sessions()
        from skillwire.host.connection import Connection

        return Connection(
            origin, config, limits=limits, on_change=on_change, listen_after=listen_after, is_lazy=is_lazy
        )

    connection = cast("Connection", _IdleConnection(origin, make)) if is_lazy else make()
    source = McpSource(
        origin.label,
        connection,
        options=DialectOptions(
            accept_drafts=config.accept_drafts,
            bare_scan=config.bare_scan or style.bare_scan,
            peek=_peek(config, style, limits),
            ask_everyone=style.asks_everyone,
        ),
        on_remark=on_remark,
        limits=limits,
    )
    if cached is not None:
        source.preset(cached)
    return ServerSource(origin, source, config, connection, is_cached=cached is not None)


def _peek(config: ServerConfig, style: Style, limits: Limits) -> Callable[[SkillEntry], bool]:
    """For which skills the frontmatter is read early: with the approval mode `never`, for none (VER-5)."""

    def wanted(entry: SkillEntry) -> bool:
        if config.approval is ApprovalMode.NEVER or not config.selection.admits(entry):
            return False
        if style.refusal(entry, limits):
            return False  # It will be left out, so it is not read.
        if entry.dialect is Dialect.BARE_SCAN:
            return True  # Nothing else says what it is.
        if entry.dialect is Dialect.MANIFEST:
            return style.peek
        return style.peek_index or (style.peek and not entry.description)

    return wanted
