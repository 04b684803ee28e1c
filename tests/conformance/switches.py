"""Defect: a named way to spoil the clean server, and the rule that has to be reported for it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.clean_server import CleanServer, Json, Tree

Change = Callable[[Json], Any]
"""Changes an object in place, or gives another to take its place."""


@dataclass(frozen=True)
class Defect:
    """`rule` is the one finding that it causes. `times` is how many findings of that rule there are."""

    name: str
    rule: str
    switch_on: Callable[[CleanServer], None]
    times: int = 1
    transport: str = "app"


def in_tree(name: str, rule: str, change: Callable[[Tree], None], *, times: int = 1) -> Defect:
    """A defect of what is served."""
    return Defect(name, rule, lambda server: change(server.tree), times)


def in_entry(name: str, rule: str, root: str, change: Change, *, times: int = 1) -> Defect:
    """A defect of the entry of one skill, in list and get alike."""

    def switch_on(server: CleanServer) -> None:
        def bend(of: str, entry: Json) -> Any:
            return _changed(entry, change) if of == root else entry

        server.bend_entry = bend

    return Defect(name, rule, switch_on, times)


def in_result(name: str, rule: str, method: str, change: Change, **options: Any) -> Defect:
    """A defect of the results of one method, with the options of `in_answer`."""

    def whole(answer: Json) -> Any:
        if "result" in answer:
            answer["result"] = _changed(answer["result"], change)
        return answer

    return in_answer(name, rule, method, whole, **options)


def in_answer(
    name: str,
    rule: str,
    method: str,
    change: Change,
    *,
    when: Callable[[Json], bool] = lambda params: True,
    times: int = 1,
    transport: str = "app",
) -> Defect:
    """A defect of whole answers, errors included. `change` may give `None` through `silent`."""

    def switch_on(server: CleanServer) -> None:
        async def bend(_server: CleanServer, asked: str, params: Json, answer: Json) -> Json | None:
            if asked != method or not when(params):
                return answer
            changed = _changed(answer, change)
            return None if changed == SILENCE else changed

        server.bend = bend

    return Defect(name, rule, switch_on, times, transport)


def bend_all(server: CleanServer, change: Callable[[str, Json, Json], Json]) -> None:
    """Change every answer, given its method and parameters."""

    async def bend(_server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        return change(method, params, copy.deepcopy(answer))

    server.bend = bend


SILENCE = {"silence": True}


def answered_by(result: Any) -> Change:
    """In place of any answer, this result."""
    return lambda answer: {"jsonrpc": "2.0", "id": answer["id"], "result": copy.deepcopy(result)}


def refused_by(code: int, message: str = "no") -> Change:
    """In place of any answer, this error."""
    return lambda answer: {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": code, "message": message}}


def after_events(*messages: Json) -> Change:
    """The answer as an event stream, after these messages."""

    def change(answer: Json) -> Json:
        events = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in (*messages, answer))
        return {**answer, "http": {"kind": "text/event-stream", "body": b": hello\n\n" + events}}

    return change


def put(**fields: Any) -> Change:
    return lambda value: {**value, **fields}


def drop(*keys: str) -> Change:
    return lambda value: {key: kept for key, kept in value.items() if key not in keys}


def about(uri: str) -> Callable[[Json], bool]:
    return lambda params: params.get("uri") == uri


def _changed(value: Json, change: Change) -> Any:
    copied = copy.deepcopy(value)
    changed = change(copied)
    return copied if changed is None else changed
