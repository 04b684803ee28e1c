"""DirectorySource: skills from directories, each read giving bytes that match the entry served.

Bytes stay on disk. What the entries say comes from one walk; what a read returns is hashed again, and when
it differs from the entry, the skill is walked anew and published before the answer goes out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from skillwire.errors import SkillNotFound, SourceError
from skillwire.issues import Issue
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.entries import SkillEntry
from skillwire.skill.membership import belongs_to_skill
from skillwire.skill.uris import SkillUri, is_inside, path_below, shown_uri, skill_root
from skillwire.sources.base import DirectoryChild, Problem
from skillwire.sources.claims import Lost, settle
from skillwire.sources.files import FileRecord, hash_file, is_passing
from skillwire.sources.roots import Root, parse_root
from skillwire.sources.snapshot import ScannedSkill, Snapshot
from skillwire.sources.walk import Known, Walk

# A thread costs more than reading a small file does.
_READ_INLINE: Final = 256 * 1024
# A file that changes on every read is reported, not chased for ever.
_READ_ATTEMPTS: Final = 3


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
        self._missing: dict[SkillUri, ScannedSkill] = {}
        self.snapshot = scan(self._roots, limits=limits, allow_oversize=allow_oversize)

    @property
    def roots(self) -> tuple[Root, ...]:
        return self._roots

    async def list_entries(self) -> Sequence[SkillEntry]:
        return self.snapshot.entries

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        if uri not in self.snapshot.skills:
            await self._look_for(uri)
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
        if uri not in self.snapshot.files:
            await self._look_for(uri)
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
        """Walk everything again, reading only what changed; true when a client could see a difference."""
        async with self._scanning:
            before = self.snapshot
            self.snapshot = await anyio.to_thread.run_sync(self._scan_again, before)
            return not self.snapshot.says_the_same(before)

    async def _mend(self, stale: FileRecord) -> None:
        """Walk again what holds this file, unless somebody else has done so since it was read."""
        async with self._scanning:
            uri = stale.resource.uri
            if self.snapshot.files.get(uri) is stale:
                await self._walk_again(self.snapshot.skills_around(uri)[0], distrusted=stale.path)

    async def _look_for(self, uri: SkillUri) -> None:
        """Walk a skill again in which there is a file on disk that no entry lists yet.

        It may be new, or back: a file that is just being saved is missing for a moment, and a skill that was
        invalid is whole again.
        """
        skill = self._skill_for(uri)
        if skill is None or not _lies_in(skill, uri):
            return
        async with self._scanning:
            if uri not in self.snapshot.files:
                await self._walk_again(skill)

    def _skill_for(self, uri: SkillUri) -> ScannedSkill | None:
        around = self.snapshot.skills_around(uri)
        if around:
            return around[0]
        return next((skill for root, skill in self._missing.items() if is_inside(uri, root)), None)

    async def _walk_again(self, skill: ScannedSkill, *, distrusted: str = "") -> None:
        after = await anyio.to_thread.run_sync(self._scan_around, self.snapshot, skill, distrusted)
        self.snapshot = after
        root_uri = skill_root(skill.entry.uri)
        if skill.entry.uri in after.skills:
            self._missing.pop(root_uri, None)
        else:
            self._missing[root_uri] = skill

    def _scan_again(self, before: Snapshot) -> Snapshot:
        return scan(
            self._roots,
            limits=self._limits,
            allow_oversize=self._allow_oversize,
            known=Known(before.files, before.skills),
            before=before,
        )

    def _scan_around(self, before: Snapshot, skill: ScannedSkill, distrusted: str) -> Snapshot:
        """The next snapshot after walking one skill that no other encloses, and nothing else."""
        root_uri = skill_root(skill.entry.uri)
        kept = [other for uri, other in before.skills.items() if not is_inside(uri, root_uri)]
        inside = os.path.join(skill.directory, "")
        problems = [p for p in before.problems if not os.path.join(p.place, "").startswith(inside)]
        known = Known(before.files, before.skills, distrusted)
        walk = Walk(skill.root, limits=self._limits, allow_oversize=self._allow_oversize, known=known)
        walk.run_below(skill.directory, root_uri)
        return Snapshot([*kept, *walk.skills], [*problems, *walk.problems], before=before)


def scan(
    roots: Iterable[Root],
    *,
    limits: Limits,
    allow_oversize: bool = False,
    known: Known | None = None,
    before: Snapshot | None = None,
) -> Snapshot:
    """Walk every root and publish what they hold together."""
    walks = [Walk(root, limits=limits, allow_oversize=allow_oversize, known=known).run() for root in roots]
    problems = [problem for walk in walks for problem in walk.problems]
    if len(walks) == 1:
        return Snapshot(walks[0].skills, problems, before=before)
    claimed = {(skill.entry.uri, number): skill for number, walk in enumerate(walks) for skill in walk.skills}
    settled = settle(claimed)
    for lost in settled.lost:
        skill = claimed.pop((lost.uri, lost.owner))
        problems.append(_collision(skill, claimed[lost.winner, lost.winning_owner], lost))
    return Snapshot(claimed.values(), problems, before=before)


def _collision(skill: ScannedSkill, winner: ScannedSkill, lost: Lost) -> Problem:
    place = shown_uri(winner.directory)
    if lost.uri == lost.winner:
        message = f"{shown_uri(lost.uri)} is already served from {place}"
    else:
        message = f"{shown_uri(lost.uri)} lies inside {shown_uri(lost.winner)}, served from {place}"
    remedy = "give one of the directories a prefix, as in acme=./skills"
    return Problem(skill.directory, (Issue(rule="uri-taken", message=message, remedy=remedy),))


def _lies_in(skill: ScannedSkill, uri: SkillUri) -> bool:
    """Whether there is something on disk where a URI points to, by the rules of what belongs to a skill."""
    segments = path_below(uri, skill_root(skill.entry.uri))
    if not all(belongs_to_skill(segment) for segment in segments):
        return False
    return os.path.lexists(os.path.join(skill.directory, *segments))


async def _read_if_unchanged(record: FileRecord) -> bytes | None:
    """The bytes of a file when they are still those of its record, else `None`."""
    expected = record.resource
    try:
        if expected.size <= _READ_INLINE:
            hashed = hash_file(record.path, keep=True, at_most=expected.size)
        else:
            hashed = await anyio.to_thread.run_sync(
                lambda: hash_file(record.path, keep=True, at_most=expected.size)
            )
    except OSError as error:
        if is_passing(error):
            raise SourceError(f"{shown_uri(expected.uri)} cannot be read now: {error.strerror}") from None
        return None
    return hashed.data if hashed.digest == expected.digest else None
