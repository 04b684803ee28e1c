"""StoreCatalog: what a caller can read of a registry. Pages, entries and files come from the database.

Nothing here depends on the number of skills: a page is one query over an index, whatever comes before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.catalog.search import Document, SearchIndex, similar_terms
from skillwire.catalog.tokenize import Query, terms_of
from skillwire.errors import SkillNotFound
from skillwire.json_types import JsonValue
from skillwire.registry.places import Place, parse_place, root_uri
from skillwire.registry.schema import blobs, changes, channels, files, skills, term_trigrams, terms, versions
from skillwire.registry.store import Store
from skillwire.skill.digests import Digest
from skillwire.skill.entries import SkillEntry, SkillResource
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, shown_uri
from skillwire.sources.archive import ArchiveFile, archive_file
from skillwire.text import clean_line

YANKED_META: Final = "io.skillwire/yanked"
"""In the `_meta` of an entry: why this version was withdrawn."""
VERSION_META: Final = "io.skillwire/version"
"""In the `_meta` of an entry: the version that the channel points to."""

Row: TypeAlias = Mapping[Any, Any]

_CANDIDATES: Final = 300
_SIMILAR: Final = 200
_EXPANSIONS: Final = 24


@dataclass(frozen=True, slots=True)
class View:
    """What a caller may see: the namespaces (`None` for all), in the versions of one channel."""

    channel: str = "stable"
    namespaces: frozenset[str] | None = None

    def has(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One line of the change feed. `files` are the changed paths; `None` when the listing changed."""

    number: int
    channel: str
    namespace: str
    name: str
    files: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A skill as a site's index lists it. `path` is as in `acme/pdf/`."""

    path: str
    version: str
    description: str
    digest: str


class StoreCatalog:
    """The skills of a store as one caller may see them. Every call may block."""

    def __init__(self, store: Store, view: View) -> None:
        self._store = store
        self._view = view

    def page(self, after: str | None, size: int) -> list[SkillEntry]:
        """The next skills in the order of their URIs. `after` is the path of the last one before."""
        query = _LISTED.where(*self._seen()).order_by(channels.c.path).limit(size)
        if after is not None:
            query = query.where(channels.c.path > after)
        with self._store.reading() as connection:
            return [_entry(row) for row in connection.execute(query).mappings()]

    def count(self) -> int:
        query = sa.select(sa.func.count()).select_from(channels).where(*self._seen())
        with self._store.reading() as connection:
            return connection.execute(query).scalar_one()

    def entry(self, uri: SkillUri) -> SkillEntry:
        """The entry of a skill by the URI of its `SKILL.md`, or `SkillNotFound`."""
        place = parse_place(uri)
        if place.path != SKILL_FILE:
            raise _not_found("skill", uri)
        with self._store.reading() as connection:
            row = self._version(connection, place)
        if row is None:
            raise _not_found("skill", uri)
        return _entry(row, place.version)

    def read(self, uri: SkillUri) -> bytes:
        """The bytes of a file, or `SkillNotFound`."""
        place = parse_place(uri)
        query = (
            sa.select(blobs.c.data)
            .select_from(files.join(blobs, files.c.digest == blobs.c.digest))
            .where(files.c.path == place.path, files.c.version_id == self._version_id(place))
        )
        with self._store.reading() as connection:
            data = connection.execute(query).scalar() if self._view.has(place.namespace) else None
        if data is None:
            raise _not_found("file", uri)
        return bytes(data)

    def names_in(self, namespace: str) -> list[str]:
        """The names of the skills in a namespace."""
        query = sa.select(channels.c.name).where(*self._seen(), channels.c.namespace == namespace)
        with self._store.reading() as connection:
            return list(connection.execute(query.order_by(channels.c.name)).scalars())

    def site_page(self, after: str | None, size: int) -> list[SiteRow]:
        """The next skills as a site's index lists them: each name once, the first by path."""
        other = channels.alias()
        seen = [other.c.channel == self._view.channel]
        if self._view.namespaces is not None:
            seen.append(other.c.namespace.in_(sorted(self._view.namespaces)))
        query = (
            sa.select(channels.c.path, versions.c.version, versions.c.frontmatter, versions.c.archive_digest)
            .join(versions, versions.c.id == channels.c.version_id)
            .where(
                *self._seen(),
                ~sa.exists().where(*seen, other.c.name == channels.c.name, other.c.path < channels.c.path),
            )
            .order_by(channels.c.path)
            .limit(size)
        )
        if after is not None:
            query = query.where(channels.c.path > after)
        with self._store.reading() as connection:
            return [
                SiteRow(
                    row.path, row.version, str(json.loads(row.frontmatter)["description"]), row.archive_digest
                )
                for row in connection.execute(query)
            ]

    def contents(self, place: Place) -> list[ArchiveFile]:
        """Every file of a version, or `SkillNotFound`."""
        query = (
            sa.select(files.c.path, blobs.c.data)
            .join(blobs, files.c.digest == blobs.c.digest)
            .where(files.c.version_id == self._version_id(place))
            .order_by(files.c.path)
        )
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        if not rows or not self._view.has(place.namespace):
            raise _not_found("skill", child_uri(place.root, SKILL_FILE))
        return [archive_file(path, bytes(data)) for path, data in rows]

    def version_names(self, namespace: str, name: str) -> dict[str, str]:
        """The versions of a skill and the version of each channel, by what they are called."""
        with self._store.reading() as connection:
            found = connection.execute(
                sa.select(versions.c.version)
                .join(skills, skills.c.id == versions.c.skill_id)
                .where(skills.c.namespace == namespace, skills.c.name == name)
                .order_by(versions.c.id)
            ).scalars()
            pointing = connection.execute(
                sa.select(channels.c.channel, versions.c.version)
                .join(versions, versions.c.id == channels.c.version_id)
                .where(channels.c.path == f"{namespace}/{name}/")
            )
            named = {row.channel: row.version for row in pointing}
            named |= {version: version for version in found}
        return named if self._view.has(namespace) else {}

    def find(self, name: str) -> list[SkillEntry]:
        """The skills of a name or a path such as `acme/pdf`; more than one when namespaces share the name."""
        namespace, slash, last = name.rpartition("/")
        query = _LISTED.where(*self._seen(), channels.c.name == last).order_by(channels.c.path).limit(20)
        if slash:
            query = query.where(channels.c.namespace == namespace)
        with self._store.reading() as connection:
            return [_entry(row) for row in connection.execute(query).mappings()]

    def search(self, query: Query, limit: int) -> list[SkillEntry]:
        """The skills that fit best, best first.

        The database finds candidates by the rarest words; `SearchIndex` ranks them, with the true rarity of
        each word. So both databases give the same answer.
        """
        with self._store.reading() as connection:
            groups = [
                _Group(tuple(counted), sum(counted.values()))
                for counted in self._expanded(connection, query)
                if counted
            ]
            rows = self._candidates(connection, groups)
            total = connection.execute(
                sa.select(sa.func.count())
                .select_from(channels)
                .where(channels.c.channel == self._view.channel)
            ).scalar_one()
        entries = {row["path"]: _entry(row) for row in rows}
        known = {term: group.skills for group in groups for term in group.terms}
        index = SearchIndex(
            (
                Document(path, entry.name, clean_line(entry.description).text, path.rstrip("/"))
                for path, entry in sorted(entries.items())
            ),
            rarity=(known, total),
        )
        return [entries[match.key] for match in index.search(query, limit=limit)]

    def changes_after(self, number: int, most: int = 1000) -> list[ChangeRow]:
        """What changed after a number of the feed, whoever may see it."""
        query = sa.select(changes).where(changes.c.number > number).order_by(changes.c.number).limit(most)
        with self._store.reading() as connection:
            return [_change(row) for row in connection.execute(query).mappings()]

    def last_change(self) -> int:
        """The number of the newest change."""
        with self._store.reading() as connection:
            return connection.execute(sa.select(sa.func.max(changes.c.number))).scalar() or 0

    def _seen(self) -> list[sa.ColumnElement[bool]]:
        seen = [channels.c.channel == self._view.channel]
        if self._view.namespaces is not None:
            seen.append(channels.c.namespace.in_(sorted(self._view.namespaces)))
        return seen

    def _version(self, connection: Connection, place: Place) -> Row | None:
        if not self._view.has(place.namespace):
            return None
        query = _VERSIONS.where(versions.c.id == self._version_id(place))
        return connection.execute(query).mappings().first()

    def _version_id(self, place: Place) -> sa.ScalarSelect[int]:
        if place.version is None:
            found = sa.select(channels.c.version_id).where(
                channels.c.channel == self._view.channel,
                channels.c.path == f"{place.namespace}/{place.name}/",
            )
        else:
            found = (
                sa.select(versions.c.id)
                .join(skills, skills.c.id == versions.c.skill_id)
                .where(
                    skills.c.namespace == place.namespace,
                    skills.c.name == place.name,
                    versions.c.version == place.version,
                )
            )
        return found.scalar_subquery()

    def _expanded(self, connection: Connection, query: Query) -> list[dict[str, int]]:
        """Each word of a query as the terms that stand for it, with how many skills have each."""
        wanted = {term for alternatives in query.terms for term in alternatives}
        known = _counts(connection, terms.c.term.in_(sorted(wanted)))
        groups: list[dict[str, int]] = []
        for place, alternatives in enumerate(query.terms):
            group = {term: known[term] for term in alternatives if term in known}
            if place == len(query.terms) - 1 and len(query.prefix) >= 2:
                pattern = query.prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
                group |= _counts(connection, terms.c.term.like(pattern, escape="\\"), _EXPANSIONS)
            groups.append(group or self._similar(connection, alternatives[0]))
        return groups

    def _similar(self, connection: Connection, term: str) -> dict[str, int]:
        """Terms that may be what was meant. The database narrows them down by trigrams."""
        shared = sa.func.count().label("shared")
        near = (
            sa.select(term_trigrams.c.term, shared)
            .where(term_trigrams.c.trigram.in_(trigrams_of(term)))
            .group_by(term_trigrams.c.term)
            .order_by(shared.desc(), term_trigrams.c.term)
            .limit(_SIMILAR)
        )
        found = sorted(connection.execute(near).scalars())
        return _counts(connection, terms.c.term.in_(similar_terms(term, found)))

    def _candidates(self, connection: Connection, groups: Sequence[_Group]) -> list[Row]:
        found: dict[str, Row] = {}
        if len(groups) > 1:
            found = self._matching(connection, groups)
        for group in sorted(groups, key=lambda group: group.skills):
            if len(found) >= _CANDIDATES:
                break
            found |= self._matching(connection, [group])
        return list(found.values())

    def _matching(self, connection: Connection, groups: Sequence[_Group]) -> dict[str, Row]:
        """Skills that have a term of every group."""
        query = _LISTED.where(*self._seen()).order_by(channels.c.path).limit(_CANDIDATES)
        if self._store.is_postgresql:
            match = " & ".join(f"({' | '.join(map(_quoted, group.terms))})" for group in groups)
            query = query.where(
                sa.text("array_to_tsvector(string_to_array(terms, ' ')) @@ CAST(:match AS tsquery)")
            )
        else:
            match = " AND ".join(f"({' OR '.join(map(_fts_quoted, group.terms))})" for group in groups)
            query = query.where(
                sa.text("channels.id IN (SELECT rowid FROM channel_terms WHERE terms MATCH :match)")
            )
        rows = connection.execute(query, {"match": match}).mappings()
        return {row["path"]: row for row in rows}


@dataclass(frozen=True, slots=True)
class _Group:
    """The terms that stand for one word of a query, and how many skills have one of them."""

    terms: tuple[str, ...]
    skills: int


_FIELDS: Final = (
    versions.c.version,
    versions.c.set_digest,
    versions.c.frontmatter,
    versions.c.manifest,
    versions.c.yanked,
    skills.c.namespace,
    skills.c.name,
)
_VERSIONS: Final = sa.select(*_FIELDS).select_from(versions.join(skills, skills.c.id == versions.c.skill_id))
_LISTED: Final = sa.select(channels.c.path, *_FIELDS).select_from(
    channels.join(versions, versions.c.id == channels.c.version_id).join(
        skills, skills.c.id == versions.c.skill_id
    )
)


def _entry(row: Row, version: str | None = None) -> SkillEntry:
    """The entry of a row: of the skill, or of one version of it."""
    root = root_uri(row["namespace"], row["name"], version)
    resources = [
        SkillResource(_file_uri(root, path), Digest(digest), size)
        for path, digest, size in json.loads(row["manifest"])
    ]
    meta: dict[str, JsonValue] = {VERSION_META: row["version"]}
    if row["yanked"] is not None:
        meta[YANKED_META] = row["yanked"]
    return SkillEntry(
        child_uri(root, SKILL_FILE),
        json.loads(row["frontmatter"]),
        tuple(sorted(resources, key=lambda resource: resource.uri)),
        meta=meta,
    )


def _file_uri(root: SkillUri, path: str) -> SkillUri:
    for segment in path.split("/"):
        root = child_uri(root, segment)
    return root


def _change(row: Row) -> ChangeRow:
    paths = row["files"]
    return ChangeRow(
        row["number"],
        row["channel"],
        row["namespace"],
        row["name"],
        None if paths is None else tuple(json.loads(paths)),
    )


def _counts(
    connection: Connection, condition: sa.ColumnElement[bool], most: int | None = None
) -> dict[str, int]:
    query = sa.select(terms.c.term, terms.c.skills).where(condition, terms.c.skills > 0)
    if most is not None:
        query = query.order_by(terms.c.term).limit(most)
    return {row.term: row.skills for row in connection.execute(query)}


def terms_for(name: str, path: str, description: str) -> list[str]:
    """Everything by which a skill is found, each term once."""
    fields: Iterable[str] = (name, path, clean_line(description).text)
    return sorted({term for field in fields for term in terms_of(field) if " " not in term})


def trigrams_of(term: str) -> list[str]:
    """Every three letters in a row, with a space before and behind the term."""
    padded = f" {term} "
    return sorted({padded[at : at + 3] for at in range(len(padded) - 2)})


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def _fts_quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _not_found(what: str, uri: SkillUri) -> SkillNotFound:
    return SkillNotFound(f"No {what} is served at {shown_uri(uri)}", uri=uri)
