"""Versions of skills in PostgreSQL or SQLite, for many publishers and readers: `skillwire[registry]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.registry.access import Access as Access
    from skillwire.registry.access import Caller as Caller
    from skillwire.registry.access import Role as Role
    from skillwire.registry.access import TokenRow as TokenRow
    from skillwire.registry.app import RegistryApp as RegistryApp
    from skillwire.registry.approvals import SharedApprovals as SharedApprovals
    from skillwire.registry.approvals import StoreAudit as StoreAudit
    from skillwire.registry.audit import AuditLine as AuditLine
    from skillwire.registry.catalog import View as View
    from skillwire.registry.client import Folder as Folder
    from skillwire.registry.client import publish_over_http as publish_over_http
    from skillwire.registry.client import publish_to_store as publish_to_store
    from skillwire.registry.client import read_skill as read_skill
    from skillwire.registry.drafts import Draft as Draft
    from skillwire.registry.drafts import FileRow as FileRow
    from skillwire.registry.drafts import Published as Published
    from skillwire.registry.drafts import VersionRow as VersionRow
    from skillwire.registry.login import OAuthSettings as OAuthSettings
    from skillwire.registry.publishing import Publishing as Publishing
    from skillwire.registry.source import Feed as Feed
    from skillwire.registry.source import StoreSource as StoreSource
    from skillwire.registry.store import Store as Store

export(
    __name__,
    {
        "access": "Access Caller Role TokenRow",
        "app": "RegistryApp",
        "approvals": "SharedApprovals StoreAudit",
        "audit": "AuditLine",
        "catalog": "View",
        "client": "Folder publish_over_http publish_to_store read_skill",
        "login": "OAuthSettings",
        "drafts": "Draft FileRow Published VersionRow",
        "publishing": "Publishing",
        "source": "Feed StoreSource",
        "store": "Store",
    },
)
