"""The tables of the approval database: rows, and the migration from version 0.1."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

_VERSION: Final = 2
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS skill_approvals (
    server TEXT NOT NULL,
    uri TEXT NOT NULL,
    label TEXT NOT NULL,
    resources TEXT NOT NULL,
    allowed_tools INTEGER NOT NULL,
    execute_code INTEGER NOT NULL,
    entry TEXT NOT NULL,
    is_current INTEGER NOT NULL,
    approved_at TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    approved_how TEXT NOT NULL,
    PRIMARY KEY (server, uri)
) WITHOUT ROWID
"""
# Who had signed a skill when it was last loaded or approved: kept for skills without an approval, too.
SIGNERS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS skill_signers (
    server TEXT NOT NULL,
    uri TEXT NOT NULL,
    signer TEXT NOT NULL,
    PRIMARY KEY (server, uri)
) WITHOUT ROWID
"""
# Every decision, the latest last: for people to look at, and to know what was declined.
_DECISIONS: Final = """
CREATE TABLE IF NOT EXISTS skill_decisions (
    number INTEGER PRIMARY KEY,
    server TEXT NOT NULL,
    uri TEXT NOT NULL,
    decision TEXT NOT NULL,
    digest TEXT NOT NULL,
    grants TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    decided_how TEXT NOT NULL
)
"""
_MOST_DECISIONS: Final = 50
"""At most this many decisions about one skill are kept."""
COLUMNS: Final = (
    "server, uri, label, resources, allowed_tools, execute_code, entry, is_current, "
    "approved_at, approved_by, approved_how"
)
# Version 0.1 had two tables, keyed by the label alone; their rows keep that key until a server claims them.
_OLD_TABLES: Final = (("withdrawn", 0), ("approvals", 1))
_OLD_ROWS: Final = (
    "SELECT 'label:' || server AS server, uri, server AS label, resources, allowed_tools, execute_code, "
    "entry, {current} AS is_current, '' AS approved_at, '' AS approved_by, 'version 0.1' AS approved_how "
    "FROM {table}"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One approval as it is stored. Nothing in it has been checked yet."""

    server: str
    """What identifies the server, with the caller of a gateway if the approval is theirs: as `server_key`
    makes it."""
    uri: str
    label: str
    """What the user called the server then."""
    resources: str
    """The files that were approved: sorted pairs of a URI and a digest, as JSON."""
    allowed_tools: int
    execute_code: int
    entry: str
    """The entry that the user saw, as JSON. The skill can be used with it while its server is unreachable."""
    is_current: int
    """0 for what was approved before the skill changed: such a row allows nothing, and shows what
    changed."""
    approved_at: str = ""
    """The time in UTC, in the form of ISO 8601 with microseconds."""
    approved_by: str = ""
    """The name of the user at the machine."""
    approved_how: str = ""
    """Where and why, such as `approved on the review page`."""

    @property
    def caller(self) -> str:
        """The caller of a gateway who approved it; empty for the user."""
        return caller_of(self.server)

    @property
    def identity(self) -> str:
        """What identifies the server, whoever approved its skill."""
        return self.server.split(":", 2)[2] if self.caller else self.server


_CALLER: Final = "caller:"


def server_key(identity: str, caller: str = "") -> str:
    """How a server is named in the row of an approval: with the caller of a gateway, if it is theirs.

    No identity of a server starts like this, and no name of a caller has a colon in it.
    """
    return f"{_CALLER}{caller}:{identity}" if caller else identity


def caller_of(server: str) -> str:
    """The caller of a gateway in a `server_key`; empty for the user."""
    return server.split(":", 2)[1] if server.startswith(_CALLER) else ""


class Decided(StrEnum):
    """What was decided about a skill."""

    APPROVED = "approved"
    """These files may be loaded, with these grants."""
    DECLINED = "declined"
    """These files may not be loaded. The user is not asked again until they change, and an approval of the
    skill ends."""
    REVOKED = "revoked"
    """A decision was taken back."""
    CHANGED = "changed"
    """The skill changed, which ended its approval. No person decided that."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about a set of files of a skill: what, when, by whom and how."""

    server: str
    """What identifies the server, with the caller of a gateway if the decision is theirs: as `server_key`
    makes it."""
    uri: str
    decision: str
    """A value of `Decided`. A later version may have written one that is not known here."""
    digest: str = ""
    """The digest of the files; empty for a dynamic skill, and when it was not they that were decided
    about."""
    grants: str = ""
    """What was granted, in words, such as `tools, code`; empty for nothing."""
    decided_at: str = ""
    """The time in UTC, in the form of ISO 8601 with microseconds."""
    decided_by: str = ""
    """The name of the user at the machine; empty for a change, which has no author."""
    decided_how: str = ""
    """Where and why, such as `approved on the review page`."""


def migrate(database: sqlite3.Connection) -> int:
    """Migrate the tables of version 0.1, which stay as they are. Returns the number of rows."""
    database.execute(_DECISIONS)
    if _version(database) >= _VERSION:
        return 0
    database.execute(_TABLE)
    for table, current in _old_tables(database):
        rows = _OLD_ROWS.format(current=current, table=table)
        database.execute(f"INSERT OR REPLACE INTO skill_approvals ({COLUMNS}) {rows}")
    database.execute(f"PRAGMA user_version = {_VERSION}")
    (count,) = database.execute("SELECT count(*) FROM skill_approvals").fetchone()
    return int(count)


def select(database: sqlite3.Connection, where: str, values: Iterable[str]) -> list[Row]:
    """The rows, also of a file that an older version wrote and nobody has migrated yet."""
    source = "skill_approvals"
    if _version(database) < _VERSION:
        old = [_OLD_ROWS.format(current=current, table=table) for table, current in _old_tables(database)]
        if not old:
            return []
        source = f"({' UNION ALL '.join(old)})"
    query = f"SELECT {COLUMNS} FROM {source} {where} ORDER BY server, uri, is_current"  # noqa: S608 - names of ours
    found: list[Any] = database.execute(query, tuple(values)).fetchall()
    # Of a skill in both old tables, the current row comes last and counts.
    return list({row[:2]: Row(*row) for row in found}.values())


def select_signers(database: sqlite3.Connection, server: str | None, uri: str) -> dict[tuple[str, str], str]:
    """The signer of every skill by server and URI, or of one skill; none before one was kept."""
    if "skill_signers" not in _tables(database):
        return {}
    query = "SELECT server, uri, signer FROM skill_signers"
    if server is not None:
        query += " WHERE server = ? AND uri = ?"
    rows: list[Any] = database.execute(query, () if server is None else (server, uri)).fetchall()
    return {(str(row[0]), str(row[1])): str(row[2]) for row in rows}


def select_decisions(database: sqlite3.Connection, where: str, values: Iterable[str]) -> list[Decision]:
    """Decisions in the order in which they were made; none of a file that an earlier version wrote."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'skill_decisions'").fetchone():
        return []
    columns = ", ".join(field.name for field in fields(Decision))
    query = f"SELECT {columns} FROM skill_decisions {where} ORDER BY number"  # noqa: S608 - names of ours
    return [Decision(*row) for row in database.execute(query, tuple(values)).fetchall()]


def note(database: sqlite3.Connection, decision: Decision) -> None:
    """Add a decision; the oldest ones about the same skill go when there are too many."""
    names = [field.name for field in fields(Decision)]
    statement = f"INSERT INTO skill_decisions ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - names of ours
    database.execute(statement, tuple(getattr(decision, name) for name in names))
    database.execute(
        "DELETE FROM skill_decisions WHERE server = ?1 AND uri = ?2 AND number NOT IN (SELECT number FROM "
        "skill_decisions WHERE server = ?1 AND uri = ?2 ORDER BY number DESC LIMIT ?3)",
        (decision.server, decision.uri, _MOST_DECISIONS),
    )


def is_old(database: sqlite3.Connection) -> bool:
    return _version(database) < _VERSION and bool(_old_tables(database))


def _version(database: sqlite3.Connection) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    return int(version)


def _old_tables(database: sqlite3.Connection) -> list[tuple[str, int]]:
    names = _tables(database)
    return [(table, current) for table, current in _OLD_TABLES if table in names]


def _tables(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
