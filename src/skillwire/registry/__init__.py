"""Versions of skills in PostgreSQL or SQLite, for many publishers and readers; needs the extra `registry`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.registry.access import Access as Access
    from skillwire.registry.access import RegistryCaller as RegistryCaller
    from skillwire.registry.access import Role as Role
    from skillwire.registry.access import Subject as Subject
    from skillwire.registry.access import TokenRow as TokenRow
    from skillwire.registry.app import RegistryApp as RegistryApp
    from skillwire.registry.audit import AuditLine as AuditLine
    from skillwire.registry.audit import StoreAudit as StoreAudit
    from skillwire.registry.client import LintedSkill as LintedSkill
    from skillwire.registry.client import PublishResult as PublishResult
    from skillwire.registry.client import publish_each as publish_each
    from skillwire.registry.client import publish_over_http as publish_over_http
    from skillwire.registry.client import publish_to_store as publish_to_store
    from skillwire.registry.client import read_skill as read_skill
    from skillwire.registry.publications import FileRow as FileRow
    from skillwire.registry.publications import Publication as Publication
    from skillwire.registry.publications import Published as Published
    from skillwire.registry.publications import UploadRow as UploadRow
    from skillwire.registry.publications import VersionRow as VersionRow
    from skillwire.registry.publishing import Publishing as Publishing
    from skillwire.registry.queries import View as View
    from skillwire.registry.source import Feed as Feed
    from skillwire.registry.source import StoreSource as StoreSource
    from skillwire.registry.store import SharedConsent as SharedConsent
    from skillwire.registry.store import Store as Store

export(
    __name__,
    {
        "access": "Access RegistryCaller Role Subject TokenRow",
        "app": "RegistryApp",
        "audit": "AuditLine StoreAudit",
        "client": "LintedSkill PublishResult publish_each publish_over_http publish_to_store read_skill",
        "publications": "FileRow Publication Published UploadRow VersionRow",
        "publishing": "Publishing",
        "queries": "View",
        "source": "Feed StoreSource",
        "store": "SharedConsent Store",
    },
    extra="registry",
)
