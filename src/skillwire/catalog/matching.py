"""Matcher: which texts fit a few words best. Small and plain: no index, for some ten thousand short texts."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=str)

_WORD: Final = re.compile(r"\w+")
_ENDING: Final = re.compile(r"(?:ing|ed|es|s)$")
_SHORTEST_STEM: Final = 4
_MOST_WORDS: Final = 32
_IN_NAME: Final = 3.0


class Matcher(Generic[K]):
    """Texts by their name. A word fits inside a longer one, so endings and unspaced scripts do no harm."""

    def __init__(self, texts: Mapping[K, str]) -> None:
        self._texts = {name: (_plain(name), _plain(text)) for name, text in texts.items()}

    def best(self, query: str, *, limit: int) -> list[K]:
        """The names of the texts that fit best. A rare word counts for more, and most of all in a name."""
        scores: defaultdict[K, float] = defaultdict(float)
        words = dict.fromkeys(_stem(word) for word in _WORD.findall(_plain(query)))
        for word in list(words)[:_MOST_WORDS]:
            hits = [
                (name, _IN_NAME if word in plain_name else 1.0)
                for name, (plain_name, text) in self._texts.items()
                if word in plain_name or word in text
            ]
            rarity = math.log(1 + len(self._texts) / max(len(hits), 1))
            for name, weight in hits:
                scores[name] += weight * rarity
        return sorted(scores, key=lambda name: (-scores[name], name))[:limit]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _stem(word: str) -> str:
    stem = _ENDING.sub("", word) if word.isascii() else word
    return stem if len(stem) >= _SHORTEST_STEM else word
