"""Skillwire: publish Agent Skills over MCP, and use them safely from any MCP server.

The names below are the public API, together with what `skillwire.server`, `skillwire.host` and the other
packages export; modules inside the packages are internal. Each name is imported on first use, so a program
only imports what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export
from skillwire.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from skillwire.conformance import Finding as Finding
    from skillwire.conformance import Report as Report
    from skillwire.conformance import verify as verify
    from skillwire.errors import AmbiguousName as AmbiguousName
    from skillwire.errors import ApprovalRequired as ApprovalRequired
    from skillwire.errors import DigestMismatch as DigestMismatch
    from skillwire.errors import FormatError as FormatError
    from skillwire.errors import FrontmatterMismatch as FrontmatterMismatch
    from skillwire.errors import InstalledInPart as InstalledInPart
    from skillwire.errors import LimitExceeded as LimitExceeded
    from skillwire.errors import OutOfSync as OutOfSync
    from skillwire.errors import Refusal as Refusal
    from skillwire.errors import RefusedByPolicy as RefusedByPolicy
    from skillwire.errors import RequestRefused as RequestRefused
    from skillwire.errors import SizeMismatch as SizeMismatch
    from skillwire.errors import SkillNotFound as SkillNotFound
    from skillwire.errors import SkillwireError as SkillwireError
    from skillwire.errors import SourceError as SourceError
    from skillwire.errors import UnlistedFile as UnlistedFile
    from skillwire.errors import VerificationError as VerificationError
    from skillwire.errors import VersionConflict as VersionConflict
    from skillwire.host.approvals.asking import ApprovalRequest as ApprovalRequest
    from skillwire.host.config.server import ServerConfig as ServerConfig
    from skillwire.host.events import Event as Event
    from skillwire.host.events import EventKind as EventKind
    from skillwire.host.host import SkillHost as SkillHost
    from skillwire.host.loaded import LoadedSkill as LoadedSkill
    from skillwire.host.reader import ReadRequest as ReadRequest
    from skillwire.host.tools import Tool as Tool
    from skillwire.host.tools import ToolResult as ToolResult
    from skillwire.issues import Issue as Issue
    from skillwire.issues import Severity as Severity
    from skillwire.json_types import JsonObject as JsonObject
    from skillwire.json_types import JsonValue as JsonValue
    from skillwire.limits import Limits as Limits
    from skillwire.server.app import SkillServer as SkillServer
    from skillwire.server.attach import add_skills as add_skills
    from skillwire.server.extension import SkillsExtension as SkillsExtension
    from skillwire.server.legacy.features import LegacyFeatures as LegacyFeatures
    from skillwire.server.options import ServerOptions as ServerOptions
    from skillwire.skill.digests import Digest as Digest
    from skillwire.skill.digests import digest_of as digest_of
    from skillwire.skill.entries import DYNAMIC as DYNAMIC
    from skillwire.skill.entries import SkillEntry as SkillEntry
    from skillwire.skill.entries import SkillResource as SkillResource
    from skillwire.skill.uris import SkillUri as SkillUri
    from skillwire.skill.uris import parse_uri as parse_uri
    from skillwire.sources.base import Change as Change
    from skillwire.sources.base import DirectoryChild as DirectoryChild
    from skillwire.sources.base import Problem as Problem
    from skillwire.sources.base import Read as Read
    from skillwire.sources.base import Source as Source
    from skillwire.sources.base import Validator as Validator
    from skillwire.sources.directory.source import DirectorySource as DirectorySource
    from skillwire.sources.function import FunctionSource as FunctionSource
    from skillwire.text import SafeLine as SafeLine
    from skillwire.trust.approval import Grants as Grants
    from skillwire.trust.approval import Policy as Policy
    from skillwire.trust.guards import looks_like_uri as looks_like_uri

export(
    __name__,
    {
        "conformance": "Finding Report verify",
        "errors": (
            "AmbiguousName ApprovalRequired DigestMismatch FormatError FrontmatterMismatch "
            "InstalledInPart LimitExceeded OutOfSync Refusal RefusedByPolicy RequestRefused SizeMismatch "
            "SkillNotFound SkillwireError SourceError UnlistedFile VerificationError VersionConflict "
        ),
        "host.approvals.asking": "ApprovalRequest",
        "host.config.server": "ServerConfig",
        "host.events": "Event EventKind",
        "host.host": "SkillHost",
        "host.loaded": "LoadedSkill",
        "host.reader": "ReadRequest",
        "host.tools": "Tool ToolResult",
        "issues": "Issue Severity",
        "json_types": "JsonObject JsonValue",
        "limits": "Limits",
        "server.app": "SkillServer",
        "server.attach": "add_skills",
        "server.extension": "SkillsExtension",
        "server.legacy.features": "LegacyFeatures",
        "server.options": "ServerOptions",
        "skill.digests": "Digest digest_of",
        "skill.entries": "DYNAMIC SkillEntry SkillResource",
        "skill.uris": "SkillUri parse_uri",
        "sources.base": "Change DirectoryChild Problem Read Source Validator",
        "sources.directory.source": "DirectorySource",
        "sources.function": "FunctionSource",
        "text": "SafeLine",
        "trust.approval": "Grants Policy",
        "trust.guards": "looks_like_uri",
    },
)
