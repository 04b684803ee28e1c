"""Where skills come from. All sources implement one protocol, `Source`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.sources.base import Change as Change
    from skillwire.sources.base import DirectoryChild as DirectoryChild
    from skillwire.sources.base import PagedSource as PagedSource
    from skillwire.sources.base import Problem as Problem
    from skillwire.sources.base import Read as Read
    from skillwire.sources.base import Source as Source
    from skillwire.sources.base import Validator as Validator
    from skillwire.sources.conflicts import Conflict as Conflict
    from skillwire.sources.conflicts import Ownership as Ownership
    from skillwire.sources.directory.files import FileRecord as FileRecord
    from skillwire.sources.directory.files import Stamp as Stamp
    from skillwire.sources.directory.roots import Root as Root
    from skillwire.sources.directory.snapshot import ScannedSkill as ScannedSkill
    from skillwire.sources.directory.snapshot import Snapshot as Snapshot
    from skillwire.sources.directory.source import DirectorySource as DirectorySource
    from skillwire.sources.function import FunctionSource as FunctionSource
    from skillwire.sources.function import MakerT as MakerT

export(
    __name__,
    {
        "base": "Change DirectoryChild PagedSource Problem Read Source Validator",
        "conflicts": "Conflict Ownership",
        "directory.files": "FileRecord Stamp",
        "directory.roots": "Root",
        "directory.snapshot": "ScannedSkill Snapshot",
        "directory.source": "DirectorySource",
        "function": "FunctionSource MakerT",
    },
)
