"""How many values a JSON text holds, counted before it is parsed (SEC-9).

Parsed, `{}` takes seventy bytes and more: an answer of nothing else grows a hundredfold. Real answers hold a
value for every thirty bytes or so, and an object for every hundred. What holds far more is refused unparsed,
so that an answer never costs more than four times its size. An object or a list counts as several values:
with what it holds, it takes two hundred bytes.
"""

from __future__ import annotations

import re
from typing import Final

from skillwire.errors import LimitExceeded

_FREE: Final = 20_000
_BYTES_PER_VALUE: Final = 20
_MOST: Final = 600_000
_PER_CONTAINER: Final = 3
# A string, or the rest of the text after a quotation mark that nothing closes. Possessive: every byte is
# looked at once, whatever it contains.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def check_structure(data: bytes | bytearray) -> None:
    """Raise `LimitExceeded` when a JSON text holds more values than an answer of its length has use for."""
    most = min(_FREE + len(data) // _BYTES_PER_VALUE, _MOST)
    if _values(data, 0, len(data)) <= most:
        return  # Commas in strings count here, so there are no more than this.
    values = start = 0
    for string in _STRING.finditer(data):
        values += _values(data, start, string.start())
        if values > most:
            break
        start = string.end()
    else:
        values += _values(data, start, len(data))
    if values > most:
        raise LimitExceeded(
            f"an answer of {len(data):,} bytes with more than {most:,} values: it is refused unread"
        )


def _values(data: bytes | bytearray, start: int, end: int) -> int:
    containers = data.count(b"{", start, end) + data.count(b"[", start, end)
    return data.count(b",", start, end) + _PER_CONTAINER * containers
