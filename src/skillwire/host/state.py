"""State of a host: its servers and their templates, what happened, and the failures that are still true.

An event is over once it was recorded; a failure lasts until it is recovered from. So the log keeps the last
events, and apart from them every current failure and everything that was left out, however many events
there are. `Switches` turn servers off. Connections are apart, because they import the MCP SDK.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

import anyio

from skillwire.catalog import HostSkill
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.limits import Limits
from skillwire.skill import Dialect, SkillUri, skill_path
from skillwire.text import clean_line, escape_xml, safe_line, shown
from skillwire.trust import ApprovalMode, Origin
from skillwire.wire import SkillTemplate

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

    def close(self) -> None:
        """End the listeners once they have received everything."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._more is not None:
            self._more.set()
            self._more = None


class ConnectionStatus(StrEnum):
    """The state of a connection."""

    IDLE = "idle"
    """Nothing had to be asked yet: the listing is one that was cached before."""
    CONNECTING = "connecting"
    """It is being connected for the first time."""
    READY = "ready"
    """It can be asked."""
    FAILED = "failed"
    """It did not answer, or the connection was lost; `ServerState.reason` says why. It is tried again after
    a pause that grows with each failure."""
    CLOSED = "closed"
    """The host is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server: where it is, whether it works, and what it speaks."""

    origin: Origin
    place: str
    """Its URL, redacted, or the program that it is started with."""
    status: ConnectionStatus
    reason: str
    """Why it does not work; empty when it does."""
    last_output: tuple[str, ...] = ()
    """The last lines that a started server wrote to standard error, when it failed."""
    era: str
    """The protocol revision in use; empty before it was connected."""
    declares_skills: bool
    """Whether it declares the Skills extension."""
    declared_in: str = ""
    """Where it declares the extension: `extensions`, or `experimental` as in drafts."""
    directory_read: bool = False
    """Whether it offers directory reads."""
    capabilities: tuple[str, ...] = ()
    """Its other capabilities, such as `resources (subscribe)`."""
    revisions: tuple[str, ...] = ()
    """The protocol revisions that it says it speaks; the one in use is `era`."""
    explanation: str = ""
    """Why it is asked in the dialect that it is asked in."""
    dialects: tuple[Dialect, ...]
    """The dialects that its skills came in; none when it has no skills."""
    approval_mode: ApprovalMode
    excluded: int = 0
    """How many of the skills that it lists the include and exclude rules of the configuration hide."""
    cached: bool = False
    """Whether its skills come from a listing that was cached before."""
    listed_at: datetime | None = None
    """When it was last listed."""
    list_seconds: float = 0
    """While the host is open, it is listed again this long after that."""
    notifies: bool = False
    """Whether it accepted a subscription: changes of followed skills are known at once if it keeps its word,
    and when it is listed again if not."""

    @property
    def label(self) -> str:
        return self.origin.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The servers and skills that a user or an administrator turned off. Turning a server off removes its
    skills at once."""

    admin: bool = True
    """An administrator's switch for skills of servers."""
    folder_trusted: bool = True
    """Whether the user trusts the folder that the agent works in."""
    closed_servers: frozenset[str] = frozenset()
    """Labels of servers whose skills are disabled."""

    def closed_for(self, origin: Origin) -> str:
        """Why the skills of an origin are not seen; empty when they are. Local skills always are."""
        if origin.is_local:
            return ""
        if not self.admin:
            return "skills of servers are disabled by the administrator"
        if not self.folder_trusted:
            return "the working folder is not trusted"
        if self.closed_servers and origin.fold in {label.casefold() for label in self.closed_servers}:
            return "the skills of this server are disabled"
        return ""


OPEN = Switches()


@dataclass(frozen=True, slots=True)
class ServedTemplate:
    """A template and its server. `host.load(name, values={...})` loads one of its skills."""

    origin: Origin
    template: SkillTemplate

    @property
    def uri_template(self) -> str:
        """The URI with its arguments in braces, as the server writes it."""
        return self.template.template

    @property
    def name(self) -> str:
        """Its name: the path of the URI, such as `docs/{product}`."""
        return "/".join(skill_path(SkillUri(self.uri_template)))

    @property
    def description(self) -> str:
        return self.template.description

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names in braces, in the order of the URI."""
        return self.template.arguments


def is_template(name: str) -> bool:
    """Whether this is the name of a template, not of a skill."""
    return "{" in name


def find_template(name: str, served: Iterable[ServedTemplate], server: str | None = None) -> ServedTemplate:
    """The template of this name or URI, on this server if one is given."""
    known = [one for one in served if server in (None, one.origin.label)]
    found = [one for one in known if name in (one.name, one.uri_template, f"{one.origin.label}/{one.name}")]
    if not found:
        there = ", ".join(one.name for one in known[:8]) or "none"
        raise SkillNotFound(f"no template is called {shown(name, 200)}; known: {shown(there, 400)}")
    if len(found) > 1:
        raise AmbiguousName(shown(name, 200), [one.origin.label for one in found], kind="servers")
    return found[0]


def templates_text(served: Iterable[ServedTemplate], tool: str, room: int, limits: Limits) -> str:
    """The templates as text for a model, after its catalog, as many as there is room for; empty if none fits.

    `tool` is the one that reads a resource: the URI of a skill loads that skill (VER-7).
    """
    how = f"Each of these stands for many skills: replace what is in braces, then call {tool} with that URI."
    lines = ["<skill_templates>", how, "</skill_templates>"]
    room -= sum(len(line) + 1 for line in lines)
    items: list[str] = []
    for one in served:
        said = clean_line(one.description, limit=limits.description_chars).text
        item = (
            f"<template><uri>{escape_xml(clean_line(one.uri_template).text)}</uri>"
            f"<description>{escape_xml(said)}</description>"
            f"<server>{escape_xml(one.origin.label)}</server></template>"
        )
        room -= len(item) + 1
        if room < 0:
            break
        items.append(item)
    return "\n".join([*lines[:2], *items, lines[2]]) if items else ""
