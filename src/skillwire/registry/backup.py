"""Backup, restore and check of a registry, the same for both databases: one file of JSON lines."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.errors import FormatError, SourceError
from skillwire.issues import Issue
from skillwire.registry import schema
from skillwire.registry.queries import trigrams_of
from skillwire.registry.store import LONG_SECONDS, Store
from skillwire.skill import digest_of, set_digest

_FORMAT: Final = "skillwire-registry-backup-1"
_BATCH: Final = 200
# In an order in which each row refers to rows before it. Trigrams are derived from the terms.
_TABLES: Final = (
    schema.namespaces,
    schema.blobs,
    schema.skills,
    schema.versions,
    schema.deleted_versions,
    schema.files,
    schema.channels,
    schema.terms,
    schema.changes,
    schema.tokens,
    schema.grants,
    schema.consent,
    schema.consent_history,
    schema.audit,
)

_NUMBERED: Final = (
    ("skills", "id"),
    ("versions", "id"),
    ("channels", "id"),
    ("changes", "number"),
    ("consent_history", "number"),
)


def backup(store: Store, file: Path, *, progress: Callable[[int], None] | None = None) -> int:
    """Write a snapshot of a registry to a new file, and return the number of rows. `progress` gets it as it
    grows. Nobody waits for it: rows are read some at a time, beside publications.
    """
    rows = 0
    report = progress or _report_nothing
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SourceError(f"{file} exists: give the name of a new file") from None
    except OSError as error:
        raise SourceError(f"{file} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as stream:
            stream.write(_line({"format": _FORMAT}))
            with store.snapshot() as connection:
                for table in _TABLES:
                    for row in _rows(connection, table):
                        stream.write(_line({"table": table.name, **row}))
                        rows += 1
                        report(rows)
            stream.write(_line({"rows": rows}))
        return rows
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def restore(store: Store, file: Path) -> int:
    """Fill an empty registry from a backup, completely or not at all, and return the number of rows."""
    tables = {table.name: table for table in _TABLES}
    rows, is_whole = 0, False
    if not file.is_file():
        raise SourceError(f"{file} cannot be read: there is no such file")
    with gzip.open(file, "rb") as stream, store.writing(seconds=LONG_SECONDS) as connection:
        if connection.execute(sa.select(schema.namespaces.c.name).limit(1)).first() is not None:
            raise SourceError(f"{store.place} is not empty: restore into a new registry")
        try:
            if json.loads(stream.readline()) != {"format": _FORMAT}:
                raise _damaged("it is not a backup of a registry")
            pending: list[dict[str, Any]] = []
            name = ""
            for row in _parsed(stream):
                if set(row) == {"rows"}:
                    is_whole = row["rows"] == rows
                    break
                kind = str(row.pop("table"))
                if kind != name or len(pending) >= _BATCH:
                    if pending:
                        _insert(connection, tables[name], pending)
                    pending, name = [], kind
                pending.append(_decoded(row))
                rows += 1
            if pending:
                _insert(connection, tables[name], pending)
        except (ValueError, KeyError, EOFError, OSError) as error:
            raise _damaged(f"it cannot be read ({type(error).__name__})") from None
        if not is_whole:
            raise _damaged("its end is missing")
        _derive(connection, store)
    return rows


def damage(store: Store, *, progress: Callable[[int], None] | None = None) -> Iterator[str]:
    """What is damaged: files that do not match their digests, versions with a missing file. `progress` gets
    the number of files and versions that were checked.
    """
    report = progress or _report_nothing
    checked = 0
    with store.snapshot() as connection:
        for row in _rows(connection, schema.blobs, encode=False):
            checked += 1
            report(checked)
            data = bytes(row["data"])
            if digest_of(data) != row["digest"] or len(data) != row["size"]:
                yield f"the file {row['digest']} is damaged: restore it from a backup"
    with store.snapshot() as connection:
        query = sa.select(schema.versions, schema.skills.c.namespace, schema.skills.c.name).join(
            schema.skills, schema.skills.c.id == schema.versions.c.skill_id
        )
        for row in connection.execution_options(yield_per=_BATCH).execute(query):
            checked += 1
            report(checked)
            listed = json.loads(row.manifest)
            found = set_digest((path, digest) for path, digest, _ in listed)
            stored = connection.execute(
                sa.select(sa.func.count())
                .select_from(schema.files)
                .where(schema.files.c.version_id == row.id)
            ).scalar_one()
            if found != row.set_digest or stored != len(listed):
                yield f"{row.namespace}/{row.name} {row.version} is damaged: restore it from a backup"


def _report_nothing(_count: int) -> None:
    pass


def _rows(connection: Connection, table: sa.Table, *, encode: bool = True) -> Iterator[dict[str, Any]]:
    keys = list(table.primary_key.columns)
    result = connection.execution_options(yield_per=_BATCH).execute(sa.select(table).order_by(*keys))
    for row in result.mappings():
        yield {key: _encoded(value) if encode else value for key, value in row.items()}


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(bytes(cast("bytes", value))).decode("ascii")}
    return value


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    for key, value in row.items():
        match value:
            case {"base64": str(text)}:
                row[key] = base64.b64decode(text)
            case _:
                pass
    return row


def _parsed(stream: gzip.GzipFile) -> Iterator[dict[str, Any]]:
    for line in stream:
        yield json.loads(line)


def _insert(connection: Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    connection.execute(table.insert(), rows)


def _derive(connection: Connection, store: Store) -> None:
    """What is derived from the rows: the files of each namespace, the search index, and the next ids."""
    version, skill, file = schema.versions.c, schema.skills.c, schema.files.c
    connection.execute(
        schema.namespace_files.insert().from_select(
            ["namespace", "digest", "versions"],
            sa.select(skill.namespace, file.digest, sa.func.count(sa.distinct(file.version_id)))
            .join(schema.versions, version.id == file.version_id)
            .join(schema.skills, skill.id == version.skill_id)
            .group_by(skill.namespace, file.digest),
        )
    )
    for (term,) in connection.execute(sa.select(schema.terms.c.term).where(schema.terms.c.skills > 0)).all():
        rows = [{"trigram": part, "term": term} for part in trigrams_of(term)]
        connection.execute(schema.term_trigrams.insert(), rows)
    if not store.is_postgresql:
        connection.execute(
            sa.text(
                "INSERT INTO channel_terms (rowid, terms) SELECT id, terms || ' ' || text_terms FROM channels"
            )
        )
        return
    for table, column in (
        ("skills", "id"),
        ("versions", "id"),
        ("channels", "id"),
        ("changes", "number"),
        ("consent_history", "number"),
    ):
        connection.execute(
            sa.text(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), "  # noqa: S608 - our own names
                f"GREATEST((SELECT max({column}) FROM {table}), 1))"
            )
        )


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _damaged(reason: str) -> FormatError:
    return FormatError(
        Issue(rule="backup", message=f"the backup is not used: {reason}", fix="use another one")
    )
