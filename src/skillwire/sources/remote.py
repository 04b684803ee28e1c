"""RemoteSource: skills that are fetched together, such as those of a repository or a site. They are fetched
when the source is opened, then periodically or after `request_refresh`. While the place is down, the last
fetched copy is served, even after a restart, because it is kept in the cache.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import platformdirs

from skillwire.errors import FormatError, Issue, SkillNotFound, SkillwireError, SourceError
from skillwire.files import make_folder, read_regular, write_atomic
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.net import ArchiveFile, read_archive, split_skills, write_tar_gz
from skillwire.skill import (
    SKILL_FILE,
    SkillEntry,
    SkillResource,
    SkillUri,
    digest_of,
    make_uri,
    parse_skill_md,
    shown_uri,
)
from skillwire.sources.base import Change, Problem, Read, Source, changes_between
from skillwire.sources.git import fetch_tree
from skillwire.sources.reference import SourceKind, SourceReference, parse_reference
from skillwire.sources.wellknown import fetch_site
from skillwire.text import shown
from skillwire.trust import check_entry

REFRESH_SECONDS: Final = 300.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The fetched state: entries sorted by URI, and the bytes of every file."""

    entries: tuple[SkillEntry, ...]
    files: Mapping[SkillUri, bytes]
    problems: tuple[Problem, ...]


_EMPTY: Final = _Snapshot((), {}, ())


@dataclass(frozen=True, slots=True)
class _Validator:
    """Fresh while the snapshot is current."""

    source: RemoteSource
    snapshot: _Snapshot

    def is_fresh(self) -> bool:
        return self.source.snapshot is self.snapshot


class RemoteSource(Source):
    """Skills that `fetch` returns as files, with paths that start with the folder of the skill. `place` names
    the source in messages, and in the cache if `keep` is set.
    """

    def __init__(
        self,
        place: str,
        fetch: Callable[[], Awaitable[Iterable[ArchiveFile]]],
        *,
        prefix: Sequence[str] = (),
        interval: float = REFRESH_SECONDS,
        keep: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.place = place
        self.snapshot = _EMPTY
        self._fetch = fetch
        self._prefix = tuple(prefix)
        self._interval = interval
        self._keep = keep
        self._limits = limits
        self._is_open = False
        self._opening = anyio.Lock()
        self._wanted = anyio.Event()

    @classmethod
    def from_reference(
        cls,
        reference: SourceReference,
        *,
        prefix: Sequence[str] = (),
        interval: float = REFRESH_SECONDS,
        limits: Limits = DEFAULT_LIMITS,
    ) -> RemoteSource:
        """The skills of a git repository or a site."""

        async def from_git() -> Iterable[ArchiveFile]:
            tree = await anyio.to_thread.run_sync(lambda: fetch_tree(reference, limits=limits))
            for path in tree.skipped:
                _log.warning("%s: %s is a link, and is not served", reference.text, shown(path))
            return tree.files

        last: dict[str, tuple[ArchiveFile, ...]] = {}

        async def from_site() -> Iterable[ArchiveFile]:
            site = await fetch_site(reference, limits=limits)
            files = {skill.entry.name: skill.files for skill in site.skills}
            for name, error in site.failures:
                # Its archive may be on another host, which is away. What is not valid is not served.
                if isinstance(error, SourceError) and name in last:
                    files[name] = last[name]
                    _log.warning("%s: %s: %s; what was fetched last is served", reference.text, name, error)
                else:
                    _log.warning("%s: %s is left out: %s", reference.text, name, error)
            if not files and site.failures:
                raise site.failures[0][1]
            last.clear()
            last.update(files)
            return [
                file._replace(path=f"{name}/{file.path}")
                for name, members in files.items()
                for file in members
            ]

        fetch = from_git if reference.kind is SourceKind.GIT else from_site
        return cls(reference.text, fetch, prefix=prefix, interval=interval, limits=limits)

    async def open(self) -> None:
        """Fetch; if that fails, use the last fetched copy, or raise if there is none."""
        async with self._opening:
            if self._is_open:
                return
            try:
                await self._refetch()
            except SkillwireError as error:
                kept = await anyio.to_thread.run_sync(self._read_kept)
                if kept is None:
                    raise
                _log.warning("%s; what was fetched last is served", error)
                self.snapshot = kept
            self._is_open = True

    async def aclose(self) -> None:
        self._is_open = False

    async def list_entries(self) -> Sequence[SkillEntry]:
        if not self._is_open:
            await self.open()
        return self.snapshot.entries

    async def read(self, uri: SkillUri) -> Read:
        await self.list_entries()
        snapshot = self.snapshot
        data = snapshot.files.get(uri)
        if data is None:
            raise SkillNotFound(f"No file is served at {shown_uri(uri)}", uri=uri)
        return Read(data, _Validator(self, snapshot))

    async def at_hand(self, uri: SkillUri) -> bytes | None:
        return (await self.read(uri)).data

    def current_entries(self) -> Sequence[SkillEntry] | None:
        return self.snapshot.entries if self._is_open else None

    def problems(self) -> Sequence[Problem]:
        return self.snapshot.problems

    async def refresh(self) -> None:
        """Fetch again. If that fails, nothing changes, and it is logged."""
        try:
            await self._refetch()
        except SkillwireError as error:
            _log.warning("%s; what was fetched last is served", error)

    def request_refresh(self) -> None:
        """Make `changes` fetch again now."""
        self._wanted.set()

    async def changes(self) -> AsyncGenerator[Change]:
        while True:
            with anyio.move_on_after(self._interval):
                await self._wanted.wait()
            self._wanted = anyio.Event()
            before = self.snapshot.entries
            await self.refresh()
            if self.snapshot.entries is not before:
                for change in changes_between(before, self.snapshot.entries):
                    yield change

    async def _refetch(self) -> None:
        files = tuple(await self._fetch())
        fresh = await anyio.to_thread.run_sync(self._parse, files)
        if fresh.entries == self.snapshot.entries and self.snapshot is not _EMPTY:
            return  # Returns the same object while nothing changes.
        self.snapshot = fresh
        if self._keep:
            await anyio.to_thread.run_sync(self._write_kept, files)

    def _parse(self, files: Sequence[ArchiveFile]) -> _Snapshot:
        skills: dict[SkillUri, SkillEntry] = {}
        content: dict[SkillUri, bytes] = {}
        problems: list[Problem] = []
        for folder, members in split_skills(files, nested=True, limits=self._limits).items():
            try:
                entry, data = self._entry(folder, members)
            except SkillwireError as error:
                issues = error.issues if isinstance(error, FormatError) else ()
                problems.append(
                    Problem(folder or self.place, issues or (Issue(rule="skill", message=str(error)),))
                )
                continue
            skills[entry.uri] = entry
            content |= data
        return _Snapshot(tuple(skills[uri] for uri in sorted(skills)), content, tuple(problems))

    def _entry(self, folder: str, files: Sequence[ArchiveFile]) -> tuple[SkillEntry, dict[SkillUri, bytes]]:
        by_path = {file.path: file.data for file in files}
        document = parse_skill_md(by_path[SKILL_FILE], file=f"{folder}/{SKILL_FILE}", limits=self._limits)
        name = document.frontmatter.get("name")
        # A skill at the root has no folder that names it.
        segments = folder.split("/") if folder else [name if isinstance(name, str) else ""]
        path = (*self._prefix, *segments)
        content = {make_uri([*path, *one.split("/")]): data for one, data in by_path.items()}
        entry = SkillEntry(
            uri=make_uri([*path, SKILL_FILE]),
            frontmatter=document.frontmatter,
            resources=tuple(
                SkillResource(uri, digest_of(content[uri]), len(content[uri])) for uri in sorted(content)
            ),
        )
        return check_entry(entry, limits=self._limits), content

    # The copy of what was fetched last

    @property
    def _kept(self) -> Path:
        name = hashlib.sha256(self.place.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return Path(platformdirs.user_cache_dir("skillwire", appauthor=False)) / "remotes" / f"{name}.tar.gz"

    def _write_kept(self, files: Sequence[ArchiveFile]) -> None:
        try:
            make_folder(self._kept.parent)
            write_atomic(self._kept, write_tar_gz(files))
        except (OSError, FormatError) as error:
            _log.warning("what was fetched from %s cannot be kept: %s", self.place, error)

    def _read_kept(self) -> _Snapshot | None:
        if not self._keep:
            return None
        most = self._limits.repository_bytes
        limits = replace(
            self._limits,
            archive_bytes=most,
            unpacked_bytes=most,
            archive_files=2 * self._limits.repository_files,
        )
        try:
            return self._parse(read_archive(read_regular(self._kept, most + 1), limits=limits))
        except (OSError, SkillwireError):
            return None


def remote_reference(text: str) -> tuple[tuple[str, ...], SourceReference] | None:
    """A remote source from `git+URL` or `https://SITE`, optionally with `PREFIX=`."""
    prefix: tuple[str, ...] = ()
    before, equals, after = text.partition("=")
    if equals and "://" not in before and not before.startswith("git+"):
        prefix, text = tuple(before.split("/")), after
    if not text.startswith(("git+", "https://", "http://")):
        return None
    if prefix:
        make_uri(prefix)
    return prefix, parse_reference(text)
