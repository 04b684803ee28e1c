"""The state of servers, as a person looks at it. Kept apart from connections, which import the MCP SDK."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from skillwire.skill.drafts import Dialect
from skillwire.trust.approval import Policy
from skillwire.trust.origin import Origin


class Status(StrEnum):
    """The state of a connection."""

    IDLE = "idle"
    """Nothing had to be asked yet: the listing is one that was cached before."""
    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One server: where it is, whether it works, and what it speaks."""

    origin: Origin
    place: str
    status: Status
    reason: str
    """Why it does not work; empty when it does."""
    last_output: tuple[str, ...] = ()
    """The last lines that a started server wrote to standard error, when it failed."""
    era: str
    declares_skills: bool
    dialects: tuple[Dialect, ...]
    """The dialects that its skills came in; none when it has no skills."""
    policy: Policy
    cached: bool = False
    """Whether its skills come from a listing that was cached before."""

    @property
    def label(self) -> str:
        return self.origin.label
