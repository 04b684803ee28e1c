"""Words: text and queries in the form that the search compares.

Scripts that put no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, whose
particles stick to the word before, are taken character by character. A run of them in a query is a phrase of
characters, so it is found inside any longer run, and two characters are enough. All other words are found
whole; case and accents do not count.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from skillwire.limits import Limits
from skillwire.text import clean_line

# Thai and Lao, Burmese, Hangul letters, Khmer, Tai Tham, kana and bopomofo, Han, Hangul, more Han.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf"
    "\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_CHARACTER: Final = re.compile(f"([{_UNSPACED}])")
_RUN: Final = re.compile(rf"[{_UNSPACED}]+|[^\s{_UNSPACED}]+")
# A mark for the end of a word that shows nothing; `clean_line` takes it out of what is shown.
_APART: Final = "\u200b"
_MOST_WORDS: Final = 32
_MOST_PARTS: Final = 64


def spread(text: str) -> str:
    """Cleaned text as it is indexed: compatibility forms made plain, unspaced scripts taken apart."""
    if text.isascii():
        return text
    return _CHARACTER.sub(rf"{_APART}\1{_APART}", unicodedata.normalize("NFKC", text))


@dataclass(frozen=True, slots=True)
class Query:
    """The words that somebody searches for. Whatever they typed is words, never an operator."""

    words: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.words)

    def all_words(self, *, unfinished: bool) -> str:
        """An FTS5 expression for every word; with `unfinished`, the last may be the start of one."""
        quoted = [_quote(word) for word in self.words]
        return " AND ".join(quoted) + ("*" if unfinished else "")

    def parts(self) -> tuple[str, ...]:
        """FTS5 expressions of which some may do: each word, and each pair of a longer unspaced run."""
        parts = dict.fromkeys(_quote(part) for word in self.words for part in _pairs(word))
        return tuple(parts)[:_MOST_PARTS]


def parse_query(text: str, *, limits: Limits) -> Query:
    """Take words out of anything; a query of nothing but marks has none."""
    # SEC-11: hidden characters go, and with them NUL and lone surrogates, which SQLite does not take.
    clean = clean_line(text[: limits.search_query_chars]).text
    runs = _RUN.findall(unicodedata.normalize("NFKC", clean))
    words = dict.fromkeys(run.casefold() for run in runs if any(_is_of_word(char) for char in run))
    return Query(tuple(words)[:_MOST_WORDS])


def _quote(word: str) -> str:
    return '"' + spread(word).replace('"', '""') + '"'


def _pairs(word: str) -> list[str]:
    if len(word) <= 2 or not _CHARACTER.match(word):
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


def _is_of_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"
