"""SearchIndex: SQLite's full-text search over skills, in memory.

A skill stands in up to three tables. `names` has its name, place and description as they are, for whole words
and beginnings of words. `stems` has the same with English endings taken off, so that `reviewing` finds
`review`. `texts` has the body of its `SKILL.md` too, where that is at hand. A search asks them in this order:

1. `names`: all words, the last one perhaps unfinished
2. `stems`: all words
3. `texts`: all words
4. `stems`: some words
5. `texts`: some words

So a word in a name or description counts for more than one in a body, and a skill that was used before, whose
body is at hand, is not the worse for its length. Inside a step, BM25 ranks, and a name weighs most.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from skillwire.catalog.naming import SkillKey
from skillwire.host.search.tokenize import Query, spread
from skillwire.text import SafeLine, safe_line

_TOKENS: Final = "unicode61 remove_diacritics 2 categories ''L* N* M* Co''"
_SCHEMA: Final = f"""
CREATE VIRTUAL TABLE names USING fts5(name, place, description, tokenize='{_TOKENS}');
CREATE VIRTUAL TABLE stems USING fts5(name, place, description, tokenize='porter {_TOKENS}');
CREATE VIRTUAL TABLE texts USING fts5(about, body, tokenize='porter {_TOKENS}');
INSERT INTO names(names, rank) VALUES ('rank', 'bm25(10.0, 2.0, 4.0)');
INSERT INTO stems(stems, rank) VALUES ('rank', 'bm25(10.0, 2.0, 4.0)');
INSERT INTO texts(texts, rank) VALUES ('rank', 'bm25(4.0, 1.0)');
"""  # noqa: S608 - nobody else's words
# The last column is the one that people read: the description, or the body.
_SHOWN_COLUMN: Final = {"names": 2, "stems": 2, "texts": 1}
_SNIPPET_TOKENS: Final = 32
# Among fewer skills than this, no word is too common to search for.
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class Indexed:
    """What is searched of a skill, cleaned. `body` is empty when it is not at hand."""

    key: SkillKey
    name: str
    place: str
    description: str
    body: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """A skill that fits, and how to find the passage that does. `partial`: only some words fit."""

    key: SkillKey
    partial: bool
    table: str
    expression: str
    row: int


class SearchIndex:
    """Skills by their words. It may be used from any thread, from one at a time."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._rows: dict[SkillKey, int] = {}
        self._keys: dict[int, SkillKey] = {}
        self._last_row = 0
        # There is no file behind it: it ends with the last one who holds it.
        weakref.finalize(self, self._database.close)

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, skills: Iterable[Indexed], removed: Iterable[SkillKey] = ()) -> None:
        """Take in these skills in place of what was there of them, and forget others."""
        new = tuple(skills)
        self._database.execute("BEGIN")
        for key in (*removed, *(skill.key for skill in new)):
            self._forget(key)
        numbered = [(self._number(skill.key), skill) for skill in new]
        about = [
            (row, spread(skill.name), spread(skill.place), spread(skill.description))
            for row, skill in numbered
        ]
        for table in ("names", "stems"):
            self._database.executemany(
                f"INSERT INTO {table}(rowid, name, place, description) VALUES (?, ?, ?, ?)",  # noqa: S608
                about,
            )
        self._database.executemany(
            "INSERT INTO texts(rowid, about, body) VALUES (?, ?, ?)",
            [
                (row, spread(f"{skill.name} {skill.place} {skill.description}"), spread(skill.body))
                for row, skill in numbered
                if skill.body
            ],
        )
        self._database.execute("COMMIT")

    def matches(self, query: Query, label: str | None = None) -> Iterator[Match]:
        """Every skill that fits, the best first, each once; of one origin if a label is given."""
        if not query:
            return
        whole = query.all_words(unfinished=False)
        seen: set[int] = set()
        yield from self._step("names", query.all_words(unfinished=True), label, seen)
        yield from self._step("stems", whole, label, seen)
        yield from self._step("texts", whole, label, seen)
        telling = [part for part in query.parts() if self._tells_apart(part)]
        if telling and telling != [whole]:
            some = " OR ".join(telling)
            yield from self._step("stems", some, label, seen, partial=True)
            yield from self._step("texts", some, label, seen, partial=True)

    def snippet(self, match: Match) -> SafeLine:
        """The passage of the description or body where the words are, or its beginning (SEC-11)."""
        table = match.table
        found = self._database.execute(
            f"SELECT snippet({table}, ?, '', '', '…', ?) FROM {table} WHERE {table} MATCH ? AND rowid = ?",  # noqa: S608
            (_SHOWN_COLUMN[table], _SNIPPET_TOKENS, match.expression, match.row),
        ).fetchone()
        return safe_line(found[0] if found else "")

    def _step(
        self, table: str, expression: str, label: str | None, seen: set[int], *, partial: bool = False
    ) -> Iterator[Match]:
        found = self._database.execute(
            f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank",  # noqa: S608
            (expression,),
        )
        for (row,) in found:
            key = self._keys[row]
            if row not in seen and label in (None, key.origin.label):
                seen.add(row)
                yield Match(key, partial, table, expression, row)

    def _tells_apart(self, part: str) -> bool:
        """Whether a word says anything: one that most skills have does not."""
        if len(self) < _FEW:
            return True
        (count,) = self._database.execute(
            "SELECT count(*) FROM stems WHERE stems MATCH ?", (part,)
        ).fetchone()
        return count <= len(self) / 2

    def _number(self, key: SkillKey) -> int:
        self._last_row += 1
        self._rows[key] = self._last_row
        self._keys[self._last_row] = key
        return self._last_row

    def _forget(self, key: SkillKey) -> None:
        row = self._rows.pop(key, None)
        if row is None:
            return
        del self._keys[row]
        for table in _SHOWN_COLUMN:
            self._database.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))  # noqa: S608
