"""Event: something that happened to the skills a host knows, told to whoever listens."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import anyio

from skillwire.text import safe_line

_KEPT: Final = 1000
_LONGEST: Final = 1000


class EventKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    COLLISION = "collision"
    FAILURE = "failure"
    RECOVERED = "recovered"
    REVOKED = "revoked"
    OUTDATED = "outdated"
    """A skill changed while it was in use: what the model has read of it is the old text."""
    REMARK = "remark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What happened. `message` is one line that is fit for a screen."""

    kind: EventKind
    message: str
    origin: str = ""
    handle: str = ""
    uri: str = ""


class EventLog:
    """Keeps the last events and hands each to every listener, from the first one kept."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._told = 0
        self._more: anyio.Event | None = None
        self._closed = False

    def tell(self, event: Event) -> None:
        # SEC-11: a message may quote a server.
        message = safe_line(event.message, limit=_LONGEST)
        self._events.append(event if message == event.message else replace(event, message=message))
        self._told += 1
        self._wake()

    def close(self) -> None:
        """Let the listeners end once they have heard everything."""
        self._closed = True
        self._wake()

    def so_far(self) -> tuple[Event, ...]:
        return tuple(self._events)

    async def listen(self) -> AsyncGenerator[Event]:
        """Every event kept so far, then each as it happens, until the log is closed."""
        heard = self._told - len(self._events)
        while True:
            # A listener that is slower than the log loses the oldest; it never holds anybody up.
            first = self._told - len(self._events)
            heard = max(heard, first)
            while heard < self._told:
                event = self._events[heard - (self._told - len(self._events))]
                heard += 1
                yield event
                heard = max(heard, self._told - len(self._events))
            if self._closed:
                return
            if self._more is None:
                self._more = anyio.Event()
            await self._more.wait()

    def _wake(self) -> None:
        if self._more is not None:
            self._more.set()
            self._more = None
