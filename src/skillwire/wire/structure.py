"""Counts the values of a JSON text before it is parsed (SEC-9).

Once parsed, `{}` takes seventy bytes or more, so a response of nothing else grows a hundredfold. Real
responses have about one value per thirty bytes, and one object per hundred. A response with far more is
refused before it is parsed, so that it never costs more than four times its size. An object or a list counts
as several values, because it takes about two hundred bytes.
"""

from __future__ import annotations

import re
from typing import Final

from skillwire.errors import LimitExceeded

_FREE: Final = 20_000
_BYTES_PER_VALUE: Final = 20
_MOST: Final = 600_000
_PER_CONTAINER: Final = 3
# A string, or the rest of the text after an unclosed quotation mark. Possessive, so that every byte is read
# once.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def check_structure(data: bytes | bytearray) -> None:
    """Raise `LimitExceeded` if a JSON text has far more values than its length justifies."""
    most = min(_FREE + len(data) // _BYTES_PER_VALUE, _MOST)
    if _values(data, 0, len(data)) <= most:
        return  # An upper bound: commas in strings count too.
    values = start = 0
    for string in _STRING.finditer(data):
        values += _values(data, start, string.start())
        if values > most:
            break
        start = string.end()
    else:
        values += _values(data, start, len(data))
    if values > most:
        raise LimitExceeded(f"an answer of {len(data):,} bytes with more than {most:,} values: it is refused")


def _values(data: bytes | bytearray, start: int, end: int) -> int:
    containers = data.count(b"{", start, end) + data.count(b"[", start, end)
    return data.count(b",", start, end) + _PER_CONTAINER * containers
