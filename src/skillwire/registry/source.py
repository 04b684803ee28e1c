"""StoreSource: the skills of a registry as a `Source`, and the feed that notifies replicas of changes.

Channels say which version of each skill is listed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import sqlalchemy as sa
from packaging.version import InvalidVersion, Version
from sqlalchemy.engine import Connection

from skillwire.catalog import Query
from skillwire.errors import SkillNotFound, SourceError
from skillwire.registry.publications import parse_skill_path, root_uri
from skillwire.registry.queries import ChangeRow, SkillQueries, View, terms_for, trigrams_of
from skillwire.registry.schema import changes, channels, versions
from skillwire.registry.schema import terms as term_counts
from skillwire.registry.store import CHANNEL, Store, new_id, now
from skillwire.skill import (
    SKILL_FILE,
    SkillEntry,
    SkillUri,
    child_uri,
    make_uri,
    shown_uri,
    skill_root,
    split_uri,
)
from skillwire.sources import (
    Change,
    DirectoryChild,
    PagedSource,
    Read,
    SkillValidator,
    Validator,
    listed_directory,
)
from skillwire.text import shown


def current_version(connection: Connection, channel: str, namespace: str, name: str) -> str | None:
    """The version that a channel points to."""
    return connection.execute(
        sa.select(versions.c.version)
        .join(channels, channels.c.version_id == versions.c.id)
        .where(channels.c.channel == channel, channels.c.path == f"{namespace}/{name}/")
    ).scalar()


def is_before(version: str, other: str) -> bool:
    """Whether a version number is lower than another (PEP 440). False if one of them has no such order."""
    try:
        return Version(version) < Version(other)
    except InvalidVersion:
        return False


def point(
    store: Store, connection: Connection, channel: str, namespace: str, name: str, version: int
) -> bool:
    """Point a channel to a version. Returns false if it already did."""
    path = f"{namespace}/{name}/"
    before = connection.execute(
        sa.select(channels.c.id, channels.c.version_id, channels.c.terms, channels.c.text_terms).where(
            channels.c.channel == channel, channels.c.path == path
        )
    ).first()
    if before is not None and before.version_id == version:
        return False
    row = connection.execute(
        sa.select(versions.c.frontmatter, versions.c.text_terms).where(versions.c.id == version)
    ).one()
    description = json.loads(row.frontmatter).get("description")
    terms = terms_for(name, path.rstrip("/"), description if isinstance(description, str) else "")
    known = {"", *terms}
    text = sorted(term for term in json.loads(row.text_terms) if term not in known and " " not in term)
    values = {"version_id": version, "terms": " ".join(terms), "text_terms": " ".join(text)}
    if before is None:
        inserted = connection.execute(
            channels.insert().values(channel=channel, path=path, namespace=namespace, name=name, **values)
        )
        at, changed = new_id(inserted), None
    else:
        at = before.id
        connection.execute(channels.update().where(channels.c.id == at).values(**values))
        changed = _changed_files(connection, before.version_id, version)
    was = _Terms() if before is None else _Terms.of(before.terms, before.text_terms)
    _set_terms(store, connection, at, was, _Terms(frozenset(terms), frozenset(text)))
    _add_change(store, connection, channel, namespace, name, changed)
    return True


def remove(store: Store, connection: Connection, channel: str, namespace: str, name: str) -> None:
    row = connection.execute(
        sa.select(channels.c.id, channels.c.terms, channels.c.text_terms).where(
            channels.c.channel == channel, channels.c.path == f"{namespace}/{name}/"
        )
    ).one()
    connection.execute(channels.delete().where(channels.c.id == row.id))
    _set_terms(store, connection, row.id, _Terms.of(row.terms, row.text_terms), _Terms())
    _add_change(store, connection, channel, namespace, name, None)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of a listed skill: of its name, place and description, and those that only its text has."""

    short: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()

    @classmethod
    def of(cls, short: str, text: str) -> _Terms:
        return cls(frozenset(short.split()), frozenset(text.split()))

    @property
    def anywhere(self) -> frozenset[str]:
        return self.short | self.text


def _set_terms(store: Store, connection: Connection, at: int, before: _Terms, after: _Terms) -> None:
    # Sorted, so that two publications change the counts in the same order and never wait for each other.
    rows = [
        {
            "term": term,
            "skills": (term in after.short) - (term in before.short),
            "anywhere": (term in after.anywhere) - (term in before.anywhere),
        }
        for term in sorted(before.anywhere | after.anywhere)
    ]
    rows = [row for row in rows if row["skills"] or row["anywhere"]]
    if rows:
        _insert_all(store, connection, _COUNT_TERMS, rows)
    if new := sorted(after.short - before.short):
        # Those of which this skill is not the first one have their trigrams.
        first = connection.execute(
            sa.select(term_counts.c.term).where(term_counts.c.term.in_(new), term_counts.c.skills == 1)
        ).scalars()
        parts = [{"trigram": part, "term": term} for term in sorted(first) for part in trigrams_of(term)]
        if parts:
            _insert_all(store, connection, _ADD_TRIGRAMS, parts)
    if store.is_postgresql:
        return
    connection.execute(sa.text("DELETE FROM channel_terms WHERE rowid = :at"), {"at": at})
    if after.anywhere:
        connection.execute(
            sa.text("INSERT INTO channel_terms (rowid, terms) VALUES (:at, :terms)"),
            {"at": at, "terms": " ".join(sorted(after.anywhere))},
        )


_COUNT_TERMS: Final = (
    "terms (term, skills, anywhere)",
    ("text", "bigint", "bigint"),
    "(term) DO UPDATE SET skills = terms.skills + excluded.skills, "
    "anywhere = terms.anywhere + excluded.anywhere",
)
_ADD_TRIGRAMS: Final = ("term_trigrams (trigram, term)", ("text", "text"), "DO NOTHING")


def _insert_all(
    store: Store,
    connection: Connection,
    into: tuple[str, tuple[str, ...], str],
    rows: list[dict[str, Any]],
) -> None:
    """Insert rows: with one statement on PostgreSQL, where a statement for each would cost most of the time
    of a publication."""
    target, types, conflict = into
    names = list(rows[0])
    if not store.is_postgresql:
        values = ", ".join(f":{name}" for name in names)
        statement = f"INSERT INTO {target} VALUES ({values}) ON CONFLICT {conflict}"  # noqa: S608 - our own names
        connection.execute(sa.text(statement), rows)
        return
    arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in zip(names, types, strict=True))
    statement = f"INSERT INTO {target} SELECT * FROM unnest({arrays}) ON CONFLICT {conflict}"  # noqa: S608
    connection.execute(sa.text(statement), {name: [row[name] for row in rows] for name in names})


EVERY_CHANNEL: Final = "*"
"""In the feed: a change that every channel shows."""
NO_CHANNEL: Final = ""
"""In the feed: a change that no channel shows, but every replica has to know."""


def add_changes(
    store: Store, connection: Connection, channel: str, places: Iterable[tuple[str, str]]
) -> None:
    """Tell every replica that the listing of these skills changed, given as namespace and name."""
    for namespace, name in places:
        _add_change(store, connection, channel, namespace, name, None)


def _add_change(
    store: Store,
    connection: Connection,
    channel: str,
    namespace: str,
    name: str,
    changed: Sequence[str] | None,
) -> None:
    inserted = connection.execute(
        changes.insert().values(
            channel=channel,
            namespace=namespace,
            name=name,
            files=None if changed is None else json.dumps(changed, ensure_ascii=False),
            at=now(),
        )
    )
    store.announce(connection, new_id(inserted))


def _changed_files(connection: Connection, before: int, after: int) -> list[str] | None:
    """The paths that differ between two versions; `None` when the frontmatter does: the listing changed."""
    rows = {
        row.id: row
        for row in connection.execute(
            sa.select(versions.c.id, versions.c.frontmatter, versions.c.manifest).where(
                versions.c.id.in_([before, after])
            )
        )
    }
    if json.loads(rows[before].frontmatter) != json.loads(rows[after].frontmatter):
        return None
    was = {path: digest for path, digest, _ in json.loads(rows[before].manifest)}
    now_ = {path: digest for path, digest, _ in json.loads(rows[after].manifest)}
    return sorted(path for path in was.keys() | now_.keys() if was.get(path) != now_.get(path))


T = TypeVar("T")

_SQLITE_POLL_SECONDS: Final = 0.3
# On PostgreSQL notifications come at once; a proxy in between may lose them.
_POLL_SECONDS: Final = 1.5
_RETRY_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
_LISTENING: Final[dict[str, Any]] = {
    "autocommit": True,
    "connect_timeout": 5,
    "application_name": "skillwire-feed",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
_REMEMBERED: Final = 10_000

_log = logging.getLogger(__name__)


class Feed:
    """Follows the changes of a store by asking for them, and on PostgreSQL also by notifications.

    The database numbers its changes. After an interruption the feed continues from the last number that it
    has read, so nothing is missed. `wait` returns when something new is in `changes`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalog = SkillQueries(store, View())
        self._new = asyncio.Condition()
        self._reading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._users = 0
        self._read_at: float | None = None
        self._started = 0.0
        self.number = 0
        self.is_listening = False
        """Whether notifications come. Without them, changes are seen after two seconds at most."""
        self.changes: deque[ChangeRow] = deque(maxlen=_REMEMBERED)

    @property
    def lag_seconds(self) -> float:
        """For how long it has not been possible to ask for changes: about 0 while the database answers."""
        since = time.monotonic() - (self._started if self._read_at is None else self._read_at)
        return max(0.0, since - self._poll_seconds)

    @property
    def has_read(self) -> bool:
        """Whether the database has ever answered."""
        return self._read_at is not None

    @property
    def _poll_seconds(self) -> float:
        return _POLL_SECONDS if self._store.is_postgresql else _SQLITE_POLL_SECONDS

    async def start(self) -> None:
        """Follow the store until `stop` has been called as often as `start`. It may be unavailable: then the
        feed begins when it is there.
        """
        self._users += 1
        if self._tasks:
            return
        self._started = time.monotonic()
        try:
            await self.catch_up()
        except SourceError as error:
            _log.error("waiting for the database: %s", error)
        self._tasks = [asyncio.create_task(self._poll())]
        if self._store.is_postgresql and self._store.listens:
            self._tasks.append(asyncio.create_task(self._listen()))

    async def stop(self) -> None:
        self._users -= 1
        if not self._users:
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def wait(self, number: int) -> None:
        """Return as soon as there is a change after `number`."""
        async with self._new:
            await self._new.wait_for(lambda: self.number > number)

    async def catch_up(self) -> None:
        """Read what is new."""
        async with self._reading:
            if self._read_at is None:
                # Nothing was served before: what happened before it is in what is read from now on.
                self.number = await _in_thread(self._catalog.last_change)
            while rows := await _in_thread(partial(self._catalog.changes_after, self.number)):
                async with self._new:
                    self.changes.extend(rows)
                    self.number = rows[-1].number
                    self._new.notify_all()
            self._read_at = time.monotonic()

    async def _poll(self) -> None:
        """Ask for changes at a fixed interval: a notification may be lost on its way."""
        is_silent = self._read_at is None
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self.catch_up()
            except SourceError as error:
                if not is_silent:
                    _log.error("changes are not seen while the database is unavailable: %s", error)
                is_silent = True
            else:
                if is_silent:
                    _log.warning("the database is available")
                is_silent = False

    async def _listen(self) -> None:
        """Wait for notifications on a connection of its own, and read the feed at each."""
        import psycopg

        settings = {**self._store.connection_settings(), **_LISTENING}
        failures = 0
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(**settings)
                async with connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    if failures:
                        _log.warning("notifications of changes are received again")
                    self.is_listening, failures = True, 0
                    async for _ in connection.notifies():
                        with suppress(SourceError):
                            await self.catch_up()
            except psycopg.Error as error:
                if not failures:
                    _log.error(
                        "notifications of changes are not received, the database is asked every %g s: %s",
                        _POLL_SECONDS,
                        shown(str(error), 200),
                    )
                failures += 1
            finally:
                self.is_listening = False
            await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS)) - 1])


EVERYTHING: Final = View()
"""Every namespace, in the channel `stable`."""


class _Fresh(Validator):
    """A file of a version never changes. Whether a version is there may change with the listing."""

    def is_fresh(self) -> bool:
        return True


_FRESH: Final = _Fresh()


class _Unchanged(SkillValidator):
    """Fresh until the feed has a change of this skill. Publications of other skills do not matter."""

    def __init__(self, source: StoreSource, skill: tuple[str, str]) -> None:
        self._source, self._skill, self._number = source, skill, source.number

    def is_fresh(self) -> bool:
        return self._source.last_change(self._skill) <= self._number


class _State(tuple[SkillEntry, ...]):
    """Stands for the listing between two changes. It holds no entries: pages come from the database."""


class StoreSource(PagedSource):
    """The skills of a registry that one caller may see.

    It is listed as a whole only if it is combined with other sources; alone, it is read in pages.
    """

    def __init__(self, store: Store, view: View = EVERYTHING, *, feed: Feed | None = None) -> None:
        self._view = view
        self._catalog = SkillQueries(store, view)
        self._feed = feed or Feed(store)
        self._state = _State()
        self._seen = 0
        self._changed: dict[tuple[str, str], int] = {}
        self._all_changed = 0
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
        place = parse_skill_path(uri)
        # Not every change of a version that no channel points to is in the feed.
        validator = _FRESH if place.version is not None else _Unchanged(self, (place.namespace, place.name))
        return Read(await _in_thread(partial(self._catalog.read, uri)), validator)

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
            root = parse_skill_path(uri).root
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
            rows = [row for row in _rows_after(self._feed, number) if self._concerns(row)]
            number = self._feed.number
            for row in rows:
                yield Change(None if row.files is None else _skill_uri(row))

    def changed_files(self, after: int) -> tuple[bool, frozenset[SkillUri]]:
        """Return what changed after a number of the feed: whether the listing did, and the files that did."""
        rows = [row for row in _rows_after(self._feed, after) if self._concerns(row)]
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
            fresh = _rows_after(self._feed, self._seen)
            is_complete = len(fresh) >= self._feed.number - self._seen
            concerned = [row for row in fresh if self._concerns(row)]
            if concerned or not is_complete:
                self._state = _State()
            self._changed.update(((row.namespace, row.name), row.number) for row in concerned)
            self._seen = self._feed.number
            if not is_complete or len(self._changed) > _REMEMBERED:
                self._all_changed = self._seen
                self._changed.clear()
        return self._state

    def last_change(self, skill: tuple[str, str]) -> int:
        """The number of the last change that may concern a skill, given as namespace and name."""
        self.current_entries()
        return max(self._all_changed, self._changed.get(skill, 0))

    async def refresh(self) -> None:
        await self._feed.catch_up()

    def _concerns(self, row: ChangeRow) -> bool:
        return row.channel in (self._view.channel, EVERY_CHANNEL) and self._view.has(row.namespace)


def _rows_after(feed: Feed, number: int) -> list[ChangeRow]:
    """Return the remembered changes after a number, oldest first."""
    newest_first = takewhile(lambda row: row.number > number, reversed(feed.changes))
    return list(newest_first)[::-1]


async def _in_thread(call: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(call)


def _path_in(uri: SkillUri) -> str:
    parts = split_uri(skill_root(uri))
    return "/".join((parts.authority, *parts.segments, ""))


def _skill_uri(row: ChangeRow) -> SkillUri:
    return child_uri(root_uri(row.namespace, row.name), SKILL_FILE)


def _file_uri(row: ChangeRow, path: str) -> SkillUri:
    return make_uri([row.namespace, row.name, *path.split("/")])
