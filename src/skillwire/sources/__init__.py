"""Where skills come from. All sources implement one protocol, `Source`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.sources.base import Change as Change
    from skillwire.sources.base import Conflict as Conflict
    from skillwire.sources.base import DirectoryChild as DirectoryChild
    from skillwire.sources.base import Ownership as Ownership
    from skillwire.sources.base import PagedSource as PagedSource
    from skillwire.sources.base import Problem as Problem
    from skillwire.sources.base import Read as Read
    from skillwire.sources.base import SkillValidator as SkillValidator
    from skillwire.sources.base import Source as Source
    from skillwire.sources.base import Validator as Validator
    from skillwire.sources.base import listed_directory as listed_directory
    from skillwire.sources.base import resolve_conflicts as resolve_conflicts
    from skillwire.sources.command_files import CommandFiles as CommandFiles
    from skillwire.sources.directory.authoring import load_private_key as load_private_key
    from skillwire.sources.directory.authoring import read_pem as read_pem
    from skillwire.sources.directory.cache import scan_cache_directory as scan_cache_directory
    from skillwire.sources.directory.cache import scan_caches_in as scan_caches_in
    from skillwire.sources.directory.files import FileRecord as FileRecord
    from skillwire.sources.directory.files import Root as Root
    from skillwire.sources.directory.files import Stamp as Stamp
    from skillwire.sources.directory.files import repository_around as repository_around
    from skillwire.sources.directory.scan import problem_lines as problem_lines
    from skillwire.sources.directory.scan import problems_of as problems_of
    from skillwire.sources.directory.snapshot import ScannedSkill as ScannedSkill
    from skillwire.sources.directory.snapshot import Snapshot as Snapshot
    from skillwire.sources.directory.source import DirectorySource as DirectorySource
    from skillwire.sources.directory.watch import Sleep as Sleep
    from skillwire.sources.directory.watch import await_directories as await_directories
    from skillwire.sources.function import FunctionSource as FunctionSource
    from skillwire.sources.function import MakerT as MakerT
    from skillwire.sources.packages import PackageSkills as PackageSkills
    from skillwire.sources.packages import packages_with_skills as packages_with_skills
    from skillwire.sources.process import anchored_program as anchored_program
    from skillwire.sources.reference import SourceKind as SourceKind
    from skillwire.sources.reference import SourceReference as SourceReference
    from skillwire.sources.reference import parse_reference as parse_reference
    from skillwire.sources.reference import repository_at as repository_at

export(
    __name__,
    {
        "base": (
            "Change Conflict DirectoryChild Ownership PagedSource Problem Read SkillValidator Source "
            "Validator listed_directory resolve_conflicts"
        ),
        "command_files": "CommandFiles",
        "directory.authoring": "load_private_key read_pem",
        "directory.cache": "scan_cache_directory scan_caches_in",
        "directory.files": "FileRecord Root Stamp repository_around",
        "directory.scan": "problem_lines problems_of",
        "directory.snapshot": "ScannedSkill Snapshot",
        "directory.source": "DirectorySource",
        "directory.watch": "Sleep await_directories",
        "function": "FunctionSource MakerT",
        "packages": "PackageSkills packages_with_skills",
        "process": "anchored_program",
        "reference": "SourceKind SourceReference parse_reference repository_at",
    },
)
