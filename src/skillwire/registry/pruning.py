"""Pruning: old versions, uploads that nobody published, and files that nothing refers to.

It works in small transactions of few statements, since publishers wait for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from skillwire.registry import schema
from skillwire.registry.audit import record
from skillwire.registry.store import Store, now

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
    report = progress or _report_nothing
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


def _report_nothing(_versions: int, _files: int) -> None:
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
