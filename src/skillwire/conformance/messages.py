"""Messages as they were on the wire: parsed within bounds, compared by JSON type; the answer to a request."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pydantic_core import from_json

from skillwire.conformance.rules import Violation
from skillwire.documents import JsonObject, JsonValue, count_json_values, is_list, is_object
from skillwire.skill import shown_uri
from skillwire.text import shown
from skillwire.wire import METHOD_GET, METHOD_LIST, METHOD_READ_DIRECTORY

INVALID_PARAMS: Final = -32602
METHOD_NOT_FOUND: Final = -32601
RESOURCE_NOT_FOUND: Final = -32002
"""The code that protocol revisions before 2026-07-28 use for a resource that does not exist."""

INTERNAL_ERROR: Final = -32603
PASSING_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses that may come from a proxy or from load, and not from what was asked."""

MOST_VALUES: Final = 1_000_000
"""SEC-9: an answer with more values is refused before it is parsed. Each costs about 80 bytes in memory."""
_DEEPEST: Final = 100
_LONG_BYTES: Final = 1024 * 1024
"""A longer text is parsed from its bytes: as a `str`, one emoji makes it four times as long."""
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BOM: Final = b"\xef\xbb\xbf"


class RequestFailure(StrEnum):
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
    """The answer that a channel received for one request: a message, or a failure with its reason.

    `status` is the HTTP status, if there is one. `advice` says what the user can do about the failure.
    """

    message: object = None
    size: int = 0
    values: int = 0
    failure: RequestFailure | None = None
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
    failure: RequestFailure | None = None
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

    @property
    def may_be_transient(self) -> bool:
        """Whether the network, the load of a machine or a time-out may be the cause, and not the server."""
        if self.error is not None:
            return self.error.code == INTERNAL_ERROR
        if self.failure is RequestFailure.HTTP:
            return self.status in PASSING_STATUSES
        return self.failure in (RequestFailure.NO_ANSWER, RequestFailure.CONNECTION)


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
    return replace(answer, failure=RequestFailure.MALFORMED, reason=problem)


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
    values = count_json_values(data, MOST_VALUES)
    if values > MOST_VALUES:
        raise TooManyValues(f"more than {MOST_VALUES:,} JSON values")
    is_long = len(data) > _LONG_BYTES
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
    if is_long and data.count(b":") != keys and _count_colons(data) != keys:
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


def _count_colons(data: bytes | bytearray) -> int:
    """The colons outside strings: an object has one for each key."""
    return data.count(b":") - sum(data.count(b":", *one.span()) for one in _STRING.finditer(data))


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


def same_entry(one: object, other: object) -> bool:
    """Whether two values are equal, where the files of an entry may come in any order."""
    return same_json(_in_order(one), _in_order(other))


def _in_order(value: object) -> object:
    """A value with the `resources` of each entry in it sorted by URI."""
    if is_list(value):
        return [_in_order(item) for item in value]
    if not is_object(value):
        return value
    found = dict(value)
    for key in ("skill", "skills"):
        if key in found:
            found[key] = _in_order(found[key])
    files = found.get("resources")
    if "frontmatter" in found and is_list(files):
        found["resources"] = sorted(files, key=lambda file: str(file.get("uri")) if is_object(file) else "")
    return found


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


_READ: Final = "resources/read"
_RESOURCES: Final = "resources/list"
_OPENING: Final = ("initialize", "server/discover")
_MOST: Final = 20_000
_MOST_SHOWN: Final = 160
_ITEMS: Final = 2
_KEYS: Final = 20
_DEEP: Final = 6
_METHOD: Final = re.compile(
    r"\b(?:initialize|server/discover|skills/[\w-]+|resources/(?:directory/read|read|list))\b"
)
_BY_RULE: Final[Mapping[str, tuple[str, ...]]] = {
    "CAP-1/directory-read": (METHOD_READ_DIRECTORY,),
    "CAP": _OPENING,
    "DIR": (METHOD_READ_DIRECTORY,),
    "ENT-1/verbatim": (METHOD_LIST, METHOD_GET, _READ),
    "ENT-3/digest": (METHOD_LIST, METHOD_GET, _READ),
    "ENT-3/size": (METHOD_LIST, METHOD_GET, _READ),
    "ENT": (METHOD_LIST, METHOD_GET),
    "FMT-1/skill-md": (METHOD_LIST, METHOD_GET),
    "FMT-1": (_READ,),
    "FMT-2": (_READ,),
    "FMT-3": (METHOD_LIST, METHOD_GET),
    "FMT-4": (METHOD_READ_DIRECTORY,),
    "FMT-7": (_RESOURCES, _READ),
    "FMT-8/nested": (METHOD_GET,),
    "FMT-8": (METHOD_LIST,),
    "FMT-9/climb": (_READ,),
    "FMT-9": (METHOD_LIST, METHOD_GET, METHOD_READ_DIRECTORY),
    "GET-1/equal": (METHOD_LIST, METHOD_GET),
    "GET": (METHOD_GET,),
    "LST": (METHOD_LIST,),
    "MCP/resources-list": (_RESOURCES,),
    "MCP": _OPENING,
    "PROFILE": (METHOD_LIST,),
    "RD": (_READ,),
    "SIG": (_READ,),
    "LINT": (_READ,),
    "TEXT": (_READ, *_OPENING),
}
"""The methods whose answers a rule is about, by the rule, its requirement or its area."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. Long texts and lists are cut; `answer` says by how much."""

    method: str
    params: JsonObject
    answer: JsonObject


class Exchanges:
    """The exchanges of a connection: the first of each request."""

    def __init__(self) -> None:
        self._by_method: dict[str, dict[str, tuple[JsonObject, Answer]]] = {}
        self._count = 0

    def add(self, method: str, params: JsonObject | None, answer: Answer) -> None:
        """Note an exchange. Of the contents of a file only the beginning is kept."""
        if answer.result is not None and method == _READ:
            answer = replace(answer, result=_short_object(answer.result, "", _DEEP))
        known = self._by_method.setdefault(method, {})
        key = repr(params)
        if key not in known and self._count < _MOST:
            self._count += 1
            known[key] = params or {}, answer

    def proving(self, violation: Violation) -> tuple[Exchange, ...]:
        """The exchanges that show a violation; empty where no single one does."""
        named = _METHOD.findall(violation.seen)
        methods = (named[0],) if named and named[0] in self._by_method else _methods(violation.rule)
        found: list[Exchange] = []
        for method in methods:
            exchange = self._about(method, violation.uri)
            if exchange is not None:
                found.append(exchange)
        # One listing and one reading are enough: the entry, and what it is compared with.
        if len(found) > 1 and violation.rule != "GET-1/equal":
            found = [found[0], *(one for one in found[1:] if one.method == _READ)][:2]
        return tuple(found)

    def _about(self, method: str, uri: str) -> Exchange | None:
        known = self._by_method.get(method, {})
        if not known:
            return None
        answered = list(known.values())
        for place in _places(uri):
            for params, answer in answered:
                if shown_uri(str(params.get("uri", ""))) == place:
                    return _shown(method, params, answer, uri)
        if method in (METHOD_LIST, _RESOURCES) or method in _OPENING:
            for params, answer in answered:
                if uri and _mentions(answer.result, uri):
                    return _shown(method, params, answer, uri)
            return _shown(method, *answered[0], uri)
        return None if uri else _shown(method, *answered[-1], uri)


def _methods(rule: str) -> tuple[str, ...]:
    requirement = rule.partition("/")[0]
    for name in (rule, requirement, requirement.partition("-")[0]):
        if name in _BY_RULE:
            return _BY_RULE[name]
    return ()


def _places(uri: str) -> Iterator[str]:
    """The URI of a finding, and the directory that it is in."""
    if uri:
        yield uri
        yield uri.rpartition("/")[0]


def _shown(method: str, params: JsonObject, answer: Answer, uri: str) -> Exchange:
    if answer.result is not None:
        given: JsonObject = {"result": _short_object(answer.result, uri, _DEEP)}
    elif answer.error is not None:
        error: JsonObject = {"code": answer.error.code, "message": str(_short(answer.error.message, uri, 1))}
        given = {"error": error}
    else:
        given = {"failure": f"{answer.failure}: {_short(answer.reason, uri, 1)}"}
    if answer.status is not None and answer.status != 200:
        given["status"] = answer.status
    return Exchange(method, _short_object(params, uri, 2), given)


def _mentions(value: object, uri: str) -> bool:
    """Whether an item of a listing has the URI, itself or in one of its files."""
    if is_object(value):
        if shown_uri(str(value.get("uri", ""))) == uri:
            return True
        return any(_mentions(value[key], uri) for key in ("skills", "resources", "skill") if key in value)
    return is_list(value) and any(_mentions(item, uri) for item in value)


def _short_object(value: Mapping[str, object], uri: str, depth: int) -> JsonObject:
    kept: JsonObject = {key[:_MOST_SHOWN]: _short(value[key], uri, depth - 1) for key in list(value)[:_KEYS]}
    if len(value) > _KEYS:
        kept["…"] = f"and {len(value) - _KEYS} more"
    return kept


def _short(value: object, uri: str, depth: int) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}… ({len(value):,} characters)"
    if is_object(value):
        return _short_object(value, uri, depth) if depth else "…"
    if is_list(value):
        if not depth:
            return "…"
        chosen = [item for item in value if uri and _mentions(item, uri)][:_ITEMS] or value[:_ITEMS]
        kept = [_short(item, uri, depth - 1) for item in chosen]
        return [*kept, f"… and {len(value) - len(kept):,} more"] if len(value) > len(kept) else kept
    return value if isinstance(value, bool | int | float) or value is None else str(value)
