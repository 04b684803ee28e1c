"""Conformance: check from the outside whether a skill server conforms to the Skills extension.

`verify` connects to a server and returns a `Report`; `as_text`, `as_json`, `as_junit` and `as_sarif` render
it, and `combine` makes one of several. `RULES`
has every rule that is checked, with the clause it is based on. `verify_site` checks the index of a site.
"""

from __future__ import annotations

from skillwire.conformance.messages import Exchange
from skillwire.conformance.probe import Progress
from skillwire.conformance.reports import (
    Baseline,
    Finding,
    Report,
    RevisionReport,
    as_json,
    as_junit,
    as_sarif,
    as_text,
    combine,
    rules_json,
    rules_text,
)
from skillwire.conformance.rules import RULES, Clause, Level, Rule
from skillwire.conformance.session import REVISIONS, Revision
from skillwire.conformance.site import SiteFinding, SiteReport, site_json, site_text, verify_site
from skillwire.conformance.verify import verify

__all__ = [
    "REVISIONS",
    "RULES",
    "Baseline",
    "Clause",
    "Exchange",
    "Finding",
    "Level",
    "Progress",
    "Report",
    "Revision",
    "RevisionReport",
    "Rule",
    "SiteFinding",
    "SiteReport",
    "as_json",
    "as_junit",
    "as_sarif",
    "as_text",
    "combine",
    "rules_json",
    "rules_text",
    "site_json",
    "site_text",
    "verify",
    "verify_site",
]
