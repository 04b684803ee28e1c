"""SkillFinisher: reads each file of a skill once, then validates them together.

Nothing is read before all files are known, so that a skill that is too large is not read at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, Protocol

from skillwire.documents import JsonValue
from skillwire.errors import FormatError, Issue, Severity, SourceError
from skillwire.limits import MIB, Limits
from skillwire.skill import (
    SKILL_FILE,
    DraftDetails,
    SkillDocument,
    SkillEntry,
    SkillResource,
    SkillUri,
    read_fields,
    shown_uri,
)
from skillwire.skill.files import LFS_POINTER, holds_private_key, may_hold_private_key
from skillwire.sources.base import Problem
from skillwire.sources.directory.files import (
    STAMP_BYTES,
    FileRecord,
    LinkScope,
    OpenDirectory,
    Root,
    hash_file,
    is_as_stamped,
    is_passing,
    read_head,
)
from skillwire.sources.directory.snapshot import NO_LINKS, ScannedSkill
from skillwire.trust import excess

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
class MeasuredSkill:
    """A skill on disk, valid or not. `issues` are those found by the walk. `files` has the size of every file
    by its path below the directory, with forward slashes.
    """

    uri: SkillUri
    directory: str
    skill_md: bytes | None
    files: Mapping[str, int]
    issues: tuple[Issue, ...]


class SkillBuilder:
    """A skill as far as it has been read. `opened` is its directory, held open while it is built; `held`
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

    def warn(self, walked: str, rule: str, message: str) -> None:
        """Record a problem with the name of a file or directory. The skill is served."""
        place = self.place_of(walked)
        self.warnings.append(
            Issue(rule=rule, message=message, fix="rename it", file=place, severity=Severity.WARNING)
        )

    def place_of(self, walked: str) -> str:
        """A path in the skill, as shown in messages."""
        return shown_uri(os.path.relpath(walked, self.directory))


# A Git LFS pointer has about 130 bytes.
_POINTER_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How skills are validated: allowed sizes, and how strict the format is checked.

    `strict` refuses what would otherwise be served with a warning. `local` is for a user's own folders, which
    are not served to others: a missing name or description is filled in, as agents that read folders do.
    """

    allow_oversize: bool = False
    strict: bool = False
    local: bool = False
    only: frozenset[str] | None = None
    """The names of the skills that are served; all if it is `None`."""


class KnownSkills(Protocol):
    """Previously scanned skills, by the URI of their `SKILL.md`."""

    def get(self, uri: SkillUri, /) -> ScannedSkill | None: ...


@dataclass(frozen=True, slots=True)
class Known:
    """Results of an earlier walk, so that unchanged files are not read again. The file at `distrusted` is
    always read.
    """

    skills: KnownSkills = field(default_factory=dict[SkillUri, ScannedSkill])
    files: Mapping[SkillUri, FileRecord] = field(default_factory=dict[SkillUri, FileRecord])
    distrusted: str = ""
    documents: Mapping[bytes, SkillDocument] = field(default_factory=dict[bytes, SkillDocument])
    """What was parsed already, by the bytes of the `SKILL.md`."""

    def record(self, file: FoundFile, skill: ScannedSkill | None) -> FileRecord | None:
        """The record of an unchanged file; `skill` is the known state of its skill."""
        record = None if skill is None else skill.file(file.uri)
        if record is None:
            record = self.files.get(file.uri)
        if record is None or record.path != file.path or file.path == self.distrusted:
            return None
        return record if record.is_unchanged(file.status) else None


class SkillFinisher:
    """Finishes skills: reads and hashes their files, and validates their fields."""

    def __init__(self, root: Root, *, limits: Limits, reach: LinkScope, rules: Rules, known: Known) -> None:
        self._root = root
        self._limits = limits
        self._reach = reach
        self._rules = rules
        self._known = known

    def is_oversize(self, builder: SkillBuilder) -> bool:
        """ENT-6: whether a host may refuse the skill."""
        if self._rules.allow_oversize:
            return False
        return excess(builder.file_count, builder.byte_count, self._limits) is not None

    def measure(self, builder: SkillBuilder) -> MeasuredSkill:
        """Read `SKILL.md` and the first bytes of every other file, and validate nothing."""
        skill_md: bytes | None = None
        files: dict[str, int] = {}
        for file in builder.files:
            is_skill_md = file is builder.skill_md
            limit = self._limits.bytes_per_skill + 1 if is_skill_md else _head_bytes(file)
            try:
                head = read_head(file.path, base=self._base(builder, file), limit=limit)
            except FileNotFoundError:
                continue
            except OSError as error:
                if is_passing(error):
                    raise _not_now(file, error) from None
                file.failure = error.strerror or str(error)
                self._blame(builder, file)
                continue
            self._inspect(file, head)
            if file.is_credential:
                builder.credentials.append(file.walked)
                continue
            if file.is_pointer:
                builder.issues.append(_pointer(builder, file))
            if is_skill_md and len(head) >= limit:
                message = f"has more than {self._limits.bytes_per_skill // MIB} MiB"
                builder.blame(file.walked, "too-large", message, "move text into other files")
            elif is_skill_md:
                skill_md = head
            files[os.path.relpath(file.walked, builder.directory).replace(os.sep, "/")] = file.status.st_size
        issues = (*builder.issues, *builder.warnings)
        return MeasuredSkill(builder.uri, builder.directory, skill_md, files, issues)

    def finish(self, builder: SkillBuilder) -> ScannedSkill | Problem:
        """The skill, or the reasons why it is invalid. Skills that will not be served are not read. An
        unchanged skill is returned as the same object.
        """
        frontmatter: Mapping[str, JsonValue] = {}
        draft: DraftDetails | None = None
        before = None
        if not self.is_oversize(builder):
            before = self._known.skills.get(builder.uri)
            if before is not None and self._is_as_before(builder, before):
                return before
            frontmatter, draft = self._frontmatter(builder, before)
            if not builder.issues:
                self._read_others(builder, before)
        # Checked again, because a file may have grown while it was read.
        if self.is_oversize(builder):
            builder.issues.append(self._oversize(builder))
        if self._rules.strict:
            builder.issues += [replace(issue, severity=Severity.ERROR) for issue in builder.warnings]
        if builder.issues:
            return Problem(builder.directory, tuple(builder.issues))
        # ENT-2: complete, each file once, sorted by URI.
        records = [file.record for file in builder.in_order() if file.record is not None]
        resources = tuple([record.resource for record in records])
        entry = SkillEntry(builder.uri, frontmatter, resources, draft=draft)
        if before is not None and before.entry == entry:
            entry = before.entry
        skill = ScannedSkill(
            entry,
            self._root,
            builder.directory,
            b"".join([record.stamp for record in records]),
            tuple(builder.empty),
            builder.links(),
            tuple(builder.warnings),
        )
        return skill if before is None or before != skill else before

    def _is_as_before(self, builder: SkillBuilder, before: ScannedSkill) -> bool:
        """Whether no file of a skill has changed, so that none has to be checked separately."""
        files, resources, stamps = builder.in_order(), before.resources, before.stamps
        if (
            # Files of a nested skill are also needed by the outer skill.
            builder.is_nested
            or builder.issues
            or len(files) != len(resources)
            or builder.directory != before.directory
            or self._root != before.root
            or tuple(builder.empty) != before.empty_directories
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
        return before.links == builder.links()

    def _frontmatter(
        self, builder: SkillBuilder, before: ScannedSkill | None
    ) -> tuple[Mapping[str, JsonValue], DraftDetails | None]:
        """The frontmatter, reused if `SKILL.md` has not changed, and how it was completed."""
        file = builder.skill_md
        if file is not None and before is not None and (record := self._known.record(file, before)):
            file.record = record
            builder.warnings += [issue for issue in before.warnings if issue.file == SKILL_FILE]
            return before.entry.frontmatter, before.entry.draft
        skill_md = self._read_skill_md(builder)
        if skill_md is None:
            return {}, None
        name = builder.directory.rpartition(os.sep)[2]
        try:
            frontmatter, draft, issues = read_fields(
                skill_md,
                directory=name,
                strict=self._rules.strict,
                local=self._rules.local,
                document=self._known.documents.get(skill_md) if self._known.documents else None,
            )
        except FormatError as error:
            builder.issues.extend(error.issues)
            return {}, None
        builder.issues.extend(issue for issue in issues if issue.severity is Severity.ERROR)
        builder.warnings.extend(issue for issue in issues if issue.severity is Severity.WARNING)
        return frontmatter, draft

    def _read_skill_md(self, builder: SkillBuilder) -> bytes | None:
        file = builder.skill_md
        if file is None:
            return None  # It has an issue already.
        skill_md = self._hash(builder, file, keep=True)
        if file.record is None:
            self._blame(builder, file)
        return skill_md

    def _read_others(self, builder: SkillBuilder, before: ScannedSkill | None) -> None:
        """Hash the files without a record from an outer skill or from an earlier walk."""
        size = 0
        for file in builder.files:
            if file is not builder.skill_md:
                if file.record is None and not (file.failure or file.is_gone or file.is_credential):
                    if before is not None or self._known.files:
                        file.record = self._known.record(file, before)
                    if file.record is None:
                        self._hash(builder, file, keep=False)
                    elif before is not None and before.warnings:
                        file.is_pointer = any(
                            issue.rule == "git-lfs-pointer" and issue.file == builder.place_of(file.walked)
                            for issue in before.warnings
                        )
                if file.failure:
                    self._blame(builder, file)
                if file.is_credential:
                    builder.credentials.append(file.walked)
            if file.is_pointer:
                builder.warnings.append(_pointer(builder, file))
            if file.record is not None:
                size += file.record.resource.size
        builder.byte_count = size

    def _hash(self, builder: SkillBuilder, file: FoundFile, *, keep: bool) -> bytes | None:
        size = file.status.st_size
        is_inspected = size <= _POINTER_BYTES or (size <= MIB and may_hold_private_key(file.path))
        try:
            hashed = hash_file(
                file.path,
                keep=keep or is_inspected,
                at_most=None if self._rules.allow_oversize else self._limits.bytes_per_skill,
                base=self._base(builder, file),
            )
        except FileNotFoundError:
            file.is_gone = True  # Deleted since the walk, so it is not part of the skill.
            return None
        except OSError as error:
            if is_passing(error):
                raise _not_now(file, error) from None
            file.failure = error.strerror or str(error)
            return None
        if hashed.data is not None and not keep:
            self._inspect(file, hashed.data)
        if not file.is_credential:
            resource = SkillResource(file.uri, hashed.digest, hashed.size)
            file.record = FileRecord(resource, file.path, hashed.stamp)
        return hashed.data

    def _base(self, builder: SkillBuilder, file: FoundFile) -> OpenDirectory | str:
        """The open directory that a file is opened from (S4)."""
        if file.parent is not None:
            return file.parent
        if file.path.startswith(builder.opened.inside):
            return builder.opened
        return self._reach.base_of(file.path) or str(self._root.path)

    def _inspect(self, file: FoundFile, data: bytes) -> None:
        """Recognize private keys (C1) and Git LFS pointers by their content."""
        if may_hold_private_key(file.path) and holds_private_key(data):
            file.is_credential = True
        elif data.startswith(LFS_POINTER):
            file.is_pointer = True

    def _blame(self, builder: SkillBuilder, file: FoundFile) -> None:
        reason = file.failure or "it is gone"
        builder.blame(file.walked, "unreadable", f"cannot be read: {reason}", "grant read access")

    def _oversize(self, builder: SkillBuilder) -> Issue:
        limits = self._limits
        return Issue(
            rule="too-large",
            message=f"{builder.file_count} files and {builder.byte_count:,} bytes; a host must load only "
            f"{limits.files_per_skill} files and {limits.bytes_per_skill:,} bytes",
            fix="split the skill, or allow it with --allow-oversize",
        )


def _head_bytes(file: FoundFile) -> int:
    return MIB if may_hold_private_key(file.path) else _POINTER_BYTES


def _pointer(builder: SkillBuilder, file: FoundFile) -> Issue:
    return Issue(
        rule="git-lfs-pointer",
        message="is a Git LFS pointer, not the file itself",
        fix="run: git lfs pull",
        file=builder.place_of(file.walked),
        severity=Severity.WARNING,
    )


def _not_now(file: FoundFile, error: OSError) -> SourceError:
    return SourceError(f"{shown_uri(file.path)} cannot be read now: {error.strerror}")
