"""DirectorySource: skills from directories. File contents stay on disk. Entries come from a walk; every read
is hashed, and if it differs from the entry, the skill is walked again and published before the response is
sent.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from skillwire.errors import LimitExceeded, SkillNotFound, SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    SkillEntry,
    SkillUri,
    belongs_to_skill,
    is_inside,
    path_below,
    shown_uri,
    skill_root,
)
from skillwire.sources.base import Change, DirectoryChild, Problem, Read, Source, changes_between
from skillwire.sources.directory.cache import ScanCache
from skillwire.sources.directory.files import (
    FileRecord,
    FileValidator,
    LinkScope,
    Root,
    find_reach,
    hash_file,
    is_passing,
    parse_root,
    validator_for,
)
from skillwire.sources.directory.scan import (
    URI_TAKEN,
    Start,
    concerns_skills,
    is_below,
    is_misnamed,
    scan,
    start_of,
    starts_for,
)
from skillwire.sources.directory.snapshot import ScannedSkill, Snapshot
from skillwire.sources.directory.walk import Known, Rules, Walk

if TYPE_CHECKING:
    from skillwire.sources.directory.watch import Take

_READ_INLINE: Final = 256 * 1024
# A file that changes during every read is reported as an error.
_READ_ATTEMPTS: Final = 3
# A checkout that breaks a thousand skills is not logged a thousand times.
_PROBLEMS_LOGGED: Final = 20
# Beyond this, one full walk is cheaper than many small ones.
_MANY_STARTS: Final = 1000
# After a client's first requests, but before most servers end.
_SAVE_AFTER_SECONDS: Final = 2

_EMPTY: Final = Snapshot((), ())

_log = logging.getLogger(__name__)


class DirectorySource(Source):
    """Skills found at any depth below one or more directories.

    A skill with a format problem is served with a warning; `strict` leaves it out. `local` is for a user's
    own folders, where a missing name or description is filled in; do not serve such entries. Links are
    followed into the given directories, the user's skill folders and the repository or project around a
    directory; with `follow_links`, everywhere. With `only`, no other skills than those of these names.

    With `cache_directory`, what the scan finds is kept there for the next start, which then reads only what
    has changed since. Without the cache, or with a damaged one, the result is the same.
    """

    def __init__(
        self,
        roots: str | Path | Root | Iterable[str | Path | Root],
        *,
        limits: Limits = DEFAULT_LIMITS,
        allow_oversize: bool = False,
        strict: bool = False,
        local: bool = False,
        follow_links: bool = False,
        only: Iterable[str] | None = None,
        cache_directory: str | Path | None = None,
    ) -> None:
        self._given = (roots,) if isinstance(roots, (str, Path, Root)) else tuple(roots)
        self._roots: tuple[Root, ...] = ()
        self._limits = limits
        self._rules = Rules(
            allow_oversize=allow_oversize,
            strict=strict,
            local=local,
            only=None if only is None else frozenset(only),
        )
        self._follow_links = follow_links
        self._reach = LinkScope(())
        self._scanning = anyio.Lock()
        self._missing: dict[SkillUri, ScannedSkill] = {}
        self._saving = threading.Lock()
        self._unsaved: ScanCache | None = None
        self._cache_directory = None if cache_directory is None else Path(cache_directory)
        self._snapshot: Snapshot | None = None
        self._is_open = False

    @property
    def roots(self) -> tuple[Root, ...]:
        """The directories, resolved when the source was opened."""
        return self._roots

    @property
    def snapshot(self) -> Snapshot:
        """The result of the last scan; empty before the first."""
        return _EMPTY if self._snapshot is None else self._snapshot

    async def open(self) -> None:
        """Scan the directories in a thread. When it is opened again after `aclose`, it only reads what
        changed.
        """
        if self._is_open:
            return
        async with self._scanning:
            if not self._is_open and self._snapshot is None:
                await anyio.to_thread.run_sync(self.scan)
        if not self._is_open:
            await self.rescan()
            self._is_open = True

    async def aclose(self) -> None:
        """Write the scan cache for the next start, if there is something to write."""
        self._is_open = False
        if self._unsaved is not None:
            await anyio.to_thread.run_sync(self.save_cache)

    def scan(self) -> None:
        """Open the source outside of an event loop."""
        self._roots = tuple(parse_root(root) for root in self._given)
        self._reach = find_reach(self._roots, everywhere=self._follow_links)
        if self._cache_directory is None:
            self._snapshot = self._scan_all(None)
        else:
            self._snapshot = self._scan_with(
                ScanCache(self._cache_directory, self._roots, limits=self._limits)
            )
        self._is_open = True

    def save_cache(self) -> None:
        """Write the scan cache, unless it is up to date. Never fails."""
        with self._saving:
            cache, self._unsaved = self._unsaved, None
            if cache is not None:
                cache.save(self.snapshot)

    @contextmanager
    def saving_cache(self, *, after: float = _SAVE_AFTER_SECONDS) -> Generator[None]:
        """Write the scan cache after the first responses, or at the end of the block."""
        timer = threading.Timer(after, self.save_cache)
        timer.daemon = True
        if self._unsaved is not None:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self.save_cache()

    async def list_entries(self) -> Sequence[SkillEntry]:
        await self.open()
        return self.snapshot.entries

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        await self.list_entries()
        if uri not in self.snapshot.skills:
            await self._look_for(uri)
        skill = self.snapshot.skills.get(uri)
        if skill is None:
            raise SkillNotFound(f"No skill is served at {shown_uri(uri)}", uri=uri)
        return skill.entry

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        await self.list_entries()
        children = self.snapshot.children(uri)
        if children is None:
            raise SkillNotFound(f"No directory is served at {shown_uri(uri)}", uri=uri)
        return children

    def problems(self) -> Sequence[Problem]:
        return self.snapshot.problems

    async def read(self, uri: SkillUri) -> Read:
        await self.list_entries()
        if uri not in self.snapshot.files:
            await self._look_for(uri)
        for _ in range(_READ_ATTEMPTS):
            record = self.snapshot.files.get(uri)
            if record is None:
                raise SkillNotFound(f"No file is served at {shown_uri(uri)}", uri=uri)
            data = await self._read_if_unchanged(record)
            if data is not None:
                return Read(data, self._validator(record))
            await self._rescan_around(record)
        raise SourceError(f"{shown_uri(uri)} changes faster than it can be read; try again")

    async def at_hand(self, uri: SkillUri) -> bytes | None:
        return (await self.read(uri)).data

    def current_entries(self) -> Sequence[SkillEntry] | None:
        return self._snapshot.entries if self._is_open and self._snapshot is not None else None

    def local_path(self, uri: SkillUri) -> str | None:
        record = self.snapshot.files.get(uri)
        return None if record is None else record.path

    async def refresh(self) -> None:
        await self.rescan()

    def _validator(self, record: FileRecord) -> FileValidator | None:
        # Without change events, file times come from another machine's clock.
        return None if self._is_remote else validator_for(record)

    @cached_property
    def _is_remote(self) -> bool:
        from skillwire.sources.directory.watch import is_without_events

        return any(is_without_events(root.path) for root in self._roots)

    async def rescan(self, paths: Iterable[str] | None = None) -> bool:
        """Walk again what a change at these paths can affect, or everything, and only read what changed.
        Returns whether a client could see a difference. Meanwhile, the previous snapshot is served.
        """
        async with self._scanning:
            before = self.snapshot
            changed = None if paths is None else frozenset(paths)
            self._snapshot = await anyio.to_thread.run_sync(self._scan_again, before, changed)
            # This walk includes what came back.
            self._missing.clear()
            return not self.snapshot.says_the_same(before)

    async def changes(self) -> AsyncGenerator[Change]:
        """Watch the directories. Skills that have to be left out from now on are logged as warnings."""
        await self.list_entries()
        reported = self.snapshot
        send, receive = anyio.create_memory_object_stream[Snapshot](math.inf)

        async def take(paths: frozenset[str] | None) -> bool:
            try:
                await self.rescan(paths)
            except (SourceError, LimitExceeded) as error:
                _log.warning("still serving the previous skills: %s", error)
                return False
            await send.send(self.snapshot)
            return True

        async def watch() -> None:
            while True:
                await self._watch_until_links_change(take)

        async with anyio.create_task_group() as tasks, send, receive:
            tasks.start_soon(watch)
            try:
                async for found in receive:
                    # A read may have found the change first.
                    before, reported = reported, found
                    if found.says_the_same(before):
                        continue
                    _report(found.problems, before.problems)
                    for change in changes_between(before.entries, found.entries):
                        yield change
            except GeneratorExit:
                pass  # Closed by the caller; a task group would wrap the exception.
            finally:
                tasks.cancel_scope.cancel()

    async def _watch_until_links_change(self, take: Take) -> None:
        """Watch the roots and the targets of links outside of them, until a link has a new target."""
        from skillwire.sources.directory.watch import watch_directories

        outside = self.snapshot.outside

        async def take_here(paths: frozenset[str] | None) -> bool:
            is_taken = await take(paths)
            if self.snapshot.outside != outside:
                scope.cancel()
            return is_taken

        def concerns(path: str) -> bool:
            return concerns_skills(path, self._roots) or is_below(path, outside)

        with anyio.CancelScope() as scope:
            directories = [*(root.path for root in self._roots), *map(Path, sorted(outside))]
            skills = len(self.snapshot.skills)
            await watch_directories(directories, take_here, cares=concerns, skills=skills)

    async def _read_if_unchanged(self, record: FileRecord) -> bytes | None:
        """The bytes of a file if they match its record, otherwise `None`."""
        expected = record.resource
        base = self._reach.base_of(record.path)
        if base is None:
            return None
        read = partial(hash_file, record.path, keep=True, at_most=expected.size, base=base)
        try:
            # A thread costs more than reading a small file.
            hashed = read() if expected.size <= _READ_INLINE else await anyio.to_thread.run_sync(read)
        except OSError as error:
            if is_passing(error):
                raise SourceError(f"{shown_uri(expected.uri)} cannot be read now: {error.strerror}") from None
            return None
        return hashed.data if hashed.digest == expected.digest else None

    async def _rescan_around(self, stale: FileRecord) -> None:
        """Walk the skill around this file again, unless that was done since it was read."""
        async with self._scanning:
            uri = stale.resource.uri
            if self.snapshot.files.get(uri) == stale:
                await self._walk_again(self.snapshot.skills_around(uri)[0], distrusted=stale.path)

    async def _look_for(self, uri: SkillUri) -> None:
        """Walk a skill again if it has a file on disk that no entry lists yet. The file may be new, or may
        have been missing for a moment while it was saved, or its skill may have been invalid.
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
        before = self.snapshot
        after = await anyio.to_thread.run_sync(self._scan_from, before, (start_of(skill),), distrusted)
        self._snapshot = after
        root_uri = skill_root(skill.entry.uri)
        if skill.entry.uri in after.skills:
            self._missing.pop(root_uri, None)
        else:
            self._missing[root_uri] = skill

    def _scan_again(self, before: Snapshot, paths: frozenset[str] | None) -> Snapshot:
        starts = None if paths is None else starts_for(paths, before, self._roots)
        if starts is None or len(starts) > _MANY_STARTS:
            return self._scan_all(before)
        return self._scan_from(before, starts)

    def _scan_with(self, index: ScanCache) -> Snapshot:
        """The first snapshot, without reading what the scan cache has."""
        try:
            found = self._scan_all(None, Known(index))
        finally:
            index.close()
        if not index.is_current(found):
            self._unsaved = index
        return found

    def _scan_all(self, before: Snapshot | None, known: Known | None = None) -> Snapshot:
        if before is not None:
            known = Known(before, before.files)
        return scan(
            self._roots,
            limits=self._limits,
            reach=self._reach,
            rules=self._rules,
            known=known,
            before=before,
        )

    def _scan_from(self, before: Snapshot, starts: Sequence[Start], distrusted: str = "") -> Snapshot:
        """The next snapshot after walking only these directories, which are outside of skills."""
        known = Known(before, before.files, distrusted)
        removed: dict[SkillUri, ScannedSkill] = {}
        added: list[ScannedSkill] = []
        problems = before.problems
        has_outer_links = before.has_outer_links
        if any(place.startswith(f"{start.uri}/") for start in starts for place in before.renamed):
            return self._scan_all(before)
        for start in starts:
            walk = Walk(start.root, limits=self._limits, reach=self._reach, rules=self._rules, known=known)
            walk.run_below(start.directory, start.uri)
            removed.update((s.entry.uri, s) for s in before.skills_below(start.uri) if s.root == start.root)
            added += walk.skills
            inside = os.path.join(start.directory, "")
            kept = [p for p in problems if not os.path.join(p.place, "").startswith(inside)]
            warnings = [Problem(skill.directory, skill.warnings) for skill in walk.skills if skill.warnings]
            problems = (*kept, *walk.problems, *warnings)
            has_outer_links = has_outer_links or walk.has_outer_links
            if walk.outside - before.outside:
                return self._scan_all(before)
        if self._concerns_others(before, removed, added, problems):
            return self._scan_all(before)
        return before.replacing(removed, added, problems, has_outer_links=has_outer_links)

    def _concerns_others(
        self,
        before: Snapshot,
        removed: Mapping[SkillUri, ScannedSkill],
        added: Sequence[ScannedSkill],
        problems: Sequence[Problem],
    ) -> bool:
        """Whether the URIs of other skills have to be decided again as well."""
        if any(map(is_misnamed, added)) or any(skill.origin is not None for skill in removed.values()):
            return True
        has_conflict = any(issue.rule == URI_TAKEN for problem in problems for issue in problem.issues)
        if set(removed) == {skill.entry.uri for skill in added}:
            return has_conflict
        return has_conflict or len(self._roots) > 1 or bool(before.renamed)


def _report(problems: Sequence[Problem], before: Sequence[Problem]) -> None:
    known = frozenset(map(str, before))
    fresh = [problem for problem in problems if str(problem) not in known]
    for problem in fresh[:_PROBLEMS_LOGGED]:
        _log.warning("%s: %s", "left out" if problem.is_left_out else "warning", problem)
    if len(fresh) > _PROBLEMS_LOGGED:
        _log.warning("%d more; skillwire lint shows them all", len(fresh) - _PROBLEMS_LOGGED)


def _lies_in(skill: ScannedSkill, uri: SkillUri) -> bool:
    """Whether there is something on disk at a URI, by the rules of what belongs to a skill."""
    segments = path_below(uri, skill_root(skill.entry.uri))
    if not all(belongs_to_skill(segment) for segment in segments):
        return False
    return os.path.lexists(os.path.join(skill.directory, *segments))
