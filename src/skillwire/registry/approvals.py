"""Approvals and the audit log of gateways in a registry's store, so that several of them share both."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.errors import SourceError
from skillwire.gateway.audit import CLIENT, Act
from skillwire.host.approvals.schema import Decision, Row
from skillwire.registry.audit import record
from skillwire.registry.schema import approvals, decisions, signers
from skillwire.registry.store import Store

_MOST_DECISIONS: Final = 50
_MOST_WAITING: Final = 100_000
_BATCH: Final = 500
_RETRY_SECONDS: Final = 1.0

_log = logging.getLogger("skillwire.gateway")


class SharedApprovals:
    """Approvals in a store: a decision in one gateway counts in all of them within a second."""

    path = None
    remark = ""

    def __init__(self, store: Store) -> None:
        self._store = store

    def stamp(self) -> tuple[int, ...]:
        """A new value every second: a shared database is polled that often."""
        return 0, int(time.monotonic())

    def open(self) -> list[Row]:
        return self.rows()

    def rows(self) -> list[Row]:
        with self._store.reading() as connection:
            return _rows(connection, sa.true())

    def row(self, server: str, uri: str) -> Row | None:
        with self._store.reading() as connection:
            found = _rows(connection, _is(approvals, server, uri))
        return found[0] if found else None

    def signers(self, server: str | None = None, uri: str = "") -> dict[tuple[str, str], str]:
        query = sa.select(signers)
        if server is not None:
            query = query.where(_is(signers, server, uri))
        with self._store.reading() as connection:
            return {(row.server, row.uri): row.signer for row in connection.execute(query)}

    def put_signer(self, server: str, uri: str, signer: str) -> None:
        with self._store.writing() as connection:
            connection.execute(signers.delete().where(_is(signers, server, uri)))
            connection.execute(signers.insert().values(server=server, uri=uri, signer=signer))

    def decisions(self, server: str, uri: str) -> list[Decision]:
        with self._store.reading() as connection:
            return _decisions(connection, _is(decisions, server, uri))

    def last_decisions(self) -> list[Decision]:
        last = sa.select(sa.func.max(decisions.c.number)).group_by(decisions.c.server, decisions.c.uri)
        with self._store.reading() as connection:
            return _decisions(connection, decisions.c.number.in_(last))

    def decide(self, decision: Decision) -> None:
        with self._store.writing() as connection:
            _note(connection, decision)

    def put(self, *rows: Row, decisions: Iterable[Decision] = ()) -> None:
        with self._store.writing() as connection:
            self._store.take_turn(connection)
            for row in rows:
                connection.execute(approvals.delete().where(_is(approvals, row.server, row.uri)))
                connection.execute(approvals.insert().values(**asdict(row)))
            for decision in decisions:
                _note(connection, decision)

    def withdraw(self, server: str, uri: str, approved_at: str, *, noted: Decision | None = None) -> None:
        with self._store.writing() as connection:
            ended = connection.execute(
                approvals.update()
                .where(
                    _is(approvals, server, uri),
                    approvals.c.approved_at == approved_at,
                    approvals.c.is_current == 1,
                )
                .values(is_current=0)
            )
            if ended.rowcount and noted is not None:
                _note(connection, noted)

    def claim(self, old: str, new: str | None) -> int:
        """Nothing of version 0.1 is in a store."""
        return 0

    def remove(self, server: str, uri: str) -> bool:
        return self._remove(_is(approvals, server, uri)) > 0

    def remove_server(self, server: str) -> int:
        with self._store.writing() as connection:
            connection.execute(signers.delete().where(signers.c.server == server))
        return self._remove(approvals.c.server == server)

    def _remove(self, condition: sa.ColumnElement[bool]) -> int:
        with self._store.writing() as connection:
            current = connection.execute(
                sa.select(sa.func.count())
                .select_from(approvals)
                .where(condition, approvals.c.is_current == 1)
            ).scalar_one()
            connection.execute(approvals.delete().where(condition))
            return current


class StoreAudit:
    """The audit log of a gateway, in the store's own log, whose lines are chained by hashes.

    A thread writes, so no request waits for the database. Lines that cannot be written are retried.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problem = ""
        """Why lines cannot be written now; empty while they can."""
        self._lines: queue.Queue[tuple[str, str, str, dict[str, Any]] | None] = queue.Queue(_MOST_WAITING)
        self._lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skillwire-audit", daemon=True)
        self._thread.start()

    def write(self, act: Act, *, caller: str, **details: object) -> None:
        """Append a line. `details` with empty values are left out."""
        kept = {key: value for key, value in details.items() if value not in (None, "")}
        what = str(kept.pop("uri", ""))
        try:
            self._lines.put_nowait((f"caller:{caller}", act, what, {"client": CLIENT.get(), **kept}))
        except queue.Full:
            self._lost += 1

    def reopen(self) -> None:
        """Nothing to do: tables are not rotated."""

    def close(self) -> None:
        """Write what is waiting."""
        self._lines.put(None)
        self._closing.set()
        self._thread.join(10)

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch = [self._lines.get()]
            with suppress(queue.Empty):
                while len(batch) < _BATCH:
                    batch.append(self._lines.get_nowait())
            is_open = None not in batch
            self._append([line for line in batch if line is not None])

    def _append(self, lines: list[tuple[str, str, str, dict[str, Any]]]) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            lines.append(("gateway", "lost", "", {"lines": lost}))
        while lines:
            try:
                with self._store.writing() as connection:
                    self._store.take_turn(connection)
                    for who, act, what, details in lines:
                        record(connection, who, act, what, json.loads(json.dumps(details, default=str)))
            except SourceError as error:
                if str(error) != self.problem:
                    _log.error("%s", error)
                self.problem = str(error)
                if self._closing.wait(_RETRY_SECONDS):
                    return
            else:
                self.problem = ""
                return


def _is(table: sa.Table, server: str, uri: str) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.server == server, table.c.uri == uri)


def _rows(connection: Connection, condition: sa.ColumnElement[bool]) -> list[Row]:
    query = sa.select(approvals).where(condition).order_by(approvals.c.server, approvals.c.uri)
    return [
        Row(**{str(key): value for key, value in row.items()}) for row in connection.execute(query).mappings()
    ]


def _decisions(connection: Connection, condition: sa.ColumnElement[bool]) -> list[Decision]:
    columns = [column for column in decisions.c if column.name != "number"]
    query = sa.select(*columns).where(condition).order_by(decisions.c.number)
    found = connection.execute(query).mappings()
    return [Decision(**{str(key): value for key, value in row.items()}) for row in found]


def _note(connection: Connection, decision: Decision) -> None:
    """Add a decision; the oldest ones about the same skill are deleted if there are too many."""
    connection.execute(decisions.insert().values(**asdict(decision)))
    about = _is(decisions, decision.server, decision.uri)
    kept = (
        sa.select(decisions.c.number).where(about).order_by(decisions.c.number.desc()).limit(_MOST_DECISIONS)
    )
    connection.execute(decisions.delete().where(about, decisions.c.number.not_in(kept)))
