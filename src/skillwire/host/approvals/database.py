"""ApprovalDatabase: approvals in one SQLite file that several processes share. Every call may block."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Protocol

from skillwire.errors import SourceError
from skillwire.host.approvals.schema import (
    COLUMNS,
    SIGNERS_TABLE,
    Decision,
    Row,
    is_old,
    migrate,
    note,
    select,
    select_decisions,
    select_signers,
)
from skillwire.host.approvals.sqlite_file import SqliteFile


class ApprovalBackend(Protocol):
    """Where approvals are stored. Every call may block, except `stamp`."""

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        ...

    @property
    def remark(self) -> str:
        """What the user should know about it."""
        ...

    def stamp(self) -> tuple[int, ...]: ...
    def open(self) -> list[Row]: ...
    def rows(self) -> list[Row]: ...
    def row(self, server: str, uri: str) -> Row | None: ...
    def signers(self, server: str | None = None, uri: str = "") -> dict[tuple[str, str], str]: ...
    def put_signer(self, server: str, uri: str, signer: str) -> None: ...
    def decisions(self, server: str, uri: str) -> list[Decision]: ...
    def last_decisions(self) -> list[Decision]: ...
    def decide(self, decision: Decision) -> None: ...
    def put(self, *rows: Row, decisions: Iterable[Decision] = ()) -> None: ...
    def withdraw(self, server: str, uri: str, approved_at: str, *, noted: Decision | None = None) -> None: ...
    def claim(self, old: str, new: str | None) -> int: ...
    def remove(self, server: str, uri: str) -> bool: ...
    def remove_server(self, server: str) -> int: ...


class ApprovalDatabase:
    """The rows of one file. `remark` says what happened to a damaged one, once it was set aside."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(
            path,
            what="the approvals",
            loss="nothing is approved now, so you are asked again about each skill",
            prepare=_prepare,
            check=lambda database: select(database, "", ()),
        )

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def remark(self) -> str:
        return self._file.remark

    def stamp(self) -> tuple[int, ...]:
        """A value that changes when another process writes the file. Takes one `stat`."""
        return self._file.stamp()

    def open(self) -> list[Row]:
        """Every row, after a file of version 0.1 was migrated, if it can be written."""
        if self._file.read(is_old, default=False):
            with suppress(SourceError):  # It can be read as it is.
                self._file.write(lambda database: None)
        return self.rows()

    def rows(self) -> list[Row]:
        """Every row; none when there is no file yet."""
        return self._file.read(lambda database: select(database, "", ()), default=[])

    def row(self, server: str, uri: str) -> Row | None:
        """The row of one skill of one server."""
        found = self._file.read(
            lambda database: select(database, "WHERE server = ? AND uri = ?", (server, uri)), default=[]
        )
        return found[0] if found else None

    def signers(self, server: str | None = None, uri: str = "") -> dict[tuple[str, str], str]:
        """Who had signed each skill when it was last loaded or approved; with `server`, one skill's."""

        return self._file.read(lambda database: select_signers(database, server, uri), default={})

    def put_signer(self, server: str, uri: str, signer: str) -> None:
        """Record who signed a skill, replacing what was recorded before."""

        def write(database: sqlite3.Connection) -> None:
            database.execute(SIGNERS_TABLE)
            database.execute("INSERT OR REPLACE INTO skill_signers VALUES (?, ?, ?)", (server, uri, signer))

        self._file.write(write)

    def decisions(self, server: str, uri: str) -> list[Decision]:
        """What was decided about one skill, the latest last."""
        return self._file.read(
            lambda database: select_decisions(database, "WHERE server = ? AND uri = ?", (server, uri)),
            default=[],
        )

    def last_decisions(self) -> list[Decision]:
        """The last decision about each skill that something was decided about."""
        where = "WHERE number IN (SELECT max(number) FROM skill_decisions GROUP BY server, uri)"
        return self._file.read(lambda database: select_decisions(database, where, ()), default=[])

    def decide(self, decision: Decision) -> None:
        """Note a decision that changes no approval."""
        self._file.write(lambda database: note(database, decision))

    def put(self, *rows: Row, decisions: Iterable[Decision] = ()) -> None:
        """Write rows in place of any earlier ones of the same skills, and what was decided, all or none."""
        noted = tuple(decisions)
        values = [tuple(getattr(row, field.name) for field in fields(Row)) for row in rows]
        marks = ", ".join("?" * len(fields(Row)))
        statement = f"INSERT OR REPLACE INTO skill_approvals ({COLUMNS}) VALUES ({marks})"  # noqa: S608 - names of ours

        def write(database: sqlite3.Connection) -> None:
            database.executemany(statement, values)
            for decision in noted:
                note(database, decision)

        self._file.write(write)

    def withdraw(self, server: str, uri: str, approved_at: str, *, noted: Decision | None = None) -> None:
        """Mark an approval as no longer current, unless it was given again since. `noted` says why."""

        def change(database: sqlite3.Connection) -> None:
            ended = database.execute(
                "UPDATE skill_approvals SET is_current = 0 "
                "WHERE server = ? AND uri = ? AND approved_at = ? AND is_current = 1",
                (server, uri, approved_at),
            )
            if ended.rowcount and noted is not None:
                note(database, noted)

        self._file.write(change)

    def claim(self, old: str, new: str | None) -> int:
        """Give the rows of one server to another identity; without one, they stay and are no longer current.

        The number of approvals that were current.
        """

        def change(database: sqlite3.Connection) -> int:
            count = "SELECT count(*) FROM skill_approvals WHERE server = ? AND is_current = 1"
            (current,) = database.execute(count, (old,)).fetchone()
            if new is None:
                database.execute("UPDATE skill_approvals SET is_current = 0 WHERE server = ?", (old,))
            else:
                # One that was given since is newer than what version 0.1 left.
                database.execute(
                    "UPDATE OR IGNORE skill_approvals SET server = ? WHERE server = ?", (new, old)
                )
            return int(current)

        return self._file.write(change)

    def remove(self, server: str, uri: str) -> bool:
        """Delete a row; false when there was no current one."""
        return self._remove("server = ? AND uri = ?", (server, uri)) > 0

    def remove_server(self, server: str) -> int:
        """Delete all rows of a server. Returns how many were current."""
        removed = self._remove("server = ?", (server,))
        if any(key[0] == server for key in self.signers()):
            self._file.write(
                lambda database: database.execute("DELETE FROM skill_signers WHERE server = ?", (server,))
            )
        return removed

    def _remove(self, where: str, values: tuple[str, ...]) -> int:
        if not self._file.exists():
            return 0

        def delete(database: sqlite3.Connection) -> int:
            count = f"SELECT count(*) FROM skill_approvals WHERE {where} AND is_current = 1"  # noqa: S608 - names of ours
            (current,) = database.execute(count, values).fetchone()
            database.execute(f"DELETE FROM skill_approvals WHERE {where}", values)  # noqa: S608 - names of ours
            return int(current)

        return self._file.write(delete)


def _prepare(database: sqlite3.Connection) -> str:
    migrated = migrate(database)
    return f"{migrated:,} approvals of version 0.1 were migrated" if migrated else ""
