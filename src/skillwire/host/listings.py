"""ListingCache: what servers listed, cached on disk between commands for as long as each server allows.

A listing is only what the server said: what is loaded from it is approved and verified as always, and an
entry that is out of date is refreshed then (VER-6). The files are the user's alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import anyio.to_thread

from skillwire.errors import FormatError
from skillwire.files import write_atomic
from skillwire.host.config.server import ServerConfig
from skillwire.issues import Issue
from skillwire.limits import Limits
from skillwire.skill.uris import parse_uri
from skillwire.sources.base import Problem
from skillwire.sources.listing import Listing
from skillwire.wire.stored import entry_from_stored, entry_to_stored

_VERSION: Final = 1
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
        return Listing(
            listing.entries, listing.problems, clock() + seconds, listing.spellings, listing.ttl_seconds
        )

    async def put(self, config: ServerConfig, listing: Listing) -> None:
        """Store a listing for as long as its server said. A full disk only costs speed."""
        if config.instance is None:
            await anyio.to_thread.run_sync(self._write, self._path(config), listing)

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
        if listing.ttl_seconds <= 0:
            with suppress(OSError):
                path.unlink()
            return
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
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(path, json.dumps(stored).encode("utf-8"))

    def _read(self, path: Path) -> tuple[Listing, float] | None:
        """The listing and for how long it is good; `None` when there is none that is ours and current."""
        try:
            if path.stat().st_size > self._limits.listing_chars:
                return None
            stored = cast("dict[str, Any]", json.loads(path.read_bytes()))
            seconds = float(stored["until"]) - self._clock()
            ttl = float(stored["ttl"])
            # A clock that was set back must not keep a listing for longer than its server said.
            if stored["version"] != _VERSION or not 0 < seconds <= ttl:
                return None
            problems = tuple(
                Problem(str(place), tuple(Issue(rule=r, message=m, fix=x, file=f) for r, m, x, f in issues))
                for place, issues in stored["problems"]
            )
            spellings = {parse_uri(uri): str(text) for uri, text in stored["spellings"].items()}
            entries = tuple(entry_from_stored(entry) for entry in stored["entries"])
        except _UNREADABLE:
            return None
        return Listing(entries, problems, 0, spellings, ttl), min(seconds, self._limits.max_ttl_seconds)
