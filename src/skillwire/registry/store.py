"""Store: the database of a registry, on PostgreSQL or SQLite. Every call may block: use it from a thread.

One transaction at a time writes the change feed and the audit log, so their numbers follow the order of the
commits. Whoever has read the feed up to a number has seen everything before it.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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

from skillwire.errors import SkillwireError, SourceError
from skillwire.issues import shown
from skillwire.text import redact_url

DEFAULT_URL: Final = "sqlite:///registry.db"
CHANNEL: Final = "skillwire_changes"
"""Where PostgreSQL announces the number of each change."""

_WAIT_SECONDS: Final = 5.0
_POOL: Final = 10
# Any number, as long as every writer uses the same.
_WRITERS: Final = 0x534B494C


class Store:
    """The database behind a registry. Nothing is opened before the first call."""

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self.url = _parse_url(url)
        self.is_postgresql = self.url.get_backend_name() == "postgresql"
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    @property
    def place(self) -> str:
        """Where the database is, without its password and its settings."""
        if not self.is_postgresql:
            return f"sqlite:///{self.url.database}"
        user = f"{self.url.username}@" if self.url.username else ""
        port = f":{self.url.port}" if self.url.port else ""
        return f"postgresql://{user}{self.url.host or ''}{port}/{self.url.database or ''}"

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = _postgresql(self.url) if self.is_postgresql else _sqlite(self.url)
        return self._engine

    def close(self) -> None:
        """Close every connection. The next call opens new ones."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def create(self, revision: str = "head") -> None:
        """Create the tables, or migrate those of an earlier version."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self._errors(), self.engine.begin() as connection:
            if self.is_postgresql:  # If two programs migrate at once, one waits.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITERS)))
            config.attributes["connection"] = connection
            command.upgrade(config, revision)

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A connection to read with. Each statement sees what was committed before it."""
        with self._errors(), self.engine.connect() as connection:
            # Without a transaction around it, which would be two more messages for each statement.
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def snapshot(self) -> Generator[Connection]:
        """A connection for longer reads. All statements see the same snapshot."""
        with self._errors(), self.engine.connect() as connection:
            if self.is_postgresql:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            else:
                connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection]:
        """A connection to write with. Everything is committed at the end of the block, or nothing."""
        with self._errors(), self.engine.begin() as connection:
            if not self.is_postgresql:
                # SQLite: take the write lock now, and wait for it, not at the first change.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def take_turn(self, connection: Connection) -> None:
        """From here on, one transaction at a time: that is the order of the feed and the audit log."""
        if self.is_postgresql:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_WRITERS)))

    def announce(self, connection: Connection, number: int) -> None:
        """Notify the replicas of a change when the transaction is committed."""
        if self.is_postgresql:
            connection.execute(sa.select(sa.func.pg_notify(CHANNEL, str(number))))

    @contextmanager
    def _errors(self) -> Generator[None]:
        try:
            yield
        except SkillwireError:
            raise
        except PoolTimeout:
            raise SourceError(
                f"the registry's database has no free connection after {_WAIT_SECONDS:g} s: try again later"
            ) from None
        except DBAPIError as error:
            raise SourceError(self._reason(error)) from error
        except SQLAlchemyError as error:
            raise SourceError(f"the registry's database refused a request: {type(error).__name__}") from error

    def _reason(self, error: DBAPIError) -> str:
        said = str(error.orig).strip().partition("\n")[0]
        if "no such table" in said or ("does not exist" in said and "relation" in said):
            return f"there is no registry in {self.place}: create it with skillwire registry init"
        if "append-only" in said:
            return "the audit log is append-only: nothing in it was changed"
        if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
            return f"the registry's database {self.place} cannot be used right now: {shown(said, 200)}"
        return f"the registry's database refused a request: {shown(said, 200)}"


def now() -> int:
    """The time in milliseconds, as the tables have it."""
    return round(time.time() * 1000)


def new_id(inserted: CursorResult[Any]) -> int:
    """The id that the database gave to an inserted row."""
    key = inserted.inserted_primary_key
    if key is None:
        raise SourceError("the registry's database gave no id to a new row")
    return int(key[0])


_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}


def _parse_url(text: str) -> URL:
    try:
        url = make_url(text)
        driver = _DRIVERS[url.get_backend_name()]
    except (ArgumentError, KeyError, NoSuchModuleError, ValueError):
        raise SourceError(
            f"{shown(redact_url(text))} is not a store: write postgresql://USER@HOST/NAME or sqlite:///FILE"
        ) from None
    if driver == "sqlite" and url.database in (None, "", ":memory:"):
        raise SourceError("a registry needs a file: write sqlite:///registry.db")
    return url.set(drivername=driver)


_CONNECT_SECONDS: Final = 5
_STATEMENT_SECONDS: Final = 15
_LOCK_SECONDS: Final = 8


def _postgresql(url: URL) -> Engine:
    # Time-outs on every level: no request waits longer than these, whatever the database does.
    settings = {
        "connect_timeout": _CONNECT_SECONDS,
        "options": f"-c statement_timeout={_STATEMENT_SECONDS * 1000} -c lock_timeout={_LOCK_SECONDS * 1000}",
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": _STATEMENT_SECONDS * 1000,
        "application_name": "skillwire",
    }
    return sa.create_engine(
        url,
        connect_args=settings,
        pool_size=_POOL,
        max_overflow=0,
        pool_timeout=_WAIT_SECONDS,
        pool_pre_ping=True,
        pool_recycle=1800,
    )


def _sqlite(url: URL) -> Engine:
    engine = sa.create_engine(
        url,
        connect_args={"timeout": _WAIT_SECONDS, "check_same_thread": False},
        pool_size=_POOL,
        max_overflow=0,
        pool_timeout=_WAIT_SECONDS,
    )

    def connected(connection: Any, _record: object) -> None:
        # The driver would begin transactions itself, and too late.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", connected)
    return engine
