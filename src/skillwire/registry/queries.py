"""SkillQueries: what a caller can read of a registry. Pages, entries and files come from the database.

Nothing here depends on the number of skills: a page is one query over an index, whatever comes before it.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.catalog import Query, terms_of
from skillwire.catalog.search import MOST_EXPANSIONS, SHORTEST_PREFIX, Document, SearchIndex, similar_terms
from skillwire.documents import JsonValue
from skillwire.errors import FormatError, Severity, SkillNotFound, SourceError
from skillwire.net import ArchiveFile, archive_file
from skillwire.registry.publications import SkillPath, parse_skill_path, revoked_error, root_uri
from skillwire.registry.schema import blobs, changes, channels, files, skills, term_trigrams, terms, versions
from skillwire.registry.store import Store
from skillwire.skill import (
    DYNAMIC,
    SKILL_FILE,
    Digest,
    SkillEntry,
    SkillResource,
    SkillUri,
    child_uri,
    digest_of,
    lint_skill,
    parse_skill_md,
    shown_uri,
    skill_root,
)
from skillwire.text import clean_line

# A word that more skills have is not selective: at most this many of them are examined.
_MATCHES: Final = 5_000
_CANDIDATES: Final = 200
_RANKED: Final = 60
_SIMILAR: Final = 200
_NAME_BONUS: Final = 2.0
_TEXT_SHARE: Final = 0.6
_COUNT_SECONDS: Final = 60.0
_NO_TEXT: Final = "{}"
_COUNT: Final = re.compile(r"\d+")


# The terms of name, place and description, and those that only the text has; `None` if all that is asked for
# is known to be in one of them.
_Row: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class _Group:
    """The terms that stand for one word of a query, and how many skills have one of them."""

    terms: tuple[str, ...]
    skills: int


class StoreSearch:
    """Finds candidates among the listed skills of a channel that `seen` allows."""

    def __init__(self, store: Store, channel: str, seen: Callable[[], list[sa.ColumnElement[bool]]]) -> None:
        self._store = store
        self._channel = channel
        self._seen = seen
        self._total = (0, float("-inf"))

    def candidates(
        self, connection: Connection, query: Query, least: int
    ) -> tuple[list[str], tuple[Mapping[str, int], int]]:
        """The paths of the skills that are worth ranking, at least `least` if there are that many; how many
        skills have each term, and how many there are.
        """
        groups = self._groups(connection, query)
        total = self._count(connection)
        found: dict[str, _Row] = {}
        if len(groups) > 1:
            found = self._matching(connection, groups, texts=False)
        for group in sorted(groups, key=lambda group: group.skills):
            if len(found) >= _CANDIDATES:
                break
            found = self._matching(connection, [group], texts=len(groups) > 1) | found
        weights = [(group.terms, _rarity(group.skills, total)) for group in groups]
        ranked = sorted(found, key=lambda path: (-_score(path, found[path], weights), path))
        having = {term: group.skills for group in groups for term in group.terms}
        return ranked[: max(least, _RANKED)], (having, total)

    def _groups(self, connection: Connection, query: Query) -> list[_Group]:
        """Each word of a query as the terms that stand for it, without words that no skill has."""
        wanted = {term for alternatives in query.terms for term in alternatives}
        known = _counts(connection, terms.c.term.in_(sorted(wanted)))
        groups: list[_Group] = []
        for place, alternatives in enumerate(query.terms):
            group = {term: known[term] for term in alternatives if term in known}
            if place == len(query.terms) - 1 and len(query.prefix) >= SHORTEST_PREFIX:
                is_short = sa.and_(terms.c.term.startswith(query.prefix, autoescape=True), terms.c.skills > 0)
                group |= _counts(connection, is_short, MOST_EXPANSIONS)
            group = group or self._similar(connection, alternatives[0])
            if group:
                groups.append(_Group(tuple(group), sum(group.values())))
        return groups

    def _similar(self, connection: Connection, term: str) -> dict[str, int]:
        """Terms that may be what was meant: those that share most trigrams, and differ by a typing error."""
        shared = sa.func.count().label("shared")
        near = (
            sa.select(term_trigrams.c.term, shared)
            .where(term_trigrams.c.trigram.in_(trigrams_of(term)))
            .group_by(term_trigrams.c.term)
            .order_by(shared.desc(), term_trigrams.c.term)
            .limit(_SIMILAR)
        )
        found = sorted(connection.execute(near).scalars())
        return _counts(connection, sa.and_(terms.c.term.in_(similar_terms(term, found)), terms.c.skills > 0))

    def _matching(self, connection: Connection, groups: Sequence[_Group], *, texts: bool) -> dict[str, _Row]:
        """Skills that have a term of every group, first those with one in their names: terms by paths.

        Texts are long: they are read where another group may be in one.
        """
        if self._store.is_postgresql:
            match = " & ".join(f"({' | '.join(map(_quoted, group.terms))})" for group in groups)
            condition = "channels.search @@ CAST(:match AS tsquery)"
        else:
            match = " AND ".join(f"({' OR '.join(map(_fts_quoted, group.terms))})" for group in groups)
            condition = "channels.id IN (SELECT rowid FROM channel_terms WHERE terms MATCH :match)"
        having = (
            sa.select(channels.c.path, channels.c.name, channels.c.terms, channels.c.text_terms)
            .where(*self._seen(), sa.text(condition))
            .limit(_MATCHES)
            .subquery()
        )
        # One term stands for its group: with all of them, hardly two queries would have the same statement.
        named = [having.c.name.contains(min(group.terms, key=len), autoescape=True) for group in groups]
        hits = sum((sa.case((is_named, 1), else_=0) for is_named in named), sa.literal(0))
        text = having.c.text_terms if texts else sa.null().label("text_terms")
        query = sa.select(having.c.path, having.c.terms, text)
        rows = connection.execute(
            query.order_by(hits.desc(), having.c.path).limit(_CANDIDATES), {"match": match}
        )
        return {row.path: (row.terms, row.text_terms) for row in rows}

    def _count(self, connection: Connection) -> int:
        """How many skills are listed, within the last minute: it determines how selective a word is."""
        total, until = self._total
        if time.monotonic() > until:
            query = (
                sa.select(sa.func.count()).select_from(channels).where(channels.c.channel == self._channel)
            )
            total = connection.execute(query).scalar_one()
            self._total = (total, time.monotonic() + _COUNT_SECONDS)
        return total


def terms_for(name: str, path: str, description: str) -> list[str]:
    """Everything by which a skill is found, each term once."""
    fields: Iterable[str] = (name, path, clean_line(description).text)
    return sorted({term for field in fields for term in terms_of(field) if " " not in term})


def trigrams_of(term: str) -> list[str]:
    """Every three letters in a row, with a space before and after the term."""
    padded = f" {term} "
    return sorted({padded[at : at + 3] for at in range(len(padded) - 2)})


def _rarity(having: int, total: int) -> float:
    return math.log(1 + (max(total - having, 0) + 0.5) / (having + 0.5))


def _score(path: str, row: _Row, weights: Sequence[tuple[tuple[str, ...], float]]) -> float:
    """A first, quick score: the rare words count, those of the name more and those of the text less."""
    # Few terms are looked for in long texts, so these are not split.
    short, text = f" {row[0]} ", None if row[1] is None else f" {row[1]} "
    score = 0.0
    for alternatives, weight in weights:
        if any(term in path for term in alternatives):
            score += _NAME_BONUS * weight
        elif any(f" {term} " in short for term in alternatives):
            score += weight
        elif text is None or any(f" {term} " in text for term in alternatives):
            score += _TEXT_SHARE * weight
    return score


def counted_text(counts: Mapping[str, int]) -> str:
    """The terms of a text as they are stored: JSON, their number first, so that few terms are found fast."""
    stored = {"": sum(counts.values()), **counts} if counts else {}
    return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))


def _asked_for(stored: str, asked: Iterable[str]) -> dict[str, int]:
    """The terms of a text that a query has, and how many others there are, which its length depends on."""
    if stored == _NO_TEXT:
        return {}
    found: dict[str, int] = {}
    for term in asked:
        key = f",{json.dumps(term, ensure_ascii=False)}:"
        at = stored.find(key)
        if at >= 0 and (count := _COUNT.match(stored, at + len(key))):
            found[term] = int(count[0])
    total = _COUNT.match(stored, len('{"":'))
    return {**found, "": int(total[0]) - sum(found.values()) if total else 0}


def _counts(
    connection: Connection, condition: sa.ColumnElement[bool], most: int | None = None
) -> dict[str, int]:
    query = sa.select(terms.c.term, terms.c.anywhere).where(condition, terms.c.anywhere > 0)
    if most is not None:
        query = query.order_by(terms.c.term).limit(most)
    return {row.term: row.anywhere for row in connection.execute(query)}


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def _fts_quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


YANKED_META: Final = "dev.skillwire/yanked"
"""In the `_meta` of an entry: why this version was withdrawn."""
REVOKED_META: Final = "dev.skillwire/revoked"
"""In the `_meta` of a listed entry: why this version must not be used, and cannot be read."""
VERSION_META: Final = "dev.skillwire/version"
"""In the `_meta` of an entry: the version that the channel points to."""

_log = logging.getLogger(__name__)

Row: TypeAlias = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class View:
    """The skills that a caller may see: the namespaces (`None` for all), in the versions of one channel."""

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


class NamedVersion(NamedTuple):
    """A version, and why it is revoked if it is."""

    version: str
    revoked: str | None


class SkillQueries:
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
        """The entry of a skill by the URI of its `SKILL.md`, or `SkillNotFound`.

        A skill inside of another one is not listed, but can be asked for (FMT-8).
        """
        place = parse_skill_path(uri)
        inside, _, file = place.path.rpartition("/")
        if file != SKILL_FILE:
            raise _not_found("skill", uri)
        with self._store.reading() as connection:
            row = self._version(connection, place)
        if row is None:
            raise _not_found("skill", uri)
        _require_usable(place, row["version"], row["revoked"])
        entry = _entry(row, place.version)
        return self._nested(entry, uri, inside) if inside else entry

    def _nested(self, entry: SkillEntry, uri: SkillUri, inside: str) -> SkillEntry:
        """The entry of the skill in a directory of another one."""
        data, root = self.read(uri), f"{skill_root(uri)}/"
        listed = () if entry.resources is DYNAMIC else entry.resources
        resources = [file for file in listed if file.uri.startswith(root)]
        sizes = {file.uri[len(root) :]: file.size for file in resources}
        try:
            document = parse_skill_md(data, file=SKILL_FILE)
        except FormatError:
            raise _not_found("skill", uri) from None
        issues = lint_skill(data, directory=inside.rpartition("/")[2], files=sizes, document=document)
        if any(issue.severity is Severity.ERROR for issue in issues):
            raise _not_found("skill", uri)
        return replace(entry, uri=uri, frontmatter=document.frontmatter, resources=tuple(resources))

    def read(self, uri: SkillUri) -> bytes:
        """The bytes of a file, or `SkillNotFound`."""
        place = parse_skill_path(uri)
        query = (
            sa.select(blobs.c.digest, blobs.c.data, versions.c.version, versions.c.revoked)
            .select_from(files.join(blobs, files.c.digest == blobs.c.digest))
            .join(versions, versions.c.id == files.c.version_id)
            .where(files.c.path == place.path, files.c.version_id == self._version_id(place))
        )
        with self._store.reading() as connection:
            row = connection.execute(query).first() if self._view.has(place.namespace) else None
        if row is None:
            raise _not_found("file", uri)
        _require_usable(place, row.version, row.revoked)
        return self._checked(row.digest, row.data)

    def names_in(self, namespace: str) -> list[str]:
        """The names of the skills in a namespace."""
        query = sa.select(channels.c.name).where(*self._seen(), channels.c.namespace == namespace)
        with self._store.reading() as connection:
            return list(connection.execute(query.order_by(channels.c.name)).scalars())

    def site_page(self, after: str | None, size: int) -> list[SiteRow]:
        """The next skills as a site's index lists them: each name once, the first by path. An index cannot
        say that one is revoked, so these are left out."""
        other, others = channels.alias(), versions.alias()
        seen = [
            other.c.channel == self._view.channel,
            others.c.id == other.c.version_id,
            others.c.revoked.is_(None),
        ]
        if self._view.namespaces is not None:
            seen.append(other.c.namespace.in_(sorted(self._view.namespaces)))
        query = (
            sa.select(channels.c.path, versions.c.version, versions.c.frontmatter, versions.c.archive_digest)
            .join(versions, versions.c.id == channels.c.version_id)
            .where(
                *self._seen(),
                versions.c.revoked.is_(None),
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

    def contents(self, place: SkillPath) -> list[ArchiveFile]:
        """Every file of a version, or `SkillNotFound`."""
        query = (
            sa.select(files.c.path, blobs.c.digest, blobs.c.data, versions.c.version, versions.c.revoked)
            .join(blobs, files.c.digest == blobs.c.digest)
            .join(versions, versions.c.id == files.c.version_id)
            .where(files.c.version_id == self._version_id(place))
            .order_by(files.c.path)
        )
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        if not rows or not self._view.has(place.namespace):
            raise _not_found("skill", child_uri(place.root, SKILL_FILE))
        _require_usable(place, rows[0].version, rows[0].revoked)
        return [archive_file(row.path, self._checked(row.digest, row.data)) for row in rows]

    def version_names(self, namespace: str, name: str) -> dict[str, NamedVersion]:
        """The versions of a skill and the version of each channel, by name."""
        with self._store.reading() as connection:
            found = connection.execute(
                sa.select(versions.c.version, versions.c.revoked)
                .join(skills, skills.c.id == versions.c.skill_id)
                .where(skills.c.namespace == namespace, skills.c.name == name)
                .order_by(versions.c.id)
            )
            pointing = connection.execute(
                sa.select(channels.c.channel, versions.c.version, versions.c.revoked)
                .join(versions, versions.c.id == channels.c.version_id)
                .where(channels.c.path == f"{namespace}/{name}/")
            )
            named = {row.channel: NamedVersion(row.version, row.revoked) for row in pointing}
            named |= {row.version: NamedVersion(row.version, row.revoked) for row in found}
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
        """The best matches, best first. Of skills with the same `SKILL.md`, the first stands for all."""
        with self._store.reading() as connection:
            paths, rarity = self._search.candidates(connection, query, limit)
            wanted = _LISTED.add_columns(versions.c.text_terms)
            listed = connection.execute(wanted.where(*self._seen(), channels.c.path.in_(paths))).mappings()
            rows = {str(row["path"]): row for row in listed}
        index = SearchIndex(
            (
                Document(
                    path,
                    str(row["name"]),
                    _description(row),
                    path.rstrip("/"),
                    _asked_for(str(row["text_terms"]), rarity[0]),
                    digest=next(
                        digest for file, digest, _ in json.loads(row["manifest"]) if file == SKILL_FILE
                    ),
                )
                for path, row in sorted(rows.items())
            ),
            rarity=rarity,
        )
        return [_entry(rows[match.key]) for match in index.search(query, limit=limit)]

    def changes_after(self, number: int, most: int = 1000) -> list[ChangeRow]:
        """Return the changes after a number of the feed, regardless of who may see it."""
        query = sa.select(changes).where(changes.c.number > number).order_by(changes.c.number).limit(most)
        with self._store.reading() as connection:
            return [_change(row) for row in connection.execute(query).mappings()]

    def last_change(self) -> int:
        """The number of the newest change."""
        with self._store.reading() as connection:
            return connection.execute(sa.select(sa.func.max(changes.c.number))).scalar() or 0

    def _checked(self, digest: str, data: bytes | memoryview) -> bytes:
        """The bytes of a file, if they still are those that were published."""
        content = bytes(data)
        if digest_of(content) != digest:
            self._store.damaged += 1
            _log.error(
                "the file %s is damaged: find what it is part of with skillwire registry check", digest
            )
            raise SourceError("a file of the registry is damaged: tell its operator")
        return content

    def _seen(self) -> list[sa.ColumnElement[bool]]:
        seen = [channels.c.channel == self._view.channel]
        if self._view.namespaces is not None:
            seen.append(channels.c.namespace.in_(sorted(self._view.namespaces)))
        return seen

    def _version(self, connection: Connection, place: SkillPath) -> Row | None:
        if not self._view.has(place.namespace):
            return None
        query = _VERSIONS.where(versions.c.id == self._version_id(place))
        return connection.execute(query).mappings().first()

    def _version_id(self, place: SkillPath) -> sa.ScalarSelect[int]:
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
    versions.c.revoked,
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
    if row["revoked"] is not None:
        meta[REVOKED_META] = row["revoked"]
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


def _require_usable(place: SkillPath, version: str, revoked: str | None) -> None:
    if revoked is not None:
        raise revoked_error(place.namespace, place.name, version, revoked)


def _not_found(what: str, uri: SkillUri) -> SkillNotFound:
    return SkillNotFound(f"No {what} is served at {shown_uri(uri)}", uri=uri)
