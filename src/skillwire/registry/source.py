"""StoreSource: the skills of a registry as a `Source`, and the feed that notifies replicas of changes."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from skillwire.catalog.tokenize import Query
from skillwire.errors import SkillNotFound
from skillwire.registry.catalog import ChangeRow, StoreCatalog, View
from skillwire.registry.places import parse_place, root_uri
from skillwire.registry.store import CHANNEL, Store
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, make_uri, shown_uri, skill_root, split_uri
from skillwire.sources.base import Change, DirectoryChild, PagedSource, Read, Validator, listed_directory

T = TypeVar("T")

_POLL_SECONDS: Final = 0.3
# A proxy between this server and PostgreSQL may lose notifications: then changes are seen after this time.
_LOST_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_REMEMBERED: Final = 10_000

_log = logging.getLogger(__name__)


class Feed:
    """Follows the changes of a store: by notifications of PostgreSQL, or by polling SQLite.

    The database numbers its changes. After an interruption the feed continues from the last number that it
    has seen, so nothing is missed. `wait` returns when something new is in `changes`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalog = StoreCatalog(store, View())
        self._new = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._users = 0
        self.number = 0
        self.changes: deque[ChangeRow] = deque(maxlen=_REMEMBERED)

    async def start(self) -> None:
        """Follow the store until `stop` has been called as often as `start`."""
        self._users += 1
        if self._task is None:
            self.number = await _in_thread(self._catalog.last_change)
            self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        self._users -= 1
        if not self._users and self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def wait(self, number: int) -> None:
        """Return as soon as there is a change after `number`."""
        async with self._new:
            await self._new.wait_for(lambda: self.number > number)

    async def catch_up(self) -> None:
        """Read what is new."""
        while rows := await _in_thread(partial(self._catalog.changes_after, self.number)):
            async with self._new:
                self.changes.extend(rows)
                self.number = rows[-1].number
                self._new.notify_all()

    async def _follow(self) -> None:
        failures = 0
        while True:
            try:
                if self._store.is_postgresql:
                    await self._listen()
                else:
                    await self.catch_up()
                    await asyncio.sleep(_POLL_SECONDS)
                failures = 0
            except Exception as error:  # The database is unavailable: what is in memory is still served.
                if not failures:
                    _log.error("changes are not seen while the database is unavailable: %s", error)
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
                failures += 1

    async def _listen(self) -> None:
        """Wait for notifications on a connection of its own, and read the feed at each."""
        import psycopg

        url = self._store.url.set(drivername="postgresql").render_as_string(hide_password=False)
        connection = await psycopg.AsyncConnection.connect(
            url,
            autocommit=True,
            connect_timeout=5,
            application_name="skillwire-feed",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            # After LISTEN: whatever was committed before it is read here, whatever comes later is announced.
            await self.catch_up()
            while True:
                async for _ in connection.notifies(timeout=_LOST_SECONDS):
                    await self.catch_up()
                await self.catch_up()


EVERYTHING: Final = View()
"""Every namespace, in the channel `stable`."""


class _Fresh(Validator):
    """A file of a version never changes; what a channel points to changes with the source's entries."""

    def is_fresh(self) -> bool:
        return True


_FRESH: Final = _Fresh()


class _State(tuple[SkillEntry, ...]):
    """Stands for the listing between two changes. It holds no entries: pages come from the database."""


class StoreSource(PagedSource):
    """The skills of a registry that one caller may see.

    It is listed as a whole only if it is combined with other sources; alone, it is read in pages.
    """

    def __init__(self, store: Store, view: View = EVERYTHING, *, feed: Feed | None = None) -> None:
        self._view = view
        self._catalog = StoreCatalog(store, view)
        self._feed = feed or Feed(store)
        self._state = _State()
        self._seen = 0
        self._listing: tuple[_State, tuple[SkillEntry, ...]] | None = None

    async def open(self) -> None:
        await self._feed.start()
        self._seen = self._feed.number

    async def aclose(self) -> None:
        await self._feed.stop()

    async def list_entries(self) -> Sequence[SkillEntry]:
        state = self.current_entries()
        if self._listing is None or self._listing[0] is not state:
            entries: list[SkillEntry] = []
            while page := await self.list_page(entries[-1].uri if entries else None, 1000):
                entries += page
            self._listing = (self._state, tuple(entries))
        return self._listing[1]

    async def list_page(self, after: SkillUri | None, size: int) -> Sequence[SkillEntry]:
        path = None if after is None else _path_in(after)
        return await _in_thread(partial(self._catalog.page, path, size))

    async def count(self) -> int:
        return await _in_thread(self._catalog.count)

    async def find(self, name: str) -> Sequence[SkillEntry]:
        return await _in_thread(partial(self._catalog.find, name))

    async def search(self, query: Query, limit: int) -> Sequence[SkillEntry]:
        return await _in_thread(partial(self._catalog.search, query, limit))

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        return await _in_thread(partial(self._catalog.entry, uri))

    async def read(self, uri: SkillUri) -> Read:
        return Read(await _in_thread(partial(self._catalog.read, uri)), _FRESH)

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        parts = split_uri(uri)
        if not parts.segments:
            names = await _in_thread(partial(self._catalog.names_in, parts.authority))
            children = [
                DirectoryChild(root_uri(parts.authority, name), name, is_directory=True) for name in names
            ]
        elif len(parts.segments) == 1 and parts.segments[0].startswith("@"):
            children = []  # All skills with one version number: they do not belong together.
        else:
            root = parse_place(uri).root
            try:
                entry = await self.get_entry(child_uri(root, SKILL_FILE))
            except SkillNotFound:
                children = []
            else:
                children = list(listed_directory([entry], uri))
        if not children:
            raise SkillNotFound(f"No directory is served at {shown_uri(uri)}", uri=uri)
        return children

    async def changes(self) -> AsyncGenerator[Change]:
        number = self._feed.number
        while True:
            await self._feed.wait(number)
            rows = [row for row in self._feed.changes if row.number > number and self._concerns(row)]
            number = self._feed.number
            for row in rows:
                yield Change(None if row.files is None else _skill_uri(row))

    def changed_files(self, after: int) -> tuple[bool, frozenset[SkillUri]]:
        """What changed after a number of the feed: whether the listing did, and the files that did."""
        rows = [row for row in self._feed.changes if row.number > after and self._concerns(row)]
        changed = {
            child
            for row in rows
            for child in (_skill_uri(row), *(_file_uri(row, path) for path in row.files or ()))
        }
        return any(row.files is None for row in rows), frozenset(changed)

    @property
    def number(self) -> int:
        """The last change that this source has seen."""
        self.current_entries()
        return self._seen

    def current_entries(self) -> Sequence[SkillEntry]:
        if self._feed.number > self._seen:
            fresh = [row for row in self._feed.changes if row.number > self._seen]
            if any(self._concerns(row) for row in fresh) or len(fresh) < self._feed.number - self._seen:
                self._state = _State()
            self._seen = self._feed.number
        return self._state

    async def refresh(self) -> None:
        await self._feed.catch_up()

    def _concerns(self, row: ChangeRow) -> bool:
        return row.channel == self._view.channel and self._view.has(row.namespace)


async def _in_thread(call: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(call)


def _path_in(uri: SkillUri) -> str:
    parts = split_uri(skill_root(uri))
    return "/".join((parts.authority, *parts.segments, ""))


def _skill_uri(row: ChangeRow) -> SkillUri:
    return child_uri(root_uri(row.namespace, row.name), SKILL_FILE)


def _file_uri(row: ChangeRow, path: str) -> SkillUri:
    return make_uri([row.namespace, row.name, *path.split("/")])
