"""A gateway: a host upstream, a server downstream. Many servers in, one server out, with approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.gateway.app import Gateway as Gateway
    from skillwire.gateway.asking import ApprovalPage as ApprovalPage
    from skillwire.gateway.asking import ApprovalQuestion as ApprovalQuestion
    from skillwire.gateway.audit import Act as Act
    from skillwire.gateway.audit import Audit as Audit
    from skillwire.gateway.audit import AuditLog as AuditLog
    from skillwire.gateway.callers import Caller as Caller
    from skillwire.gateway.callers import CallerFile as CallerFile
    from skillwire.gateway.callers import Callers as Callers
    from skillwire.gateway.callers import Credential as Credential
    from skillwire.gateway.callers import NamedTokens as NamedTokens
    from skillwire.gateway.locked import LockedSkills as LockedSkills
    from skillwire.gateway.options import GatewayOptions as GatewayOptions
    from skillwire.gateway.view import ApprovalMode as ApprovalMode

export(
    __name__,
    {
        "app": "Gateway",
        "asking": "ApprovalPage ApprovalQuestion",
        "audit": "Act Audit AuditLog",
        "callers": "Caller CallerFile Callers Credential NamedTokens",
        "locked": "LockedSkills",
        "options": "GatewayOptions",
        "view": "ApprovalMode",
    },
)
