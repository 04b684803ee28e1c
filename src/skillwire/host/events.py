"""Events: what happened in a host, and the failures that are still true.

An event is over once it was recorded; a failure lasts until it is recovered from. So the log keeps the last
events, and apart from them every current failure and everything that was left out, however many events
there are.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import anyio

from skillwire.catalog import HostSkill
from skillwire.text import safe_line
from skillwire.trust import Origin

MOST_EVENTS: Final = 1000
"""The log keeps this many events."""
LONGEST_MESSAGE: Final = 1000
_MOST_PROBLEM_EVENTS: Final = 20

_logger = logging.getLogger("skillwire.host")


class EventKind(StrEnum):
    """The kinds of events."""

    ADDED = "added"
    """A skill can be used that was not there before."""
    CHANGED = "changed"
    """The entry of a skill is another one. `REVOKED` follows if that ends its approval."""
    REMOVED = "removed"
    """A skill can no longer be used."""
    COLLISION = "collision"
    """Several skills want the same name: `Event.handle`. Each is shown under a name of its own, and the
    message has these names."""
    FAILURE = "failure"
    """A server, a directory or the host itself does not work. `EventLog.failures` has it until it does."""
    RECOVERED = "recovered"
    """What failed works again."""
    REVOKED = "revoked"
    """A skill changed, which ended its approval."""
    OUTDATED = "outdated"
    """A skill changed while it was in use: what the model has read of it is the old text."""
    SIGNATURE = "signature"
    """The signature of a skill was checked: by whom it is signed, over which files."""
    RUN = "run"
    """A script of a skill ran in the sandbox: with which grants, how it ended, how long it took."""
    POLICY = "policy"
    """The policy refused a skill, or would have if it were enforced: by which rule, and why."""
    REMARK = "remark"
    """Something is unusual, but works: a response outside the specification, or a server that was turned
    off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened."""

    kind: EventKind
    message: str
    """One line. In the log it is safe to print, whoever wrote the text in it."""
    origin: Origin | None = None
    """The server or directory; `None` for the host itself."""
    handle: str = ""
    """The name of the skill in the catalog, if the event is about one."""
    uri: str = ""
    """The URI of its `SKILL.md`, if the event is about one skill."""


def skill_event(kind: EventKind, skill: HostSkill, message: str) -> Event:
    """An event about one skill."""
    return Event(kind=kind, message=message, origin=skill.origin, handle=skill.handle, uri=skill.uri)


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that does not work now. `origin` is the server or directory, `None` for the host itself."""

    origin: Origin | None
    message: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A skill, or a part of a listing, that cannot be used, and why."""

    origin: Origin
    message: str


class EventLog:
    """The events of a host, and its current failures: `host.log`."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._recorded = 0
        self._more: anyio.Event | None = None
        self._closed = False
        self._failures: dict[Origin | str, Failure] = {}
        self._left_out: dict[Origin, tuple[LeftOut, ...]] = {}
        self._remarked: set[str] = set()
        self._watchers: list[Callable[[], None]] = []

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call a function whenever something changed that a person may be shown: a decision of this or
        another process, the policy, the configuration, or when a server was listed.

        What happens to skills is in `events`.
        """
        self._watchers.append(tell)

    async def events(self) -> AsyncGenerator[Event]:
        """The events since the host was opened, then new ones, until it is closed."""
        heard = self._recorded - len(self._events)
        while True:
            # A listener that is slower than the log loses the oldest events; it never delays others.
            first = self._recorded - len(self._events)
            heard = max(heard, first)
            while heard < self._recorded:
                event = self._events[heard - (self._recorded - len(self._events))]
                heard += 1
                yield event
                heard = max(heard, self._recorded - len(self._events))
            if self._closed:
                return
            if self._more is None:
                self._more = anyio.Event()
            await self._more.wait()

    def events_so_far(self) -> tuple[Event, ...]:
        """The last events since the host was opened. `failures` and `left_out` are complete, this is not."""
        return tuple(self._events)

    def failures(self) -> tuple[Failure, ...]:
        """The current failures: servers that cannot be reached, directories that cannot be read."""
        return tuple(self._failures.values())

    def left_out(self) -> tuple[LeftOut, ...]:
        """Every skill that a server or directory has and that cannot be used, with the reason."""
        return tuple(problem for problems in self._left_out.values() for problem in problems)


class EventRecorder(EventLog):
    """The log as the host writes it. Failures go to the logger `skillwire.host` as warnings too."""

    def record(self, event: Event) -> None:
        """Record an event. A failure stays current until `recover` is called for its origin."""
        # SEC-11: a message may quote a server.
        message = safe_line(event.message, limit=LONGEST_MESSAGE)
        event = event if message == event.message else replace(event, message=message)
        if event.kind is EventKind.FAILURE:
            key = event.origin or message
            if self._failures.get(key) == Failure(event.origin, message):
                return  # It is known already.
            self._failures[key] = Failure(event.origin, message)
            _logger.warning("%s", message)
        self._events.append(event)
        self._recorded += 1
        self._wake()

    def remark_once(self, origin: Origin, message: str) -> None:
        """Report something unusual, the first time that it happens."""
        message = safe_line(message, limit=LONGEST_MESSAGE)
        if message not in self._remarked and len(self._remarked) < MOST_EVENTS:
            self._remarked.add(message)
            self.record(Event(kind=EventKind.REMARK, message=message, origin=origin))

    def recover(self, origin: Origin, message: str = "") -> None:
        """The origin works again. `message` says so, if something was wrong."""
        if self._failures.pop(origin, None) is not None and message:
            self.record(Event(kind=EventKind.RECOVERED, message=message, origin=origin))

    def end_failure(self, key: Origin | str) -> None:
        """A failure is over, by its origin, or by its message if it has none. Nothing is said about it."""
        self._failures.pop(key, None)

    def leave_out(self, origin: Origin, messages: Iterable[str]) -> None:
        """Record everything of an origin that cannot be used now, in place of what was recorded before."""
        current = tuple(LeftOut(origin, safe_line(message, limit=LONGEST_MESSAGE)) for message in messages)
        known = set(self._left_out.get(origin, ()))
        if current:
            self._left_out[origin] = current
        else:
            self._left_out.pop(origin, None)
        # A bad server does not fill the events; the state has all of it.
        new = [problem for problem in current if problem not in known]
        for problem in new[:_MOST_PROBLEM_EVENTS]:
            self.record(Event(kind=EventKind.REMARK, message=problem.message, origin=origin))
        if len(new) > _MOST_PROBLEM_EVENTS:
            message = f"{origin} has {len(new) - _MOST_PROBLEM_EVENTS:,} more problems"
            self.record(Event(kind=EventKind.REMARK, message=message, origin=origin))

    def remark(self, message: str) -> None:
        """Record something unusual about the host itself."""
        self.record(Event(kind=EventKind.REMARK, message=message))

    def changed(self) -> None:
        """Tell whoever shows the state of this host."""
        for tell in self._watchers:
            tell()

    def close(self) -> None:
        """End the listeners once they have received everything."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._more is not None:
            self._more.set()
            self._more = None
