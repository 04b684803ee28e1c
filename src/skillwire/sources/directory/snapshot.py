"""Snapshot: an immutable set of skills, with the paths of all files."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from skillwire.errors import Issue
from skillwire.skill import SKILL_FILE, SkillEntry, SkillResource, SkillUri
from skillwire.sources.base import DirectoryChild, Problem
from skillwire.sources.directory.files import STAMP_BYTES, FileRecord, Root, Stamp

NO_LINKS: Final[Mapping[SkillUri, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScannedSkill:
    """A skill with its root, directory, files and empty directories. Further data of files is packed:
    `stamps` has one stamp for each resource, in order, and `links` the real path of every file that was
    reached through a link.
    """

    entry: SkillEntry
    root: Root
    directory: str
    stamps: bytes
    empty_directories: tuple[SkillUri, ...]
    links: Mapping[SkillUri, str]
    warnings: tuple[Issue, ...] = ()
    origin: ScannedSkill | None = None
    """The skill under the URI of its directory, if it is served under another one because of its name."""

    @property
    def walked(self) -> ScannedSkill:
        """The skill under the URI of its directory."""
        return self if self.origin is None else self.origin

    @property
    def resources(self) -> tuple[SkillResource, ...]:
        """Its files. A scanned skill is never dynamic."""
        return self.entry.resources  # type: ignore[return-value]

    @property
    def files(self) -> tuple[FileRecord, ...]:
        return tuple(map(self._record, range(len(self.resources))))

    def file(self, uri: SkillUri) -> FileRecord | None:
        """The file at this URI."""
        resources = self.resources
        at = bisect_left(resources, uri, key=_uri_of)
        return self._record(at) if at < len(resources) and resources[at].uri == uri else None

    @property
    def tree(self) -> set[str]:
        """The URIs below it. A trailing slash marks an empty directory."""
        return {*(file.uri for file in self.resources), *(f"{uri}/" for uri in self.empty_directories)}

    @property
    def has_links(self) -> bool:
        """Whether it contains links, so that it can change without a change in its directory."""
        inside = os.path.join(self.directory, "")
        return any(not path.startswith(inside) for path in self.links.values())

    def _record(self, at: int) -> FileRecord:
        resource = self.resources[at]
        stamp = Stamp(self.stamps[at * STAMP_BYTES : (at + 1) * STAMP_BYTES])
        return FileRecord(resource, self.path_of(resource.uri), stamp)

    def path_of(self, uri: SkillUri) -> str:
        """The real path of one of its files."""
        linked = self.links.get(uri)
        return plain_path(self.entry.uri, self.directory, uri) if linked is None else linked


def plain_path(skill: SkillUri, directory: str, uri: SkillUri) -> str:
    """The path of a file of a skill without links."""
    below = unquote(uri[len(skill) - len(SKILL_FILE) :])
    return os.path.join(directory, below if os.sep == "/" else below.replace("/", os.sep))


class Files(Mapping[SkillUri, FileRecord]):
    """Every file of a snapshot by its URI. Records are created on access."""

    __slots__ = ("_holders",)

    def __init__(self, holders: Mapping[SkillUri, ScannedSkill]) -> None:
        self._holders = holders

    def __getitem__(self, uri: SkillUri) -> FileRecord:
        file = self._holders[uri].file(uri)
        if file is None:
            raise AssertionError("a skill holds the files that it was noted for")
        return file

    def __contains__(self, uri: object) -> bool:
        return uri in self._holders

    def __iter__(self) -> Iterator[SkillUri]:
        return iter(self._holders)

    def __len__(self) -> int:
        return len(self._holders)

    def replacing(self, removed: Iterable[ScannedSkill], added: Iterable[ScannedSkill]) -> Files:
        """The files after some skills were removed and others added."""
        holders = dict(self._holders)
        for skill in removed:
            for file in skill.resources:
                holders.pop(file.uri, None)
        for skill in added:
            holders.update((file.uri, skill) for file in skill.resources)
        return Files(holders)


class Snapshot:
    """The content of the directories at one moment; immutable. If the entries equal those of the snapshot
    `before`, they are the same object.
    """

    __slots__ = (
        "_paths",
        "empty",
        "entries",
        "files",
        "has_outer_links",
        "linked",
        "outside",
        "problems",
        "renamed",
        "skills",
    )
    entries: tuple[SkillEntry, ...]

    def __init__(
        self,
        skills: Iterable[ScannedSkill],
        problems: Iterable[Problem],
        *,
        before: Snapshot | None = None,
        has_outer_links: bool = False,
        outside: frozenset[str] = frozenset(),
    ) -> None:
        self.outside = outside
        self.problems = tuple(sorted(problems, key=lambda problem: problem.place))
        self.has_outer_links = has_outer_links
        self.skills = {skill.entry.uri: skill for skill in sorted(skills, key=lambda skill: skill.entry.uri)}
        if before is not None and _are_the_same(self.skills, before.skills):
            # Reuse everything: only a few problems changed.
            self.skills, self.entries, self.files = before.skills, before.entries, before.files
            self.linked, self.empty, self._paths = before.linked, before.empty, before._paths
            self.renamed = before.renamed
            return
        self.renamed = _renamed_in(self.skills.values())
        entries = tuple(skill.entry for skill in self.skills.values())
        self.entries = before.entries if before is not None and before.entries == entries else entries
        self.files = Files({file.uri: skill for skill in self.skills.values() for file in skill.resources})
        self.linked = frozenset(uri for uri, skill in self.skills.items() if skill.links and skill.has_links)
        self.empty = _empty_in(self.skills.values())
        self._paths: list[str] | None = None

    def replacing(
        self,
        removed: Collection[SkillUri],
        added: Collection[ScannedSkill],
        problems: Iterable[Problem],
        *,
        has_outer_links: bool,
    ) -> Snapshot:
        """The next snapshot, with some skills removed and others added. The cost depends on those only. Whole
        trees of skills are removed and added, so that no other skill shares a file with them.
        """
        after = object.__new__(Snapshot)
        kept = {uri: self.skills[uri] for uri in removed}
        # An equal entry stays the same object, so that changes are found by identity.
        fresh = {
            skill.entry.uri: replace(skill, entry=old.entry)
            if (old := kept.get(skill.entry.uri)) is not None and old.entry == skill.entry
            else skill
            for skill in added
        }
        skills = dict(self.skills)
        for uri in kept.keys() - fresh.keys():
            del skills[uri]
        skills.update(fresh)
        if not fresh.keys() <= kept.keys():
            skills = {uri: skills[uri] for uri in sorted(skills)}
        after.skills = skills
        entries = tuple([skill.entry for skill in skills.values()])
        after.entries = self.entries if self.entries == entries else entries
        after.files = self.files.replacing(kept.values(), fresh.values())
        after.problems = tuple(sorted(problems, key=lambda problem: problem.place))
        after.has_outer_links = has_outer_links
        after.outside, after.renamed = self.outside, self.renamed
        after.linked = (self.linked - kept.keys()) | {uri for uri, s in fresh.items() if s.has_links}
        old_tree = {uri for skill in kept.values() for uri in skill.tree}
        new_tree = {uri for skill in fresh.values() for uri in skill.tree}
        after.empty = self.empty
        after._paths = self._paths
        if old_tree != new_tree:
            after.empty = _empty_in(skills.values())
            after._paths = None
            if self._paths is not None:
                lost = old_tree - new_tree
                left = (path for path in self._paths if path not in lost)
                after._paths = sorted([*left, *(new_tree - old_tree)])
        return after

    def get(self, uri: SkillUri, /) -> ScannedSkill | None:
        """The skill whose directory has this URI; it may be served under another one."""
        skill = self.renamed.get(uri) or self.skills.get(uri)
        return None if skill is None or skill.walked.entry.uri != uri else skill.walked

    def says_the_same(self, other: Snapshot) -> bool:
        """Whether a client could see a difference to another snapshot."""
        # Files are listed in their entries; empty directories are not.
        return (self.entries, self.problems, self.empty) == (other.entries, other.problems, other.empty)

    @property
    def _tree(self) -> list[str]:
        """Every path below the skills, sorted. Built on first use."""
        if self._paths is None:
            self._paths = sorted([*self.files, *self.empty])
        return self._paths

    def skills_of(self, root: Root) -> list[ScannedSkill]:
        """The skills that come from one root."""
        return [skill for skill in self.skills.values() if skill.root == root]

    def skills_around(self, uri: SkillUri) -> list[ScannedSkill]:
        """The skills around a URI, outermost first."""
        steps = [at for at, char in enumerate(uri) if char == "/"][2:]
        found = (self.skills.get(SkillUri(f"{uri[:at]}/{SKILL_FILE}")) for at in steps)
        return [skill for skill in found if skill is not None]

    def skills_below(self, directory: SkillUri) -> list[ScannedSkill]:
        """The skills in this directory or below it."""
        prefix = f"{directory}/"
        found: list[ScannedSkill] = []
        for at in range(bisect_left(self.entries, prefix, key=lambda entry: entry.uri), len(self.entries)):
            uri = self.entries[at].uri
            if not uri.startswith(prefix):
                break
            found.append(self.skills[uri])
        return found

    def children(self, directory: SkillUri) -> tuple[DirectoryChild, ...] | None:
        """The direct children of a directory at any level, including prefixes; `None` if there is none."""
        prefix = f"{directory}/"
        tree = self._tree
        found: list[DirectoryChild] = []
        at = start = bisect_left(tree, prefix)
        while at < len(tree) and tree[at].startswith(prefix):
            raw, slash, _ = tree[at][len(prefix) :].partition("/")
            if raw:
                uri = SkillUri(prefix + raw)
                size = None if slash else self.files[uri].resource.size
                found.append(DirectoryChild(uri, unquote(raw), bool(slash), size))
            # Skip everything below this child: "0" is the character after "/".
            at = bisect_left(tree, f"{prefix}{raw}0", at + 1) if slash else at + 1
        return tuple(found) if at > start else None


def _are_the_same(skills: Mapping[SkillUri, ScannedSkill], before: Mapping[SkillUri, ScannedSkill]) -> bool:
    """Whether both contain the same objects in the same order."""
    return len(skills) == len(before) and all(before.get(uri) is skill for uri, skill in skills.items())


def _renamed_in(skills: Iterable[ScannedSkill]) -> Mapping[SkillUri, ScannedSkill]:
    """The skills that are not served under the URI of their directory, by that URI."""
    return {skill.origin.entry.uri: skill for skill in skills if skill.origin is not None}


def _uri_of(resource: SkillResource) -> SkillUri:
    return resource.uri


def _empty_in(skills: Iterable[ScannedSkill]) -> frozenset[str]:
    """The empty directories, each with a trailing slash."""
    return frozenset(f"{uri}/" for skill in skills for uri in skill.empty_directories)
