"""SkillBuilder: collects the files of a skill, reads each once, then validates them together.

Nothing is read before the whole skill is known: what is too large is left out by its measures alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Protocol

from skillwire.errors import FormatError, SourceError
from skillwire.issues import Issue, Severity
from skillwire.json_types import JsonValue
from skillwire.limits import Limits
from skillwire.skill.entries import SkillEntry, SkillResource
from skillwire.skill.fields import field_issues
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.uris import SKILL_FILE, SkillUri, shown_uri
from skillwire.sources.base import Problem
from skillwire.sources.directory.files import STAMP_BYTES, FileRecord, hash_file, is_as_stamped, is_passing
from skillwire.sources.directory.roots import Root
from skillwire.sources.directory.snapshot import NO_LINKS, ScannedSkill

_uri_of: Final = attrgetter("uri")


class KnownSkills(Protocol):
    """Skills as they were when they were last seen, by the URI of their `SKILL.md`."""

    def get(self, uri: SkillUri, /) -> ScannedSkill | None: ...


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier walk read, so that an unchanged file is not read again.

    The file at `distrusted` is read whatever its times say.
    """

    skills: KnownSkills = field(default_factory=dict[SkillUri, ScannedSkill])
    files: Mapping[SkillUri, FileRecord] = field(default_factory=dict[SkillUri, FileRecord])
    distrusted: str = ""

    def record(self, file: FoundFile, skill: ScannedSkill | None) -> FileRecord | None:
        """The record of a file that has not changed since; `skill` is what is known of its skill."""
        record = None if skill is None else skill.file(file.uri)
        if record is None:
            record = self.files.get(file.uri)
        if record is None or record.path != file.path or file.path == self.distrusted:
            return None
        return record if record.is_unchanged(file.status) else None


@dataclass(slots=True)
class FoundFile:
    """A file that the walk came by. All skills that it lies in share the object, so it is read once.

    `path` is its real path, `walked` the one that may lead over links.
    """

    uri: SkillUri
    path: str
    walked: str
    status: os.stat_result
    record: FileRecord | None = None
    failure: str = ""
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill as it lies on disk, good or bad. `issues` are what the walk itself met in it."""

    uri: SkillUri
    directory: str
    skill_md: bytes | None
    resources: tuple[SkillResource, ...]
    issues: tuple[Issue, ...]


@dataclass(slots=True)
class SkillBuilder:
    """What has been found of a skill so far."""

    uri: SkillUri
    directory: str
    is_nested: bool = False
    files: list[FoundFile] = field(default_factory=list[FoundFile])
    skill_md: FoundFile | None = None
    empty: list[SkillUri] = field(default_factory=list[SkillUri])
    issues: list[Issue] = field(default_factory=list[Issue])
    file_count: int = 0
    byte_count: int = 0

    def add(self, file: FoundFile) -> None:
        self.file_count += 1
        self.byte_count += file.status.st_size
        self.files.append(file)
        if file.uri == self.uri:
            self.skill_md = file
            self.uri = file.uri  # One object for both: there are many.

    def in_order(self) -> list[FoundFile]:
        """Its files in the order of their URIs."""
        return sorted(self.files, key=_uri_of)

    def links(self) -> Mapping[SkillUri, str]:
        """The real path of every file that a link led to, by its URI."""
        return {file.uri: file.path for file in self.files if file.path != file.walked} or NO_LINKS

    def forget_files(self) -> None:
        """Hold no file of a skill that will not be read; what it measures is counted on."""
        self.files.clear()
        self.skill_md = None

    def blame(self, walked: str, rule: str, message: str, fix: str) -> None:
        """Note what is wrong with a file or directory of the skill, which costs the skill."""
        place = shown_uri(os.path.relpath(walked, self.directory))
        self.issues.append(Issue(rule=rule, message=message, fix=fix, file=place))


class Bench:
    """Where gatherings are finished: their files read and hashed, their fields judged."""

    def __init__(self, root: Root, *, limits: Limits, allow_oversize: bool, known: Known) -> None:
        self._root = root
        self._limits = limits
        self._allow_oversize = allow_oversize
        self._known = known

    def is_oversize(self, gathering: SkillBuilder) -> bool:
        """ENT-6: whether a host may decline the skill."""
        if self._allow_oversize:
            return False
        limits = self._limits
        return gathering.file_count > limits.files_per_skill or gathering.byte_count > limits.bytes_per_skill

    def measure(self, gathering: SkillBuilder) -> FoundSkill:
        """Read the whole gathering and judge nothing."""
        skill_md = self._read_skill_md(gathering)
        self._read_others(gathering, None)
        resources = tuple(file.record.resource for file in gathering.files if file.record is not None)
        return FoundSkill(gathering.uri, gathering.directory, skill_md, resources, tuple(gathering.issues))

    def finish(self, gathering: SkillBuilder) -> ScannedSkill | Problem:
        """The skill, or the reasons why it is none. What will not be served is not read.

        A skill that is as it was known is the very object that was known.
        """
        frontmatter: Mapping[str, JsonValue] = {}
        before = None
        if not self.is_oversize(gathering):
            before = self._known.skills.get(gathering.uri)
            if before is not None and self._is_as_before(gathering, before):
                return before
            frontmatter = self._frontmatter(gathering, before)
            if not gathering.issues:
                self._read_others(gathering, before)
        # Asked again: a file may have grown while it was read.
        if self.is_oversize(gathering):
            gathering.issues.append(self._oversize(gathering))
        if gathering.issues:
            return Problem(gathering.directory, tuple(gathering.issues))
        # ENT-2: complete, each file once; the order is that of the URIs, whatever the file system gave.
        records = [file.record for file in gathering.in_order() if file.record is not None]
        entry = SkillEntry(gathering.uri, frontmatter, tuple([record.resource for record in records]))
        if before is not None and before.entry == entry:
            entry = before.entry
        stamps = b"".join([record.stamp for record in records])
        skill = ScannedSkill(
            entry, self._root, gathering.directory, stamps, tuple(gathering.empty), gathering.links()
        )
        return skill if before is None or before != skill else before

    def _is_as_before(self, gathering: SkillBuilder, before: ScannedSkill) -> bool:
        """Whether nothing has happened to any file of a skill, so that none needs a look of its own."""
        files, resources, stamps = gathering.in_order(), before.resources, before.stamps
        if (
            # What nests in another skill has files that the other one asks for, too.
            gathering.is_nested
            or gathering.issues
            or len(files) != len(resources)
            or gathering.directory != before.directory
            or self._root != before.root
            or tuple(gathering.empty) != before.empty_directories
        ):
            return False
        at = 0
        for file, resource in zip(files, resources, strict=True):
            stamp = stamps[at : at + STAMP_BYTES]
            at += STAMP_BYTES
            if file.uri != resource.uri or not is_as_stamped(resource.size, stamp, file.status):
                return False
            if file.record is not None and file.record.resource != resource:
                return False
            if file.path == self._known.distrusted:
                return False
        return before.links == gathering.links()

    def _frontmatter(self, gathering: SkillBuilder, before: ScannedSkill | None) -> Mapping[str, JsonValue]:
        """The frontmatter, from last time if `SKILL.md` has not changed."""
        file = gathering.skill_md
        if file is not None and before is not None and (record := self._known.record(file, before)):
            file.record = record
            return before.entry.frontmatter
        skill_md = self._read_skill_md(gathering)
        if skill_md is None:
            return {}
        try:
            frontmatter = parse_skill_md(skill_md, file=SKILL_FILE).frontmatter
        except FormatError as error:
            gathering.issues.extend(error.issues)
            return {}
        name = gathering.directory.rpartition(os.sep)[2]
        found = field_issues(frontmatter, directory=name, file=SKILL_FILE)
        gathering.issues.extend(issue for issue in found if issue.severity is Severity.ERROR)
        return frontmatter

    def _read_skill_md(self, gathering: SkillBuilder) -> bytes | None:
        file = gathering.skill_md
        if file is None:
            return None  # It has a remark already.
        skill_md = self._hash(file, keep=True)
        if file.record is None:
            self._blame(gathering, file)
        return skill_md

    def _read_others(self, gathering: SkillBuilder, before: ScannedSkill | None) -> None:
        """Hash what has no record yet, neither from another skill it lies in nor from last time."""
        size = 0
        for file in gathering.files:
            if file is not gathering.skill_md:
                if file.record is None and not file.failure and not file.is_gone:
                    file.record = self._known.record(file, before)
                    if file.record is None:
                        self._hash(file, keep=False)
                if file.failure:
                    self._blame(gathering, file)
            if file.record is not None:
                size += file.record.resource.size
        gathering.byte_count = size

    def _hash(self, file: FoundFile, *, keep: bool) -> bytes | None:
        try:
            at_most = None if self._allow_oversize else self._limits.bytes_per_skill
            hashed = hash_file(file.path, keep=keep, at_most=at_most)
        except FileNotFoundError:
            file.is_gone = True  # Deleted since the walk came by: then it is no part of the skill.
            return None
        except OSError as error:
            if is_passing(error):
                raise SourceError(f"{shown_uri(file.path)} cannot be read now: {error.strerror}") from None
            file.failure = error.strerror or str(error)
            return None
        file.record = hashed.record(file.uri, file.path)
        return hashed.data

    def _blame(self, gathering: SkillBuilder, file: FoundFile) -> None:
        reason = file.failure or "it is gone"
        gathering.blame(file.walked, "unreadable", f"cannot be read: {reason}", "grant read access")

    def _oversize(self, gathering: SkillBuilder) -> Issue:
        limits = self._limits
        return Issue(
            rule="too-large",
            message=f"{gathering.file_count} files and {gathering.byte_count:,} bytes; a host must load only "
            f"{limits.files_per_skill} files and {limits.bytes_per_skill:,} bytes",
            fix="split the skill, or allow it with --allow-oversize",
        )
