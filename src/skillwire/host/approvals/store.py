"""ApprovalStore: what the user agreed to, kept in SQLite so that several processes can share it.

Every change is one transaction. A file that is damaged is set aside, not trusted and not deleted: nothing is
approved then, and the user is asked again.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from skillwire.errors import FormatError, SourceError
from skillwire.skill.digests import parse_digest
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, parse_uri
from skillwire.trust.approval import Approval, Grants
from skillwire.trust.origin import Origin
from skillwire.wire.stored import entry_from_stored, entry_to_stored

_WAIT_SECONDS: Final = 10
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS approvals (
    server TEXT NOT NULL,
    uri TEXT NOT NULL,
    resources TEXT NOT NULL,
    allowed_tools INTEGER NOT NULL,
    execute_code INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (server, uri)
) WITHOUT ROWID
"""
# What was approved of a skill that changed since. It allows nothing; it shows what changed.
_SCHEMA_WITHDRAWN: Final = _SCHEMA.replace("approvals", "withdrawn")


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """An approval with the entry that the user saw, which is used while the server is away."""

    approval: Approval
    entry: SkillEntry


class ApprovalStore:
    """Approvals by server and URI. Only bound ones are kept: others end with the session (SEC-6)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remark = ""
        self._prepare()

    def get(self, origin: Origin, uri: SkillUri) -> Approval | None:
        """The approval of one skill of one server (ENT-4)."""
        with self._open() as database:
            row = database.execute(
                "SELECT * FROM approvals WHERE server = ? AND uri = ?", (origin.label, uri)
            ).fetchone()
        stored = _stored(row) if row else None
        return stored.approval if stored else None

    def put(self, approval: Approval, entry: SkillEntry) -> None:
        """Keep an approval in place of any earlier one of the same skill."""
        if not approval.bound:
            raise ValueError("an approval that is not bound to digests is not kept")
        row = (
            approval.origin.label,
            approval.uri,
            json.dumps(sorted(approval.resources)),
            approval.grants.allowed_tools,
            approval.grants.execute_code,
            json.dumps(entry_to_stored(entry)),
        )
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO approvals VALUES (?, ?, ?, ?, ?, ?)", row)
            database.execute("DELETE FROM withdrawn WHERE server = ? AND uri = ?", row[:2])

    def withdraw(self, origin: Origin, uri: SkillUri) -> None:
        """Take an approval back because the skill changed. What was approved is kept to compare with."""
        key = (origin.label, uri)
        with self._open() as database:
            database.execute(
                "INSERT OR REPLACE INTO withdrawn SELECT * FROM approvals WHERE server = ? AND uri = ?", key
            )
            database.execute("DELETE FROM approvals WHERE server = ? AND uri = ?", key)

    def withdrawn(self, origin: Origin, uri: SkillUri) -> Approval | None:
        """What was approved of a skill before it changed. It is no approval."""
        with self._open() as database:
            row = database.execute(
                "SELECT * FROM withdrawn WHERE server = ? AND uri = ?", (origin.label, uri)
            ).fetchone()
        stored = _stored(row) if row else None
        return stored.approval if stored else None

    def remove(self, origin: Origin, uri: SkillUri) -> bool:
        """Take an approval back; false when there was none."""
        key = (origin.label, uri)
        with self._open() as database:
            database.execute("DELETE FROM withdrawn WHERE server = ? AND uri = ?", key)
            done = database.execute("DELETE FROM approvals WHERE server = ? AND uri = ?", key)
            return done.rowcount > 0

    def remove_server(self, origin: Origin) -> int:
        """Forget everything about a server; the number of approvals that it had."""
        with self._open() as database:
            database.execute("DELETE FROM withdrawn WHERE server = ?", (origin.label,))
            return database.execute("DELETE FROM approvals WHERE server = ?", (origin.label,)).rowcount

    def all(self, origin: Origin | None = None) -> list[StoredApproval]:
        """Every approval, or those of one server."""
        with self._open() as database:
            rows = database.execute(
                "SELECT * FROM approvals WHERE ?1 IS NULL OR server = ?1 ORDER BY server, uri",
                (origin.label if origin else None,),
            ).fetchall()
        return [stored for row in rows if (stored := _stored(row))]

    def _prepare(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Private before SQLite writes a byte; its other files take the mode of this one.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self.path.chmod(0o600)
            with closing(self._connect()) as database, database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(_SCHEMA)
                database.execute(_SCHEMA_WITHDRAWN)
                database.execute("SELECT * FROM approvals LIMIT 1").fetchall()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "malformed" not in str(error):
                raise SourceError(f"the approvals in {self.path} cannot be used: {error}") from None
            self._set_aside()
            self._prepare()
        except OSError as error:
            raise SourceError(f"the approvals in {self.path} cannot be used: {error.strerror}") from None

    def _set_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged")
        number = 1
        while aside.exists():
            number += 1
            aside = self.path.with_name(f"{self.path.name}.damaged-{number}")
        with suppress(FileNotFoundError):  # Another process was quicker.
            self.path.rename(aside)
        for ending in ("-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        self.remark = f"the approvals were damaged and set aside as {aside}; nothing is approved now"

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        """A connection for one transaction, so that no process holds the file while it does nothing."""
        try:
            with closing(self._connect()) as database, database:
                yield database
        except sqlite3.Error as error:
            # Fail closed, with an error that hosts know: nothing is approved that cannot be read.
            raise SourceError(f"the approvals in {self.path} cannot be used: {error}") from None

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=_WAIT_SECONDS)


def _stored(row: Iterable[Any]) -> StoredApproval | None:
    """A row as an approval; `None`, and so not approved, when it is not one that we wrote."""
    try:
        server, uri, resources, allowed_tools, execute_code, entry = row
        pairs = cast("list[list[str]]", json.loads(resources))
        approval = Approval(
            origin=Origin.mcp(server),
            uri=parse_uri(uri),
            resources=frozenset((parse_uri(file), parse_digest(digest)) for file, digest in pairs),
            grants=Grants(allowed_tools=allowed_tools == 1, execute_code=execute_code == 1),
        )
        return StoredApproval(approval, entry_from_stored(json.loads(entry)))
    except (FormatError, ValueError, TypeError, RecursionError):
        return None
