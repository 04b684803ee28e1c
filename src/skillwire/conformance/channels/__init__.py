"""Channels: how messages get to a server and back, without anything in between that would repair them.

The MCP SDK's client is not used: it corrects, filters and rejects what it reads, and a conformance check has
to see what was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from skillwire.conformance.messages import Reply
from skillwire.json_types import JsonObject
from skillwire.text import shown

_KEPT: Final = 100


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message that the server sent on its own: a notification, or a request of its own.

    `uri` is the one in its parameters, as in a notification about one resource; empty if there is none.
    """

    method: str
    is_request: bool
    uri: str = ""


@dataclass(slots=True)
class Unsolicited:
    """Messages of a server besides answers, as much of them as a report needs."""

    incoming: list[Incoming] = field(default_factory=list[Incoming])
    stray_output: list[str] = field(default_factory=list[str])
    """Lines on standard output that are not messages."""
    stray_answers: list[str] = field(default_factory=list[str])
    """Answers to no request, or to one that was answered already."""
    accepted: list[int] = field(default_factory=list[int])
    """The HTTP statuses of notifications that we sent, other than 202."""

    def note_message(self, message: Mapping[str, object]) -> None:
        params = message.get("params")
        uri = params.get("uri") if isinstance(params, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if len(self.incoming) < _KEPT:
            self.incoming.append(
                Incoming(
                    shown(str(message.get("method")), 80),
                    "id" in message,
                    uri if isinstance(uri, str) else "",
                )
            )

    def note_output(self, line: bytes) -> None:
        if len(self.stray_output) < _KEPT:
            self.stray_output.append(shown(line[:400].decode("utf-8", "replace"), 80))

    def note_answer(self, what: str) -> None:
        if len(self.stray_answers) < _KEPT:
            self.stray_answers.append(what)


class Trace(Protocol):
    """Records traffic as it is. `kind` is `sent`, `received` or `http`."""

    def __call__(self, kind: str, text: bytes) -> None: ...


def no_trace(kind: str, text: bytes) -> None:
    """Record nothing."""


class Channel(Protocol):
    """Carries one message to the server and its answer back. The caller sets the deadline."""

    @property
    def is_one_pipe(self) -> bool:
        """Whether everything goes through one connection, so that nothing can follow once it breaks."""
        ...

    @property
    def unsolicited(self) -> Unsolicited: ...

    @property
    def error_output(self) -> tuple[str, ...]:
        """The last lines that the server wrote to standard error."""
        ...

    async def exchange(
        self, message: JsonObject, headers: Mapping[str, str], *, fresh: bool = False
    ) -> Reply:
        """The reply to one request, over a new connection with `fresh` where there are several."""
        ...

    async def notify(self, message: JsonObject, headers: Mapping[str, str]) -> None: ...

    async def end(self, headers: Mapping[str, str]) -> None:
        """End the session, where the transport has a message for it."""
        ...
