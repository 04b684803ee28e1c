"""Characters that a YAML 1.1 scanner must not see, and private characters that stand in for them meanwhile.

NEL, LINE SEPARATOR and PARAGRAPH SEPARATOR were line breaks in YAML 1.1 and are plain characters in 1.2. And
`"\\ud83d\\ude00"`, as JSON writes a character beyond the 16-bit ones, is refused by libyaml, although JSON is
YAML since 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

_OLD_BREAKS = "\x85\u2028\u2029"
_OLD_BREAK = re.compile(f"[{_OLD_BREAKS}]")
_PAIR = re.compile(
    r"(?<!\\)(?P<before>(?:\\\\)*)(?P<pair>\\u(?P<high>[Dd][89ABab][0-9A-Fa-f]{2})\\u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2}))"
)


@dataclass(frozen=True, slots=True)
class Escapes:
    """A text that is safe to scan, and what its stand-ins mean inside double quotes and elsewhere."""

    text: str
    in_quotes: Mapping[int, str]
    elsewhere: Mapping[int, str]


def escapes_for(text: str) -> Escapes | None:
    """The text with stand-ins, or `None` when it needs none, as nearly all texts do."""
    pairs = _PAIR.search(text) if "\\u" in text else None
    if pairs is None and not _OLD_BREAK.search(text):
        return None
    used = set(map(ord, text))
    free = (code for code in chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE)) if code not in used)
    in_quotes: dict[int, str] = {}
    elsewhere: dict[int, str] = {}
    codes: dict[str, int] = {}

    def stand_in(written: str, meant: str) -> str:
        if written not in codes:
            code = codes[written] = next(free)
            in_quotes[code], elsewhere[code] = meant, written
        return chr(codes[written])

    def for_pair(match: re.Match[str]) -> str:
        meant = (bytes.fromhex(match["high"]) + bytes.fromhex(match["low"])).decode("utf-16-be")
        return match["before"] + stand_in(match["pair"], meant)

    text = _PAIR.sub(for_pair, text)
    text = _OLD_BREAK.sub(lambda match: stand_in(match[0], match[0]), text)
    return Escapes(text, in_quotes, elsewhere)
