"""Fence: tags around a skill's text that the text cannot close (SEC-1).

The tags contain a boundary that is derived from the text, and from the host's salt if it has one, and that
does not occur in the text: no text can contain its own boundary. And the opening bracket of anything in the
text that imitates such a tag becomes `[`, in every known spelling: case, white space, entities, full-width
and look-alike characters. Except for hidden characters, everything else is unchanged.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skillwire.text import clean_line, clean_text, escape_xml
from skillwire.trust.origin import Origin

_BOUNDARY_LENGTH: Final = 16
_LOOK_ALIKES: Final = {
    "<": "‹〈〈⟨❬❮❰⟪《«˂ᐸ≺⋖⧼ㄑ",
    "/": "⁄∕╱⧸ノ",
    "_": "‗ˍ",
    "a": "аɑα",
    "c": "сϲ",
    "d": "ԁ",
    "e": "еҽ",
    "i": "іιıɪ",
    "k": "кκ",
    "l": "ӏߊǀ",
    "n": "ոп",
    "o": "оοօ",
    "r": "гᴦ",
    "s": "ѕꜱ",
    "t": "тτ",
    "u": "υսᴜ",
}
_FOLDED_BY_SIGHT: Final = {ord(char): plain for plain, chars in _LOOK_ALIKES.items() for char in chars}


class _Fold(dict[int, str]):
    """Maps each character to one character, so that positions stay the same."""

    def __missing__(self, point: int) -> str:
        char = chr(point)
        plain = unicodedata.normalize("NFKC", char).casefold()
        folded = _FOLDED_BY_SIGHT.get(point) or (plain if len(plain) == 1 else char)
        folded = _FOLDED_BY_SIGHT.get(ord(folded), folded)
        self[point] = folded
        return folded


_FOLD: Final = _Fold()


def _entity(points: str, names: str = "") -> str:
    """A pattern for a character reference to one of these, whose ampersand may itself be escaped."""
    decimal = "|".join(str(ord(char)) for char in points)
    hexadecimal = "|".join(f"{ord(char):x}" for char in points)
    numbers = f"#0*+(?:{decimal})(?![0-9])|#x0*+(?:{hexadecimal})(?![0-9a-f])"
    return f"&(?:amp;?|#0*+38;|#x0*+26;)*+(?:{numbers}{'|' + names if names else ''});?"


def _letter(letter: str) -> str:
    return f"(?:{letter}|{_entity(letter + letter.upper())})"


def _word(word: str) -> str:
    return _GAP.join(_letter(letter) for letter in word).replace(
        f"{_letter('s')}{_GAP}{_letter('t')}", f"(?:{_letter('s')}{_GAP}{_letter('t')}|[ﬅﬆ])"
    )


_GAP_ENTITY: Final = _entity(
    "\t\n\r -.:_\\\xa0\xad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff",
    "nbsp|tab|newline|lowbar|underbar|hyphen|dash|colon|period|bsol|shy|zwj|zwnj|ensp|emsp|thinsp",
)
_GAP: Final = rf"(?:[\s_\-:.\\\u200c\u200d\ufe0e\ufe0f]|{_GAP_ENTITY})*+"
_OPENING: Final = f"(?:<|{_entity('<', 'lt')})"
_SLASHES: Final = f"(?:(?:/|{_entity('/', 'sol')}){_GAP})*+"
_IMITATION: Final = re.compile(
    f"({_OPENING}){_GAP}{_SLASHES}(?=(?:{_word('untrusted')}|{_word('local')}){_GAP}{_word('skill')})"
)


@dataclass(frozen=True, slots=True)
class Fenced:
    """A fenced text, and what was changed in it."""

    text: str
    removed: int
    """The number of hidden characters removed."""
    imitations: int
    """The number of imitated tags that were marked."""


def fence(
    content: str, origin: Origin, *, part: str, attributes: Mapping[str, str], salt: bytes = b""
) -> Fenced:
    """Enclose content in tags that name its origin: `untrusted_skill...` or `local_skill...`.

    `part` continues the tag's name, such as `_file`. With a random `salt`, created once per host, boundaries
    are unguessable but the same in every rendering.
    """
    cleaned = clean_text(content)
    inside, imitations = neutralize(cleaned.text)
    kind = "local" if origin.is_local else "untrusted"
    tag = f"{kind}_skill{part}_{_boundary(inside, salt)}"
    named = {**attributes, "directory" if origin.is_local else "server": origin.label}
    written = "".join(f' {key}="{escape_xml(clean_line(value).text)}"' for key, value in named.items())
    end = "" if inside.endswith("\n") or not inside else "\n"
    return Fenced(f"<{tag}{written}>\n{inside}{end}</{tag}>", cleaned.removed, imitations)


def neutralize(text: str) -> tuple[str, int]:
    """The text with every imitated tag marked, and their number."""
    kept: list[str] = []
    start = count = 0
    for match in _IMITATION.finditer(text.translate(_FOLD)):
        kept += (text[start : match.start(1)], "[")
        start = match.end(1)
        count += 1
    return "".join([*kept, text[start:]]), count


def _boundary(content: str, salt: bytes) -> str:
    folded = content.translate(_FOLD)
    seed = hashlib.sha256(salt + content.encode("utf-8")).digest()
    while True:
        boundary = hashlib.sha256(seed).hexdigest()[:_BOUNDARY_LENGTH]
        if boundary not in folded:
            return boundary
        seed = hashlib.sha256(seed + salt).digest()
