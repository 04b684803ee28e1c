"""SqliteConsent: the records of one SQLite file that several processes share. Every call may block.

Reading creates nothing, so a host opens on a full or read-only disk. Every change is one transaction, which
waits for other processes up to a limit. The file is opened by SQLite alone: closing it in any other way would
drop the locks that this process holds on it. A damaged file is set aside with its journal and never deleted.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from skillwire.consent.record import (
    COLUMNS,
    DECISION_COLUMNS,
    HISTORY_COLUMNS,
    MOST_DECISIONS,
    Change,
    Decided,
    Decision,
    Key,
    Record,
    from_row,
    to_row,
)
from skillwire.errors import SourceError
from skillwire.files import make_private

BUSY_SECONDS = 5.0
"""How long a call waits for another process that is writing."""

_NUMBERS: Final = ("allowed_tools", "execute_code")
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS consent ("
    + ", ".join(f"{name} {'INTEGER' if name in _NUMBERS else 'TEXT'} NOT NULL" for name in COLUMNS)
    + ", PRIMARY KEY (server, uri, caller)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS consent_history (number INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} TEXT NOT NULL" for name in HISTORY_COLUMNS)
    + ")",
    "CREATE INDEX IF NOT EXISTS consent_history_by_skill ON consent_history (server, uri, caller)",
)
# Every name in these statements is one of ours.
_SELECT: Final = f"SELECT {', '.join(COLUMNS)} FROM consent"  # noqa: S608
_PUT: Final = f"INSERT OR REPLACE INTO consent VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
_NOTE: Final = (
    f"INSERT INTO consent_history ({', '.join(HISTORY_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(HISTORY_COLUMNS))})"
)
_HISTORY: Final = f"SELECT {', '.join(DECISION_COLUMNS)} FROM consent_history"  # noqa: S608
_ABOUT: Final = "WHERE server = ? AND uri = ? AND caller = ?"
_JOURNAL: Final = "-journal"

Result = TypeVar("Result")


class _Fault(Enum):
    LOCKED = auto()
    FULL = auto()
    UNWRITABLE = auto()
    DAMAGED = auto()
    OTHER = auto()


class SqliteConsent:
    """The records of one file, which is made by the first change."""

    def __init__(self, path: Path) -> None:
        self.path: Path | None = path
        self._path = path
        self.remark: str = ""
        """What happened to a damaged file, once it was set aside."""

    def stamp(self) -> tuple[int, ...]:
        """A value that changes when another process writes the file. Takes one `stat`."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self, key: Key | None = None) -> list[Record]:
        """Every record, or that of one key; none when there is no file yet."""
        return self._read(lambda database: _select(database, key), default=[])

    def history(self, key: Key) -> list[Decision]:
        """The decisions about one skill, the latest last."""

        def select(database: sqlite3.Connection) -> list[Decision]:
            rows = database.execute(f"{_HISTORY} {_ABOUT} ORDER BY number", key).fetchall()
            return [Decision(*row) for row in rows]

        return self._read(select, default=[])

    def update(self, changes: Mapping[Key, Change]) -> list[Record]:
        """Change records as they are stored now, all or none, and note each new decision."""
        if not self._exists():
            unchanged = [change(Record(key=key)) for key, change in changes.items()]
            if all(record == Record(key=record.key) for record in unchanged):
                return unchanged  # No file is made for a change that changes nothing.

        def write(database: sqlite3.Connection) -> list[Record]:
            records: list[Record] = []
            for key, change in changes.items():
                before = next(iter(_select(database, key)), Record(key=key))
                record = change(before)
                records.append(record)
                if record != before:
                    database.execute(_PUT, tuple(to_row(record).values()))
                if record.last != before.last:
                    _note(database, record)
            return records

        return self._write(write)

    def remove_server(self, server: str) -> int:
        """Delete everything about a server. Returns how many approvals it had."""
        if not self._exists():
            return 0

        def delete(database: sqlite3.Connection) -> int:
            count = "SELECT count(*) FROM consent WHERE server = ? AND decision = ?"
            (approvals,) = database.execute(count, (server, Decided.APPROVED)).fetchone()
            for table in ("consent", "consent_history"):
                database.execute(f"DELETE FROM {table} WHERE server = ?", (server,))  # noqa: S608 - names of ours
            return int(approvals)

        return self._write(delete)

    def _read(self, action: Callable[[sqlite3.Connection], Result], *, default: Result) -> Result:
        """Return what the action reads; `default` when there is no file, or no table in it yet."""

        def look(database: sqlite3.Connection) -> Result:
            # A file that was made and not written yet has no tables.
            known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'consent'").fetchone()
            return action(database) if known else default

        def once() -> Result:
            if not self._exists():
                return default  # None yet, or it was damaged and has been set aside.
            try:
                with closing(self._connect("rw")) as database:
                    return look(database)
            except sqlite3.OperationalError as error:
                if _fault(error, self._path) not in (_Fault.UNWRITABLE, _Fault.FULL):
                    raise
            # A disk that takes nothing: read what is there, unless a journal of another process waits in it.
            if _size(self._beside(_JOURNAL)):
                raise self._failure("an unfinished change cannot be completed on this disk")
            with closing(self._connect("ro&immutable=1")) as database:
                return look(database)

        return self._replacing_damaged(once)

    def _write(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run the action in a transaction of its own. Makes the file and its tables first."""

        def once() -> Result:
            # Made empty before SQLite writes a byte: what it puts beside it takes its mode, the user's alone.
            make_private(self._path)
            with closing(self._connect("rw")) as database, _transaction(database):
                _prepare(database)
                return action(database)

        return self._replacing_damaged(once)

    def _replacing_damaged(self, action: Callable[[], Result]) -> Result:
        """Run the action; when the file is damaged, set it aside and run it once more on a new one."""
        try:
            return action()
        except _ERRORS as error:
            if _fault(error, self._path) is not _Fault.DAMAGED:
                raise self._failure(error) from None
        self._set_aside_if_damaged()
        try:
            return action()
        except _ERRORS as error:
            raise self._failure(error) from None

    def _exists(self) -> bool:
        """Whether there is a file; a `SourceError` when something else is there."""
        try:
            mode = self._path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._failure(error) from None
        if not stat.S_ISREG(mode):
            raise self._failure("it is not a file")  # SQLite would wait at a pipe.
        return True

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self._path.absolute()))}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

    def _set_aside_if_damaged(self) -> None:
        """Move the file away, with its journal, if it is still damaged once no other process uses it."""
        with _exclusive(self._path.with_name(f"{self._path.name}.lock")):
            try:
                with closing(self._connect("rw")) as database, _transaction(database):
                    _prepare(database)
                    _select(database)
                    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
                if verdict == "ok":
                    return
            except _ERRORS as error:
                if _fault(error, self._path) is not _Fault.DAMAGED:
                    raise self._failure(error) from None
            aside = self._path.with_name(f"{self._path.name}.damaged")
            number = 1
            while aside.exists():
                number += 1
                aside = self._path.with_name(f"{self._path.name}.damaged-{number}")
            try:
                self._path.rename(aside)
                with suppress(FileNotFoundError):
                    self._beside(_JOURNAL).rename(aside.with_name(aside.name + _JOURNAL))
            except OSError as error:
                raise self._failure(f"it is damaged, and cannot be set aside: {error.strerror}") from None
        self.remark = (
            f"the approvals were damaged and set aside as {aside}: "
            "nothing is approved now, so you are asked again about each skill"
        )

    def _beside(self, ending: str) -> Path:
        return self._path.with_name(self._path.name + ending)

    def _failure(self, error: BaseException | str) -> SourceError:
        """The one error for whatever is wrong with the file: which one it is, why, and what to do."""
        reason = error if isinstance(error, str) else _words(error, self._path)
        return SourceError(f"the approvals in {self._path} cannot be used: {reason}")


_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, MemoryError, OSError)


def _fault(error: BaseException, path: Path) -> _Fault:
    """Classify an error. Damage is what SQLite says about the bytes, not about the disk."""
    if isinstance(error, OSError):
        return _Fault.OTHER
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return _Fault.DAMAGED  # Values that no approval of ours has.
    primary = code & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _Fault.LOCKED
    if primary == sqlite3.SQLITE_FULL:
        return _Fault.FULL
    writable = _is_writable(path) and _is_writable(path.parent)
    if primary in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return _Fault.UNWRITABLE
    if primary == sqlite3.SQLITE_READONLY:
        # A damaged header makes a file read-only to SQLite that nothing else protects.
        return _Fault.DAMAGED if writable else _Fault.UNWRITABLE
    if primary == sqlite3.SQLITE_IOERR:
        return _Fault.FULL if not writable else _Fault.OTHER
    return _Fault.DAMAGED


def _words(error: BaseException, path: Path) -> str:
    """Why the file cannot be used, and what to do."""
    match _fault(error, path):
        case _Fault.LOCKED:
            return "another process is writing to the file; try again"
        case _Fault.FULL:
            return "the disk is full; free some space"
        case _Fault.UNWRITABLE:
            return f"the file or its directory cannot be written; check the permissions of {path.parent}"
        case _ if isinstance(error, OSError):
            return error.strerror or str(error)
        case _:
            return f"{error}; move the file away to start without approvals"


def _prepare(database: sqlite3.Connection) -> None:
    for statement in _TABLES:
        database.execute(statement)


def _select(database: sqlite3.Connection, key: Key | None = None) -> list[Record]:
    rows = database.execute(_SELECT if key is None else f"{_SELECT} {_ABOUT}", key or ()).fetchall()
    return [from_row(row) for row in rows]


def _note(database: sqlite3.Connection, record: Record) -> None:
    """Add the last decision to the history; the oldest about the same skill go when there are too many."""
    row = to_row(record)
    database.execute(_NOTE, tuple(row[name] for name in HISTORY_COLUMNS))
    newest = f"SELECT number FROM consent_history {_ABOUT} ORDER BY number DESC LIMIT {MOST_DECISIONS}"  # noqa: S608 - names of ours
    database.execute(
        f"DELETE FROM consent_history {_ABOUT} AND number NOT IN ({newest})",  # noqa: S608 - names of ours
        (*record.key, *record.key),
    )


@contextmanager
def _transaction(database: sqlite3.Connection) -> Generator[None]:
    """One transaction that holds the write lock from its first statement."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def _exclusive(lock: Path) -> Generator[None]:
    """Hold a separate lock file, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows: a file that another process has open cannot be renamed there anyway.
        yield
        return
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
