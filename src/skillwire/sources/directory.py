"""DirectorySource: skills from directories, each read giving bytes that match the entry served.

Bytes stay on disk. What the entries say comes from one walk; what a read returns is hashed again, and when
it differs from the entry, the skill is walked anew and published before the answer goes out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from skillwire.errors import SkillNotFound, SourceError
from skillwire.issues import Issue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, is_inside, shown_uri, skill_root
from skillwire.sources.base import DirectoryChild, Problem
from skillwire.sources.files import FileRecord, hash_file
from skillwire.sources.roots import Root, parse_root
from skillwire.sources.snapshot import ScannedSkill, Snapshot
from skillwire.sources.walk import Known, Walk

# A thread costs more than reading a small file does.
_READ_INLINE = 256 * 1024
# A file that changes on every read is reported, not chased for ever.
_READ_ATTEMPTS = 3


class DirectorySource:
    """Skills found at any depth below one or more directories."""

    def __init__(
        self,
        roots: Iterable[str | Path | Root],
        *,
        limits: Limits = DEFAULT_LIMITS,
        allow_oversize: bool = False,
    ) -> None:
        self._roots = tuple(parse_root(root) for root in roots)
        self._limits = limits
        self._allow_oversize = allow_oversize
        self._scanning = anyio.Lock()
        self.snapshot = scan(self._roots, limits=limits, allow_oversize=allow_oversize)

    @property
    def roots(self) -> tuple[Root, ...]:
        return self._roots

    async def list_entries(self) -> Sequence[SkillEntry]:
        return self.snapshot.entries

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        skill = self.snapshot.skills.get(uri)
        if skill is None:
            raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)
        return skill.entry

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        children = self.snapshot.children(uri)
        if children is None:
            raise SkillNotFound(f"No directory is served at {shown_uri(uri)}", uri=uri)
        return children

    def problems(self) -> Sequence[Problem]:
        return self.snapshot.problems

    async def read(self, uri: SkillUri) -> bytes:
        for _ in range(_READ_ATTEMPTS):
            record = self.snapshot.files.get(uri)
            if record is None:
                raise SkillNotFound(f"No file is served at {shown_uri(uri)}", uri=uri)
            data = await _read_if_unchanged(record)
            if data is not None:
                return data
            await self._mend(record)
        raise SourceError(f"{shown_uri(uri)} changes faster than it can be read; try again")

    async def rescan(self) -> bool:
        """Walk everything again, reading only what changed; true when the snapshot is another one."""
        async with self._scanning:
            before = self.snapshot
            after = await anyio.to_thread.run_sync(self._scan_again, before)
            if (after.entries, after.problems) == (before.entries, before.problems):
                return False
            self.snapshot = after
            return True

    async def _mend(self, stale: FileRecord) -> None:
        """Walk again what holds this file, unless somebody else has done so since it was read."""
        async with self._scanning:
            before = self.snapshot
            if before.files.get(stale.resource.uri) is not stale:
                return
            self.snapshot = await anyio.to_thread.run_sync(self._scan_around, before, stale)

    def _scan_again(self, before: Snapshot) -> Snapshot:
        return scan(
            self._roots,
            limits=self._limits,
            allow_oversize=self._allow_oversize,
            known=_known(before.skills.values()),
        )

    def _scan_around(self, before: Snapshot, stale: FileRecord) -> Snapshot:
        """The next snapshot after walking the outermost skill that holds a file, and nothing else."""
        outermost = before.skills_around(stale.resource.uri)[0]
        root_uri = skill_root(outermost.entry.uri)
        inside = os.path.join(outermost.directory, "")
        again = [s for uri, s in before.skills.items() if is_inside(uri, root_uri)]
        # The stale file itself must be read, whatever its times say.
        known = _known(again, without=stale.path)
        kept = [skill for uri, skill in before.skills.items() if not is_inside(uri, root_uri)]
        problems = [
            p for p in before.problems if p.place != outermost.directory and not p.place.startswith(inside)
        ]
        root = next(root for root in self._roots if _holds(root, outermost.directory))
        try:
            walk = Walk(root, limits=self._limits, allow_oversize=self._allow_oversize, known=known)
            walk.run_below(outermost.directory, root_uri)
        except SourceError:
            return Snapshot(kept, problems)  # The whole directory is gone.
        return Snapshot([*kept, *walk.skills], [*problems, *walk.problems])


def scan(
    roots: Iterable[Root], *, limits: Limits, allow_oversize: bool = False, known: Known | None = None
) -> Snapshot:
    """Walk every root and publish what they hold together."""
    skills: dict[SkillUri, ScannedSkill] = {}
    problems: list[Problem] = []
    for root in roots:
        walk = Walk(root, limits=limits, allow_oversize=allow_oversize, known=known).run()
        problems.extend(walk.problems)
        for skill in walk.skills:
            other = skills.setdefault(skill.entry.uri, skill)
            if other is not skill:
                problems.append(_collision(skill, other))
    return Snapshot(skills.values(), problems)


def _collision(skill: ScannedSkill, other: ScannedSkill) -> Problem:
    issue = Issue(
        rule="uri-taken",
        message=f"{skill.entry.uri} is already served from {shown_uri(other.directory)}",
        remedy="give one of the directories a prefix, as in acme=./skills",
    )
    return Problem(shown_uri(skill.directory), (issue,))


def _known(skills: Iterable[ScannedSkill], *, without: str = "") -> Known:
    skills = list(skills)
    return Known(
        {file.path: file for skill in skills for file in skill.files if file.path != without},
        {skill.directory: skill.entry for skill in skills},
    )


def _holds(root: Root, directory: str) -> bool:
    return directory == str(root.path) or directory.startswith(os.path.join(root.path, ""))


async def _read_if_unchanged(record: FileRecord) -> bytes | None:
    """The bytes of a file when they are still those of its record, else `None`."""
    try:
        if record.resource.size <= _READ_INLINE:
            hashed = hash_file(record.path, keep=True)
        else:
            hashed = await anyio.to_thread.run_sync(lambda: hash_file(record.path, keep=True))
    except OSError:
        return None
    return hashed.data if hashed.digest == record.resource.digest else None
