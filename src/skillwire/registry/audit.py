"""The audit log of a registry: append-only, each line bound to all lines before it by a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.json_types import JsonObject
from skillwire.registry.schema import audit
from skillwire.registry.store import Store, now

_START: Final = "0" * 64
_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class AuditLine:
    """Who did what, and when.

    Lines are numbered from 1 on, without gaps. `at` is in milliseconds since 1970, `what` names the skill,
    namespace or token that it was done to, and `details` is a JSON object.
    """

    number: int
    at: int
    who: str
    action: str
    what: str
    details: str
    hash: str

    def expected_hash(self, before: str) -> str:
        """The hash that this line has after a line with the hash `before`."""
        fields = [before, self.number, self.at, self.who, self.action, self.what, self.details]
        return hashlib.sha256(json.dumps(fields, ensure_ascii=False).encode()).hexdigest()


def record(connection: Connection, who: str, action: str, what: str, details: JsonObject) -> None:
    """Append a line. Call `take_turn` first in the transaction, so that no two lines get the same number."""
    last = connection.execute(
        sa.select(audit.c.number, audit.c.hash).order_by(audit.c.number.desc()).limit(1)
    ).first()
    number, before = (last.number + 1, last.hash) if last is not None else (1, _START)
    text = json.dumps(details, ensure_ascii=False, sort_keys=True)
    line = AuditLine(number, now(), who, action, what, text, "")
    connection.execute(
        audit.insert().values(
            number=number,
            at=line.at,
            who=who,
            action=action,
            what=what,
            details=text,
            hash=line.expected_hash(before),
        )
    )


def read_audit(store: Store, *, after: int = 0) -> Iterator[AuditLine]:
    """Every line after a number, the oldest first."""
    while True:
        query = sa.select(audit).where(audit.c.number > after).order_by(audit.c.number).limit(_BATCH)
        with store.snapshot() as connection:
            rows = connection.execute(query).all()
        for row in rows:
            yield AuditLine(row.number, row.at, row.who, row.action, row.what, row.details, row.hash)
        if len(rows) < _BATCH:
            return
        after = rows[-1].number


def first_broken(store: Store) -> int | None:
    """The number of the first line that was changed or is missing; `None` if the log is intact.

    Lines removed from the end cannot be noticed this way: compare the last number with one that you noted.
    """
    before, expected = _START, 1
    for line in read_audit(store):
        if line.number != expected or line.hash != line.expected_hash(before):
            return expected
        before, expected = line.hash, expected + 1
    return None
