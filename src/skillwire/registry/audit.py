"""The audit log of a registry and of the gateways that share its store: append-only, in chains.

Each writer has a chain of its own, in which a line is bound to all lines before it by a hash: the registry
itself, whose lines are part of the transactions that they describe, and every gateway. So gateways
wait neither for each other nor for publishers.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import queue
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection

from skillwire.documents import JsonObject
from skillwire.errors import SourceError
from skillwire.files import CREATE, make_folder, try_lock
from skillwire.gateway import Act
from skillwire.gateway.records import CLIENT
from skillwire.registry.schema import audit
from skillwire.registry.store import Store, now

REGISTRY: Final = "registry"
"""The writer of the registry's own lines."""
START: Final = "0" * 64
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class AuditLine:
    """Who did what, and when.

    The lines of a writer are numbered from 1 on, without gaps. `at` is in milliseconds since 1970, `what`
    names the skill, namespace or token that it was done to, and `details` is a JSON object.
    """

    writer: str
    number: int
    at: int
    who: str
    action: str
    what: str
    details: str
    hash: str

    def expected_hash(self, before: str) -> str:
        """The hash that this line has after a line with the hash `before`."""
        fields = [before, self.writer, self.number, self.at, self.who, self.action, self.what, self.details]
        return hashlib.sha256(json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()


def record(connection: Connection, who: str, action: str, what: str, details: JsonObject) -> None:
    """Append a line of the registry. Call `take_turn` first in the transaction, so that no two lines get the
    same number."""
    last = connection.execute(
        sa.select(audit.c.number, audit.c.hash)
        .where(audit.c.writer == REGISTRY)
        .order_by(audit.c.number.desc())
        .limit(1)
    ).first()
    number, before = (last.number + 1, last.hash) if last is not None else (1, START)
    text = json.dumps(details, ensure_ascii=False, sort_keys=True)
    line = AuditLine(REGISTRY, number, now(), who, action, what, text, "")
    connection.execute(
        audit.insert().values(
            writer=REGISTRY,
            number=number,
            at=line.at,
            who=who,
            action=action,
            what=what,
            details=text,
            hash=line.expected_hash(before),
        )
    )


def read_audit(store: Store, *, writer: str = REGISTRY, after: int = 0) -> Iterator[AuditLine]:
    """Every line of a writer after a number, the oldest first."""
    query = sa.select(audit).where(audit.c.writer == writer, audit.c.number > after)
    return _in_batches(store, query, audit.c.number)


def read_gateways(store: Store) -> Iterator[AuditLine]:
    """Every line of all gateways, the oldest first."""
    query = sa.select(audit).where(audit.c.writer != REGISTRY)
    return _in_batches(store, query, audit.c.at, audit.c.writer, audit.c.number)


def _in_batches(store: Store, query: sa.Select[Any, Any], *key: sa.Column[Any]) -> Iterator[AuditLine]:
    """Every line that a query selects, ordered by a key; each batch is read in a transaction of its own."""
    last: tuple[Any, ...] | None = None
    while True:
        batch = query.order_by(*key).limit(_BATCH)
        if last is not None:
            batch = batch.where(sa.tuple_(*key) > sa.tuple_(*last))
        with store.snapshot() as connection:
            rows = connection.execute(batch).all()
        for row in rows:
            yield _line(row)
        if len(rows) < _BATCH:
            return
        last = tuple(getattr(rows[-1], column.name) for column in key)


def last_numbers(store: Store) -> dict[str, int]:
    """The number of the last line of every writer, the registry first."""
    query = sa.select(audit.c.writer, sa.func.max(audit.c.number).label("last")).group_by(audit.c.writer)
    with store.snapshot() as connection:
        found = {row.writer: row.last for row in connection.execute(query)}
    return dict(sorted(found.items(), key=lambda one: (one[0] != REGISTRY, one[0])))


def first_broken(store: Store) -> tuple[str, int] | None:
    """The writer and number of the first line that was changed or is missing; `None` if the log is intact.

    Lines removed from the end of a chain cannot be noticed this way: compare the last number of each writer
    with one that you noted.
    """
    for writer in last_numbers(store):
        before, expected = START, 1
        for line in read_audit(store, writer=writer):
            if line.number != expected or line.hash != line.expected_hash(before):
                return writer, expected
            before, expected = line.hash, expected + 1
    return None


def _line(row: sa.Row[Any, Any]) -> AuditLine:
    return AuditLine(row.writer, row.number, row.at, row.who, row.action, row.what, row.details, row.hash)


DRAIN_SECONDS: Final = 10.0
"""How long a gateway that ends waits until its lines are in the database."""
_MOST_WAITING: Final = 100_000
_LINES_AT_ONCE: Final = 2_000
_BATCH_BYTES: Final = 1 << 20
# A pause between two batches: small ones would cost the database a commit each.
_PAUSE_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 1.0
_COMPACT_BYTES: Final = 16 << 20
_SUFFIX: Final = ".jsonl"
_OPEN: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NAME: Final = re.compile(r"[^A-Za-z0-9.-]+")

_Waiting: TypeAlias = tuple[int, str, str, dict[str, object]]

_log = logging.getLogger("skillwire.gateway")


class StoreAudit:
    """The audit log of one gateway. `folder` is where its spool files are; others may use it too."""

    def __init__(self, store: Store, folder: Path, *, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Open the spool file, or raise a `SourceError`: a gateway that must keep a log does not start
        without it."""
        self._store = store
        self._drain_seconds = drain_seconds
        self.problem = ""
        """Why lines are not in the database; empty while they get there."""
        self.lost = 0
        """How many lines could not even be written to the spool file."""
        host = _NAME.sub("-", socket.gethostname())[:60]
        self.writer = f"gateway:{host}:{secrets.token_hex(6)}"
        own = folder / hashlib.sha256(store.place.encode()).hexdigest()[:16]
        try:
            make_folder(own)
            self._spool = _Spool.create(own / f"{self.writer.replace(':', '_')}{_SUFFIX}")
        except OSError as error:
            raise SourceError(f"the audit log needs the folder {own}: {error.strerror}") from None
        self._lines: queue.Queue[_Waiting | None] = queue.Queue(_MOST_WAITING)
        self._number, self._hash = 0, START
        self._sent = self._noted = 0
        self._news = threading.Event()
        self._closing = threading.Event()
        self._end = float("inf")
        self._writing = threading.Thread(target=self._write_lines, name="skillwire-audit", daemon=True)
        self._sending = threading.Thread(target=self._send_lines, name="skillwire-audit-send", daemon=True)
        self._writing.start()
        self._sending.start()

    @property
    def waiting(self) -> int:
        """How many lines are not in the database yet."""
        return self._lines.qsize() + self._number - self._sent

    def write(self, act: Act, *, caller: str, **details: object) -> None:
        """Append a line. `details` with empty values are left out."""
        some = {key: value for key, value in details.items() if value not in (None, "")}
        some["act"], some["client"] = act, CLIENT.get()
        try:
            self._lines.put_nowait((now(), f"caller:{caller}", str(some.pop("skill", "")), some))
        except queue.Full:
            self.lost += 1

    def reopen(self) -> None:
        """Nothing to do: tables are not rotated."""

    def close(self) -> None:
        """Send what is waiting, as far as the time for it allows. `problem` says if something is left."""
        self._end = time.monotonic() + self._drain_seconds
        with suppress(queue.Full):
            self._lines.put(None, timeout=self._drain_seconds)
        self._closing.set()
        self._writing.join(max(0.0, self._end - time.monotonic()))
        self._news.set()
        self._sending.join(max(0.0, self._end - time.monotonic()) + self._store.call_seconds)
        if self.lost:
            self.problem = (
                f"{self.lost:,} lines of the audit log were lost: {self._spool.path} could not be written"
            )
        elif self.waiting:
            self.problem = (
                f"{self.waiting:,} lines of the audit log are not in the database yet: {self._spool.path} "
                "has them, and the next gateway with this store on this machine sends them"
            )
        else:
            self.problem = ""
            self._spool.remove()

    # The thread that writes the spool file

    def _write_lines(self) -> None:
        is_open = True
        while is_open:
            batch = [self._lines.get()]
            with suppress(queue.Empty):
                while len(batch) < _LINES_AT_ONCE:
                    batch.append(self._lines.get_nowait())
            is_open = None not in batch
            lines = [line for line in batch if line is not None]
            lost = self.lost - self._noted
            if lost:
                lines.append((now(), "gateway", "", {"act": "lost", "lines": lost}))
            if self._append(lines):
                self._noted += lost
            else:
                self.lost += len(lines) - bool(lost)

    def _append(self, lines: list[_Waiting]) -> bool:
        """Chain lines and write them to the file; false if that fails until the gateway ends."""
        number, before = self._number, self._hash
        text: list[str] = []
        for at, who, what, details in lines:
            number += 1
            act = str(details.pop("act"))
            told = json.dumps(details, ensure_ascii=False, sort_keys=True, default=str)
            line = AuditLine(self.writer, number, at, who, act, what, told, "")
            before = line.expected_hash(before)
            text.append(json.dumps([*astuple(line)[:-1], before], ensure_ascii=False))
        data = "".join(f"{line}\n" for line in text).encode("utf-8", "replace")
        while data:
            try:
                self._spool.append(data)
            except OSError as error:
                self._complain(f"the audit log {self._spool.path} cannot be written: {error.strerror}")
                if self._closing.wait(_RETRY_SECONDS):
                    return False
            else:
                break
        self._number, self._hash = number, before
        self._news.set()
        return True

    # The thread that sends it to the database

    def _send_lines(self) -> None:
        spools = [self._spool, *self._left_behind()]
        while time.monotonic() < self._end:
            # Asked first: a line that is written after the look at the files must not end this.
            is_last = self._closing.is_set() and not self._writing.is_alive()
            spool = next((one for one in spools if one.unsent), None)
            if spool is None:
                if is_last:
                    return
                self._news.wait(_RETRY_SECONDS)
                self._news.clear()
                continue
            try:
                size, lines = spool.read()
                self._insert(lines)
            except (SourceError, OSError) as error:
                self._complain(f"the audit log waits in {spool.path}: {error}")
                self._closing.wait(min(_RETRY_SECONDS, max(0.0, self._end - time.monotonic())))
                if self._closing.is_set():
                    time.sleep(0.1)
                continue
            except (ValueError, TypeError):
                self._complain(f"the audit log {spool.path} is damaged: keep it, and look at its lines")
                spools.remove(spool)
                continue
            spool.advance(size)
            if spool is self._spool:
                self._sent += len(lines)
            elif not spool.unsent:
                _log.warning("the lines of the audit log that %s had are in the database now", spool.path)
                spool.remove()
                spools.remove(spool)
            self.problem = ""
            self._closing.wait(_PAUSE_SECONDS)

    def _left_behind(self) -> list[_Spool]:
        """The files of gateways that ended before everything was sent."""
        found: list[_Spool] = []
        for path in sorted(self._spool.path.parent.glob(f"*{_SUFFIX}")):
            if path != self._spool.path:
                with suppress(OSError):
                    spool = _Spool.adopt(path)
                    found += [] if spool is None else [spool]
        return found

    def _insert(self, lines: list[AuditLine]) -> None:
        if not lines:
            return
        with self._store.writing() as connection:
            if self._store.is_postgresql:
                columns = [list(column) for column in zip(*map(astuple, lines), strict=True)]
                connection.execute(_INSERT, dict(zip(_COLUMNS, columns, strict=True)))
            else:
                insert = sqlite.insert(audit).on_conflict_do_nothing()
                connection.execute(
                    insert, [dict(zip(_COLUMNS, astuple(line), strict=True)) for line in lines]
                )

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            _log.error("%s", problem)
        self.problem = problem


_COLUMNS: Final = tuple(column.name for column in audit.columns)
# One statement and eight parameters, however many lines.
_INSERT: Final = sa.text(
    f"INSERT INTO audit ({', '.join(_COLUMNS)}) SELECT * FROM unnest("  # noqa: S608 - our own names
    "CAST(:writer AS text[]), CAST(:number AS bigint[]), CAST(:at AS bigint[]), CAST(:who AS text[]), "
    "CAST(:action AS text[]), CAST(:what AS text[]), CAST(:details AS text[]), CAST(:hash AS text[])) "
    "ON CONFLICT DO NOTHING"
)


@dataclass(slots=True, eq=False)
class _Spool:
    """A file of lines for the database. Its lock says that the process that writes it lives."""

    path: Path
    descriptor: int
    lock: threading.Lock
    end: int = 0
    sent: int = 0

    @classmethod
    def create(cls, path: Path) -> _Spool:
        while True:
            with suppress(FileExistsError):
                os.close(os.open(path, CREATE, 0o600))
            with suppress(FileNotFoundError):
                descriptor = os.open(path, _OPEN)
                # Before it was locked, another gateway may have removed it as one that was left behind.
                if try_lock(descriptor) and _is_at(path, descriptor):
                    return cls(path, descriptor, threading.Lock())
                os.close(descriptor)

    @classmethod
    def adopt(cls, path: Path) -> _Spool | None:
        """A file whose process ended, or `None`."""
        descriptor = os.open(path, _OPEN)
        # Its process may have replaced it just now: then the lock is that of a file that is gone.
        if not try_lock(descriptor) or not _is_at(path, descriptor):
            os.close(descriptor)
            return None
        spool = cls(path, descriptor, threading.Lock(), end=os.fstat(descriptor).st_size)
        if not spool.unsent:
            spool.remove()
            return None
        return spool

    @property
    def unsent(self) -> int:
        return self.end - self.sent

    def append(self, data: bytes) -> None:
        """Append all of it, or nothing."""
        with self.lock:
            rest = memoryview(data)
            try:
                os.lseek(self.descriptor, self.end, os.SEEK_SET)
                while rest:
                    rest = rest[os.write(self.descriptor, rest) :]
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self.descriptor, self.end)
                raise
            self.end += len(data)

    def read(self) -> tuple[int, list[AuditLine]]:
        """The next lines that were not sent, and how many bytes they are. A last line that was not finished
        is skipped: its process was killed while it wrote."""
        data = self._bytes(_BATCH_BYTES)
        whole = data.rfind(b"\n") + 1
        if not whole and len(data) == _BATCH_BYTES:
            raise ValueError("a line without an end")
        if not whole:
            _log.warning("the last line of %s was not finished when its gateway ended", self.path)
            return len(data), []
        return whole, [AuditLine(*json.loads(line)) for line in data[:whole].splitlines()]

    def _bytes(self, most: int) -> bytes:
        with self.lock:
            os.lseek(self.descriptor, self.sent, os.SEEK_SET)
            return os.read(self.descriptor, min(most, self.unsent))

    def advance(self, size: int) -> None:
        """So much is in the database. What was sent is removed from the file now and then."""
        with self.lock:
            self.sent += size
            if not self.unsent:
                with suppress(OSError):
                    os.ftruncate(self.descriptor, 0)
                    self.end = self.sent = 0
            is_large = self.sent > max(_COMPACT_BYTES, self.unsent)
        if is_large:
            with suppress(OSError), self.lock:
                self._compact()

    def _compact(self) -> None:
        os.lseek(self.descriptor, self.sent, os.SEEK_SET)
        rest = os.read(self.descriptor, self.unsent)
        shorter = self.path.with_suffix(".new")
        descriptor = os.open(shorter, _OPEN | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            if os.write(descriptor, rest) < len(rest) or len(rest) < self.unsent:
                raise OSError(0, "the disk is full")
            try_lock(descriptor)
            shorter.replace(self.path)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self.descriptor)
        self.descriptor, self.end, self.sent = descriptor, len(rest), 0

    def remove(self) -> None:
        os.close(self.descriptor)
        with suppress(OSError):
            self.path.unlink()


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
