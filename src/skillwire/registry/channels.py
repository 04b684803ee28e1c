"""Channels: which version of each skill is listed, how it is found, and the feed of changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from packaging.version import InvalidVersion, Version
from sqlalchemy.engine import Connection

from skillwire.registry.queries import terms_for, trigrams_of
from skillwire.registry.schema import changes, channels, versions
from skillwire.registry.schema import terms as term_counts
from skillwire.registry.store import Store, new_id, now


def current_version(connection: Connection, channel: str, namespace: str, name: str) -> str | None:
    """The version that a channel points to."""
    return connection.execute(
        sa.select(versions.c.version)
        .join(channels, channels.c.version_id == versions.c.id)
        .where(channels.c.channel == channel, channels.c.path == f"{namespace}/{name}/")
    ).scalar()


def is_before(version: str, other: str) -> bool:
    """Whether a version number is lower than another (PEP 440). False if one of them has no such order."""
    try:
        return Version(version) < Version(other)
    except InvalidVersion:
        return False


def point(
    store: Store, connection: Connection, channel: str, namespace: str, name: str, version: int
) -> bool:
    """Point a channel to a version. Returns false if it already did."""
    path = f"{namespace}/{name}/"
    before = connection.execute(
        sa.select(channels.c.id, channels.c.version_id, channels.c.terms, channels.c.text_terms).where(
            channels.c.channel == channel, channels.c.path == path
        )
    ).first()
    if before is not None and before.version_id == version:
        return False
    row = connection.execute(
        sa.select(versions.c.frontmatter, versions.c.text_terms).where(versions.c.id == version)
    ).one()
    description = json.loads(row.frontmatter).get("description")
    terms = terms_for(name, path.rstrip("/"), description if isinstance(description, str) else "")
    known = {"", *terms}
    text = sorted(term for term in json.loads(row.text_terms) if term not in known and " " not in term)
    values = {"version_id": version, "terms": " ".join(terms), "text_terms": " ".join(text)}
    if before is None:
        inserted = connection.execute(
            channels.insert().values(channel=channel, path=path, namespace=namespace, name=name, **values)
        )
        at, changed = new_id(inserted), None
    else:
        at = before.id
        connection.execute(channels.update().where(channels.c.id == at).values(**values))
        changed = _changed_files(connection, before.version_id, version)
    was = _Terms() if before is None else _Terms.of(before.terms, before.text_terms)
    _set_terms(store, connection, at, was, _Terms(frozenset(terms), frozenset(text)))
    _add_change(store, connection, channel, namespace, name, changed)
    return True


def remove(store: Store, connection: Connection, channel: str, namespace: str, name: str) -> None:
    row = connection.execute(
        sa.select(channels.c.id, channels.c.terms, channels.c.text_terms).where(
            channels.c.channel == channel, channels.c.path == f"{namespace}/{name}/"
        )
    ).one()
    connection.execute(channels.delete().where(channels.c.id == row.id))
    _set_terms(store, connection, row.id, _Terms.of(row.terms, row.text_terms), _Terms())
    _add_change(store, connection, channel, namespace, name, None)


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of a listed skill: of its name, place and description, and those that only its text has."""

    short: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()

    @classmethod
    def of(cls, short: str, text: str) -> _Terms:
        return cls(frozenset(short.split()), frozenset(text.split()))

    @property
    def anywhere(self) -> frozenset[str]:
        return self.short | self.text


def _set_terms(store: Store, connection: Connection, at: int, before: _Terms, after: _Terms) -> None:
    # Sorted, so that two publications change the counts in the same order and never wait for each other.
    rows = [
        {
            "term": term,
            "skills": (term in after.short) - (term in before.short),
            "anywhere": (term in after.anywhere) - (term in before.anywhere),
        }
        for term in sorted(before.anywhere | after.anywhere)
    ]
    rows = [row for row in rows if row["skills"] or row["anywhere"]]
    if rows:
        _insert_all(store, connection, _COUNT_TERMS, rows)
    if new := sorted(after.short - before.short):
        # Those of which this skill is not the first one have their trigrams.
        first = connection.execute(
            sa.select(term_counts.c.term).where(term_counts.c.term.in_(new), term_counts.c.skills == 1)
        ).scalars()
        parts = [{"trigram": part, "term": term} for term in sorted(first) for part in trigrams_of(term)]
        if parts:
            _insert_all(store, connection, _ADD_TRIGRAMS, parts)
    if store.is_postgresql:
        return
    connection.execute(sa.text("DELETE FROM channel_terms WHERE rowid = :at"), {"at": at})
    if after.anywhere:
        connection.execute(
            sa.text("INSERT INTO channel_terms (rowid, terms) VALUES (:at, :terms)"),
            {"at": at, "terms": " ".join(sorted(after.anywhere))},
        )


_COUNT_TERMS: Final = (
    "terms (term, skills, anywhere)",
    ("text", "bigint", "bigint"),
    "(term) DO UPDATE SET skills = terms.skills + excluded.skills, "
    "anywhere = terms.anywhere + excluded.anywhere",
)
_ADD_TRIGRAMS: Final = ("term_trigrams (trigram, term)", ("text", "text"), "DO NOTHING")


def _insert_all(
    store: Store,
    connection: Connection,
    into: tuple[str, tuple[str, ...], str],
    rows: list[dict[str, Any]],
) -> None:
    """Insert rows: with one statement on PostgreSQL, where a statement for each would cost most of the time
    of a publication."""
    target, types, conflict = into
    names = list(rows[0])
    if not store.is_postgresql:
        values = ", ".join(f":{name}" for name in names)
        statement = f"INSERT INTO {target} VALUES ({values}) ON CONFLICT {conflict}"  # noqa: S608 - our own names
        connection.execute(sa.text(statement), rows)
        return
    arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in zip(names, types, strict=True))
    statement = f"INSERT INTO {target} SELECT * FROM unnest({arrays}) ON CONFLICT {conflict}"  # noqa: S608
    connection.execute(sa.text(statement), {name: [row[name] for row in rows] for name in names})


EVERY_CHANNEL: Final = "*"
"""In the feed: a change that every channel shows."""
NO_CHANNEL: Final = ""
"""In the feed: a change that no channel shows, but every replica has to know."""


def add_changes(
    store: Store, connection: Connection, channel: str, places: Iterable[tuple[str, str]]
) -> None:
    """Tell every replica that the listing of these skills changed, given as namespace and name."""
    for namespace, name in places:
        _add_change(store, connection, channel, namespace, name, None)


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
