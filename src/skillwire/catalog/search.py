"""SearchIndex: the one search engine, of hosts, servers, gateways, registries and evaluations.

BM25 over four fields: name, place (label and path), description, and the text of `SKILL.md`. docs/search.md
has the measurements behind the weights. Common words are ignored, unknown words are corrected to similar
ones of names and descriptions, and the last word may be incomplete. Skills with the same `SKILL.md` are one
result. A skill that has too little of what was asked for is not a result: then no skill seems to fit.

Pure and in memory. A different word of a skill takes about eight bytes, and a query of ten thousand skills a
few milliseconds.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

from skillwire.catalog.table import MAX_HANDLE_LENGTH
from skillwire.catalog.tokenize import Query, count_terms, plain_words, terms_of
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, SKILL_FILE, Digest, SkillEntry, digest_of
from skillwire.text import SafeLine, clean_line, clean_text, safe_line

K = TypeVar("K", bound=Hashable)
_K1: Final = 1.2
# Weight, how much length counts, and the usual length, of name, place, description and body.
_FIELDS: Final = ((6.0, 0.3, 3), (1.0, 0.3, 5), (3.0, 0.5, 35), (1.0, 0.75, 400))
_PREFIX_WEIGHT: Final = 0.7
_TYPO_WEIGHT: Final = 0.6
# How much of a score depends on the share of the words that match.
_COVERAGE: Final = 0.9
# How much the first places of two rankings count more than later ones, if they are fused.
_FUSED_FROM: Final = 5
_MOST_DEAD: Final = 1_000
_LONGEST_TERM: Final = 64
LEAST_FIT: Final = (0.1, 0.15)
"""If the best match has only some of the words and a lower share of the best score that a skill could
have, no skill seems to fit. The first is for skills without bodies, the second for skills with them; in
between, in proportion."""
LEAST_SIMILAR: Final = 0.2
"""A skill that is this close to a question in meaning is a result, also if it has none of the words."""
FEW_SKILLS: Final = 20
"""Among fewer skills it is not known which words are rare, so `LEAST_FIT` does not apply."""
BODY_CHARS: Final = 32_768
"""The number of characters of a body that are searched. Its beginning says what a skill is about."""
MOST_EXPANSIONS: Final = 24
"""The number of words that an incomplete or a misspelled word may stand for."""
SHORTEST_PREFIX: Final = 2
"""The number of letters from which the last word may be incomplete."""


def body_terms(text: str) -> dict[str, int]:
    """How often each term occurs in the searched part of a cleaned body, without terms that nobody types."""
    counts = count_terms(text[:BODY_CHARS])
    return {term: count for term, count in counts.items() if len(term) <= _LONGEST_TERM}


@dataclass(frozen=True, slots=True)
class Document(Generic[K]):
    """The searched fields of a skill, cleaned. `digest` is that of its `SKILL.md`, if known.

    The body is a text, or the result of `body_terms`.
    """

    key: K
    name: str
    description: str
    place: str = ""
    body: str | Mapping[str, int] = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Match(Generic[K]):
    """A skill that matches. `partial`: only some of the words match. `copies` have the same `SKILL.md`."""

    key: K
    partial: bool
    terms: frozenset[str]
    copies: tuple[K, ...] = ()


@dataclass(frozen=True, slots=True)
class _Posting:
    """The numbers of the documents that have a term, ascending, and what the term is worth in each."""

    numbers: array[int]
    values: array[float]

    def value(self, number: int) -> float:
        place = bisect_left(self.numbers, number)
        has = place < len(self.numbers) and self.numbers[place] == number
        return self.values[place] if has else 0.0


class SearchIndex(Generic[K]):
    """Skills by their terms. Not thread-safe: use it from one thread at a time."""

    def __init__(
        self,
        documents: Iterable[Document[K]] = (),
        *,
        rarity: tuple[Mapping[str, int], int] | None = None,
        snippets: bool = True,
    ) -> None:
        """`rarity` is for an index over part of a larger collection: how many of all documents have a term,
        and how many documents there are. Without `snippets`, the bodies are not kept.
        """
        self._rarity_of = rarity
        self._keeps_bodies = snippets
        self._documents: dict[K, Document[K]] = {}
        # A document gets the next number. One that is replaced or removed keeps it until the index is packed.
        self._numbers: dict[K, int] = {}
        self._keys: list[K] = []
        self._alive = bytearray()
        self._with_body: set[K] = set()
        self._by_digest: dict[str, list[int]] = {}
        self._postings: dict[str, _Posting] = {}
        # Terms of names, places and descriptions, by which typing errors are corrected.
        self._short: Counter[str] = Counter()
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
            self._add(document)
        if len(self._keys) - len(self) > max(_MOST_DEAD, len(self)):
            self._pack()
        self._vocabulary = None

    def search(
        self,
        query: Query,
        *,
        limit: int,
        wanted: Callable[[K], bool] = lambda key: True,
        similar: Mapping[K, float] | None = None,
    ) -> list[Match[K]]:
        """The best matches: those with all words first, ties in the order of their keys.

        `similar` are wanted skills with their closeness in meaning, up to 1, closest first. The order is then
        that of both rankings together (reciprocal rank fusion), and close skills are results too.
        """
        groups = self._expanded(query)
        scores = [0.0] * len(self._keys)
        covered = [0.0] * len(self._keys)
        total = 0.0
        for group in groups:
            best = self._best(group)
            weight = self._rarity(group, len(best))
            total += weight
            for number, value in best:
                scores[number] += weight * value
                covered[number] += weight
        most = total * (_K1 + 1)
        # Those with all words have a rank above 1.
        ranks = [
            (score / most * (1 - _COVERAGE + _COVERAGE * share / total) + (share > total - 1e-9))
            if score
            else 0.0
            for score, share in zip(scores, covered, strict=True)
        ]
        order = sorted(filter(ranks.__getitem__, range(len(ranks))), key=ranks.__getitem__, reverse=True)
        if order and ranks[order[0]] <= 1 and scores[order[0]] < self._least_fit() * most:
            order = []
        places: Sequence[float] = ranks
        if similar:
            order, places = self._fused(order, ranks, similar, wanted)
        terms = {term for group in groups for term in group}
        return [
            Match(
                self._keys[number],
                ranks[number] <= 1,
                frozenset(term for term in terms if self._value(term, number)),
                tuple(copies),
            )
            for number, copies in self._chosen(order, places, limit, wanted)
        ]

    def worth(self, query: Query, key: K) -> dict[str, float]:
        """Return the score that each word of a query adds, by the term that stands for it."""
        number = self._numbers[key]
        found: dict[str, float] = {}
        for group in self._expanded(query):
            values = {term: factor * self._value(term, number) for term, factor in group.items()}
            best = max(values, key=lambda term: (values[term], term), default="")
            if best and values[best]:
                found[best] = self._rarity(group, len(self._best(group))) * values[best]
        return found

    def snippet(self, match: Match[K]) -> SafeLine:
        """The passage of the description or body that contains the words, or the beginning (SEC-11)."""
        document = self._documents[match.key]
        body = document.body if isinstance(document.body, str) else ""
        is_described = not match.terms.isdisjoint(terms_of(document.description))
        if not is_described and not match.terms.isdisjoint(terms_of(body)):
            return safe_line(_passage(body, match.terms))
        return safe_line(_passage(document.description, match.terms))

    def _add(self, document: Document[K]) -> None:
        number = len(self._keys)
        body = body_terms(document.body) if isinstance(document.body, str) else document.body
        short = [count_terms(text) for text in (document.name, document.place, document.description)]
        weights: dict[str, float] = {}
        for terms, (weight, by_length, usual) in zip((*short, body), _FIELDS, strict=True):
            norm = weight / (1 - by_length + by_length * sum(terms.values()) / usual)
            for term, count in terms.items():
                weights[term] = weights.get(term, 0.0) + count * norm
        for term, value in weights.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting(array("I"), array("f"))
            posting.numbers.append(number)
            posting.values.append(value * (_K1 + 1) / (value + _K1))
        self._short.update({term for terms in short for term in terms})
        self._keys.append(document.key)
        self._alive.append(1)
        if body:
            self._with_body.add(document.key)
        if document.digest:
            self._by_digest.setdefault(document.digest, []).append(number)
        self._numbers[document.key] = number
        is_kept = self._keeps_bodies and isinstance(document.body, str)
        self._documents[document.key] = document if is_kept else replace(document, body="")

    def _best(self, group: Mapping[str, float]) -> Collection[tuple[int, float]]:
        """Return the weight of the best term that stands for a word, for each document that has one."""
        postings = [
            (self._postings[term], factor) for term, factor in group.items() if term in self._postings
        ]
        if len(postings) == 1 and len(self._keys) == len(self):
            posting, factor = postings[0]
            values = posting.values if factor == 1.0 else [factor * value for value in posting.values]
            return list(zip(posting.numbers, values, strict=True))
        best: dict[int, float] = {}
        for posting, factor in postings:
            for number, value in zip(posting.numbers, posting.values, strict=True):
                if factor * value > best.get(number, 0.0) and self._alive[number]:
                    best[number] = factor * value
        return best.items()

    def _value(self, term: str, number: int) -> float:
        posting = self._postings.get(term)
        return 0.0 if posting is None else posting.value(number)

    def _chosen(
        self, order: Iterable[int], ranks: Sequence[float], limit: int, wanted: Callable[[K], bool]
    ) -> list[tuple[int, list[K]]]:
        """The first wanted documents, each with its copies. Ties are in the order of their keys."""

        def name(number: int) -> str:
            return str(self._keys[number])

        chosen: list[tuple[int, list[K]]] = []
        done: set[int] = set()
        for _, ties in groupby(order, ranks.__getitem__):
            for number in sorted(ties, key=name):
                if len(chosen) == limit:
                    return chosen
                if number in done or not wanted(self._keys[number]):
                    continue
                same = self._by_digest.get(self._documents[self._keys[number]].digest, ())
                copies = [
                    copy for copy in same if copy != number and ranks[copy] and wanted(self._keys[copy])
                ]
                copies.sort(key=lambda copy: (-ranks[copy], name(copy)))
                chosen.append((number, [self._keys[copy] for copy in copies]))
                done.update(same)
        return chosen

    def _fused(
        self,
        order: Sequence[int],
        ranks: Sequence[float],
        similar: Mapping[K, float],
        wanted: Callable[[K], bool],
    ) -> tuple[list[int], list[float]]:
        """The order by words and the order by meaning as one, and the rank of every document in it."""
        places = [0.0] * len(self._keys)
        by_words = [number for number in order if wanted(self._keys[number])]
        # Ties share a place: which of them was added first has no effect.
        for _, ties in groupby(enumerate(by_words, 1), lambda one: ranks[one[1]]):
            place, number = next(ties)
            for tied in (number, *(other for _, other in ties)):
                places[tied] = 1 / (_FUSED_FROM + place)
        for place, (key, closeness) in enumerate(similar.items(), 1):
            number = self._numbers.get(key)
            if number is not None and (places[number] or closeness >= LEAST_SIMILAR):
                places[number] += 1 / (_FUSED_FROM + place)
        fused = [number for number, rank in enumerate(places) if rank]
        return sorted(fused, key=places.__getitem__, reverse=True), places

    def _expanded(self, query: Query) -> list[dict[str, float]]:
        """For each word of a query, the terms of the index that it stands for, with their weights."""
        # A word that other documents have is not misspelled.
        known = () if self._rarity_of is None else self._rarity_of[0]
        groups: list[dict[str, float]] = []
        for place, alternatives in enumerate(query.terms):
            group = {term: 1.0 for term in alternatives if term in self._postings or term in known}
            if place == len(query.terms) - 1 and len(query.prefix) >= SHORTEST_PREFIX:
                for term in self._starting_with(query.prefix):
                    group.setdefault(term, _PREFIX_WEIGHT)
            if not group:
                group = dict.fromkeys(similar_terms(alternatives[0], self._words()), _TYPO_WEIGHT)
            groups.append(group)
        return groups if any(groups) else []

    def _least_fit(self) -> float:
        low, high = LEAST_FIT
        has_few = self._count() < FEW_SKILLS
        return 0.0 if has_few else low + (high - low) * len(self._with_body) / len(self)

    def _count(self) -> int:
        return len(self) if self._rarity_of is None else self._rarity_of[1]

    def _rarity(self, group: Collection[str], having: int) -> float:
        """The weight of a word that so many documents have; an unknown word counts like the rarest."""
        count = self._count()
        if self._rarity_of is not None:
            known = self._rarity_of[0]
            having = min(count, max((known.get(term, 0) for term in group), default=0))
        return math.log(1 + (count - having + 0.5) / (having + 0.5))

    def _words(self) -> list[str]:
        if self._vocabulary is None:
            self._vocabulary = sorted(self._short)
        return self._vocabulary

    def _starting_with(self, prefix: str) -> list[str]:
        words = self._words()
        start = bisect_left(words, prefix)
        return [word for word in words[start : start + MOST_EXPANSIONS] if word.startswith(prefix)]

    def _forget(self, key: K) -> None:
        document = self._documents.pop(key, None)
        if document is None:
            return
        number = self._numbers.pop(key)
        self._alive[number] = 0
        if document.digest:
            self._by_digest[document.digest].remove(number)
        self._with_body.discard(key)
        for term in {*terms_of(document.name), *terms_of(document.place), *terms_of(document.description)}:
            self._short[term] -= 1
            if not self._short[term]:
                del self._short[term]

    def _pack(self) -> None:
        """Give the documents new numbers, without those that were replaced or removed."""
        new = {number: place for place, number in enumerate(self._numbers.values())}
        packed: dict[str, _Posting] = {}
        for term, posting in self._postings.items():
            pairs = [
                (new[number], value)
                for number, value in zip(posting.numbers, posting.values, strict=True)
                if number in new
            ]
            if pairs:
                pairs.sort()
                packed[term] = _Posting(
                    array("I", [number for number, _ in pairs]), array("f", [value for _, value in pairs])
                )
        self._postings = packed
        self._by_digest = {
            digest: [new[number] for number in numbers]
            for digest, numbers in self._by_digest.items()
            if numbers
        }
        self._keys = list(self._numbers)
        self._numbers = {key: place for place, key in enumerate(self._keys)}
        self._alive = bytearray(b"\x01" * len(self._keys))


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


_FRONTMATTER: Final = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


class SkillDocuments(Generic[K]):
    """Creates documents, with at most `limits.search_text_bytes` of text in all of them together.

    `described` are the skills that have a document without text, and `cut` those among them whose text is
    left out because of that limit.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._room = limits.search_text_bytes
        self._sizes: dict[K, int] = {}
        self.described: set[K] = set()
        self.cut: set[K] = set()

    def forget(self, key: K) -> None:
        """Make room for another document of this skill, or for other skills."""
        self._room += self._sizes.pop(key, 0)
        self.described.discard(key)
        self.cut.discard(key)

    def wanted(self, key: K, entry: SkillEntry) -> Digest | None:
        """The digest of the `SKILL.md` whose text can be searched; `None` if none is listed, or if it is too
        long (SEC-9).
        """
        listed = _skill_md(entry)
        if listed is None:
            return None
        digest, size = listed
        if size > self._room:
            self.cut.add(key)
            return None
        return digest

    def make(self, key: K, entry: SkillEntry, data: bytes | None, *, label: str = "") -> Document[K]:
        """The document of a skill. `data` is its `SKILL.md`, if that is at hand."""
        listed = _skill_md(entry)
        body = self._body(key, entry, data)
        if not body:
            self.described.add(key)
        # Every handle consists of these words, so a collision, which changes handles, needs no new document.
        path = entry.uri.partition("://")[2].removesuffix(f"/{SKILL_FILE}")
        return Document(
            key=key,
            name=clean_line(entry.name, limit=MAX_HANDLE_LENGTH).text,
            place=clean_line(f"{label} {unquote(path)}".strip()).text,
            description=clean_line(entry.description, limit=self._limits.description_chars).text,
            body=body,
            digest="" if listed is None else listed[0],
        )

    def _body(self, key: K, entry: SkillEntry, data: bytes | None) -> str:
        if data is None:
            return ""
        # Older dialects do not list sizes, so the bytes are counted too.
        if len(data) > self._room:
            self.cut.add(key)
            return ""
        listed = _skill_md(entry)
        if listed is None or digest_of(data) != listed[0]:
            return ""  # VER-1: only the listed version is searched.
        text = searched_text(data)
        self._sizes[key] = len(data)
        self._room -= len(data)
        return text


def searched_text(data: bytes) -> str:
    """The text of a `SKILL.md` without its frontmatter, cleaned; empty if it is not UTF-8."""
    try:
        body = _FRONTMATTER.sub("", data.decode("utf-8"), count=1)
    except UnicodeDecodeError:
        return ""
    return clean_text(body).text


def _skill_md(entry: SkillEntry) -> tuple[Digest, int] | None:
    if entry.resources is DYNAMIC:
        return None
    return next(((file.digest, file.size) for file in entry.resources if file.uri == entry.uri), None)
