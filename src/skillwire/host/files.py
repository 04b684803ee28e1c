"""SkillReader: the files of skills, verified against their entries. It loads and holds none of them.

Bytes come from the cache, where their digest is computed again, or from the server (SEC-8, VER-5), and pass
every check of `trust/verify.py` before anybody gets them (VER-1, VER-2). `read_verified` is the only way to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio

from skillwire.catalog import HostSkill
from skillwire.consent import ConsentStore
from skillwire.errors import ApprovalRequired, LimitExceeded, RequestRefused, SkillwireError, SourceError
from skillwire.host.places import Places
from skillwire.host.resolve import Resolver
from skillwire.host.storage import SkillCache
from skillwire.host.styles.base import Style
from skillwire.limits import Limits
from skillwire.skill import (
    DYNAMIC,
    SKILL_FILE,
    Digest,
    SetDigest,
    SkillUri,
    parse_uri,
    path_below,
    skill_root,
)
from skillwire.trust import (
    Approval,
    CheckedEntry,
    Origin,
    Reason,
    VerifiedFile,
    VerifiedSkill,
    check_entry,
    seen_digest,
    seen_set,
    shown_digest,
    skill_file,
    verify_file,
    verify_skill_md,
)

_REQUESTS: Final = 64
"""How many requests are sent at once to all servers together. Each may need a connection, two while a client
changes over to another transport, and macOS lets a process open 256 files."""


@dataclass(frozen=True, slots=True)
class SkillFiles:
    """The files of a skill as shown to a user, and the digest that approves exactly these."""

    skill: HostSkill
    files: tuple[VerifiedFile, ...]
    digest: SetDigest


OnPreview: TypeAlias = Callable[[HostSkill, Mapping[SkillUri, VerifiedFile] | SkillwireError], None]
"""Called with all files of a skill, or with the first error."""


@dataclass(frozen=True, slots=True)
class VerifiedRead:
    """A file that passed all checks."""

    file: VerifiedFile
    skill: VerifiedSkill | None
    """The skill, if the file is its own `SKILL.md`."""
    is_cached: bool
    """Whether the bytes came from the cache."""


@dataclass(slots=True, eq=False)
class _Preview:
    """A skill whose files are being read, `left` of them still to come."""

    skill: HostSkill
    entry: CheckedEntry
    uris: tuple[SkillUri, ...]
    left: int
    files: dict[SkillUri, VerifiedFile] = field(default_factory=dict[SkillUri, VerifiedFile])
    error: SkillwireError | None = None

    def take(self) -> Mapping[SkillUri, VerifiedFile] | SkillwireError:
        """The files or the error. The files are not held any longer: there may be many skills."""
        files, self.files = self.files, {}
        return self.error or files


@dataclass(kw_only=True, eq=False)
class SkillReader:
    """The files of the skills of a host: `host.files`."""

    places: Places
    resolver: Resolver
    cache: SkillCache
    consent: ConsentStore
    style: Style
    limits: Limits
    # Files of earlier drafts that were read, with the number of listings that their server had sent by then.
    _current: dict[tuple[Origin, SkillUri], int] = field(
        default_factory=dict[tuple[Origin, SkillUri], int], init=False
    )

    async def read_verified(
        self,
        origin: Origin,
        entry: CheckedEntry,
        uri: SkillUri,
        *,
        refresh: bool = False,
        retrieved: int = 0,
        cached: Container[SkillUri] | None = None,
    ) -> VerifiedRead:
        """A file of a skill, verified (VER-1, VER-2). Nothing is cached or held.

        For a dynamic skill, the cache has the approved bytes. They are used while the server is unavailable,
        and for a file of an earlier draft that was read since the last change, but never with `refresh`.
        `retrieved` is how many bytes of such a skill were retrieved before. `cached` are the files of which
        the cache has something, if that is known: it is not asked about others.
        """
        is_sought = cached is None or uri in cached
        data, is_cached = await self._bytes(origin, entry, uri, refresh=refresh, is_sought=is_sought)
        if uri != entry.uri:
            file = verify_file(entry, uri, data, origin, retrieved=retrieved, limits=self.limits)
            return VerifiedRead(file, None, is_cached)
        skill = verify_skill_md(entry, data, origin, retrieved=retrieved, limits=self.limits)
        return VerifiedRead(skill.file, skill, is_cached)

    async def _bytes(
        self, origin: Origin, entry: CheckedEntry, uri: SkillUri, *, refresh: bool, is_sought: bool
    ) -> tuple[bytes, bool]:
        """The bytes of a file, and whether they came from the cache."""
        source = self.places.source(origin)  # Refused if the origin is disabled, cached or not.
        digest: Digest | None = None
        if not origin.is_local and entry.resources is not DYNAMIC:
            digest = next(resource.digest for resource in entry.resources if resource.uri == uri)
            if is_sought and (cached := await self.cache.fetch(origin, uri, digest)) is not None:
                return cached, True
        elif not origin.is_local and not refresh:
            digest = self._approved_digest(origin, entry.uri, uri)
            if digest is not None and entry.draft is not None and self._is_current(origin, uri):
                cached = await self.cache.fetch(origin, uri, digest)
                if cached is not None:
                    return cached, True
        try:
            return (await source.read(uri)).data, False
        except RequestRefused:
            raise
        except SourceError:
            is_usable = digest is not None and not refresh
            cached = await self.cache.fetch(origin, uri, digest) if is_usable and digest else None
            if cached is None:
                raise
            return cached, True

    async def store(self, file: VerifiedFile) -> None:
        """Cache a listed file, or a file of a dynamic skill that is approved with exactly these bytes."""
        approved = self._approved_digest(file.origin, file.skill, file.uri) == file.digest
        await self.cache.store(file, approved=approved)
        if approved:
            self._current[file.origin, file.uri] = self.places.listings_seen.get(file.origin, 0)

    def _is_current(self, origin: Origin, uri: SkillUri) -> bool:
        """Whether a file was read since its server was last listed, or told of a change."""
        return self._current.get((origin, uri)) == self.places.listings_seen.get(origin, 0)

    def _approved_digest(self, origin: Origin, skill: SkillUri, file: SkillUri) -> Digest | None:
        """The digest under which a file of a dynamic skill is approved for good, if it is."""
        approval = self.consent.record(self.consent.key(origin, skill)).approval()
        if approval is None or approval.bound:
            return None
        return next((digest for uri, digest in approval.resources if uri == file), None)

    # For another program, for scanners, and to keep what was approved

    async def fetch(self, skill: HostSkill, uri: SkillUri) -> VerifiedFile:
        """A file of a skill for another program: verified and cached, but neither approved nor held."""
        entry = check_entry(skill.entry, limits=self.limits)
        read = await self._read_for_use(skill.origin, entry, skill_file(entry, uri))
        if read.file.bound and not read.is_cached and not skill.origin.is_local:
            await self.cache.store(read.file)
        return read.file

    async def fetch_all(self, skill: HostSkill) -> list[VerifiedFile]:
        """Every file that an entry lists, verified and cached."""
        entry = check_entry(skill.entry, limits=self.limits)
        resources = () if entry.resources is DYNAMIC else entry.resources
        reads = [await self._read_for_use(skill.origin, entry, resource.uri) for resource in resources]
        # Only after the last one was verified: what is cached is a whole skill.
        for read in reads:
            if not read.is_cached and not skill.origin.is_local:
                await self.cache.store(read.file)
        return [read.file for read in reads]

    async def _read_for_use(self, origin: Origin, entry: CheckedEntry, uri: SkillUri) -> VerifiedRead:
        read = await self.read_verified(origin, entry, uri)
        if read.skill is not None:
            self.style.check(read.skill, self.limits)
        return read

    async def cached(self, skill: HostSkill) -> bytes | None:
        """The `SKILL.md` of a skill, without a request to a server: from its file or the cache (SEC-8)."""
        if skill.origin.is_local:
            return (await self.places.source(skill.origin).read(skill.uri)).data
        files = () if skill.entry.resources is DYNAMIC else skill.entry.resources
        digest = next((file.digest for file in files if file.uri == skill.uri), None)
        return None if digest is None else await self.cache.fetch(skill.origin, skill.uri, digest)

    # For a person who looks at them

    async def preview(self, name: str, path: str = SKILL_FILE, *, server: str | None = None) -> VerifiedFile:
        """A file for the user to look at: verified, but not loaded, held, cached or approved (SEC-7)."""
        return await self.look(await self.resolver.find(name, server), path)

    async def look(self, skill: HostSkill, path: str = SKILL_FILE) -> VerifiedFile:
        """The same of a skill that was found already."""
        entry = check_entry(skill.entry, limits=self.limits)
        return (await self.read_verified(skill.origin, entry, skill_file(entry, path), refresh=True)).file

    async def fetch_files(self, name: str, *, server: str | None = None) -> SkillFiles:
        """Every file of a skill, for a user who decides on it now, and the digest to approve it by.

        Of a skill whose entry lists no files these are its `SKILL.md` and what its server lists below it.
        """
        return await self.files_of(await self.resolver.find(name, server))

    async def files_of(self, skill: HostSkill) -> SkillFiles:
        """The same of a skill that was found already."""
        entry = check_entry(skill.entry, limits=self.limits)
        if entry.resources is DYNAMIC:
            uris = [entry.uri, *self.places.listed_files(skill.origin, entry.uri)]
            if len(uris) > self.limits.files_per_skill:
                most = self.limits.files_per_skill
                raise LimitExceeded(f"{skill.handle} has {len(uris):,} files; {most} can be reviewed")
        else:
            uris = [resource.uri for resource in entry.resources]
        files: list[VerifiedFile] = []
        retrieved = 0
        for uri in uris:
            read = await self.read_verified(skill.origin, entry, uri, refresh=True, retrieved=retrieved)
            if read.skill is not None:
                self.style.check(read.skill, self.limits)
            files.append(read.file)
            retrieved += len(read.file.data)
        digest = shown_digest(entry) or seen_digest(entry, seen_set(files))
        return SkillFiles(skill, tuple(files), digest)

    async def listed(
        self, skill: HostSkill, entry: CheckedEntry, *, retrieved: int
    ) -> tuple[VerifiedFile, ...]:
        """The supporting files that are listed for a dynamic skill, as far as they can be read.

        None if they are too many. Reading ends where the skill gets too large, or takes too long.
        """
        uris = self.places.listed_files(skill.origin, entry.uri)
        files: list[VerifiedFile] = []
        if len(uris) >= self.limits.files_per_skill:  # SKILL.md counts too.
            return ()
        with anyio.move_on_after(self.limits.review_seconds):
            for uri in uris:
                try:
                    read = await self.read_verified(skill.origin, entry, uri, retrieved=retrieved)
                except LimitExceeded:
                    break
                except SkillwireError:
                    continue  # Whoever reads it is told why.
                files.append(read.file)
                retrieved += len(read.file.data)
        return tuple(files)

    async def preview_skills(
        self,
        skills: Iterable[HostSkill],
        *,
        together: int,
        on_file: Callable[[HostSkill], None],
        on_skill: OnPreview,
    ) -> None:
        """Read every listed file of these skills as `preview` does, `together` at once from each origin.

        From many origins it is fewer, because each request may need a connection. An error affects only its
        own skill.
        """
        waiting: dict[Origin, list[_Preview]] = {}
        for skill in skills:
            try:
                waiting.setdefault(skill.origin, []).append(self._start_preview(skill))
            except SkillwireError as error:
                on_skill(skill, error)

        async def read(origin: Origin, previews: list[_Preview]) -> None:
            uris = {uri for one in previews for uri in one.uris}
            cached = frozenset[SkillUri]() if origin.is_local else await self.cache.stored(origin, uris)
            files = ((one, uri) for one in previews for uri in one.uris)

            async def work() -> None:
                for one, uri in files:
                    if one.error is None:
                        try:
                            one.files[uri] = (
                                await self.read_verified(origin, one.entry, uri, refresh=True, cached=cached)
                            ).file
                        except SkillwireError as error:
                            one.error = error
                    one.left -= 1
                    on_file(one.skill)
                    if not one.left:
                        on_skill(one.skill, one.take())

            share = max(min(together, _REQUESTS // len(waiting)), 1)
            async with anyio.create_task_group() as tasks:
                for _ in range(min(share, len(uris))):
                    tasks.start_soon(work)

        async with anyio.create_task_group() as tasks:
            for origin, previews in waiting.items():
                tasks.start_soon(read, origin, previews)

    def _start_preview(self, skill: HostSkill) -> _Preview:
        entry = check_entry(skill.entry, limits=self.limits)
        if entry.resources is DYNAMIC:
            raise ApprovalRequired(
                f"{skill.handle} is generated on request: it has no fixed files that could be pinned",
                reason=Reason.UNBINDABLE,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        self.places.source(skill.origin)  # Refused if the origin is disabled, cached or not.
        uris = tuple(resource.uri for resource in entry.resources)
        return _Preview(skill, entry, uris, left=len(uris))

    async def approved_text(
        self, skill: HostSkill, uri: str, approval: Approval | None = None
    ) -> bytes | None:
        """A file as it was when the user approved it, by default last; `None` when that is not cached."""
        record = self.consent.record(self.consent.key(skill.origin, skill.uri))
        approval = approval or record.approval() or record.ended()
        wanted = parse_uri(uri)
        resources = approval.resources if approval is not None else ()
        digest = next((digest for file, digest in resources if file == wanted), None)
        return await self.cache.fetch(skill.origin, wanted, digest) if digest else None

    def paths(self, skill: HostSkill | str) -> tuple[str, ...]:
        """The paths of a skill's supporting files, as far as its entry or its server lists them."""
        found = self.resolver.table.find(skill) if isinstance(skill, str) else skill
        entry, root = found.entry, skill_root(found.uri)
        if entry.resources is DYNAMIC:
            uris = self.places.listed_files(found.origin, entry.uri)
        else:
            uris = tuple(resource.uri for resource in entry.resources if resource.uri != entry.uri)
        return tuple("/".join(path_below(uri, root)) for uri in uris)
