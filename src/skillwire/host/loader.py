"""Loader: from a registered skill to text that a model may see.

Loading takes these steps, in this order; each file read later takes steps 4 and 5, and 6 if it applies.

1. The entry is sound and within the limits; otherwise nothing is fetched (ENT-2, ENT-6).
2. The publishers signed it whom its origin must have. At most the signature file is fetched for that. Only
   the scanners of a policy get all files before anybody is asked; their findings may refuse it.
3. It is approved as its entry is now, or the user is asked, before a byte is loaded (SEC-5, SEC-6).
4. The bytes come from the cache, where their digest is computed again, or from the server (SEC-8, VER-5).
5. The bytes are verified against the entry (VER-1, VER-2).
6. A dynamic skill promises no digests, so step 3 is taken here: the files that its server lists are read too,
   and the user agrees to what was seen. Any other file is a question of its own, when it is read.
7. The entry is held: from here on only its files are read (VER-3).
8. What was verified is cached, and rendered in its fence by the caller (SEC-8, SEC-1).

If a step fails, the entry may be stale: it is refreshed once, and all steps are taken once more. Another set
of files takes the approval back, so step 3 asks again (VER-6).
Skills of earlier drafts are files: their approved bytes are used again until their server tells of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import anyio

from skillwire.catalog import LOAD_TOOL, READ_TOOL, HostSkill, SkillKey, SkillTable
from skillwire.errors import (
    ApprovalRequired,
    FormatError,
    LimitExceeded,
    RequestRefused,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.host.approver import Approver, skill_facts
from skillwire.host.scanners import Fetch
from skillwire.host.storage import SkillCache, SkillUse
from skillwire.limits import Limits
from skillwire.skill import DYNAMIC, SKILL_FILE, Digest, SetDigest, SkillEntry, SkillUri
from skillwire.sources import Source
from skillwire.telemetry import operation
from skillwire.trust import (
    Approval,
    Ask,
    CheckedEntry,
    DirectoryView,
    Grants,
    HeldSkill,
    Origin,
    Reason,
    ResourceSet,
    VerifiedFile,
    VerifiedSkill,
    check_entry,
    difference,
    require,
    resource_set,
    seen_digest,
    seen_set,
    shown_digest,
    skill_file,
    verify_file,
    verify_skill_md,
)
from skillwire.trust.verify import filter_directory, listed_children, skill_directory

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


@dataclass(slots=True, eq=False)
class _Preview:
    """A skill whose files are being read, `left` of them still to come."""

    skill: HostSkill
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

    async def preview(self, skill: HostSkill, path: str = SKILL_FILE) -> VerifiedFile:
        """A file for the user to look at: verified, but not loaded, held, cached or approved (SEC-7)."""
        entry = check_entry(skill.entry, limits=self.limits)
        uri = skill_file(entry, path)
        data, _ = await self.fetch_bytes(entry, skill.origin, uri, refresh=True)
        return self._previewed(entry, uri, data, skill.origin)

    async def at_hand(self, skill: HostSkill) -> bytes | None:
        """The `SKILL.md` of a skill, without a request to a server: from its file or the cache (SEC-8)."""
        if skill.origin.is_local:
            return (await self.source_of(skill.origin).read(skill.uri)).data
        files = () if skill.entry.resources is DYNAMIC else skill.entry.resources
        digest = next((file.digest for file in files if file.uri == skill.uri), None)
        return None if digest is None else await self.cache.fetch(skill.origin, skill.uri, digest)

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

    def _start_preview(self, skill: HostSkill) -> _Preview:
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

    async def fetch_files(self, skill: HostSkill) -> SkillFiles:
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

    async def listed(
        self, skill: HostSkill, entry: CheckedEntry, *, retrieved: int
    ) -> tuple[VerifiedFile, ...]:
        """The supporting files that are listed for a dynamic skill, as far as they can be read.

        None if they are too many. Reading ends where the skill gets too large, or takes too long.
        """
        uris = self.listed_files(skill.origin, entry.uri)
        files: list[VerifiedFile] = []
        if len(uris) >= self.limits.files_per_skill:  # SKILL.md counts too.
            return ()
        with anyio.move_on_after(self.limits.review_seconds):
            for uri in uris:
                try:
                    data, _ = await self.fetch_bytes(entry, skill.origin, uri)
                    files.append(
                        verify_file(entry, uri, data, skill.origin, retrieved=retrieved, limits=self.limits)
                    )
                except LimitExceeded:
                    break
                except SkillwireError:
                    continue  # Whoever reads it is told why.
                retrieved += len(data)
        return tuple(files)

    async def fetch(self, skill: HostSkill, uri: SkillUri) -> VerifiedFile:
        """A file of a skill for another program: verified and cached, but neither approved nor held."""
        entry = check_entry(skill.entry, limits=self.limits)
        file, is_cached = await self._verified(entry, skill.origin, skill_file(entry, uri))
        if file.bound and not is_cached and not skill.origin.is_local:
            await self.cache.store(file)
        return file

    def all_files(self, skill: HostSkill) -> Fetch:
        """A call that fetches every file that an entry lists, verified and cached."""

        async def fetch() -> list[VerifiedFile]:
            resources = () if skill.entry.resources is DYNAMIC else skill.entry.resources
            return [await self.fetch(skill, resource.uri) for resource in resources]

        return fetch

    async def keep(self, skill: HostSkill, entry: CheckedEntry) -> None:
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


_STALE: Final = (VerificationError, FormatError)
# A listed file that is not there is a sign of a stale entry too.
_STALE_FILE: Final = (*_STALE, SkillNotFound)


@dataclass(slots=True)
class _Held:
    """A skill in use. The handle is the one it was loaded under, so that it can always be released."""

    handle: str
    skill: HeldSkill
    verified: VerifiedSkill
    seen: ResourceSet
    retrieved: int
    is_kept: bool
    once: Approval | None
    """The approval of what was shown for this load alone: files that are read later may be among that."""


@dataclass(kw_only=True, eq=False)
class Loader:
    """Loads skills, holds what is loaded, and reads the files of what is held."""

    registry: SkillTable
    source_of: Callable[[Origin], Source]
    take_fresh: Callable[[Origin, SkillEntry], None]
    approver: Approver
    fetcher: Fetcher
    on_held: Callable[[Origin], None]
    on_use: Callable[[SkillUse], None]
    limits: Limits
    _held: dict[SkillKey, _Held] = field(default_factory=dict[SkillKey, _Held], init=False)
    _turns: dict[SkillKey, anyio.Lock] = field(default_factory=dict[SkillKey, anyio.Lock], init=False)

    @property
    def held(self) -> tuple[HeldSkill, ...]:
        return tuple(held.skill for held in self._held.values())

    def held_text(self, key: SkillKey) -> VerifiedSkill | None:
        held = self._held.get(key)
        return held.verified if held else None

    def held_as(self, name: str) -> SkillKey | None:
        """The held skill of this handle or URI, even if it is no longer listed."""
        keys = [key for key, held in self._held.items() if name in (held.handle, key.uri)]
        return keys[0] if len(keys) == 1 else None

    def active(self) -> tuple[tuple[str, HeldSkill], ...]:
        """Return the held skills with the handle that each was loaded under, most recently loaded first."""
        return tuple((held.handle, held.skill) for held in reversed(self._held.values()))

    async def replayable(self, key: SkillKey) -> VerifiedSkill | str:
        """A held skill to repeat, or why it must not be: it changed, or its approval was revoked."""
        held = self._require_held(key)
        skill = self.registry.get(key)
        if skill is None:
            return "is no longer served"
        if not skill.enabled:
            return "is disabled"
        if resource_set(skill.entry) != resource_set(held.skill.entry) or skill.entry != held.skill.entry:
            return "has changed since it was loaded"
        if held.is_kept:
            try:
                seen = held.seen if held.skill.entry.is_dynamic else frozenset[tuple[SkillUri, Digest]]()
                await self.approver.confirm(await self.approver.open(skill, held.skill.entry), seen=seen)
            except SkillwireError:
                return "is no longer approved"
        return held.verified

    def grants(self, key: SkillKey) -> Grants:
        """Return the user's grants to a held skill."""
        return self._require_held(key).skill.grants

    def release(self, key: SkillKey) -> bool:
        """The skill's text has left the context; false when it was not held."""
        if self._held.pop(key, None) is None:
            return False
        self.on_held(key.origin)
        return True

    def release_server(self, origin: Origin) -> None:
        """Release every skill of a server."""
        for key in [key for key in self._held if key.origin == origin]:
            self.release(key)

    async def load(self, skill: HostSkill) -> VerifiedSkill:
        """Take a skill through all steps, with one refresh at most."""
        # One load of a skill at a time, so that the user is asked once.
        async with self._turns.setdefault(skill.key, anyio.Lock()):
            with self._observed(LOAD_TOOL, SkillUse("loaded", skill, SKILL_FILE)):
                return await self._load(skill)

    async def _load(self, skill: HostSkill) -> VerifiedSkill:
        try:
            return await self._attempt(skill)
        except _STALE as error:
            return await self._attempt(await self.refreshed(skill, error))

    async def require_permitted(self, skill: HostSkill) -> None:
        """Raise `PolicyRefused` if the policy does not let a held skill be used any more. It is scanned, and
        its signature checked, where the policy asks for that now."""
        await self.approver.require_permitted(skill)
        case = await self.approver.open(skill, check_entry(skill.entry, limits=self.limits))
        await self.approver.check_publishers(case, self.fetcher.preview)
        await self.approver.check_scans(case, self.fetcher.all_files(skill))

    async def read(self, key: SkillKey, path: str) -> VerifiedFile:
        """A file of a held skill, with one refresh at most."""
        held = self._require_held(key)
        skill = self.registry.get(key) or HostSkill(key.origin, held.skill.entry, held.handle)
        with self._observed(READ_TOOL, SkillUse("read", skill, path)):
            uri = skill_file(held.skill.entry, path)
            # Read again with every file: a digest may have been revoked since the skill was loaded.
            await self.approver.require_permitted(HostSkill(key.origin, held.skill.entry, held.handle))
            try:
                return await self._read(key, held, uri)
            except _STALE_FILE as error:
                fresh = await self.refreshed(self._registered(key), error)
                if resource_set(fresh.entry) != resource_set(held.skill.entry):
                    # VER-6: the server has something else now, and the text in the context is the old one.
                    self.release(key)
                    raise self._changed(held.skill, fresh.entry) from error
                return await self._read(key, held, uri)

    async def list_directory(self, key: SkillKey, path: str) -> DirectoryView:
        """A directory of a held skill: from its entry, or for a dynamic one from its server (VER-4)."""
        held = self._require_held(key)
        entry = held.skill.entry
        directory = skill_directory(entry, path)
        if not entry.is_dynamic:
            return listed_children(entry, directory)
        return filter_directory(entry, directory, await self.source_of(key.origin).read_directory(directory))

    @contextmanager
    def _observed(self, tool: str, use: SkillUse) -> Generator[None]:
        """Telemetry of one call, as a span of the conventions for generative AI."""
        skill = use.skill
        with operation(
            "load" if tool == LOAD_TOOL else "read",
            f"{tool} {skill.handle}",
            lambda: {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, **skill_facts(skill)},
        ):
            try:
                yield
            except SkillwireError:
                self.on_use(replace(use, kind="refused"))
                raise
            self.on_use(use)

    async def _attempt(self, skill: HostSkill) -> VerifiedSkill:
        # Step 1. ENT-2, ENT-6: decided from the entry alone.
        entry = check_entry(skill.entry, limits=self.limits)
        # Step 2.
        case = await self.approver.open(skill, entry)
        await self.approver.check_publishers(case, self.fetcher.preview)
        fetch = self.fetcher.all_files(skill)
        await self.approver.check_scans(case, fetch)
        # Step 3. SEC-5, SEC-6: approved as it is now, before a byte is loaded.
        if entry.resources is not DYNAMIC:
            await self.approver.obtain(case, self.fetcher.preview, fetch=fetch)
        # Steps 4 and 5. SEC-8, VER-1, VER-2.
        data, is_cached = await self.fetcher.fetch_bytes(entry, skill.origin, entry.uri)
        verified = verify_skill_md(entry, data, skill.origin, limits=self.limits)
        self.fetcher.accept(verified)
        seen = seen_set([verified.file])
        listed: list[VerifiedFile] = []
        # Step 6. SEC-6: nobody could agree to its bytes before they were there.
        if entry.resources is DYNAMIC:

            async def others() -> list[VerifiedFile]:
                listed.extend(await self.fetcher.listed(skill, entry, retrieved=len(data)))
                return listed

            await self.approver.obtain(
                case, self.fetcher.preview, fetch=fetch, files=[verified.file], others=others
            )
        # Step 7. VER-3: held until it is released, unless the approval was revoked meanwhile.
        shown = seen if entry.is_dynamic else frozenset[tuple[SkillUri, Digest]]()
        once = case.once
        grants, is_kept = await self.approver.confirm(case, seen=shown)
        held = HeldSkill(skill.origin, entry, grants)
        self._held.pop(skill.key, None)  # What was loaded last comes last.
        self._held[skill.key] = _Held(skill.handle, held, verified, seen, len(data), is_kept, once)
        self.on_held(skill.origin)
        # Step 8. SEC-8. With an approval for one load, the bytes of the kept one stay to compare with.
        for file in [*([] if is_cached else [verified.file]), *listed] if is_kept else ():
            await self.fetcher.store(file)
        return verified

    async def _read(self, key: SkillKey, held: _Held, uri: SkillUri) -> VerifiedFile:
        entry, origin = held.skill.entry, held.skill.origin
        # Steps 4 and 5. SEC-8, VER-1.
        data, is_cached = await self.fetcher.fetch_bytes(entry, origin, uri)
        file = verify_file(entry, uri, data, origin, retrieved=held.retrieved, limits=self.limits)
        if entry.is_dynamic:
            held.retrieved += len(data)
            # Step 6. SEC-6: a question is about this file alone. What was agreed to for this load counts.
            skill = self._registered(key)
            case = await self.approver.open(skill, entry)
            case.once = held.once
            fetch = self.fetcher.all_files(skill)
            await self.approver.obtain(case, self.fetcher.preview, fetch=fetch, files=[file])
            held.once = case.once
            held.seen = held.seen | seen_set([file])
        if self._held.get(key) is not held:
            raise SkillNotFound(f"{key.uri} was released while it was read: load it first", uri=key.uri)
        if held.is_kept and not is_cached:
            await self.fetcher.store(file)
        return file

    async def refreshed(self, skill: HostSkill, error: SkillwireError) -> HostSkill:
        """The skill with a fresh entry (VER-6), or the original error if there is none."""
        try:
            entry = await self.source_of(skill.origin).get_entry(skill.uri)
        except SkillwireError:
            raise error from None
        self.take_fresh(skill.origin, entry)
        fresh = replace(skill, entry=entry)
        self.approver.end_outdated(fresh)
        return fresh

    def _changed(self, held: HeldSkill, entry: SkillEntry) -> ApprovalRequired:
        ask = Ask(Reason.CHANGED, difference(resource_set(held.entry), resource_set(entry)))
        try:
            require(ask, held.entry.uri, held.origin)
        except ApprovalRequired as required:
            return required
        raise AssertionError("a question is never a yes")

    def _require_held(self, key: SkillKey) -> _Held:
        held = self._held.get(key)
        if held is None:
            raise SkillNotFound(f"{key.uri} is not loaded: load it first", uri=key.uri)
        return held

    def _registered(self, key: SkillKey) -> HostSkill:
        skill = self.registry.get(key)
        if skill is None:
            raise SkillNotFound(f"{key.uri} is no longer served by {key.origin}", uri=key.uri)
        return skill
