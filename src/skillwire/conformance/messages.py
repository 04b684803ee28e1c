"""Messages as they were on the wire: parsed within bounds, compared by JSON type; the answer to a request."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pydantic_core import from_json

from skillwire.issues import shown
from skillwire.json_types import is_list, is_object

INVALID_PARAMS: Final = -32602
METHOD_NOT_FOUND: Final = -32601
RESOURCE_NOT_FOUND: Final = -32002
"""The code that protocol revisions before 2026-07-28 use for a resource that does not exist."""

MOST_VALUES: Final = 1_000_000
"""SEC-9: an answer with more values is refused before it is parsed. Each costs about 80 bytes in memory."""
_DEEPEST: Final = 100
_LONG: Final = 1024 * 1024
"""A longer text is parsed from its bytes: as a `str`, one emoji makes it four times as long."""
_STRUCTURE: Final = (b"{", b"[", b",", b":")
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BOM: Final = b"\xef\xbb\xbf"


class Failure(StrEnum):
    """Why a request has no usable answer. Each one except `SKIPPED` is a finding of its own."""

    NO_ANSWER = "no-answer"
    CONNECTION = "connection"
    MALFORMED = "json-rpc"
    HTTP = "http-body"
    TOO_LARGE = "answer-size"
    SKIPPED = "skipped"


class TooManyValues(ValueError):
    """A JSON text with more values than are accepted."""


@dataclass(frozen=True, slots=True)
class RpcError:
    """A JSON-RPC error."""

    code: int
    message: str
    data: object = None

    def __str__(self) -> str:
        return f"error {self.code}: {shown(self.message, 100)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a channel received for one request: a message, or a failure with its reason.

    `status` is the HTTP status, if there is one. `advice` says what the user can do about the failure.
    """

    message: object = None
    size: int = 0
    values: int = 0
    failure: Failure | None = None
    reason: str = ""
    advice: str = ""
    status: int | None = None
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request: exactly one of `result`, `error` and `failure`. `about` is the URI in it."""

    method: str
    about: str = ""
    result: Mapping[str, object] | None = None
    error: RpcError | None = None
    failure: Failure | None = None
    reason: str = ""
    advice: str = ""
    status: int | None = None
    size: int = 0
    """The bytes of a result."""

    @property
    def seen(self) -> str:
        """A short description of the answer, for a report."""
        if self.error is not None:
            return str(self.error)
        if self.failure is not None:
            return self.reason
        return "a result"


def answer_from(reply: Reply, *, method: str, about: str, id: int) -> Answer:
    """Check the envelope: one JSON-RPC response, to this request."""
    answer = Answer(method=method, about=about, status=reply.status)
    if reply.failure is not None:
        return replace(answer, failure=reply.failure, reason=reply.reason, advice=reply.advice)
    problem = _envelope_problem(reply.message, id)
    message: Mapping[str, object] = reply.message if is_object(reply.message) else {}
    result, error = message.get("result"), message.get("error")
    if not problem and is_object(result):
        return replace(answer, result=result, size=reply.size)
    if not problem and is_object(error):
        code, text = whole_number(error.get("code")), error.get("message")
        if code is not None and isinstance(text, str):
            return replace(answer, error=RpcError(code, text, error.get("data")))
        problem = "the error has no code and message"
    return replace(answer, failure=Failure.MALFORMED, reason=problem)


def _envelope_problem(message: object, id: int) -> str:
    if not is_object(message):
        return "the message is not an object"
    if message.get("jsonrpc") != "2.0":
        return 'the message has no "jsonrpc": "2.0"'
    if message.get("id") != id or isinstance(message.get("id"), bool):
        return f"the answer has the id {describe(message.get('id'))}, the request had {id}"
    if ("result" in message) == ("error" in message):
        return "the message does not have exactly one of result and error"
    if "result" in message:
        return "" if is_object(message["result"]) else "the result is not an object"
    return "" if is_object(message["error"]) else "the error is not an object"


def parse_message(data: bytes | bytearray) -> tuple[object, int]:
    """A JSON text and the number of its values, or a `ValueError` that says what is wrong with it.

    Stricter than Python's parser where two parsers could read different values: UTF-8 without a byte order
    mark, no `NaN`, no key twice in an object, and at most 100 levels.
    """
    values = count_values(data)
    if values > MOST_VALUES:
        raise TooManyValues(f"more than {MOST_VALUES:,} JSON values")
    is_long = len(data) > _LONG
    if is_long:
        _return_memory()
    if data.startswith(_BOM):
        raise ValueError("not JSON: it starts with a byte order mark")
    try:
        message: object = (
            from_json(data, allow_inf_nan=False, cache_strings="keys")
            if is_long
            else json.loads(data.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_unique)
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"not JSON: {error.reason} at byte {error.start}, where UTF-8 is required") from None
    except _RepeatedKey as error:
        raise ValueError(f"ambiguous JSON: the key {error} occurs twice in one object") from None
    except RecursionError:
        raise ValueError(f"JSON with more than {_DEEPEST} levels") from None
    except ValueError as error:
        raise ValueError(f"not JSON: {shown(str(error), 80)}") from None
    keys = _count_keys(message)
    # The parser of long texts keeps the last of two equal keys: then there are more colons than keys.
    if is_long and data.count(b":") != keys and _count_outside(data, (b":",)) != keys:
        raise ValueError("ambiguous JSON: a key occurs twice in one object")
    return message, values


def _return_memory() -> None:
    """Return the memory of the last long answer to the system before the next one is parsed.

    The C library of Linux keeps it otherwise, and long answers add up.
    """
    if sys.platform == "linux":
        import ctypes  # Not at the start: only a long answer needs it.

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def count_values(data: bytes | bytearray) -> int:
    """About how many values a JSON text has. It takes almost no memory, unlike parsing."""
    rough = sum(data.count(mark) for mark in _STRUCTURE)
    if rough <= MOST_VALUES:
        return rough
    # A long text may well have a million commas: those inside strings do not count.
    return _count_outside(data, _STRUCTURE, MOST_VALUES)


def _count_outside(data: bytes | bytearray, marks: Sequence[bytes], most: int | None = None) -> int:
    """How often the marks occur outside strings. The count ends when it exceeds `most`."""
    found = end = 0
    for string in _STRING.finditer(data):
        found += sum(data.count(mark, end, string.start()) for mark in marks)
        if most is not None and found > most:
            return found
        end = string.end()
    return found + sum(data.count(mark, end) for mark in marks)


class _RepeatedKey(ValueError):
    pass


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _RepeatedKey(describe(next(name for name in counts if counts[name] > 1)))
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _count_keys(message: object) -> int:
    """The keys of all objects, or a `ValueError` when there are too many levels."""
    keys = depth = 0
    level: list[object] = [message]
    while level:
        if depth > _DEEPEST:
            raise ValueError(f"JSON with more than {_DEEPEST} levels")
        inner: list[object] = []
        for value in level:
            if is_object(value):
                keys += len(value)
            held = value.values() if is_object(value) else value if is_list(value) else ()
            inner.extend(one for one in held if is_list(one) or is_object(one))
        level, depth = inner, depth + 1
    return keys


def same_json(one: object, other: object) -> bool:
    """Whether two JSON values are equal by type and value: `true` is not 1, and 1 equals 1.0."""
    waiting = [(one, other)]
    while waiting:
        a, b = waiting.pop()
        if isinstance(a, str) and isinstance(b, str):  # Most are, and what follows takes longer.
            if a != b:
                return False
        elif is_object(a) and is_object(b):
            if a.keys() != b.keys():
                return False
            waiting.extend((a[key], b[key]) for key in a)
        elif is_list(a) and is_list(b):
            if len(a) != len(b):
                return False
            waiting.extend(zip(a, b, strict=True))
        elif isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            if a is not b:
                return False
        elif is_object(a) or is_object(b) or is_list(a) or is_list(b) or a != b:
            return False
    return True


def whole_number(value: object) -> int | None:
    """A JSON number without a fraction, or `None`. `82` and `82.0` are the same number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def describe(value: object) -> str:
    """A short description of a JSON value, for a report."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"{value}"[:40]
        case str():
            return f'"{shown(value)}"'
        case list():
            return "an array"
        case _:
            return "an object"


def describe_field(fields: Mapping[str, object], key: str) -> str:
    """A short description of a field of an object. A field that is not there is absent, not null."""
    return describe(fields[key]) if key in fields else f"no {key}"


def media_type(value: object) -> str:
    """A media type in lowercase without its parameters."""
    return value.partition(";")[0].strip().lower() if isinstance(value, str) else ""
