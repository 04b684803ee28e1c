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
    from skillwire.consent import ApprovalRequest as ApprovalRequest
    from skillwire.documents import JsonObject as JsonObject
    from skillwire.documents import JsonValue as JsonValue
    from skillwire.errors import AmbiguousName as AmbiguousName
    from skillwire.errors import ApprovalRequired as ApprovalRequired
    from skillwire.errors import DigestMismatch as DigestMismatch
    from skillwire.errors import FormatError as FormatError
    from skillwire.errors import FrontmatterMismatch as FrontmatterMismatch
    from skillwire.errors import InstalledInPart as InstalledInPart
    from skillwire.errors import Issue as Issue
    from skillwire.errors import LimitExceeded as LimitExceeded
    from skillwire.errors import OutOfSync as OutOfSync
    from skillwire.errors import Refusal as Refusal
    from skillwire.errors import RefusedByPolicy as RefusedByPolicy
    from skillwire.errors import RequestRefused as RequestRefused
    from skillwire.errors import Severity as Severity
    from skillwire.errors import SizeMismatch as SizeMismatch
    from skillwire.errors import SkillNotFound as SkillNotFound
    from skillwire.errors import SkillwireError as SkillwireError
    from skillwire.errors import SourceError as SourceError
    from skillwire.errors import UnlistedFile as UnlistedFile
    from skillwire.errors import VerificationError as VerificationError
    from skillwire.errors import VersionConflict as VersionConflict
    from skillwire.host import Event as Event
    from skillwire.host import EventKind as EventKind
    from skillwire.host import LoadedSkill as LoadedSkill
    from skillwire.host import ReadRequest as ReadRequest
    from skillwire.host import ServerConfig as ServerConfig
    from skillwire.host import SkillHost as SkillHost
    from skillwire.host import Tool as Tool
    from skillwire.host import ToolResult as ToolResult
    from skillwire.limits import Limits as Limits
    from skillwire.server import LegacyFeatures as LegacyFeatures
    from skillwire.server import ServerOptions as ServerOptions
    from skillwire.server import SkillServer as SkillServer
    from skillwire.server import SkillsExtension as SkillsExtension
    from skillwire.server import add_skills as add_skills
    from skillwire.skill import DYNAMIC as DYNAMIC
    from skillwire.skill import Digest as Digest
    from skillwire.skill import SkillEntry as SkillEntry
    from skillwire.skill import SkillResource as SkillResource
    from skillwire.skill import SkillUri as SkillUri
    from skillwire.skill import digest_of as digest_of
    from skillwire.skill import parse_uri as parse_uri
    from skillwire.sources import Change as Change
    from skillwire.sources import DirectoryChild as DirectoryChild
    from skillwire.sources import DirectorySource as DirectorySource
    from skillwire.sources import FunctionSource as FunctionSource
    from skillwire.sources import Problem as Problem
    from skillwire.sources import Read as Read
    from skillwire.sources import Source as Source
    from skillwire.sources import Validator as Validator
    from skillwire.text import SafeLine as SafeLine
    from skillwire.trust import ApprovalMode as ApprovalMode
    from skillwire.trust import Grants as Grants
    from skillwire.trust import looks_like_uri as looks_like_uri

export(
    __name__,
    {
        "conformance": "Finding Report verify",
        "consent": "ApprovalRequest",
        "documents": "JsonObject JsonValue",
        "errors": (
            "AmbiguousName ApprovalRequired DigestMismatch FormatError FrontmatterMismatch "
            "InstalledInPart Issue LimitExceeded OutOfSync Refusal RefusedByPolicy RequestRefused "
            "Severity SizeMismatch SkillNotFound SkillwireError SourceError UnlistedFile "
            "VerificationError VersionConflict"
        ),
        "host": "Event EventKind LoadedSkill ReadRequest ServerConfig SkillHost Tool ToolResult",
        "limits": "Limits",
        "server": "LegacyFeatures ServerOptions SkillServer SkillsExtension add_skills",
        "skill": "DYNAMIC Digest SkillEntry SkillResource SkillUri digest_of parse_uri",
        "sources": "Change DirectoryChild DirectorySource FunctionSource Problem Read Source Validator",
        "text": "SafeLine",
        "trust": "ApprovalMode Grants looks_like_uri",
    },
)
