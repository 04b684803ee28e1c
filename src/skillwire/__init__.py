"""Skillwire: serve Agent Skills over MCP, and take them in again.

The names below are the public API. Each is imported when it is first used, so that a program pays only for
the half it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillwire.errors import FormatError, LimitExceeded, SkillNotFound, SkillwireError, SourceError
    from skillwire.issues import Issue, Severity
    from skillwire.judge.report import Finding, Report
    from skillwire.judge.verify import verify
    from skillwire.limits import Limits
    from skillwire.server.app import SkillServer
    from skillwire.server.attach import add_skills
    from skillwire.server.extension import SkillsExtension
    from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillResource
    from skillwire.sources.base import Source
    from skillwire.sources.directory import DirectorySource
    from skillwire.sources.function import FunctionSource

_HOMES = {
    "DYNAMIC": "skillwire.skill.entries",
    "DirectorySource": "skillwire.sources.directory",
    "Finding": "skillwire.judge.report",
    "FormatError": "skillwire.errors",
    "FunctionSource": "skillwire.sources.function",
    "Issue": "skillwire.issues",
    "LimitExceeded": "skillwire.errors",
    "Limits": "skillwire.limits",
    "Report": "skillwire.judge.report",
    "Severity": "skillwire.issues",
    "SkillEntry": "skillwire.skill.entries",
    "SkillNotFound": "skillwire.errors",
    "SkillResource": "skillwire.skill.entries",
    "SkillServer": "skillwire.server.app",
    "SkillsExtension": "skillwire.server.extension",
    "SkillwireError": "skillwire.errors",
    "Source": "skillwire.sources.base",
    "SourceError": "skillwire.errors",
    "add_skills": "skillwire.server.attach",
    "verify": "skillwire.judge.verify",
}

__all__ = [
    "DYNAMIC",
    "DirectorySource",
    "Finding",
    "FormatError",
    "FunctionSource",
    "Issue",
    "LimitExceeded",
    "Limits",
    "Report",
    "Severity",
    "SkillEntry",
    "SkillNotFound",
    "SkillResource",
    "SkillServer",
    "SkillsExtension",
    "SkillwireError",
    "Source",
    "SourceError",
    "add_skills",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
