"""GatewayOptions: what a gateway does beyond serving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillwire.gateway.audit import Audit
from skillwire.gateway.callers import Callers
from skillwire.gateway.locked import LockedSkills
from skillwire.gateway.view import ApprovalMode

if TYPE_CHECKING:
    from skillwire.gateway.asking import ApprovalPage


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """What a gateway does beyond serving."""

    approval: ApprovalMode = "required"
    """Who approves skills: each caller, the host behind the gateway (`listed`), or the lock (`locked`)."""
    locked: LockedSkills | None = None
    """All that is served in the mode `locked`."""
    callers: Callers | None = None
    """Those who may use the gateway over HTTP; without them there is one caller, the user."""
    audit: Audit | None = None
    page: ApprovalPage | None = None
    """The page on which callers approve skills, where one runs."""
    answer_seconds: float = 300.0
    """A question without an answer by then counts as a no."""
    requests_per_minute: int = 30_000
    """A caller who makes more is told to wait. 0 means no limit."""
    requests_at_once: int = 256
    """A caller with this many open requests, streams included, gets no more."""
