"""StoreCatalog: what a caller can read of a registry. Pages, entries and files come from the database.

Nothing here depends on the number of skills: a page is one query over an index, whatever comes before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.catalog.search import Document, SearchIndex
from skillwire.catalog.tokenize import Query
from skillwire.errors import SkillNotFound
from skillwire.json_types import JsonValue
from skillwire.registry.places import Place, parse_place, root_uri
from skillwire.registry.schema import blobs, changes, channels, files, skills, versions
from skillwire.registry.search import StoreSearch
from skillwire.registry.store import Store
from skillwire.skill.digests import Digest
from skillwire.skill.entries import SkillEntry, SkillResource
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, shown_uri
from skillwire.sources.archive import ArchiveFile, archive_file
from skillwire.text import clean_line

YANKED_META: Final = "dev.skillwire/yanked"
"""In the `_meta` of an entry: why this version was withdrawn."""
VERSION_META: Final = "dev.skillwire/version"
"""In the `_meta` of an entry: the version that the channel points to."""

Row: TypeAlias = Mapping[Any, Any]


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
        self._search = StoreSearch(store, view.channel, self._seen)

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
        """The versions of a skill and the version of each channel, by name."""
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
        """The best matches, best first."""
        with self._store.reading() as connection:
            paths, rarity = self._search.candidates(connection, query, limit)
            listed = connection.execute(_LISTED.where(*self._seen(), channels.c.path.in_(paths))).mappings()
            rows = {str(row["path"]): row for row in listed}
        index = SearchIndex(
            (
                Document(path, str(row["name"]), _description(row), path.rstrip("/"))
                for path, row in sorted(rows.items())
            ),
            rarity=rarity,
        )
        return [_entry(rows[match.key]) for match in index.search(query, limit=limit)]

    def changes_after(self, number: int, most: int = 1000) -> list[ChangeRow]:
        """What changed after a number of the feed, regardless of who may see it."""
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


def _description(row: Row) -> str:
    return clean_line(str(json.loads(row["frontmatter"])["description"])).text


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


def _not_found(what: str, uri: SkillUri) -> SkillNotFound:
    return SkillNotFound(f"No {what} is served at {shown_uri(uri)}", uri=uri)
