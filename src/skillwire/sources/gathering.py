"""Gathering: a skill in the making. Its files are gathered first, then read once each, then judged together.

Nothing is read before the whole skill is known: what is too large is left out by its measures alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from skillwire.errors import FormatError, SourceError
from skillwire.issues import Issue, Severity
from skillwire.limits import Limits
from skillwire.skill.entries import JsonValue, SkillEntry, SkillResource
from skillwire.skill.fields import field_issues
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.uris import SKILL_FILE, SkillUri, shown_uri
from skillwire.sources.base import Problem
from skillwire.sources.files import FileRecord, hash_file, is_passing
from skillwire.sources.roots import Root
from skillwire.sources.snapshot import ScannedSkill


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier walk read, so that an unchanged file is not read again.

    The file at `distrusted` is read whatever its times say.
    """

    files: Mapping[SkillUri, FileRecord] = field(default_factory=dict[SkillUri, FileRecord])
    skills: Mapping[SkillUri, ScannedSkill] = field(default_factory=dict[SkillUri, ScannedSkill])
    distrusted: str = ""

    def record(self, file: FoundFile) -> FileRecord | None:
        """The record of a file that has not changed since."""
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
class Gathering:
    """What has been found of a skill so far."""

    uri: SkillUri
    directory: str
    files: list[FoundFile] = field(default_factory=list[FoundFile])
    empty: list[SkillUri] = field(default_factory=list[SkillUri])
    issues: list[Issue] = field(default_factory=list[Issue])
    file_count: int = 0
    byte_count: int = 0

    def add(self, file: FoundFile) -> None:
        self.file_count += 1
        self.byte_count += file.status.st_size
        self.files.append(file)

    def blame(self, walked: str, rule: str, message: str, remedy: str) -> None:
        """Note what is wrong with a file or directory of the skill, which costs the skill."""
        place = shown_uri(os.path.relpath(walked, self.directory))
        self.issues.append(Issue(rule=rule, message=message, remedy=remedy, file=place))


class Bench:
    """Where gatherings are finished: their files read and hashed, their fields judged."""

    def __init__(self, root: Root, *, limits: Limits, allow_oversize: bool, known: Known) -> None:
        self._root = root
        self._limits = limits
        self._allow_oversize = allow_oversize
        self._known = known

    def is_oversize(self, gathering: Gathering) -> bool:
        """ENT-6: whether a host may decline the skill."""
        if self._allow_oversize:
            return False
        limits = self._limits
        return gathering.file_count > limits.files_per_skill or gathering.byte_count > limits.bytes_per_skill

    def measure(self, gathering: Gathering) -> FoundSkill:
        """Read the whole gathering and judge nothing."""
        skill_md = self._read_skill_md(gathering)
        self._read_others(gathering)
        resources = tuple(file.record.resource for file in gathering.files if file.record is not None)
        return FoundSkill(gathering.uri, gathering.directory, skill_md, resources, tuple(gathering.issues))

    def finish(self, gathering: Gathering) -> ScannedSkill | Problem:
        """The skill, or the reasons why it is none. What will not be served is not read."""
        frontmatter: Mapping[str, JsonValue] = {}
        if not self.is_oversize(gathering):
            frontmatter = self._frontmatter(gathering)
            if not gathering.issues:
                self._read_others(gathering)
        # Asked again: a file may have grown while it was read.
        if self.is_oversize(gathering):
            gathering.issues.append(self._oversize(gathering))
        if gathering.issues:
            return Problem(gathering.directory, tuple(gathering.issues))
        # ENT-2: complete, each file once; the order is that of the URIs, whatever the file system gave.
        records = sorted(
            (file.record for file in gathering.files if file.record is not None), key=lambda r: r.resource.uri
        )
        entry = SkillEntry(gathering.uri, frontmatter, tuple(record.resource for record in records))
        return ScannedSkill(entry, self._root, gathering.directory, tuple(records), tuple(gathering.empty))

    def _frontmatter(self, gathering: Gathering) -> Mapping[str, JsonValue]:
        """The frontmatter, from last time if `SKILL.md` has not changed."""
        before = self._known.skills.get(gathering.uri)
        for file in gathering.files:
            if before is not None and file.uri == gathering.uri and (record := self._known.record(file)):
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

    def _read_skill_md(self, gathering: Gathering) -> bytes | None:
        for file in gathering.files:
            if file.uri == gathering.uri:
                skill_md = self._hash(file, keep=True)
                if file.record is None:
                    self._blame(gathering, file)
                return skill_md
        return None  # It has a remark already.

    def _read_others(self, gathering: Gathering) -> None:
        """Hash what has no record yet, neither from another skill it lies in nor from last time."""
        for file in gathering.files:
            if file.uri == gathering.uri:
                continue
            if file.record is None and not file.failure and not file.is_gone:
                file.record = self._known.record(file)
                if file.record is None:
                    self._hash(file, keep=False)
            if file.failure:
                self._blame(gathering, file)
        gathering.byte_count = sum(
            file.record.resource.size for file in gathering.files if file.record is not None
        )

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

    def _blame(self, gathering: Gathering, file: FoundFile) -> None:
        reason = file.failure or "it is gone"
        gathering.blame(file.walked, "unreadable", f"cannot be read: {reason}", "grant read access")

    def _oversize(self, gathering: Gathering) -> Issue:
        limits = self._limits
        return Issue(
            rule="too-large",
            message=f"{gathering.file_count} files and {gathering.byte_count:,} bytes; a host must load only "
            f"{limits.files_per_skill} files and {limits.bytes_per_skill:,} bytes",
            remedy="split the skill, or allow it with --allow-oversize",
        )
