"""Answer: what a server said to one request, as it stood on the wire, or why nothing can be made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from skillwire.issues import shown
from skillwire.json_types import is_list, is_object

INVALID_PARAMS: Final = -32602
METHOD_NOT_FOUND: Final = -32601
RESOURCE_NOT_FOUND: Final = -32002
"""What the 2025 revisions of the protocol say about a resource that is not there."""

_DEEPEST: Final = 100


class Failure(StrEnum):
    """Why a request has no answer that could be judged. Each but `SKIPPED` is a finding of its own."""

    MUTE = "no-answer"
    LOST = "connection"
    MALFORMED = "json-rpc"
    HTTP = "http-body"
    TOO_LARGE = "answer-size"
    SKIPPED = "skipped"


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
    """What a channel brought back: a message, or a failure with its reason. `size` is what it weighed."""

    message: object = None
    size: int = 0
    failure: Failure | None = None
    reason: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Exactly one of `result`, `error` and `failure` is there. `about` is the URI that was asked about."""

    method: str
    about: str = ""
    result: Mapping[str, object] | None = None
    error: RpcError | None = None
    failure: Failure | None = None
    reason: str = ""

    @property
    def seen(self) -> str:
        """The answer in a few words, fit for a report."""
        if self.error is not None:
            return str(self.error)
        if self.failure is not None:
            return self.reason
        return "a result"


def answer_from(reply: Reply, *, method: str, about: str, id: int) -> Answer:
    """Judge the envelope: one JSON-RPC response, to this request."""
    if reply.failure is not None:
        return Answer(method=method, about=about, failure=reply.failure, reason=reply.reason)
    message = reply.message
    fault = ""
    if not is_object(message):
        fault = "the message is not an object"
    elif message.get("jsonrpc") != "2.0":
        fault = 'the message has no "jsonrpc": "2.0"'
    elif message.get("id") != id or isinstance(message.get("id"), bool):
        fault = "the answer has another id than the request"
    elif ("result" in message) == ("error" in message):
        fault = "the message has not exactly one of result and error"
    elif "result" in message:
        result = message["result"]
        if is_object(result):
            return Answer(method=method, about=about, result=result)
        fault = "the result is not an object"
    else:
        error = message["error"]
        code = error.get("code") if is_object(error) else None
        text = error.get("message") if is_object(error) else None
        if is_object(error) and isinstance(code, int) and isinstance(text, str):
            return Answer(method=method, about=about, error=RpcError(code, text, error.get("data")))
        fault = "the error has no code and message"
    return Answer(method=method, about=about, failure=Failure.MALFORMED, reason=fault)


def parse_message(data: bytes | bytearray) -> object:
    """JSON as the standard has it, of a depth that can be walked; otherwise a `ValueError`."""
    try:
        message = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {shown(str(error), 80)}") from None
    waiting: list[tuple[object, int]] = [(message, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError(f"JSON of more than {_DEEPEST} levels")
        if is_object(value):
            waiting.extend(
                (inner, depth + 1) for inner in value.values() if is_object(inner) or is_list(inner)
            )
        elif is_list(value):
            waiting.extend((inner, depth + 1) for inner in value if is_object(inner) or is_list(inner))
    return message


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")
