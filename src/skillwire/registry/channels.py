"""Channels: which version of each skill is listed, how it is found, and the feed of changes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.registry.schema import changes, channels, term_trigrams, terms, versions
from skillwire.registry.search import terms_for, trigrams_of
from skillwire.registry.store import Store, new_id, now


def point(
    store: Store, connection: Connection, channel: str, namespace: str, name: str, version: int
) -> bool:
    """Point a channel to a version. Returns false if it already did."""
    path = f"{namespace}/{name}/"
    before = connection.execute(
        sa.select(channels.c.id, channels.c.version_id, channels.c.terms).where(
            channels.c.channel == channel, channels.c.path == path
        )
    ).first()
    if before is not None and before.version_id == version:
        return False
    row = connection.execute(
        sa.select(versions.c.frontmatter, versions.c.manifest).where(versions.c.id == version)
    ).one()
    description = json.loads(row.frontmatter).get("description")
    found = terms_for(name, path.rstrip("/"), description if isinstance(description, str) else "")
    values = {"version_id": version, "terms": " ".join(found)}
    if before is None:
        inserted = connection.execute(
            channels.insert().values(channel=channel, path=path, namespace=namespace, name=name, **values)
        )
        at, changed = new_id(inserted), None
    else:
        at = before.id
        connection.execute(channels.update().where(channels.c.id == at).values(**values))
        changed = _changed_files(connection, before.version_id, version)
    _set_terms(store, connection, at, before.terms.split() if before is not None else [], found)
    _add_change(store, connection, channel, namespace, name, changed)
    return True


def remove(store: Store, connection: Connection, channel: str, namespace: str, name: str) -> None:
    row = connection.execute(
        sa.select(channels.c.id, channels.c.terms).where(
            channels.c.channel == channel, channels.c.path == f"{namespace}/{name}/"
        )
    ).one()
    connection.execute(channels.delete().where(channels.c.id == row.id))
    _set_terms(store, connection, row.id, row.terms.split(), [])
    _add_change(store, connection, channel, namespace, name, None)


def _set_terms(
    store: Store, connection: Connection, at: int, before: Sequence[str], after: Sequence[str]
) -> None:
    gone, new = set(before) - set(after), set(after) - set(before)
    if gone:
        connection.execute(
            terms.update().where(terms.c.term.in_(sorted(gone))).values(skills=terms.c.skills - 1)
        )
    if new:
        known = set(
            connection.execute(sa.select(terms.c.term).where(terms.c.term.in_(sorted(new)))).scalars()
        )
        connection.execute(
            sa.text(
                "INSERT INTO terms (term, skills) VALUES (:term, 1) "
                "ON CONFLICT (term) DO UPDATE SET skills = terms.skills + 1"
            ),
            [{"term": term} for term in sorted(new)],
        )
        if first := sorted(new - known):
            rows = [{"trigram": part, "term": term} for term in first for part in trigrams_of(term)]
            connection.execute(term_trigrams.insert(), rows)
    if store.is_postgresql:
        return
    connection.execute(sa.text("DELETE FROM channel_terms WHERE rowid = :at"), {"at": at})
    if after:
        connection.execute(
            sa.text("INSERT INTO channel_terms (rowid, terms) VALUES (:at, :terms)"),
            {"at": at, "terms": " ".join(after)},
        )


def _add_change(
    store: Store,
    connection: Connection,
    channel: str,
    namespace: str,
    name: str,
    changed: Sequence[str] | None,
) -> None:
    inserted = connection.execute(
        changes.insert().values(
            channel=channel,
            namespace=namespace,
            name=name,
            files=None if changed is None else json.dumps(changed, ensure_ascii=False),
            at=now(),
        )
    )
    store.announce(connection, new_id(inserted))


def _changed_files(connection: Connection, before: int, after: int) -> list[str] | None:
    """The paths that differ between two versions; `None` when the frontmatter does: the listing changed."""
    rows = {
        row.id: row
        for row in connection.execute(
            sa.select(versions.c.id, versions.c.frontmatter, versions.c.manifest).where(
                versions.c.id.in_([before, after])
            )
        )
    }
    if json.loads(rows[before].frontmatter) != json.loads(rows[after].frontmatter):
        return None
    was = {path: digest for path, digest, _ in json.loads(rows[before].manifest)}
    now_ = {path: digest for path, digest, _ in json.loads(rows[after].manifest)}
    return sorted(path for path in was.keys() | now_.keys() if was.get(path) != now_.get(path))
