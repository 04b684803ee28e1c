"""One walk over a directory of skills: what is there, hashed as it is read.

Links inside the root are followed and cycles cut; a link that leaves the root is refused, a dangling one
reported; devices and pipes are passed over. A file that cannot be read costs its skill alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skillwire.errors import FormatError, LimitExceeded, SourceError
from skillwire.issues import Issue, Severity
from skillwire.limits import Limits
from skillwire.skill.entries import JsonValue, SkillEntry, SkillResource
from skillwire.skill.fields import field_issues
from skillwire.skill.frontmatter import parse_skill_md
from skillwire.skill.membership import belongs_to_skill
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, make_uri, shown_uri
from skillwire.sources.base import Problem
from skillwire.sources.files import FileRecord, hash_file
from skillwire.sources.roots import Root
from skillwire.sources.snapshot import ScannedSkill


@dataclass(frozen=True, slots=True)
class Known:
    """What an earlier walk read, so that an unchanged file is not read again."""

    files: Mapping[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    entries: Mapping[str, SkillEntry] = field(default_factory=dict[str, SkillEntry])


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill as it lies on disk, good or bad. `issues` are what the walk itself met in it."""

    uri: SkillUri
    directory: str
    skill_md: bytes | None
    resources: tuple[SkillResource, ...]
    issues: tuple[Issue, ...]


@dataclass(slots=True)
class _Draft:
    """A skill in the making."""

    uri: SkillUri
    directory: str
    name: str
    files: list[FileRecord] = field(default_factory=list[FileRecord])
    empty: list[SkillUri] = field(default_factory=list[SkillUri])
    issues: list[Issue] = field(default_factory=list[Issue])
    skill_md: bytes | None = None
    file_count: int = 0
    byte_count: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk stands: a directory, its URI and the identities of the directories that led here."""

    path: str
    uri: SkillUri | None
    trail: tuple[tuple[int, int], ...]

    def uri_of(self, name: str) -> SkillUri:
        return make_uri((name,)) if self.uri is None else child_uri(self.uri, name)


class Walk:
    """Walks one root, or one directory of it, and keeps what it finds in `skills` and `problems`.

    With `on_skill` the walk judges no skill: it hands each one over, and keeps only what lies outside them.
    """

    def __init__(
        self,
        root: Root,
        *,
        limits: Limits,
        allow_oversize: bool = False,
        known: Known | None = None,
        on_skill: Callable[[FoundSkill], None] | None = None,
    ) -> None:
        self.skills: list[ScannedSkill] = []
        self.problems: list[Problem] = []
        self._root = root
        self._inside = os.path.join(root.path, "")
        self._limits = limits
        self._allow_oversize = allow_oversize
        self._known = known or Known()
        self._on_skill = on_skill
        self._directories = 0

    def run(self) -> Walk:
        """Walk the whole root."""
        segments = self._root.prefix
        # A root that is itself a skill gets its own name as the last segment of the skill path.
        if (self._root.path / SKILL_FILE).is_file():
            segments = (*segments, self._root.path.name)
        return self.run_below(str(self._root.path), make_uri(segments) if segments else None)

    def run_below(self, directory: str, uri: SkillUri | None) -> Walk:
        """Walk one directory of the root, which no skill encloses."""
        try:
            status = os.stat(directory)
            os.scandir(directory).close()
        except OSError as error:
            raise SourceError(f"{shown_uri(directory)} cannot be read: {error.strerror}") from None
        self._visit(_Place(directory, uri, ((status.st_dev, status.st_ino),)), ())
        return self

    def _visit(self, place: _Place, owners: tuple[_Draft, ...]) -> None:
        """Take in a directory. `owners` are the skills it lies in, the outermost first (FMT-8)."""
        self._directories += 1
        if self._directories > self._limits.directories_per_root:
            raise LimitExceeded(
                f"{self._root.path} holds more than {self._limits.directories_per_root} directories; "
                "serve a directory that holds skills and little else"
            )
        try:
            with os.scandir(place.path) as entries:
                found = sorted((e for e in entries if belongs_to_skill(e.name)), key=lambda e: e.name)
        except OSError as error:
            self._blame(
                owners, place.path, "unreadable", f"cannot be read: {error.strerror}", "grant read access"
            )
            return
        mine = self._draft(place, found)
        if mine is not None:
            owners = (*owners, mine)
        elif not owners:
            self._remark_misspelt(found)
        # Links may still be refused below, so what is empty is known only afterwards.
        kept = [entry for entry in found if self._take(entry, place, owners)]
        if not kept and place.uri is not None:
            for owner in owners:
                owner.empty.append(place.uri)
        if mine is not None:
            self._finish(mine)

    def _draft(self, place: _Place, found: list[os.DirEntry[str]]) -> _Draft | None:
        """A draft when this directory is a skill (FMT-1)."""
        for entry in found:
            if (
                entry.name == SKILL_FILE
                and place.uri is not None
                and self._resolve(entry)
                and entry.is_file()
            ):
                return _Draft(child_uri(place.uri, SKILL_FILE), place.path, os.path.basename(place.path))
        return None

    def _take(self, entry: os.DirEntry[str], place: _Place, owners: tuple[_Draft, ...]) -> bool:
        """Take in one entry of a directory; false when it is no part of what is served."""
        path = self._resolve(entry)
        if path is None:
            return False
        try:
            uri = place.uri_of(entry.name)
            if entry.is_dir():
                return self._enter(entry.path, os.stat(path), uri, place, owners)
            if not owners or not entry.is_file():
                return False  # a file of no skill, a device, a pipe, a socket
            self._take_file(path, uri, entry.stat(), owners)
        except FormatError as error:
            self._blame(owners, entry.path, "file-name", error.issues[0].message, error.issues[0].remedy)
        except OSError as error:
            self._blame(
                owners, entry.path, "unreadable", f"cannot be read: {error.strerror}", "grant read access"
            )
        return True

    def _resolve(self, entry: os.DirEntry[str]) -> str | None:
        """The real path of an entry; `None` and a remark for a link that leaves the root or leads nowhere."""
        if not entry.is_symlink():
            return entry.path
        try:
            path = os.path.realpath(entry.path, strict=True)
        except OSError:
            return self._remark(
                entry.path, "link-dangling", "is a link that leads nowhere", "mend or remove it"
            )
        if not path.startswith(self._inside):
            return self._remark(
                entry.path,
                "link-leaves-root",
                "is a link that leaves the directory served",
                "copy the file in",
            )
        return path

    def _enter(
        self, path: str, status: os.stat_result, uri: SkillUri, place: _Place, owners: tuple[_Draft, ...]
    ) -> bool:
        identity = (status.st_dev, status.st_ino)
        if identity in place.trail:
            return False  # a cycle of links
        if len(place.trail) > self._limits.directory_depth:
            self._blame(owners, path, "too-deep", "lies too deep", "move it nearer to the top")
            return False
        self._visit(_Place(path, uri, (*place.trail, identity)), owners)
        return True

    def _take_file(
        self, path: str, uri: SkillUri, status: os.stat_result, owners: tuple[_Draft, ...]
    ) -> None:
        for owner in owners:
            owner.file_count += 1
            owner.byte_count += status.st_size
        if all(self._is_oversize(owner) for owner in owners):
            return  # Counted for the report. Nothing of it will be served, so nothing is read.
        draft = owners[-1]
        is_skill_md = uri == draft.uri
        record = self._known.files.get(path)
        reusable = record is not None and record.resource.uri == uri and record.is_unchanged(status)
        if record is None or not reusable or (is_skill_md and draft.directory not in self._known.entries):
            hashed = hash_file(path, keep=is_skill_md)
            seen = hashed.status
            record = FileRecord(
                SkillResource(uri, hashed.digest, hashed.size),
                path,
                seen.st_mtime_ns,
                seen.st_ctime_ns,
                seen.st_ino,
            )
            if is_skill_md:
                draft.skill_md = hashed.data
        for owner in owners:
            owner.files.append(record)

    def _finish(self, draft: _Draft) -> None:
        """Turn a draft into a skill, or into a problem that says why not."""
        if self._on_skill is not None:
            files = tuple(file.resource for file in draft.files)
            self._on_skill(FoundSkill(draft.uri, draft.directory, draft.skill_md, files, tuple(draft.issues)))
            return
        issues = list(draft.issues)
        frontmatter: Mapping[str, JsonValue] = {}
        if self._is_oversize(draft):
            issues.append(self._oversize(draft))
        elif draft.skill_md is None and not issues:
            frontmatter = self._known.entries[draft.directory].frontmatter
        elif draft.skill_md is not None:
            try:
                frontmatter = parse_skill_md(draft.skill_md, file=SKILL_FILE).frontmatter
                found = field_issues(frontmatter, directory=draft.name, file=SKILL_FILE)
                issues.extend(issue for issue in found if issue.severity is Severity.ERROR)
            except FormatError as error:
                issues.extend(error.issues)
        if issues:
            self.problems.append(Problem(shown_uri(draft.directory), tuple(issues)))
            return
        # ENT-2: complete, each file once; the order is that of the URIs, whatever the file system gave.
        files = tuple(sorted(draft.files, key=lambda file: file.resource.uri))
        entry = SkillEntry(draft.uri, frontmatter, tuple(file.resource for file in files))
        self.skills.append(ScannedSkill(entry, draft.directory, files, tuple(draft.empty)))

    def _is_oversize(self, draft: _Draft) -> bool:
        over = (
            draft.file_count > self._limits.files_per_skill or draft.byte_count > self._limits.bytes_per_skill
        )
        return over and not self._allow_oversize

    def _oversize(self, draft: _Draft) -> Issue:
        return Issue(
            rule="too-large",
            message=f"{draft.file_count} files and {draft.byte_count:,} bytes; a host must load only "
            f"{self._limits.files_per_skill} files and {self._limits.bytes_per_skill:,} bytes",
            remedy="split the skill, or allow it with --allow-oversize",
        )

    def _remark_misspelt(self, found: list[os.DirEntry[str]]) -> None:
        for entry in found:
            if entry.name != SKILL_FILE and entry.name.lower() == SKILL_FILE.lower():
                self._remark(entry.path, "skill-md-case", "is not spelt SKILL.md", "rename it to SKILL.md")

    def _remark(self, path: str, rule: str, message: str, remedy: str) -> None:
        """A problem that costs nothing but the thing itself."""
        issue = Issue(rule=rule, message=message, remedy=remedy)
        problem = Problem(shown_uri(path), (issue,))
        if problem not in self.problems:
            self.problems.append(problem)

    def _blame(self, owners: tuple[_Draft, ...], path: str, rule: str, message: str, remedy: str) -> None:
        """A problem that costs every skill it lies in."""
        if not owners:
            self._remark(path, rule, message, remedy)
        for owner in owners:
            file = os.path.relpath(path, owner.directory)
            owner.issues.append(Issue(rule=rule, message=message, remedy=remedy, file=shown_uri(file)))
