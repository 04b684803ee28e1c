"""SqliteFile: one SQLite file that several processes share. Every call may block.

Reading creates nothing, so a host opens on a full or read-only disk. Every change is one transaction, which
waits for other processes up to a limit. The file is opened by SQLite alone: closing it in any other way would
drop the locks that this process holds on it. A damaged file is set aside with its journal and never deleted.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from skillwire.errors import SourceError

BUSY_SECONDS = 5.0
"""How long a call waits for another process that is writing."""

_BESIDE: Final = ("-wal", "-shm", "-journal")

Result = TypeVar("Result")


class _Fault(Enum):
    LOCKED = auto()
    FULL = auto()
    UNWRITABLE = auto()
    DAMAGED = auto()
    OTHER = auto()


class SqliteFile:
    """One file, which is made by the first write.

    `what` names its content in messages, and `loss` says what follows when it was damaged. `prepare` runs at
    the start of every write: it makes or migrates the tables, and returns what the user should know about
    that. `check` raises an error of SQLite for rows that cannot be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        what: str,
        loss: str,
        prepare: Callable[[sqlite3.Connection], str],
        check: Callable[[sqlite3.Connection], object],
    ) -> None:
        self.path: Path = path
        self.remark: str = ""
        """What happened to the file: it was migrated, or damaged and set aside."""
        self._what, self._loss = what, loss
        self._prepare, self._check = prepare, check

    def stamp(self) -> tuple[int, ...]:
        """A value that changes when another process writes the file. Takes one `stat`."""
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self, action: Callable[[sqlite3.Connection], Result], *, default: Result) -> Result:
        """What the action reads; `default` when there is no file yet."""
        if not self.exists():
            return default

        def once() -> Result:
            if not self.exists():
                return default  # It was damaged and has been set aside.
            try:
                with closing(self._connect("rw")) as database:
                    return action(database)
            except sqlite3.OperationalError as error:
                if _fault(error, self.path) not in (_Fault.UNWRITABLE, _Fault.FULL):
                    raise
            # A disk that takes nothing: read what is there, unless a journal of another process waits in it.
            if any(_size(self._beside(ending)) for ending in ("-wal", "-journal")):
                raise self._failure("an unfinished change cannot be completed on this disk")
            with closing(self._connect("ro&immutable=1")) as database:
                return action(database)

        return self._replacing_damaged(once)

    def write(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run the action in a transaction of its own, after the preparation. Makes the file first."""

        def once() -> Result:
            self._create()
            with closing(self._connect("rw")) as database:
                _settle_journal(database)
                with _transaction(database):
                    remark = self._prepare(database)
                    result = action(database)
                if remark:
                    self.remark = remark
                return result

        return self._replacing_damaged(once)

    def _replacing_damaged(self, action: Callable[[], Result]) -> Result:
        """Run the action; when the file is damaged, set it aside and run it once more on a new one."""
        try:
            return action()
        except SourceError:
            raise
        except _SQLITE_ERRORS as error:
            if _fault(error, self.path) is not _Fault.DAMAGED:
                raise self._failure(_words(error, self.path)) from None
        except OSError as error:
            raise self._failure(error.strerror or str(error)) from None
        self._set_aside_if_damaged()
        try:
            return action()
        except (*_SQLITE_ERRORS, OSError) as error:
            raise self._failure(_words(error, self.path)) from None

    def exists(self) -> bool:
        """Whether there is a file; a `SourceError` when something else is there."""
        try:
            mode = self.path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._failure(error.strerror or str(error)) from None
        if not stat.S_ISREG(mode):
            raise self._failure("it is not a file")  # SQLite would wait at a pipe.
        return True

    def _create(self) -> None:
        """Make an empty file that is the user's alone, before SQLite writes a byte; theirs take its mode."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.exists():
            return
        descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self.path.parent)
        os.close(descriptor)
        try:
            # Never a second descriptor of the file itself: closing it would drop the locks of other threads.
            with suppress(FileExistsError):
                os.link(name, self.path)
        except OSError:
            if not self.path.exists():  # A file system without hard links.
                Path(name).rename(self.path)
        finally:
            Path(name).unlink(missing_ok=True)

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.absolute()))}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

    def _set_aside_if_damaged(self) -> None:
        """Move the file away, with its journal, if it is still damaged once no other process uses it."""
        with _exclusive(self.path.with_name(f"{self.path.name}.lock")):
            try:
                with closing(self._connect("rw")) as database, _transaction(database):
                    self._prepare(database)
                    self._check(database)
                    (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
                if verdict == "ok":
                    return
            except _SQLITE_ERRORS as error:
                if _fault(error, self.path) is not _Fault.DAMAGED:
                    raise self._failure(_words(error, self.path)) from None
            aside = self.path.with_name(f"{self.path.name}.damaged")
            number = 1
            while aside.exists():
                number += 1
                aside = self.path.with_name(f"{self.path.name}.damaged-{number}")
            try:
                self.path.rename(aside)
                for ending in _BESIDE:
                    with suppress(FileNotFoundError):
                        self._beside(ending).rename(aside.with_name(aside.name + ending))
            except OSError as error:
                raise self._failure(f"it is damaged, and cannot be set aside: {error.strerror}") from None
        self.remark = f"{self._what} were damaged and set aside as {aside}: {self._loss}"

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _failure(self, reason: str) -> SourceError:
        return SourceError(f"{self._what} in {self.path} cannot be used: {reason}")


_SQLITE_ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError, MemoryError)


def _fault(error: BaseException, path: Path) -> _Fault:
    """What an error means for the file. Damage is what SQLite says about the bytes, not about the disk."""
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
    if isinstance(error, OSError):
        return error.strerror or str(error)
    match _fault(error, path):
        case _Fault.LOCKED:
            return "another process is writing to the file; try again"
        case _Fault.FULL:
            return "the disk is full; free some space"
        case _Fault.UNWRITABLE:
            return f"the file or its directory cannot be written; check the permissions of {path.parent}"
        case _:
            return f"{error}; move the file away to start without approvals"


def _settle_journal(database: sqlite3.Connection) -> None:
    """Leave the journal mode of version 0.1 (WAL), which needs a writable directory to read."""
    (mode,) = database.execute("PRAGMA journal_mode").fetchone()
    if mode != "delete":
        with suppress(sqlite3.OperationalError):  # Another process has it open: the next write settles it.
            database.execute("PRAGMA journal_mode = DELETE")


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
