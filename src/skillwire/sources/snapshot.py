"""Snapshot: an immutable set of skills with the way to the bytes behind every digest."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SKILL_FILE, SkillUri
from skillwire.sources.base import DirectoryChild, Problem
from skillwire.sources.files import FileRecord
from skillwire.sources.roots import Root


@dataclass(frozen=True, slots=True)
class ScannedSkill:
    """A skill with the root and the directory it came from, its files and its empty directories."""

    entry: SkillEntry
    root: Root
    directory: str
    files: tuple[FileRecord, ...]
    empty_directories: tuple[SkillUri, ...]

    @property
    def tree(self) -> set[str]:
        """The URIs below it. A trailing slash marks a directory with nothing in it: no file would name it."""
        return {*(file.resource.uri for file in self.files), *(f"{uri}/" for uri in self.empty_directories)}

    @property
    def has_links(self) -> bool:
        """Whether a link leads to any of it, so that it can change without a change in its directory."""
        inside = os.path.join(self.directory, "")
        return any(not file.path.startswith(inside) for file in self.files)


class Snapshot:
    """What a directory held at one moment. Nothing in it changes; the next moment is another snapshot.

    When the entries are those of the snapshot `before`, they are the very same object.
    """

    __slots__ = ("_tree", "entries", "files", "has_outer_links", "linked", "problems", "skills")

    def __init__(
        self,
        skills: Iterable[ScannedSkill],
        problems: Iterable[Problem],
        *,
        before: Snapshot | None = None,
        has_outer_links: bool = False,
    ) -> None:
        self.skills = {skill.entry.uri: skill for skill in sorted(skills, key=lambda skill: skill.entry.uri)}
        entries = tuple(skill.entry for skill in self.skills.values())
        self.entries = before.entries if before is not None and before.entries == entries else entries
        self.files = {file.resource.uri: file for skill in self.skills.values() for file in skill.files}
        self.problems = tuple(sorted(problems, key=lambda problem: problem.place))
        self.has_outer_links = has_outer_links
        self.linked = frozenset(uri for uri, skill in self.skills.items() if skill.has_links)
        empty = {f"{uri}/" for skill in self.skills.values() for uri in skill.empty_directories}
        self._tree = sorted([*self.files, *empty])

    def replacing(
        self,
        gone: Collection[SkillUri],
        come: Collection[ScannedSkill],
        problems: Iterable[Problem],
        *,
        has_outer_links: bool,
    ) -> Snapshot:
        """The next snapshot, where some skills went and others came. It costs little more than those.

        What goes and comes are whole trees of skills: no other skill shares a file with them.
        """
        after = object.__new__(Snapshot)
        kept = {uri: self.skills[uri] for uri in gone}
        # An entry that says the same stays the same object, so that others see at a glance what changed.
        fresh = {
            skill.entry.uri: replace(skill, entry=old.entry)
            if (old := kept.get(skill.entry.uri)) is not None and old.entry == skill.entry
            else skill
            for skill in come
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
        after.files = dict(self.files)
        for skill in kept.values():
            for file in skill.files:
                after.files.pop(file.resource.uri, None)
        for skill in fresh.values():
            after.files.update((file.resource.uri, file) for file in skill.files)
        after.problems = tuple(sorted(problems, key=lambda problem: problem.place))
        after.has_outer_links = has_outer_links
        after.linked = (self.linked - kept.keys()) | {uri for uri, s in fresh.items() if s.has_links}
        old_tree = {uri for skill in kept.values() for uri in skill.tree}
        new_tree = {uri for skill in fresh.values() for uri in skill.tree}
        lost = old_tree - new_tree
        after._tree = self._tree
        if old_tree != new_tree:
            after._tree = sorted([*(uri for uri in self._tree if uri not in lost), *(new_tree - old_tree)])
        return after

    def says_the_same(self, other: Snapshot) -> bool:
        """Whether a client could tell this snapshot from another one."""
        return (self.entries, self.problems, self._tree) == (other.entries, other.problems, other._tree)

    def skills_of(self, root: Root) -> list[ScannedSkill]:
        """The skills that come from one root."""
        return [skill for skill in self.skills.values() if skill.root == root]

    def skills_around(self, uri: SkillUri) -> list[ScannedSkill]:
        """The skills that a URI lies in, the outermost first."""
        steps = [at for at, char in enumerate(uri) if char == "/"][2:]
        found = (self.skills.get(SkillUri(f"{uri[:at]}/{SKILL_FILE}")) for at in steps)
        return [skill for skill in found if skill is not None]

    def skills_below(self, directory: SkillUri) -> list[ScannedSkill]:
        """The skills whose directory is this one or lies below it."""
        prefix = f"{directory}/"
        found: list[ScannedSkill] = []
        for at in range(bisect_left(self.entries, prefix, key=lambda entry: entry.uri), len(self.entries)):
            uri = self.entries[at].uri
            if not uri.startswith(prefix):
                break
            found.append(self.skills[uri])
        return found

    def children(self, directory: SkillUri) -> tuple[DirectoryChild, ...] | None:
        """The direct children of a directory at any level, prefix levels too; `None` when there is none."""
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
            # Jump over everything below this child: "0" is the character after "/".
            at = bisect_left(tree, f"{prefix}{raw}0", at + 1) if slash else at + 1
        return tuple(found) if at > start else None
