"""Terms: text and queries in the form in which search compares them.

Case, accents and English endings are ignored: `Reviewing` and `reviews` are one term. `C++`, `C#`, `F#` and
`.NET` are separate terms. A compound such as `e-mail` or `node.js` counts as its parts and as the whole, so
`email` finds it. Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and
Korean, whose particles are attached to the preceding word, are split into pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillwire.limits import Limits
from skillwire.text import clean_line

# Thai and Lao, Burmese, Hangul letters, Khmer, Tai Tham, kana and bopomofo, Han, Hangul, more Han.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u19e0-\u19ff\u1a20-\u1aaf"
    "\u3005-\u3007\u3040-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_WORD: Final = re.compile(
    rf"(?P<exact>(?<!\w)(?:c\+\+|[cf]\#|\.net)(?!\w))"
    rf"|(?P<run>[{_UNSPACED}]+)"
    rf"|(?P<word>(?:(?![{_UNSPACED}_])\w)+(?:[-.'’](?:(?![{_UNSPACED}_])\w)+)*)"
)
_ASCII_WORD: Final = re.compile(
    r"(?<![a-z0-9])(?:c\+\+|[cf]#|\.net)(?![a-z0-9])|[a-z0-9]+(?:[-.'][a-z0-9]+)*"
)
_JOINTS: Final = re.compile("[-.'’]")
_MOST_TERMS: Final = 32
_LONGEST_COMPOUND: Final = 24
_SHORTEST_STEM: Final = 3
_ENDINGS: Final = (
    ("ation", 4),
    ("ating", 4),
    ("ator", 4),
    ("ated", 4),
    ("ate", 4),
    ("ion", 4),
    ("ment", 5),
    ("ing", 3),
    ("er", 4),
    ("ied", 3),
    ("ed", 3),
    ("ly", 4),
)
_STOP_WORDS: Final = """
a about actually after again all already also although am an and another any anybody anyone anything
are aren aren't as ask at be because been before being best between both but by can can't could
couldn couldn't currently d did didn didn't do does doesn doesn't doing don don't done during each
else even ever every everybody everyone everything few for from get gets getting give go going good
got had hadn hadn't has hasn hasn't have haven haven't having he he's help helps her here him his
how however i i'd i'll i'm i've if in into is isn isn't it it's its itself just keep know let let's
like ll look looking lot lots m make makes making many may maybe me might mine more most much must
mustn mustn't my myself need needs no nobody not nothing now of off ok okay on once one only or
other our out over own please re really s same shan't she she's should shouldn shouldn't since so
some somebody somehow someone something still such sure t take tell than that that's the their them
then there there's these they they're they've thing things this those though through to too try
under until up us use used user uses using ve very want wants was wasn wasn't way ways we we'd we'll
we're we've well were weren weren't what what's when where where's whether which while who who's
whom whose why will with without won won't would wouldn wouldn't yet you you'd you'll you're you've
your yours
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, slots=True)
class Query:
    """A search query. All input is words; there are no operators.

    `terms` has one group of alternatives for each word: `e-mail` is found as `email`, or as `mail`. `prefix`
    is the last word as typed, which may be incomplete, or empty.
    """

    terms: tuple[tuple[str, ...], ...]
    prefix: str = ""

    def __bool__(self) -> bool:
        return bool(self.terms)


def parse_query(text: str, *, limits: Limits) -> Query:
    """The query in a text; punctuation alone gives an empty one."""
    # SEC-11: remove hidden characters first.
    clean = _plain(clean_line(text[: limits.search_query_chars]).text)
    found = [(word, kind) for word, kind in _words(clean)]
    telling = [(word, kind) for word, kind in found if word not in STOP_WORDS]
    groups: dict[tuple[str, ...], None] = {}
    for word, kind in telling or found:
        if kind == "run":
            for pair in _pairs(word):
                groups[(pair,)] = None
        else:
            groups[_alternatives(word) if kind == "word" else (word,)] = None
    last, kind = found[-1] if found else ("", "")
    prefix = last if kind == "word" and clean.endswith(last) and (last not in STOP_WORDS) else ""
    return Query(tuple(groups)[:_MOST_TERMS], prefix)


def terms_of(text: str) -> list[str]:
    """Every term of a cleaned text, as often as it occurs."""
    terms: list[str] = []
    for word, kind in _words(_plain(text)):
        if kind == "word":
            terms.extend(_word_terms(word))
        elif kind == "run":
            terms.extend(_run_terms(word))
        else:
            terms.append(word)
    return terms


def count_terms(text: str) -> dict[str, int]:
    """How often each term occurs in a cleaned text."""
    counts: dict[str, int] = {}
    for (word, kind), times in Counter(_words(_plain(text))).items():
        terms = _word_terms(word) if kind == "word" else _run_terms(word) if kind == "run" else (word,)
        for term in terms:
            counts[term] = counts.get(term, 0) + times
    return counts


def plain_words(text: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """The positions of the words in a cleaned text, and the terms of each, for passages."""
    plain = text.casefold()
    if len(plain) != len(text):
        return []
    return [(match.start(), match.end(), tuple(terms_of(match.group()))) for match in _WORD.finditer(plain)]


def _words(plain: str) -> list[tuple[str, str]]:
    if plain.isascii():
        return [
            (word, "exact" if word[0] == "." or word[-1] in "+#" else "word")
            for word in _ASCII_WORD.findall(plain)
        ]
    return [(match.group(), match.lastgroup or "word") for match in _WORD.finditer(plain)]


def _plain(text: str) -> str:
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", text).casefold()
    decomposed = unicodedata.normalize("NFD", folded)
    # Accents of letters are removed; marks that a script needs are kept, because they are composed again.
    bare = "".join(char for char in decomposed if not "\u0300" <= char <= "\u036f")
    return unicodedata.normalize("NFC", bare)


@lru_cache(maxsize=65_536)
def _word_terms(word: str) -> tuple[str, ...]:
    parts = [part for part in _JOINTS.split(word) if part]
    terms = [stem(part) for part in parts]
    if len(parts) > 1 and len(word) <= _LONGEST_COMPOUND:
        terms.append(stem("".join(parts)))
    return tuple(terms)


def _run_terms(run: str) -> list[str]:
    return [*run, *(_pairs(run) if len(run) > 1 else ())]


def _alternatives(word: str) -> tuple[str, ...]:
    parts = [part for part in _JOINTS.split(word) if part]
    if len(parts) == 1:
        return (stem(word),)
    longest = max((part for part in parts), key=len)
    return tuple(dict.fromkeys((stem("".join(parts)), stem(longest))))


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A word without its English ending; other words are unchanged."""
    if not word.isascii() or len(word) <= _SHORTEST_STEM or word.isdigit():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending, shortest in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            word = word[: -len(ending)]
            if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    if word.endswith("e") and len(word) > _SHORTEST_STEM:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > _SHORTEST_STEM else word
