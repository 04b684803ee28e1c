"""The state of servers, and the switches that turn them off.

Kept apart from connections, which import the MCP SDK.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from skillwire.skill import Dialect
from skillwire.trust import ApprovalMode, Origin


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
