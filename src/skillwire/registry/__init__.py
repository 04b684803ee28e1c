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
    from skillwire.registry.access import operator as operator
    from skillwire.registry.administration import Administration as Administration
    from skillwire.registry.administration import time_text as time_text
    from skillwire.registry.app import RegistryApp as RegistryApp
    from skillwire.registry.audit import AuditLine as AuditLine
    from skillwire.registry.audit import StoreAudit as StoreAudit
    from skillwire.registry.audit import first_broken as first_broken
    from skillwire.registry.audit import last_numbers as last_numbers
    from skillwire.registry.audit import read_audit as read_audit
    from skillwire.registry.audit import read_gateways as read_gateways
    from skillwire.registry.client import LintedSkill as LintedSkill
    from skillwire.registry.client import PublishResult as PublishResult
    from skillwire.registry.client import administrate as administrate
    from skillwire.registry.client import publish_each as publish_each
    from skillwire.registry.client import publish_over_http as publish_over_http
    from skillwire.registry.client import publish_to_store as publish_to_store
    from skillwire.registry.client import read_skill as read_skill
    from skillwire.registry.publications import FileRow as FileRow
    from skillwire.registry.publications import Publication as Publication
    from skillwire.registry.publications import Published as Published
    from skillwire.registry.publications import PublishRules as PublishRules
    from skillwire.registry.publications import UploadRow as UploadRow
    from skillwire.registry.publications import VersionRow as VersionRow
    from skillwire.registry.publishing import Publishing as Publishing
    from skillwire.registry.publishing import RequiredSigner as RequiredSigner
    from skillwire.registry.queries import View as View
    from skillwire.registry.revocations import next_list as next_list
    from skillwire.registry.revocations import signed_digests as signed_digests
    from skillwire.registry.source import Feed as Feed
    from skillwire.registry.source import StoreSource as StoreSource
    from skillwire.registry.store import DEFAULT_URL as DEFAULT_URL
    from skillwire.registry.store import SharedConsent as SharedConsent
    from skillwire.registry.store import Store as Store

export(
    __name__,
    {
        "access": "Access RegistryCaller Role Subject TokenRow operator",
        "administration": "Administration time_text",
        "app": "RegistryApp",
        "audit": "AuditLine StoreAudit first_broken last_numbers read_audit read_gateways",
        "client": (
            "LintedSkill PublishResult administrate publish_each publish_over_http publish_to_store "
            "read_skill"
        ),
        "publications": "FileRow Publication Published PublishRules UploadRow VersionRow",
        "publishing": "Publishing RequiredSigner",
        "queries": "View",
        "revocations": "next_list signed_digests",
        "source": "Feed StoreSource",
        "store": "DEFAULT_URL SharedConsent Store",
    },
    extra="registry",
)
