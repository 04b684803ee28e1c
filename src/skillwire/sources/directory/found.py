"""What a walk has found of a skill so far: its files, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from skillwire.issues import Issue
from skillwire.skill.uris import SkillUri, shown_uri
from skillwire.sources.directory.files import FileRecord, OpenDirectory
from skillwire.sources.directory.snapshot import NO_LINKS

_uri_of: Final = attrgetter("uri")


@dataclass(slots=True)
class FoundFile:
    """A file found by the walk. All skills around it share the object, so it is read once.

    `path` is its real path, `walked` the one that may lead over links. `parent` is the directory that it was
    found in, where that stays open until the skill is finished.
    """

    uri: SkillUri
    path: str
    walked: str
    status: os.stat_result
    parent: OpenDirectory | None = None
    record: FileRecord | None = None
    failure: str = ""
    is_gone: bool = False
    is_credential: bool = False
    is_pointer: bool = False


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill on disk, valid or not. `issues` are those found by the walk. `files` has the size of every file
    by its path below the directory, with forward slashes.
    """

    uri: SkillUri
    directory: str
    skill_md: bytes | None
    files: Mapping[str, int]
    issues: tuple[Issue, ...]


class SkillBuilder:
    """What has been found of a skill so far. `opened` is its directory, held open while it is built; `held`
    are directories inside it that are held open until it is finished, so that none is opened twice."""

    # No dataclass: there are many, and typed factories for so many lists take their time.
    __slots__ = (
        "byte_count",
        "credentials",
        "directory",
        "empty",
        "file_count",
        "files",
        "held",
        "is_nested",
        "issues",
        "opened",
        "skill_md",
        "uri",
        "warnings",
    )

    def __init__(
        self, uri: SkillUri, directory: str, opened: OpenDirectory, *, is_nested: bool = False
    ) -> None:
        self.uri = uri
        self.directory = directory
        self.opened = opened
        self.is_nested = is_nested
        self.held: list[OpenDirectory] = []
        self.files: list[FoundFile] = []
        self.skill_md: FoundFile | None = None
        self.empty: list[SkillUri] = []
        self.issues: list[Issue] = []
        self.warnings: list[Issue] = []
        self.credentials: list[str] = []
        self.file_count = 0
        self.byte_count = 0

    def add(self, file: FoundFile) -> None:
        self.file_count += 1
        self.byte_count += file.status.st_size
        self.files.append(file)
        if file.uri == self.uri:
            self.skill_md = file
            self.uri = file.uri  # One object for both: there are many.

    def release(self) -> None:
        """Close the directories that were held open for the skill."""
        for directory in self.held:
            directory.close()
        self.held.clear()

    def in_order(self) -> list[FoundFile]:
        """Its files in the order of their URIs."""
        return sorted(self.files, key=_uri_of)

    def links(self) -> Mapping[SkillUri, str]:
        """The real path of every file reached through a link, by its URI."""
        return {file.uri: file.path for file in self.files if file.path != file.walked} or NO_LINKS

    def forget_files(self) -> None:
        """Drop the files of a skill that will not be read, but keep counting."""
        self.files.clear()
        self.skill_md = None

    def blame(self, walked: str, rule: str, message: str, fix: str) -> None:
        """Record a problem with a file or directory, for which the skill is left out."""
        self.issues.append(Issue(rule=rule, message=message, fix=fix, file=self.place_of(walked)))

    def place_of(self, walked: str) -> str:
        """A path in the skill, as shown in messages."""
        return shown_uri(os.path.relpath(walked, self.directory))
