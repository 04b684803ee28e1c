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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from skillwire.text import clean_line, clean_text, escape_xml, shown
from skillwire.trust.origin import Origin

MOST: Final = 20
"""The maximum number of places that are reported for one text."""


class Hiding(StrEnum):
    """How text is hidden. The value is part of a rule's id, such as `TEXT/tags`."""

    TAGS = "tags"
    """Unicode tag characters, which are invisible and spell ASCII text to a model. Those of the three
    regional flags are legitimate."""
    BIDI = "bidi"
    """Controls that change the direction of text, so that it reads otherwise than it is written."""
    INVISIBLE = "invisible"
    """Characters without a width. One joiner shapes Persian or a family of emoji; two in a row, or
    selectors in a row, carry data."""
    CONTROL = "control"
    """Control characters other than line ends and tabs, such as those of a terminal."""
    COMMENT = "comment"
    """A comment in Markdown that addresses the reader."""
    LINK = "link"
    """A link that does not lead where its text says, or that runs something."""


@dataclass(frozen=True, slots=True)
class HiddenText:
    """One place. `line` counts from 1; `what` is safe for a message."""

    hiding: Hiding
    line: int
    what: str


# The regional flags: a black flag, tag characters and a cancel tag.
_FLAG: Final = re.compile("\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f")
_CHARACTERS: Final = {
    Hiding.CONTROL: re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f]+"),
    Hiding.TAGS: re.compile("[\U000e0000-\U000e007f]+"),
    Hiding.BIDI: re.compile("[\u202a-\u202e\u2066-\u2069]+"),
    Hiding.INVISIBLE: re.compile(
        "[\u200b-\u200d\u2060-\u2064\ufeff]{2,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
        "|[\u115f\u1160\u3164\uffa0]"
    ),
}
_COMMENT: Final = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_LINK: Final = re.compile(r"\[([^\[\]\n]{1,300})\]\(\s*<?([^\s()<>]{1,2000})")
_FENCE: Final = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_CODE_SPAN: Final = re.compile(r"`[^`\n]+`")
# Words that address the reader of a skill rather than describe something.
_CUE: Final = re.compile(
    r"\b(?:ignore|disregard|override|instructions?|you (?:must|should|are|will)|assistants?|agents?|models?"
    r"|system prompt|execute|run|curl|wget|send|upload|download|secrets?|passwords?|tokens?|credentials?"
    r"|do not (?:tell|mention|reveal|show)|without (?:asking|telling)|silently)\b",
    re.IGNORECASE,
)


def find_hidden_text(text: str, *, markdown: bool) -> tuple[HiddenText, ...]:
    """The places in the order of the text, at most `MOST`. Comments and links only count in Markdown."""
    body = text.removeprefix("\ufeff")
    found = [*_characters(body)]
    if markdown:
        # Each place takes a count of lines, so the search stops at the maximum.
        found += islice(_in_markdown(_without_code(body)), MOST)
    return tuple(sorted(found, key=lambda place: place.line)[:MOST])


def _characters(text: str) -> Iterator[HiddenText]:
    is_ascii = text.isascii()
    plain = text if is_ascii else _FLAG.sub(lambda match: " " * len(match[0]), text)
    for hiding, pattern in _CHARACTERS.items():
        if is_ascii and hiding is not Hiding.CONTROL:
            continue  # The others are beyond ASCII.
        for match in islice(pattern.finditer(plain), MOST):
            spelt = "".join(chr(ord(char) - 0xE0000) for char in match[0] if ord(char) > 0xE001F)
            points = " ".join(f"U+{ord(char):04X}" for char in match[0][:4])
            more = f" and {len(match[0]) - 4} more" if len(match[0]) > 4 else ""
            what = f"{points}{more}"
            if hiding is Hiding.TAGS and spelt:
                what += f', which spell "{shown(spelt)}"'
            yield HiddenText(hiding, text.count("\n", 0, match.start()) + 1, what)


def _in_markdown(text: str) -> Iterator[HiddenText]:
    for match in _COMMENT.finditer(text):
        if _CUE.search(match[1]):
            words = " ".join(match[1].split())
            yield HiddenText(
                Hiding.COMMENT, text.count("\n", 0, match.start()) + 1, f'a comment: "{shown(words)}"'
            )
    for match in _LINK.finditer(text):
        if why := _disguise(match[1], match[2]):
            yield HiddenText(Hiding.LINK, text.count("\n", 0, match.start()) + 1, why)


_ACTING: Final = ("javascript", "data", "vbscript")
_HOST_IN_TEXT: Final = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?((?:[a-z0-9-]+\.)+[a-z]{2,24})(?=[/:\s]|$)", re.I
)
_FILE_ENDINGS: Final = frozenset(
    {"md", "txt", "py", "sh", "js", "ts", "json", "yaml", "yml", "toml", "csv", "html", "css", "rs", "go"}
)


def _disguise(label: str, target: str) -> str:
    """Why a link does not lead where it says, or empty."""
    try:
        parts = urlsplit(target)
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return f"a link to {shown(target)}, which is not a URL"
    if parts.scheme.lower() in _ACTING:
        return f"a link to {shown(target)}, which runs something instead of opening a page"
    if host and parts.username is not None:
        return f"a link to {shown(target)}, whose host is {shown(host)}"
    named = _HOST_IN_TEXT.search(label.strip())
    if not host or named is None or named[1].rpartition(".")[2].lower() in _FILE_ENDINGS:
        return ""
    shown_host = named[1].lower().removeprefix("www.")
    if host == shown_host or host.endswith(f".{shown_host}"):
        return ""
    return f"a link that says {shown(shown_host)} and leads to {shown(host)}"


def _without_code(text: str) -> str:
    """The text with its code blanked, line by line, because code is shown as written."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if match is not None and (not fence or match[1].startswith(fence)):
            fence = "" if fence else match[1]
            lines.append("")
        else:
            lines.append("" if fence else _CODE_SPAN.sub("", line))
    return "\n".join(lines)


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


@cache
def _imitation() -> re.Pattern[str]:
    """Compiled when a text is fenced: that takes as long as importing several modules."""
    words = f"(?:{_word('untrusted')}|{_word('local')}){_GAP}{_word('skill')}"
    return re.compile(f"({_OPENING}){_GAP}{_SLASHES}(?={words})")


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
    for match in _imitation().finditer(text.translate(_FOLD)):
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
