"""A gateway: a host upstream, a server downstream. Many servers in, one server out, with approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.gateway.app import CallerView as CallerView
    from skillwire.gateway.app import Gateway as Gateway
    from skillwire.gateway.app import GatewayOptions as GatewayOptions
    from skillwire.gateway.elicitation import ApprovalPage as ApprovalPage
    from skillwire.gateway.elicitation import ApprovalQuestion as ApprovalQuestion
    from skillwire.gateway.records import Act as Act
    from skillwire.gateway.records import Audit as Audit
    from skillwire.gateway.records import AuditLog as AuditLog
    from skillwire.gateway.view import GatewayApproval as GatewayApproval
    from skillwire.gateway.view import LockedSkills as LockedSkills

export(
    __name__,
    {
        "app": "CallerView Gateway GatewayOptions",
        "elicitation": "ApprovalPage ApprovalQuestion",
        "records": "Act Audit AuditLog",
        "view": "GatewayApproval LockedSkills",
    },
)
