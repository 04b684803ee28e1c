"""Upkeep of a registry, the same for both databases: backup, restore, check, and pruning.

A backup is one file of JSON lines. Backup and check work in batches with a time limit of their own, beside
publications. After an interruption they continue where they were. Pruning deletes old versions, uploads that
nobody published, and files that nothing refers to. It works in small transactions of few statements, since
publishers wait for each of them.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from skillwire.errors import FormatError, Issue, SourceError
from skillwire.files import CREATE, try_lock
from skillwire.limits import MIB
from skillwire.registry import schema
from skillwire.registry.audit import record
from skillwire.registry.queries import trigrams_of
from skillwire.registry.store import LONG_SECONDS, Store, now
from skillwire.skill import digest_of, set_digest

_FORMAT: Final = "skillwire-registry-backup-1"
_BATCH: Final = 200
_BATCH_BYTES: Final = 8 * MIB
_BATCH_SECONDS: Final = 60.0
"""How long one statement of a backup or a check may take."""
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
    schema.revocations,
    schema.signed_revocations,
    schema.changes,
    schema.tokens,
    schema.grants,
    schema.consent,
    schema.consent_history,
    schema.audit,
)
_KEY_BYTES: Final = 16
"""So much of a digest says whether a backup has a file."""
_GZIP: Final = 31
_VERSION: Final = "version:"

_Rows: TypeAlias = Sequence[Mapping[Any, Any]]


def backup(store: Store, file: Path, *, progress: Callable[[int], None] | None = None) -> int:
    """Write a registry to a new file, and return the number of rows. `progress` gets it as it grows.

    1. The files of skills, some at a time. They never change: after an interruption, the next call goes on
       with those that are in `part_of(file)`.
    2. In one snapshot, everything else, and the files that were published since.
    """
    if file.exists():
        raise SourceError(f"{file} exists: give the name of a new file")
    report = progress or _report_nothing
    try:
        with _open_part(part_of(file)) as stream:
            part = _Part(stream, store.place)
            for rows in _file_batches(store, part.last):
                part.write(schema.blobs, rows)
                report(part.rows)
            with store.snapshot(seconds=_BATCH_SECONDS) as connection:
                for table in _TABLES:
                    batches = _pages(connection, sa.select(table), *table.primary_key.columns)
                    if table is schema.blobs:
                        batches = _new_files(connection, bytes(part.digests))
                    for rows in batches:
                        part.write(table, rows)
                        report(part.rows)
            part.finish()
        part_of(file).replace(file)
        return part.rows
    except OSError as error:
        raise SourceError(f"{part_of(file)} cannot be written: {error.strerror}") from None


def part_of(file: Path) -> Path:
    """Where a backup is written until it is whole."""
    return file.with_name(f"{file.name}.part")


@contextmanager
def _open_part(path: Path) -> Generator[BinaryIO]:
    """A new file that is the user's alone, or the one of an earlier backup."""
    with suppress(FileExistsError):
        os.close(os.open(path, CREATE, 0o600))
    with path.open("r+b") as stream:
        if not try_lock(stream.fileno()):
            raise SourceError(f"another backup writes {path}: wait until it ends")
        yield stream


class _Part:
    """A backup that is being written. Each batch is compressed by itself, so that whole ones can be kept."""

    def __init__(self, stream: BinaryIO, place: str) -> None:
        """Take in the files of an earlier backup. What its tables had then is read again."""
        self.rows = 0
        self.last = ""
        """The digest of the last file. Files are written in the order of their digests."""
        self.digests = bytearray()
        """The first bytes of the digests of all files."""
        self._stream = stream
        header: dict[str, Any] = {"format": _FORMAT, "store": place}
        end = 0
        for member, size in _members(stream):
            rows = [json.loads(line) for line in member.splitlines()]
            if not end and rows != [header]:
                raise SourceError(f"{stream.name} is not part of a backup of {place}: delete it")
            if end:
                if any(row["table"] != schema.blobs.name for row in rows):
                    break
                self._note_files(rows)
                self.rows += len(rows)
            end += size
        stream.seek(end)
        stream.truncate()
        if not end:
            self._append(_line(header))

    def write(self, table: sa.Table, rows: _Rows) -> None:
        named = [
            {"table": table.name, **{key: _encoded(value) for key, value in row.items()}} for row in rows
        ]
        self._append(b"".join(map(_line, named)))
        self.rows += len(rows)
        if table is schema.blobs:
            self._note_files(rows)

    def finish(self) -> None:
        self._append(_line({"rows": self.rows}))
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _note_files(self, rows: _Rows) -> None:
        self.last = rows[-1]["digest"]
        self.digests += b"".join(_key(row["digest"]) for row in rows)

    def _append(self, data: bytes) -> None:
        self._stream.write(gzip.compress(data, compresslevel=6, mtime=0))


def _members(stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The batches of a file that are whole, with the size that they have in it."""
    decoder, content, size = zlib.decompressobj(_GZIP), bytearray(), 0
    while data := stream.read(MIB):
        while data:
            size += len(data)
            try:
                content += decoder.decompress(data)
            except zlib.error:
                return
            data = decoder.unused_data
            if decoder.eof:
                yield bytes(content), size - len(data)
                decoder, content, size = zlib.decompressobj(_GZIP), bytearray(), 0


def _key(digest: str) -> bytes:
    return bytes.fromhex(digest.rpartition(":")[2])[:_KEY_BYTES]


def _file_batches(store: Store, after: str) -> Iterator[_Rows]:
    """The files of skills after a digest, in the order of their digests, some megabytes at a time."""
    digest = schema.blobs.c.digest
    while True:
        with store.snapshot(seconds=_BATCH_SECONDS) as connection:
            sizes = connection.execute(
                sa.select(digest, schema.blobs.c.size).where(digest > after).order_by(digest).limit(_BATCH)
            ).all()
            if not sizes:
                return
            last = _last_that_fits(sizes)
            rows = _files(connection, digest > after, digest <= last)
        yield rows
        after = last


def _last_that_fits(sizes: Sequence[sa.Row[str, int]]) -> str:
    total, last = 0, ""
    for digest, size in sizes:
        total += size
        if last and total > _BATCH_BYTES:
            break
        last = digest
    return last


def _files(connection: Connection, *where: sa.ColumnElement[bool]) -> _Rows:
    query = sa.select(schema.blobs).where(*where).order_by(schema.blobs.c.digest)
    return connection.execute(query).mappings().all()


def _new_files(connection: Connection, known: bytes) -> Iterator[_Rows]:
    """The files that are not known yet. `known` has the keys of the others in their order."""
    digest, at = schema.blobs.c.digest, 0
    for rows in _pages(connection, sa.select(digest), digest):
        new: list[str] = []
        for row in rows:
            key = _key(row["digest"])
            while known[at : at + _KEY_BYTES] < key and at < len(known):
                at += _KEY_BYTES
            if known[at : at + _KEY_BYTES] != key:
                new.append(row["digest"])
        for one in new:
            yield _files(connection, digest == one)


def _pages(connection: Connection, query: sa.Select[Any], *keys: sa.Column[Any]) -> Iterator[_Rows]:
    """All rows in the order of their keys, some at a time."""
    query = query.order_by(*keys).limit(_BATCH)
    rows = connection.execute(query).mappings().all()
    while rows:
        yield rows
        last = sa.tuple_(*(sa.literal(rows[-1][key.name], key.type) for key in keys))
        rows = connection.execute(query.where(sa.tuple_(*keys) > last)).mappings().all()


def restore(store: Store, file: Path, *, progress: Callable[[int], None] | None = None) -> int:
    """Fill an empty registry from a backup, completely or not at all, and return the number of rows."""
    report = progress or _report_nothing
    tables = {table.name: table for table in _TABLES}
    rows, is_whole = 0, False
    if not file.is_file():
        raise SourceError(f"{file} cannot be read: there is no such file")
    with gzip.open(file, "rb") as stream, store.writing(seconds=LONG_SECONDS) as connection:
        if connection.execute(sa.select(schema.namespaces.c.name).limit(1)).first() is not None:
            raise SourceError(f"{store.place} is not empty: restore into a new registry")
        try:
            if json.loads(stream.readline())["format"] != _FORMAT:
                raise _damaged("it is not a backup of a registry")
            pending: list[dict[str, Any]] = []
            name, size = "", 0
            for row in _parsed(stream):
                if set(row) == {"rows"}:
                    is_whole = row["rows"] == rows
                    break
                kind = str(row.pop("table"))
                if kind != name or len(pending) >= _BATCH or size > _BATCH_BYTES:
                    if pending:
                        _insert(connection, tables[name], pending)
                        report(rows)
                    pending, name, size = [], kind, 0
                pending.append(_decoded(row))
                rows += 1
                size += int(row.get("size", 0))
            if pending:
                _insert(connection, tables[name], pending)
        except (ValueError, TypeError, KeyError, EOFError, OSError) as error:
            raise _damaged(f"it cannot be read ({type(error).__name__})") from None
        if not is_whole:
            raise _damaged("its end is missing")
        _derive(connection, store)
    return rows


def damage(
    store: Store, *, after: str = "", progress: Callable[[int, str], None] | None = None
) -> Iterator[str]:
    """Yield what is damaged: files that do not match their digests, versions with a missing file.

    `progress` gets the number of files and versions that were checked, and a position. With that position as
    `after`, a check continues there.
    """
    report = progress or _report_nothing
    checked = 0
    first = 0
    if after.startswith(_VERSION):
        first = int(after.removeprefix(_VERSION))
    else:
        for rows in _file_batches(store, after):
            for row in rows:
                data = bytes(row["data"])
                if digest_of(data) != row["digest"] or len(data) != row["size"]:
                    yield f"the file {row['digest']} is damaged: restore it from a backup"
            checked += len(rows)
            report(checked, rows[-1]["digest"])
    for versions in _version_batches(store, first):
        for row in versions:
            listed = json.loads(row.manifest)
            found = set_digest((path, digest) for path, digest, _ in listed)
            if found != row.set_digest or row.files != len(listed):
                yield f"{row.namespace}/{row.name} {row.version} is damaged: restore it from a backup"
        checked += len(versions)
        report(checked, f"{_VERSION}{versions[-1].id}")


def _version_batches(store: Store, after: int) -> Iterator[Sequence[sa.Row[Any]]]:
    version = schema.versions.c
    files = sa.select(sa.func.count()).where(schema.files.c.version_id == version.id).scalar_subquery()
    query = (
        sa.select(schema.versions, schema.skills.c.namespace, schema.skills.c.name, files.label("files"))
        .join(schema.skills, schema.skills.c.id == version.skill_id)
        .order_by(version.id)
        .limit(_BATCH)
    )
    while True:
        with store.snapshot(seconds=_BATCH_SECONDS) as connection:
            rows = connection.execute(query.where(version.id > after)).all()
        if not rows:
            return
        yield rows
        after = rows[-1].id


def _report_nothing(_count: int, _position: str = "") -> None:
    pass


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
    """Write what the rows imply: the files of each namespace, the search index, and the next ids."""
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


UPLOAD_SECONDS: Final = 24 * 3600
"""After this time, files that were sent and not published are dropped."""
_SKILLS_AT_ONCE: Final = 100
_VERSIONS_AT_ONCE: Final = 100
_FILES_AT_ONCE: Final = 200


def prune(
    store: Store, *, keep: int, by: str, progress: Callable[[int, int], None] | None = None
) -> tuple[int, int]:
    """Delete versions beyond the newest `keep` of each skill that no channel points to and that were neither
    withdrawn nor revoked, uploads of more than a day ago, and files that nothing refers to.

    Returns the counts of versions and files; `progress` gets them as they grow. It works in small
    transactions: publications go on beside it, and after an interruption the next call continues.
    """
    deleted_count = removed = 0
    report = progress or _report_no_versions
    for some in _in_batches(store, schema.skills.c.id, _SKILLS_AT_ONCE):
        deleted_count += _delete_versions(store, some, keep, by)
        report(deleted_count, removed)
    with store.writing() as connection:
        connection.execute(schema.uploads.delete().where(schema.uploads.c.at < now() - UPLOAD_SECONDS * 1000))
    for digests in _in_batches(store, schema.blobs.c.digest, _FILES_AT_ONCE):
        removed += _delete_unused(store, digests, by)
        report(deleted_count, removed)
    return deleted_count, removed


def _in_batches(store: Store, key: sa.Column[Any], size: int) -> Iterator[list[Any]]:
    """All values of a primary key, some at a time."""
    query = sa.select(key).order_by(key).limit(size)
    last: Any = None
    while True:
        with store.reading() as connection:
            some = list(connection.execute(query if last is None else query.where(key > last)).scalars())
        if not some:
            return
        yield some
        last = some[-1]


def _delete_versions(store: Store, of_skills: list[int], keep: int, by: str) -> int:
    """Delete the old versions of some skills, and remember which files they had."""
    rank = sa.func.row_number().over(
        partition_by=schema.versions.c.skill_id, order_by=schema.versions.c.id.desc()
    )
    ranked = sa.select(
        schema.versions.c.id,
        schema.versions.c.skill_id,
        schema.versions.c.version,
        schema.versions.c.set_digest,
        schema.versions.c.yanked,
        schema.versions.c.revoked,
    ).add_columns(rank.label("rank"))
    newest_first = ranked.where(schema.versions.c.skill_id.in_(of_skills)).subquery()
    old = sa.select(newest_first).where(
        newest_first.c.rank > keep,
        newest_first.c.yanked.is_(None),
        newest_first.c.revoked.is_(None),
        ~sa.exists().where(schema.channels.c.version_id == newest_first.c.id),
    )
    with store.reading() as connection:
        if connection.execute(old.limit(1)).first() is None:
            return 0
    count = 0
    while some := _delete_some(store, old.limit(_VERSIONS_AT_ONCE), by):
        count += some
    return count


def _delete_some(store: Store, old: sa.Select[Any], by: str) -> int:
    """Delete these versions in few statements: publishers wait meanwhile."""
    insert = postgresql.insert if store.is_postgresql else sqlite.insert
    with store.writing() as connection:
        store.take_turn(connection)
        rows = connection.execute(old).all()
        if not rows:
            return 0
        ids = [row.id for row in rows]
        _release(connection, ids)
        connection.execute(
            insert(schema.deleted_versions).on_conflict_do_nothing(),
            [
                {"skill_id": row.skill_id, "version": row.version, "set_digest": row.set_digest}
                for row in rows
            ],
        )
        connection.execute(schema.files.delete().where(schema.files.c.version_id.in_(ids)))
        connection.execute(schema.versions.delete().where(schema.versions.c.id.in_(ids)))
        record(connection, by, "prune", "", {"versions": len(rows)})
        return len(rows)


def _delete_unused(store: Store, digests: list[str], by: str) -> int:
    """Delete those of some files that nothing refers to."""
    unused = (
        schema.blobs.c.digest.in_(digests),
        ~sa.exists().where(schema.namespace_files.c.digest == schema.blobs.c.digest),
        ~sa.exists().where(schema.uploads.c.digest == schema.blobs.c.digest),
    )
    with store.reading() as connection:
        if connection.execute(sa.select(schema.blobs.c.digest).where(*unused).limit(1)).first() is None:
            return 0
    with store.writing() as connection:
        store.take_turn(connection)
        # Locked first, and looked at again after that: somebody may be sending one of them just now.
        found = sa.select(schema.blobs.c.digest).where(*unused)
        held = list(connection.execute(found.with_for_update(skip_locked=True)).scalars())
        count = connection.execute(
            schema.blobs.delete().where(schema.blobs.c.digest.in_(held), *unused[1:])
        ).rowcount
        if count:
            record(connection, by, "prune", "", {"files": count})
        return count


def _report_no_versions(_versions: int, _files: int) -> None:
    pass


def _release(connection: Connection, deleted: list[int]) -> None:
    """Namespaces have the files of these versions in fewer versions now; with none left, a file no longer
    counts."""
    own = schema.namespace_files.c
    uses = connection.execute(
        sa.select(
            schema.skills.c.namespace.label("place"),
            schema.files.c.digest.label("file"),
            sa.func.count(sa.distinct(schema.files.c.version_id)).label("fewer"),
        )
        .join(schema.versions, schema.versions.c.id == schema.files.c.version_id)
        .join(schema.skills, schema.skills.c.id == schema.versions.c.skill_id)
        .where(schema.files.c.version_id.in_(deleted))
        .group_by(schema.skills.c.namespace, schema.files.c.digest)
    ).mappings()
    changes = [dict(use) for use in uses]
    connection.execute(
        schema.namespace_files.update()
        .where(own.namespace == sa.bindparam("place"), own.digest == sa.bindparam("file"))
        .values(versions=own.versions - sa.bindparam("fewer")),
        changes,
    )
    unused = (own.versions <= 0, own.digest.in_({change["file"] for change in changes}))
    sizes = connection.execute(
        sa.select(own.namespace.label("place"), sa.func.sum(schema.blobs.c.size).label("fewer"))
        .join(schema.blobs, schema.blobs.c.digest == own.digest)
        .where(*unused)
        .group_by(own.namespace)
    ).mappings()
    if totals := [dict(size) for size in sizes]:
        connection.execute(schema.namespace_files.delete().where(*unused))
        connection.execute(
            schema.namespaces.update()
            .where(schema.namespaces.c.name == sa.bindparam("place"))
            .values(published_bytes=schema.namespaces.c.published_bytes - sa.bindparam("fewer")),
            totals,
        )
