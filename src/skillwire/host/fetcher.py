"""Fetcher: verified files of skills, from the cache or from their source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio

from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import ApprovalRequired, LimitExceeded, RequestRefused, SkillwireError, SourceError
from skillwire.host.approvals.approver import Approver
from skillwire.host.cache import SkillCache
from skillwire.limits import Limits
from skillwire.skill.digests import Digest, SetDigest
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.uris import SKILL_FILE, SkillUri
from skillwire.sources.base import Source
from skillwire.trust.approval import Reason, seen_digest, seen_set, shown_digest
from skillwire.trust.origin import Origin
from skillwire.trust.paths import skill_file
from skillwire.trust.verify import (
    CheckedEntry,
    VerifiedFile,
    VerifiedSkill,
    check_entry,
    verify_file,
    verify_skill_md,
)

_REQUESTS: Final = 64
"""How many requests are sent at once to all servers together. Each may need a connection, two while a client
changes over to another transport, and macOS lets a process open 256 files."""


@dataclass(frozen=True, slots=True)
class SkillFiles:
    """The files of a skill as shown to a user, and the digest that approves exactly these."""

    skill: RegisteredSkill
    files: tuple[VerifiedFile, ...]
    digest: SetDigest


OnPreview: TypeAlias = Callable[[RegisteredSkill, Mapping[SkillUri, VerifiedFile] | SkillwireError], None]
"""Called with all files of a skill, or with the first error."""


@dataclass(slots=True, eq=False)
class _Preview:
    """A skill whose files are being read, `left` of them still to come."""

    skill: RegisteredSkill
    entry: CheckedEntry
    source: Source
    digests: Mapping[SkillUri, Digest]
    left: int
    files: dict[SkillUri, VerifiedFile] = field(default_factory=dict[SkillUri, VerifiedFile])
    error: SkillwireError | None = None

    def take(self) -> Mapping[SkillUri, VerifiedFile] | SkillwireError:
        """The files or the error. The files are not held any longer: there may be many skills."""
        files, self.files = self.files, {}
        return self.error or files


@dataclass(kw_only=True, eq=False)
class Fetcher:
    """Reads files of skills. It does not load or hold any skill; `Loader` does."""

    source_of: Callable[[Origin], Source]
    approver: Approver
    cache: SkillCache
    accept: Callable[[VerifiedSkill], None]
    """Raises for a verified skill that the style does not accept."""
    listed_files: Callable[[Origin, SkillUri], Sequence[SkillUri]]
    """The supporting files that a server lists for a skill whose entry lists none."""
    limits: Limits
    # Files of earlier drafts that were read since their server last reported a change.
    _current: set[tuple[Origin, SkillUri]] = field(default_factory=set[tuple[Origin, SkillUri]], init=False)

    async def preview(self, skill: RegisteredSkill, path: str = SKILL_FILE) -> VerifiedFile:
        """A file for the user to look at: verified, but not loaded, held, cached or approved (SEC-7)."""
        entry = check_entry(skill.entry, limits=self.limits)
        uri = skill_file(entry, path)
        data, _ = await self.fetch_bytes(entry, skill.origin, uri, refresh=True)
        return self._previewed(entry, uri, data, skill.origin)

    async def preview_skills(
        self,
        skills: Iterable[RegisteredSkill],
        *,
        together: int,
        on_file: Callable[[RegisteredSkill], None],
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
            uris = {uri for one in previews for uri in one.digests}
            cached = frozenset[SkillUri]() if origin.is_local else await self.cache.stored(origin, uris)
            files = ((one, uri, digest) for one in previews for uri, digest in one.digests.items())

            async def work() -> None:
                for one, uri, digest in files:
                    if one.error is None:
                        try:
                            data = await self.cache.fetch(origin, uri, digest) if uri in cached else None
                            if data is None:
                                data = (await one.source.read(uri)).data
                            one.files[uri] = self._previewed(one.entry, uri, data, origin)
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

    def _start_preview(self, skill: RegisteredSkill) -> _Preview:
        entry = check_entry(skill.entry, limits=self.limits)
        if entry.resources is DYNAMIC:
            raise ApprovalRequired(
                f"{skill.handle} is generated on request: it has no fixed files that could be pinned",
                reason=Reason.UNBINDABLE,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        digests = {resource.uri: resource.digest for resource in entry.resources}
        # Refused if the origin is disabled, cached or not.
        return _Preview(skill, entry, self.source_of(skill.origin), digests, left=len(digests))

    async def fetch_files(self, skill: RegisteredSkill) -> SkillFiles:
        """Every current file of a skill, for the user to look at; of a dynamic one, those that are listed."""
        entry = check_entry(skill.entry, limits=self.limits)
        if entry.resources is DYNAMIC:
            uris = [entry.uri, *self.listed_files(skill.origin, entry.uri)]
            if len(uris) > self.limits.files_per_skill:
                most = self.limits.files_per_skill
                raise LimitExceeded(f"{skill.handle} has {len(uris):,} files; {most} can be reviewed")
        else:
            uris = [resource.uri for resource in entry.resources]
        files: list[VerifiedFile] = []
        retrieved = 0
        for uri in uris:
            data, _ = await self.fetch_bytes(entry, skill.origin, uri, refresh=True)
            if uri == entry.uri:
                verified = verify_skill_md(entry, data, skill.origin, retrieved=retrieved, limits=self.limits)
                self.accept(verified)
                files.append(verified.file)
            else:
                files.append(
                    verify_file(entry, uri, data, skill.origin, retrieved=retrieved, limits=self.limits)
                )
            retrieved += len(data)
        digest = shown_digest(entry) or seen_digest(entry, seen_set(files))
        return SkillFiles(skill, tuple(files), digest)

    async def fetch(self, skill: RegisteredSkill, uri: SkillUri) -> VerifiedFile:
        """A file of a skill for another program: verified and cached, but neither approved nor held."""
        entry = check_entry(skill.entry, limits=self.limits)
        file, is_cached = await self._verified(entry, skill.origin, skill_file(entry, uri))
        if file.bound and not is_cached and not skill.origin.is_local:
            await self.cache.store(file)
        return file

    async def keep(self, skill: RegisteredSkill, entry: CheckedEntry) -> None:
        """Fetch, verify and cache every file that the user approves, to compare later versions with them."""
        files: list[VerifiedFile] = []
        for resource in () if entry.resources is DYNAMIC else entry.resources:
            file, is_cached = await self._verified(entry, skill.origin, resource.uri)
            if not is_cached:
                files.append(file)
        for file in files:
            await self.cache.store(file)

    async def store(self, file: VerifiedFile) -> None:
        """Cache a listed file, or a file of a dynamic skill that is approved with exactly these bytes."""
        approved = self.approver.approved_digest(file.origin, file.skill, file.uri) == file.digest
        await self.cache.store(file, approved=approved)
        if approved:
            self._current.add((file.origin, file.uri))

    def forget_current(self, origin: Origin) -> None:
        """From now on, read every file of a server again, because something may have changed there."""
        self._current = {known for known in self._current if known[0] != origin}

    async def _verified(
        self, entry: CheckedEntry, origin: Origin, uri: SkillUri
    ) -> tuple[VerifiedFile, bool]:
        """A file that passed all checks, and whether it came from the cache."""
        data, is_cached = await self.fetch_bytes(entry, origin, uri)
        if uri != entry.uri:
            return verify_file(entry, uri, data, origin, limits=self.limits), is_cached
        verified = verify_skill_md(entry, data, origin, limits=self.limits)
        self.accept(verified)
        return verified.file, is_cached

    def _previewed(self, entry: CheckedEntry, uri: SkillUri, data: bytes, origin: Origin) -> VerifiedFile:
        if uri == entry.uri:
            return verify_skill_md(entry, data, origin, limits=self.limits).file
        return verify_file(entry, uri, data, origin, limits=self.limits)

    async def fetch_bytes(
        self, entry: CheckedEntry, origin: Origin, uri: SkillUri, *, refresh: bool = False
    ) -> tuple[bytes, bool]:
        """The bytes of a file, and whether they came from the cache.

        For a dynamic skill, the cache has the approved bytes. They are used while the server is unavailable,
        and for a file of an earlier draft that was read since the last change, but never with `refresh`.
        """
        source = self.source_of(origin)  # Refused if the origin is disabled, cached or not.
        digest: Digest | None = None
        if not origin.is_local and entry.resources is not DYNAMIC:
            digest = next(resource.digest for resource in entry.resources if resource.uri == uri)
            if (cached := await self.cache.fetch(origin, uri, digest)) is not None:
                return cached, True
        elif not origin.is_local:
            digest = self.approver.approved_digest(origin, entry.uri, uri)
            is_current = entry.draft is not None and (origin, uri) in self._current
            if digest is not None and is_current and not refresh:
                cached = await self.cache.fetch(origin, uri, digest)
                if cached is not None:
                    return cached, True
        try:
            return (await source.read(uri)).data, False
        except RequestRefused:
            raise
        except SourceError:
            cached = (
                await self.cache.fetch(origin, uri, digest) if digest is not None and not refresh else None
            )
            if cached is None:
                raise
            return cached, True
