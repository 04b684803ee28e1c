"""Skillwire: serve Agent Skills over MCP, and take them in again.

The names below are the public API. Each is imported when it is first used, so that a program pays only for
the half it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillwire.conformance import Finding, Report, verify
    from skillwire.errors import (
        AmbiguousName,
        ApprovalRequired,
        DigestMismatch,
        FormatError,
        FrontmatterMismatch,
        LimitExceeded,
        RequestRefused,
        SizeMismatch,
        SkillNotFound,
        SkillwireError,
        SourceError,
        UnlistedFile,
        VerificationError,
    )
    from skillwire.host.approvals.approver import ApprovalRequest
    from skillwire.host.config.server import ServerConfig
    from skillwire.host.events import Event, EventKind
    from skillwire.host.host import LoadedSkill, SkillHost
    from skillwire.host.reader import ReadRequest
    from skillwire.host.tools import Tool, ToolResult
    from skillwire.issues import Issue, Severity
    from skillwire.limits import Limits
    from skillwire.server.app import SkillServer
    from skillwire.server.attach import add_skills
    from skillwire.server.extension import SkillsExtension
    from skillwire.server.legacy.features import LegacyFeatures
    from skillwire.skill.digests import Digest, digest_of
    from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
    from skillwire.skill.uris import SkillUri, parse_uri
    from skillwire.sources.base import Change, DirectoryChild, Problem, Read, Source, Validator
    from skillwire.sources.directory.source import DirectorySource
    from skillwire.sources.function import FunctionSource
    from skillwire.trust.approval import Grants, Policy
    from skillwire.trust.guards import looks_like_uri

_HOMES = {
    "digest_of": "skillwire.skill.digests",
    "Digest": "skillwire.skill.digests",
    "parse_uri": "skillwire.skill.uris",
    "SkillUri": "skillwire.skill.uris",
    "Validator": "skillwire.sources.base",
    "Read": "skillwire.sources.base",
    "Problem": "skillwire.sources.base",
    "DirectoryChild": "skillwire.sources.base",
    "Change": "skillwire.sources.base",
    "DYNAMIC": "skillwire.skill.entries",
    "AmbiguousName": "skillwire.errors",
    "ApprovalRequest": "skillwire.host.approvals.approver",
    "ApprovalRequired": "skillwire.errors",
    "DigestMismatch": "skillwire.errors",
    "DirectorySource": "skillwire.sources.directory.source",
    "Event": "skillwire.host.events",
    "EventKind": "skillwire.host.events",
    "Finding": "skillwire.conformance",
    "FormatError": "skillwire.errors",
    "FrontmatterMismatch": "skillwire.errors",
    "FunctionSource": "skillwire.sources.function",
    "Grants": "skillwire.trust.approval",
    "Issue": "skillwire.issues",
    "LimitExceeded": "skillwire.errors",
    "Limits": "skillwire.limits",
    "LoadedSkill": "skillwire.host.host",
    "Policy": "skillwire.trust.approval",
    "ReadRequest": "skillwire.host.reader",
    "Report": "skillwire.conformance",
    "RequestRefused": "skillwire.errors",
    "ServerConfig": "skillwire.host.config.server",
    "Severity": "skillwire.issues",
    "SizeMismatch": "skillwire.errors",
    "SkillEntry": "skillwire.skill.entries",
    "SkillHost": "skillwire.host.host",
    "SkillNotFound": "skillwire.errors",
    "SkillResource": "skillwire.skill.entries",
    "SkillServer": "skillwire.server.app",
    "SkillsExtension": "skillwire.server.extension",
    "SkillwireError": "skillwire.errors",
    "Source": "skillwire.sources.base",
    "SourceError": "skillwire.errors",
    "LegacyFeatures": "skillwire.server.legacy.features",
    "Tool": "skillwire.host.tools",
    "ToolResult": "skillwire.host.tools",
    "UnlistedFile": "skillwire.errors",
    "VerificationError": "skillwire.errors",
    "add_skills": "skillwire.server.attach",
    "looks_like_uri": "skillwire.trust.guards",
    "verify": "skillwire.conformance",
}

__all__ = [
    "DYNAMIC",
    "AmbiguousName",
    "ApprovalRequest",
    "ApprovalRequired",
    "Change",
    "Digest",
    "DigestMismatch",
    "DirectoryChild",
    "DirectorySource",
    "Event",
    "EventKind",
    "Finding",
    "FormatError",
    "FrontmatterMismatch",
    "FunctionSource",
    "Grants",
    "Issue",
    "LegacyFeatures",
    "LimitExceeded",
    "Limits",
    "LoadedSkill",
    "Policy",
    "Problem",
    "Read",
    "ReadRequest",
    "Report",
    "RequestRefused",
    "ServerConfig",
    "Severity",
    "SizeMismatch",
    "SkillEntry",
    "SkillHost",
    "SkillNotFound",
    "SkillResource",
    "SkillServer",
    "SkillUri",
    "SkillsExtension",
    "SkillwireError",
    "Source",
    "SourceError",
    "Tool",
    "ToolResult",
    "UnlistedFile",
    "Validator",
    "VerificationError",
    "add_skills",
    "digest_of",
    "looks_like_uri",
    "parse_uri",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
