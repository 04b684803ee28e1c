"""SharedConsent: the records of people's decisions in a registry's store, for gateways that share them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.consent import Change, Decided, Decision, Key, Record
from skillwire.consent.record import (
    COLUMNS,
    DECISION_COLUMNS,
    HISTORY_COLUMNS,
    MOST_DECISIONS,
    from_row,
    to_row,
)
from skillwire.registry.schema import consent, consent_history
from skillwire.registry.store import Store


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
