"""Snapshot: an immutable set of skills with the way to the bytes behind every digest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
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


class Snapshot:
    """What a directory held at one moment. Nothing in it changes; the next moment is another snapshot.

    When the entries are those of the snapshot `before`, they are the very same object.
    """

    __slots__ = ("_tree", "entries", "files", "problems", "skills")

    def __init__(
        self, skills: Iterable[ScannedSkill], problems: Iterable[Problem], *, before: Snapshot | None = None
    ) -> None:
        self.skills = {skill.entry.uri: skill for skill in sorted(skills, key=lambda skill: skill.entry.uri)}
        entries = tuple(skill.entry for skill in self.skills.values())
        self.entries = before.entries if before is not None and before.entries == entries else entries
        self.files = {file.resource.uri: file for skill in self.skills.values() for file in skill.files}
        self.problems = tuple(problems)
        # A trailing slash marks a directory with nothing in it: without a file, no URI would name it.
        empty = {f"{uri}/" for skill in self.skills.values() for uri in skill.empty_directories}
        self._tree = sorted([*self.files, *empty])

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
