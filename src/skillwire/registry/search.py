"""Search in a registry: the database finds candidates by the rarest words, `SearchIndex` ranks them.

Terms are those of the one search engine, so both databases find the same skills. Words that no skill has are
corrected with a table of trigrams.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from skillwire.catalog.search import MOST_EXPANSIONS, SHORTEST_PREFIX, similar_terms
from skillwire.catalog.tokenize import Query, terms_of
from skillwire.registry.schema import channels, term_trigrams, terms
from skillwire.registry.store import Store
from skillwire.text import clean_line

# A word that more skills have is not selective: at most this many of them are examined.
_MATCHES: Final = 5_000
_CANDIDATES: Final = 200
_RANKED: Final = 30
_SIMILAR: Final = 200
_NAME_BONUS: Final = 2.0
_COUNT_SECONDS: Final = 60.0


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
        found: dict[str, str] = {}
        if len(groups) > 1:
            found = self._matching(connection, groups)
        for group in sorted(groups, key=lambda group: group.skills):
            if len(found) >= _CANDIDATES:
                break
            found |= self._matching(connection, [group])
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
                condition = terms.c.term.startswith(query.prefix, autoescape=True)
                group |= _counts(connection, condition, MOST_EXPANSIONS)
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
        return _counts(connection, terms.c.term.in_(similar_terms(term, found)))

    def _matching(self, connection: Connection, groups: Sequence[_Group]) -> dict[str, str]:
        """Skills that have a term of every group, first those with one in their names: terms by paths."""
        if self._store.is_postgresql:
            match = " & ".join(f"({' | '.join(map(_quoted, group.terms))})" for group in groups)
            condition = "channels.search @@ CAST(:match AS tsquery)"
        else:
            match = " AND ".join(f"({' OR '.join(map(_fts_quoted, group.terms))})" for group in groups)
            condition = "channels.id IN (SELECT rowid FROM channel_terms WHERE terms MATCH :match)"
        having = (
            sa.select(channels.c.path, channels.c.name, channels.c.terms)
            .where(*self._seen(), sa.text(condition))
            .limit(_MATCHES)
            .subquery()
        )
        # One term stands for its group: with all of them, hardly two queries would have the same statement.
        named = [having.c.name.contains(min(group.terms, key=len), autoescape=True) for group in groups]
        hits = sum((sa.case((is_named, 1), else_=0) for is_named in named), sa.literal(0))
        query = sa.select(having.c.path, having.c.terms).order_by(hits.desc(), having.c.path)
        rows = connection.execute(query.limit(_CANDIDATES), {"match": match})
        return {row.path: row.terms for row in rows}

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


def _score(path: str, found: str, weights: Sequence[tuple[tuple[str, ...], float]]) -> float:
    """A first, quick score: the rare words count, those of the name more."""
    have = found.split()
    score = 0.0
    for alternatives, weight in weights:
        if any(term in path for term in alternatives):
            score += _NAME_BONUS * weight
        elif any(term in have for term in alternatives):
            score += weight
    return score


def _counts(
    connection: Connection, condition: sa.ColumnElement[bool], most: int | None = None
) -> dict[str, int]:
    query = sa.select(terms.c.term, terms.c.skills).where(condition, terms.c.skills > 0)
    if most is not None:
        query = query.order_by(terms.c.term).limit(most)
    return {row.term: row.skills for row in connection.execute(query)}


def _quoted(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def _fts_quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
