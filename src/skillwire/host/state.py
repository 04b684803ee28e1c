"""State of a host, as values: its servers and their templates, and the `Switches` that turn servers off.

Connections are apart, because they import the MCP SDK.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.limits import Limits
from skillwire.skill import Dialect, SkillUri, skill_path
from skillwire.text import clean_line, escape_xml, shown
from skillwire.trust import ApprovalMode, Origin
from skillwire.wire import SkillTemplate


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
