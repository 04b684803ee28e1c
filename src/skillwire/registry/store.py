"""Store: the database of a registry, on PostgreSQL or SQLite. Every call may block: use it from a thread.

One transaction at a time writes the change feed and the audit log, so their numbers follow the order of the
commits. Whoever has read the feed up to a number has seen everything before it.

No call waits longer than `call_seconds` for the database, even if the database neither answers nor closes the
connection: then the connection is abandoned, and for a second every other call is refused at once.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, CursorResult, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from skillwire.consent import Change, Decided, Decision, Key, Record
from skillwire.consent.record import (
    COLUMNS,
    DECISION_COLUMNS,
    HISTORY_COLUMNS,
    MOST_DECISIONS,
    from_row,
    to_row,
)
from skillwire.errors import SkillwireError, SourceError
from skillwire.files import CREATE
from skillwire.registry.schema import consent, consent_history
from skillwire.text import redact_url, shown

if TYPE_CHECKING:
    from alembic.config import Config
    from psycopg.abc import PQGen

T = TypeVar("T")

DEFAULT_URL: Final = "sqlite:///registry.db"
MIGRATIONS: Final = Path(__file__).parent / "migrations"
CHANNEL: Final = "skillwire_changes"
"""Where PostgreSQL announces the number of each change."""
CALL_SECONDS: Final = 5.0
"""How long one call waits for the database."""
LONG_SECONDS: Final = 3600.0
"""How long a statement may take that handles everything at once: a migration, or the end of a restore."""

_PARAMETERS: Final = 400
_READERS: Final = 10
_WRITERS: Final = 4
# Writers take turns: the last of a queue may have to wait for those before it.
_QUEUE_SECONDS: Final = 30.0
_SUSPENDED_SECONDS: Final = 1.0
# Any number, as long as every writer uses the same.
_WRITERS_LOCK: Final = 0x534B494C


class StoreBusy(SourceError):
    """The database works, and others use it: whoever asks again after a while gets an answer."""

    def __init__(self) -> None:
        super().__init__("the registry is busy: try again in some seconds")


class Store:
    """The database behind a registry. Nothing is opened before the first call."""

    def __init__(self, url: str = DEFAULT_URL, *, call_seconds: float = CALL_SECONDS) -> None:
        self.url, self.listens = _parse_url(url)
        self.is_postgresql = self.url.get_backend_name() == "postgresql"
        self.call_seconds = call_seconds
        self.abandoned = 0
        """How many calls were given up because the database did not answer in time."""
        self.damaged = 0
        """How many reads found a file that is not what was published."""
        self._engines: dict[str, Engine] = {}
        self._opening = threading.Lock()
        self._answered = 0.0
        self._suspended = 0.0
        self._trying = threading.Lock()

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    @property
    def place(self) -> str:
        """Where the database is, without its password and its settings."""
        if not self.is_postgresql:
            return f"sqlite:///{self.url.database}"
        user = f"{self.url.username}@" if self.url.username else ""
        port = f":{self.url.port}" if self.url.port else ""
        several = self.url.query.get("host", "")
        host = self.url.host or ("" if isinstance(several, str) else ",".join(several))
        return f"postgresql://{user}{host}{port}/{self.url.database or ''}"

    @property
    def engine(self) -> Engine:
        """The connections of readers."""
        return self._engine("readers")

    def _engine(self, kind: str) -> Engine:
        engine = self._engines.get(kind)
        if engine is None:
            with self._opening:
                engine = self._engines.get(kind)
                if engine is None:
                    size, wait = (_READERS, self.call_seconds) if kind == "readers" else _WRITER_POOL
                    make = self._postgresql if self.is_postgresql else self._sqlite
                    engine = self._engines[kind] = make(size, wait)
        return engine

    def connections(self) -> dict[str, int]:
        """How many connections are in use, by what they are for."""
        return {kind: engine.pool.checkedout() for kind, engine in self._engines.items()}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]

    def connection_settings(self) -> dict[str, Any]:
        """How psycopg connects to the database, for a connection outside the pools."""
        return dict(self.engine.dialect.create_connect_args(self.url)[1])

    def close(self) -> None:
        """Close every connection. The next call opens new ones."""
        with self._opening:
            engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.dispose()

    def create(self, revision: str = "head") -> None:
        """Create the tables, or migrate those of an earlier version."""
        from alembic import command

        config = _migrations()
        with self._block("writers", seconds=LONG_SECONDS, creates=True) as connection, connection.begin():
            if self.is_postgresql:  # If two programs migrate at once, one waits.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITERS_LOCK)))
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

    def check_tables(self) -> None:
        """Raise a `SourceError` if the tables are missing, or are those of another version."""
        from alembic.migration import MigrationContext
        from alembic.script import ScriptDirectory

        newest = ScriptDirectory.from_config(_migrations()).get_current_head()
        with self.reading() as connection:
            current = MigrationContext.configure(connection).get_current_revision()
        if current is None:
            raise SourceError(_no_registry(self.place))
        if current != newest:
            raise SourceError(
                f"the tables in {self.place} are of revision {shown(current)}, this program needs {newest}: "
                "migrate them with skillwire registry init"
            )

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A connection to read with. Each statement sees what was committed before it."""
        with self._block("readers", is_short=True) as connection:
            # Without a transaction around it, which would be two more messages for each statement.
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def snapshot(self, *, seconds: float | None = None) -> Generator[Connection]:
        """A connection for longer reads. All statements see the same snapshot, and each has `seconds`, by
        default those of every call.
        """
        with self._block("readers", seconds=seconds) as connection:
            if self.is_postgresql:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            else:
                connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def writing(self, *, seconds: float | None = None) -> Generator[Connection]:
        """A connection to write with. Everything is committed at the end of the block, or nothing. Each
        statement has `seconds`, by default those of every call.
        """
        with self._block("writers", seconds=seconds) as connection, connection.begin():
            if self.is_postgresql:
                # Not as a setting of the connection: a pooler in between would not pass it on.
                most = round((seconds or self.call_seconds) * 1000)
                connection.exec_driver_sql(
                    f"SET LOCAL statement_timeout = {most}; SET LOCAL lock_timeout = {most}"
                )
            else:
                # SQLite: take the write lock now, and wait for it, not at the first change.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def take_turn(self, connection: Connection) -> None:
        """From here on, one transaction at a time: that is the order of the feed and the audit log."""
        if self.is_postgresql:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITERS_LOCK)))

    def announce(self, connection: Connection, number: int) -> None:
        """Notify the replicas of a change when the transaction is committed."""
        if self.is_postgresql:
            connection.execute(sa.select(sa.func.pg_notify(CHANNEL, str(number))))

    @contextmanager
    def _block(
        self, kind: str, *, is_short: bool = False, seconds: float | None = None, creates: bool = False
    ) -> Generator[Connection]:
        """A connection of a pool. Connecting has `call_seconds`, and then each statement (or `seconds`); a
        short block has them for everything together.
        """
        if not (self.is_postgresql or creates or Path(str(self.url.database)).exists()):
            raise SourceError(_no_registry(self.place))
        outer = _deadline.at, _deadline.seconds
        with self._errors(), self._turn_after_silence():
            _deadline.at, _deadline.seconds = time.monotonic() + self.call_seconds, seconds
            try:
                with self._engine(kind).connect() as connection:
                    _deadline.at = _deadline.at if is_short else None
                    yield connection
                    self._answered = time.monotonic()
            finally:
                _deadline.at, _deadline.seconds = outer

    @contextmanager
    def _turn_after_silence(self) -> Generator[None]:
        """After a call without an answer, one call at a time tries again; the others are refused at once."""
        if not self._suspended:
            yield
            return
        if time.monotonic() < self._suspended or not self._trying.acquire(blocking=False):
            raise SourceError(f"the registry's database {self.place} does not answer: try again later")
        try:
            yield
            self._suspended = 0.0
        finally:
            self._trying.release()

    def abandon(self, started: float) -> None:
        """Count a call that got no answer. If no other call got one since it `started`, suspend all calls."""
        self.abandoned += 1
        if self._answered < started:
            self._suspended = time.monotonic() + _SUSPENDED_SECONDS

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except SkillwireError:
            raise
        except PoolTimeout:
            raise StoreBusy from None
        except DBAPIError as error:
            # PostgreSQL's lock_timeout; and of SQLite, whose writers wait for each other too.
            if getattr(error.orig, "sqlstate", "") == "55P03" or "database is locked" in str(error.orig):
                raise StoreBusy from error
            raise SourceError(self._reason(error)) from error
        except SQLAlchemyError as error:
            raise SourceError(f"the registry's database refused a request: {type(error).__name__}") from error

    def _reason(self, error: DBAPIError) -> str:
        message = str(error.orig).strip().partition("\n")[0]
        if "no such table" in message or ("does not exist" in message and "relation" in message):
            return _no_registry(self.place)
        if "append-only" in message:
            return "the audit log is append-only: nothing in it was changed"
        if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
            return f"the registry's database {self.place} cannot be used right now: {shown(message, 200)}"
        return f"the registry's database refused a request: {shown(message, 200)}"

    def _postgresql(self, size: int, wait: float) -> Engine:
        # No statements are prepared and no settings are sent at the start: PgBouncer supports neither in
        # transaction mode.
        settings = {
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "application_name": "skillwire",
            "prepare_threshold": None,
        }
        engine = sa.create_engine(
            self.url,
            connect_args=settings,
            pool_size=size,
            max_overflow=0,
            pool_timeout=wait,
            pool_pre_ping=True,
            pool_recycle=1800,
        )
        event.listen(engine, "do_connect", self._connect)
        return engine

    def _connect(
        self, _dialect: object, _record: object, arguments: Sequence[Any], given: dict[str, Any]
    ) -> Any:
        from psycopg import OperationalError as NotConnected

        limited = _limited_connection()
        left = self.call_seconds if _deadline.at is None else _deadline.at - time.monotonic()
        if left <= 0:
            raise NotConnected(_SILENT)
        given["connect_timeout"] = max(2, int(left))
        connection = limited.connect(*arguments, **given)
        connection.store = self
        return connection

    def _sqlite(self, size: int, wait: float) -> Engine:
        _create_private(Path(str(self.url.database)))
        engine = sa.create_engine(
            self.url,
            connect_args={"timeout": self.call_seconds, "check_same_thread": False},
            pool_size=size,
            max_overflow=0,
            pool_timeout=wait,
        )

        def connected(connection: Any, _record: object) -> None:
            # The driver would begin transactions itself, and too late.
            connection.isolation_level = None
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")

        event.listen(engine, "connect", connected)
        return engine


def _create_private(path: Path) -> None:
    """Make an empty file that is the user's alone, before SQLite does; the files beside it take its mode.

    If that is not possible, SQLite says why.
    """
    with suppress(OSError):
        os.close(os.open(path, CREATE, 0o600))


_WRITER_POOL: Final = (_WRITERS, _QUEUE_SECONDS)
_SILENT: Final = "it does not answer"


class _Deadline(threading.local):
    """How long the current thread waits for the database."""

    at: float | None = None
    """When it stops waiting; `None` while each statement has a time of its own."""
    seconds: float | None = None
    """The time of a statement, if it is not the store's."""


_deadline: Final = _Deadline()


@functools.cache
def _limited_connection() -> Any:
    """A connection of psycopg that waits for the server no longer than the store allows."""
    import psycopg
    from psycopg.errors import _WaitTimeout  # pyright: ignore[reportPrivateUsage]

    class LimitedConnection(psycopg.Connection[Any]):
        store: Store

        def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
            if timeout is not None or not hasattr(self, "store"):
                return super().wait(gen, interval, timeout)
            started = time.monotonic()
            end = _deadline.at or started + (_deadline.seconds or self.store.call_seconds)
            try:
                return super().wait(gen, interval, max(0.0, end - started))
            except _WaitTimeout:
                # A response may still come: this connection cannot be used for anything else.
                self.pgconn.finish()
                self.store.abandon(started)
                raise psycopg.OperationalError(_SILENT) from None

    return LimitedConnection


def now() -> int:
    """The time in milliseconds, as the tables have it."""
    return round(time.time() * 1000)


def new_id(inserted: CursorResult[Any]) -> int:
    """The id that the database gave to an inserted row."""
    key = inserted.inserted_primary_key
    if key is None:
        raise SourceError("the registry's database gave no id to a new row")
    return int(key[0])


def _no_registry(place: str) -> str:
    return f"there is no registry in {place}: create it with skillwire registry init"


def _migrations() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}
# As libpq writes several servers: postgresql://USER@HOST:PORT,HOST:PORT/NAME
_SEVERAL_HOSTS: Final = re.compile(
    r"(?P<start>[a-z+]+://(?:[^@/?#]*@)?)(?P<hosts>[^@/?#]+,[^@/?#]*)(?P<rest>.*)"
)


def _parse_url(text: str) -> tuple[URL, bool]:
    """The URL for SQLAlchemy, and whether notifications can be received over it."""
    several = _SEVERAL_HOSTS.fullmatch(text)
    try:
        url = make_url(several["start"] + several["rest"] if several else text)
        driver = _DRIVERS[url.get_backend_name()]
        listen = url.query.get("listen", "on")
        if listen not in ("on", "off"):
            raise ValueError("listen")
    except (ArgumentError, KeyError, NoSuchModuleError, ValueError):
        raise SourceError(
            f"{shown(redact_url(text))} is not a store: write postgresql://USER@HOST/NAME, "
            "postgresql://USER@HOST1:5432,HOST2:5432/NAME?target_session_attrs=read-write or sqlite:///FILE"
        ) from None
    if driver == "sqlite" and url.database in (None, "", ":memory:"):
        raise SourceError("a registry needs a file: write sqlite:///registry.db")
    if several:
        url = url.update_query_dict({"host": several["hosts"].split(",")})
    return url.difference_update_query(["listen"]).set(drivername=driver), listen == "on"


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """The values in parts: databases limit the number of parameters of a query."""
    return (values[start : start + _PARAMETERS] for start in range(0, len(values), _PARAMETERS))


class SharedConsent:
    """Records in a store: a decision in one gateway counts in all of them within a second."""

    path = None
    remark = ""

    def __init__(self, store: Store) -> None:
        self._store = store

    def stamp(self) -> tuple[int, ...]:
        """A new value every second: a shared database is polled that often."""
        return 0, int(time.monotonic())

    def read(self, key: Key | None = None) -> list[Record]:
        """Every record, or that of one key."""
        with self._store.reading() as connection:
            return _select(connection, key)

    def history(self, key: Key) -> list[Decision]:
        """The decisions about one skill, the latest last."""
        columns = [consent_history.c[name] for name in DECISION_COLUMNS]
        query = sa.select(*columns).where(_about(consent_history, key)).order_by(consent_history.c.number)
        with self._store.reading() as connection:
            return [Decision(*row) for row in connection.execute(query)]

    def update(self, changes: Mapping[Key, Change]) -> list[Record]:
        """Change records as they are stored now, all or none, and note each new decision."""
        records: list[Record] = []
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            for key, change in changes.items():
                before = next(iter(_select(connection, key)), Record(key=key))
                record = change(before)
                records.append(record)
                if record != before:
                    connection.execute(consent.delete().where(_about(consent, key)))
                    connection.execute(consent.insert().values(**to_row(record)))
                if record.last != before.last:
                    _note(connection, record)
        return records

    def remove_server(self, server: str) -> int:
        """Delete everything about a server, for all callers. Returns how many approvals it had."""
        of_server = consent.c.server == server
        is_approved = consent.c.decision == Decided.APPROVED.value
        count = sa.select(sa.func.count()).select_from(consent).where(of_server, is_approved)
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            approvals = connection.execute(count).scalar_one()
            connection.execute(consent.delete().where(of_server))
            connection.execute(consent_history.delete().where(consent_history.c.server == server))
            return approvals


def _about(table: sa.Table, key: Key) -> sa.ColumnElement[bool]:
    return sa.and_(*(table.c[name] == value for name, value in key._asdict().items()))


def _select(connection: Connection, key: Key | None) -> list[Record]:
    query = sa.select(*(consent.c[name] for name in COLUMNS))
    if key is not None:
        query = query.where(_about(consent, key))
    return [from_row(tuple(row)) for row in connection.execute(query)]


def _note(connection: Connection, record: Record) -> None:
    """Add the last decision to the history; the oldest about the same skill go when there are too many."""
    row = to_row(record)
    connection.execute(consent_history.insert().values({name: row[name] for name in HISTORY_COLUMNS}))
    about = _about(consent_history, record.key)
    number = consent_history.c.number
    newest = sa.select(number).where(about).order_by(number.desc()).limit(MOST_DECISIONS)
    connection.execute(consent_history.delete().where(about, number.not_in(newest)))
