"""SearchIndex: the one search engine, for the host and for the server's `search_skills`.

BM25 over four fields: name, description, place (label and path), and the text of `SKILL.md` if it is cached
or local, in descending weight. Common words are ignored, unknown words are corrected to similar known ones,
and the last word may be incomplete. Skills with the same `SKILL.md` are one result.

Pure and in memory: ten thousand skills are indexed in about a second, and a query takes milliseconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from skillwire.catalog.tokenize import Query, plain_words, terms_of
from skillwire.text import SafeLine, safe_line

K = TypeVar("K")

_K1: Final = 1.2
# Weight, how much length counts, and the usual length, of name, place, description and body.
_FIELDS: Final = ((6.0, 0.3, 3), (1.0, 0.3, 5), (3.0, 0.5, 35), (0.6, 0.75, 400))
_PREFIX_WEIGHT: Final = 0.7
_TYPO_WEIGHT: Final = 0.6
MOST_EXPANSIONS: Final = 24
"""The number of words that an incomplete or a misspelled word may stand for."""
SHORTEST_PREFIX: Final = 2
"""The number of letters from which the last word may be incomplete."""


@dataclass(frozen=True, slots=True)
class Document(Generic[K]):
    """The searched fields of a skill, cleaned. `digest` is that of its `SKILL.md`, if known."""

    key: K
    name: str
    description: str
    place: str = ""
    body: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Match(Generic[K]):
    """A skill that matches. `partial`: only some of the words match. `copies` have the same `SKILL.md`."""

    key: K
    score: float
    partial: bool
    terms: frozenset[str]
    copies: tuple[K, ...] = ()


class SearchIndex(Generic[K]):
    """Skills by their terms. Not thread-safe: use it from one thread at a time."""

    def __init__(
        self, documents: Iterable[Document[K]] = (), *, rarity: tuple[Mapping[str, int], int] | None = None
    ) -> None:
        """`rarity` is for an index over part of a larger collection: how many of all documents have a term,
        and how many documents there are.
        """
        self._rarity_of = rarity
        self._documents: dict[K, Document[K]] = {}
        self._terms: dict[K, tuple[str, ...]] = {}
        self._postings: dict[str, dict[K, float]] = {}
        self._vocabulary: list[str] | None = None
        self.update(documents)

    def __len__(self) -> int:
        return len(self._documents)

    def update(self, documents: Iterable[Document[K]], removed: Iterable[K] = ()) -> None:
        """Add or replace documents, and remove others."""
        for key in removed:
            self._forget(key)
        for document in documents:
            self._forget(document.key)
            weights: dict[str, float] = {}
            fields = (document.name, document.place, document.description, document.body)
            for text, (weight, by_length, usual) in zip(fields, _FIELDS, strict=True):
                terms = terms_of(text)
                norm = weight / (1 - by_length + by_length * len(terms) / usual)
                for term, count in Counter(terms).items():
                    weights[term] = weights.get(term, 0.0) + count * norm
            for term, value in weights.items():
                self._postings.setdefault(term, {})[document.key] = value
            self._documents[document.key] = document
            self._terms[document.key] = tuple(weights)
        self._vocabulary = None

    def search(
        self, query: Query, *, limit: int, wanted: Callable[[K], bool] = lambda key: True
    ) -> list[Match[K]]:
        """The best matches: those with all words first, ties in the order of their keys."""
        groups = self._expanded(query)
        if not groups:
            return []
        weights = [self._rarity(group) for group in groups]
        total = sum(weights)
        scores: dict[K, float] = {}
        covered: dict[K, float] = {}
        hits: dict[K, set[str]] = {}
        for group, weight in zip(groups, weights, strict=True):
            best: dict[K, float] = {}
            for term, factor in group.items():
                for key, value in self._postings.get(term, {}).items():
                    worth = factor * weight * value * (_K1 + 1) / (value + _K1)
                    if worth > best.get(key, 0.0):
                        best[key] = worth
                    hits.setdefault(key, set()).add(term)
            for key, worth in best.items():
                scores[key] = scores.get(key, 0.0) + worth
                covered[key] = covered.get(key, 0.0) + weight
        matches = [
            Match(
                key,
                score * (0.4 + 0.6 * covered[key] / total),
                covered[key] < total - 1e-9,
                frozenset(hits[key]),
            )
            for key, score in scores.items()
            if wanted(key)
        ]
        matches.sort(key=lambda match: (match.partial, -match.score, str(match.key)))
        return self._collapsed(matches, limit)

    def snippet(self, match: Match[K]) -> SafeLine:
        """The passage of the description or body that contains the words, or the beginning (SEC-11)."""
        document = self._documents[match.key]
        if not match.terms.isdisjoint(terms_of(document.description)) or not document.body:
            return safe_line(_passage(document.description, match.terms))
        if not match.terms.isdisjoint(terms_of(document.body)):
            return safe_line(_passage(document.body, match.terms))
        return safe_line(_passage(document.description, match.terms))

    def _collapsed(self, matches: list[Match[K]], limit: int) -> list[Match[K]]:
        """The first matches, each with its copies."""
        chosen: list[Match[K]] = []
        places: dict[str, int] = {}
        copies: dict[int, list[K]] = {}
        for match in matches:
            digest = self._documents[match.key].digest
            if digest and digest in places:
                copies.setdefault(places[digest], []).append(match.key)
            elif len(chosen) < limit:
                if digest:
                    places[digest] = len(chosen)
                chosen.append(match)
        return [
            Match(match.key, match.score, match.partial, match.terms, tuple(copies.get(place, ())))
            for place, match in enumerate(chosen)
        ]

    def _expanded(self, query: Query) -> list[dict[str, float]]:
        """For each word of a query, the terms of the index that it stands for, with their weights."""
        groups: list[dict[str, float]] = []
        for place, alternatives in enumerate(query.terms):
            group = {term: 1.0 for term in alternatives if term in self._postings}
            if place == len(query.terms) - 1 and len(query.prefix) >= SHORTEST_PREFIX:
                for term in self._starting_with(query.prefix):
                    group.setdefault(term, _PREFIX_WEIGHT)
            if not group:
                group = dict.fromkeys(self._similar(alternatives[0]), _TYPO_WEIGHT)
            groups.append(group)
        return groups if any(groups) else []

    def _rarity(self, group: Collection[str]) -> float:
        """The weight of a word; an unknown word counts like the rarest."""
        if self._rarity_of is not None:
            known, count = self._rarity_of
            having = min(count, max((known.get(term, 0) for term in group), default=0))
        else:
            keys: set[K] = set()
            for term in group:
                keys.update(self._postings.get(term, ()))
            count, having = len(self._documents), len(keys)
        return math.log(1 + (count - having + 0.5) / (having + 0.5))

    def _words(self) -> list[str]:
        if self._vocabulary is None:
            self._vocabulary = sorted(self._postings)
        return self._vocabulary

    def _starting_with(self, prefix: str) -> list[str]:
        words = self._words()
        start = bisect_left(words, prefix)
        found: list[str] = []
        for word in words[start : start + MOST_EXPANSIONS]:
            if not word.startswith(prefix):
                break
            found.append(word)
        return found

    def _similar(self, term: str) -> list[str]:
        return similar_terms(term, self._words())

    def _forget(self, key: K) -> None:
        if self._documents.pop(key, None) is None:
            return
        for term in self._terms.pop(key):
            postings = self._postings[term]
            del postings[key]
            if not postings:
                del self._postings[term]


_SHORTEST_TYPO: Final = 4
_LONG_WORD: Final = 8


def similar_terms(term: str, words: Iterable[str]) -> list[str]:
    """The words that differ from a term by a typing error: one, or two in a long word."""
    if len(term) < _SHORTEST_TYPO or term.isdigit():
        return []
    most = 2 if len(term) >= _LONG_WORD else 1
    near: dict[int, list[str]] = {}
    for word in words:
        if abs(len(word) - len(term)) <= most and (word[0] == term[0] or word[1:2] == term[1]):
            errors = typing_errors(term, word, most)
            if errors <= most:
                near.setdefault(errors, []).append(word)
    return near[min(near)][:MOST_EXPANSIONS] if near else []


def typing_errors(one: str, other: str, most: int) -> int:
    """The edit distance between two words, with swaps; `most + 1` if it is larger."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


_SNIPPET_CHARS: Final = 240


def _passage(text: str, terms: Collection[str]) -> str:
    """The part of a text with most of these terms, cut between words."""
    if len(text) <= _SNIPPET_CHARS:
        return text
    words = plain_words(text)
    places = [start for start, _, found in words if not set(found).isdisjoint(terms)]
    if not places:
        return text[:_SNIPPET_CHARS].rsplit(" ", 1)[0] + "…"
    best = max(
        places, key=lambda first: sum(first <= place < first + _SNIPPET_CHARS - 40 for place in places)
    )
    start = max(best - 40, 0)
    start = text.find(" ", start, best) + 1 if start else 0
    cut = text[start : start + _SNIPPET_CHARS]
    ending = "" if start + _SNIPPET_CHARS >= len(text) else "…"
    return ("…" if start else "") + (cut.rsplit(" ", 1)[0] if ending else cut) + ending
