"""Loader: from a registered skill to text that a model may see.

Loading takes these steps, and each file read later takes the same ones from the third on.

1. The entry is sound and within the limits; otherwise nothing is fetched (ENT-2, ENT-6).
2. The publishers signed it whom its origin must have; and it is approved as its entry is now, or the user is
   asked (SEC-5, SEC-6).
3. The entry is held: from here on only its files are read (VER-3).
4. The bytes come from the cache, where their digest is computed again, or from the server (SEC-8, VER-5).
5. The bytes are verified against the held entry (VER-1, VER-2).
6. A failed check may be a stale entry: it is refreshed once and tried once more, then refused. Another
   set of files takes the approval back, so step 2 asks again (VER-6).
7. What was verified is cached and rendered in its fence (SEC-1).

A dynamic skill promises no digests, so step 2 comes after step 5 for it: the user agrees to what was seen.
Skills of earlier drafts are files: their approved bytes are used again until their server tells of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.catalog.render import LOAD_TOOL, READ_TOOL
from skillwire.errors import ApprovalRequired, FormatError, SkillNotFound, SkillwireError, VerificationError
from skillwire.host.approvals.approver import Approver, skill_facts
from skillwire.host.fetcher import Fetcher
from skillwire.limits import Limits
from skillwire.skill.digests import Digest
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.sources.base import Source
from skillwire.telemetry import operation
from skillwire.trust.admission import Ask, require
from skillwire.trust.approval import Grants, Reason, ResourceSet, difference, resource_set, seen_set
from skillwire.trust.directory import DirectoryView, filter_directory, listed_children
from skillwire.trust.guards import HeldSkill
from skillwire.trust.origin import Origin
from skillwire.trust.paths import skill_directory, skill_file
from skillwire.trust.verify import VerifiedFile, VerifiedSkill, check_entry, verify_file, verify_skill_md

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


@dataclass(kw_only=True, eq=False)
class Loader:
    """Loads skills, holds what is loaded, and reads the files of what is held."""

    registry: Registry
    source_of: Callable[[Origin], Source]
    take_fresh: Callable[[Origin, SkillEntry], None]
    approver: Approver
    fetcher: Fetcher
    on_held: Callable[[Origin], None]
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
        """What is held, with the handle that each was loaded under, most recently loaded first."""
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
                await self.approver.confirm(skill, held.skill.entry, seen=seen)
            except SkillwireError:
                return "is no longer approved"
        return held.verified

    def grants(self, key: SkillKey) -> Grants:
        """What the user granted to a held skill."""
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

    async def load(self, skill: RegisteredSkill) -> VerifiedSkill:
        """Take a skill through all steps, with one refresh at most."""
        # One load of a skill at a time, so that the user is asked once.
        async with self._turns.setdefault(skill.key, anyio.Lock()):
            with self._observed("load", LOAD_TOOL, skill):
                return await self._load(skill)

    async def _load(self, skill: RegisteredSkill) -> VerifiedSkill:
        try:
            return await self._attempt(skill)
        except _STALE as error:
            return await self._attempt(await self.refreshed(skill, error))

    async def read(self, key: SkillKey, path: str) -> VerifiedFile:
        """A file of a held skill, with one refresh at most."""
        held = self._require_held(key)
        skill = self.registry.get(key) or RegisteredSkill(key.origin, held.skill.entry, held.handle)
        with self._observed("read", READ_TOOL, skill):
            uri = skill_file(held.skill.entry, path)
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
    def _observed(self, kind: str, tool: str, skill: RegisteredSkill) -> Generator[None]:
        """Telemetry of one call, as a span of the conventions for generative AI."""
        with operation(
            kind,
            f"{tool} {skill.handle}",
            lambda: {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, **skill_facts(skill)},
        ):
            yield

    async def _attempt(self, skill: RegisteredSkill) -> VerifiedSkill:
        # Step 1. ENT-2, ENT-6: decided from the entry alone.
        entry = check_entry(skill.entry, limits=self.limits)
        # Step 2, first part: at most the signature file is fetched for it.
        await self.approver.check_publishers(skill, self.fetcher.preview)
        # Step 2. SEC-5, SEC-6: approved as it is now, before a byte is fetched.
        if entry.resources is not DYNAMIC:
            await self.approver.obtain(skill, entry, self.fetcher.preview)
        # Steps 4 and 5. SEC-8, VER-1, VER-2.
        data, is_cached = await self.fetcher.fetch_bytes(entry, skill.origin, entry.uri)
        verified = verify_skill_md(entry, data, skill.origin, limits=self.limits)
        self.fetcher.accept(verified)
        seen = seen_set([verified.file])
        if entry.resources is DYNAMIC:
            in_hand = {entry.uri: verified.file}
            await self.approver.obtain(skill, entry, self.fetcher.preview, seen=seen, in_hand=in_hand)
        # Step 3. VER-3: held until it is released, unless the approval was revoked meanwhile.
        shown = seen if entry.is_dynamic else frozenset[tuple[SkillUri, Digest]]()
        grants, is_kept = await self.approver.confirm(skill, entry, seen=shown)
        held = HeldSkill(skill.origin, entry, grants)
        self._held.pop(skill.key, None)  # What was loaded last comes last.
        self._held[skill.key] = _Held(skill.handle, held, verified, seen, len(data), is_kept)
        self.on_held(skill.origin)
        # Step 7. SEC-8. With an approval for one load, the bytes of the kept one stay to compare with.
        if is_kept and not is_cached:
            await self.fetcher.store(verified.file)
        return verified

    async def _read(self, key: SkillKey, held: _Held, uri: SkillUri) -> VerifiedFile:
        entry, origin = held.skill.entry, held.skill.origin
        data, is_cached = await self.fetcher.fetch_bytes(entry, origin, uri)
        file = verify_file(entry, uri, data, origin, retrieved=held.retrieved, limits=self.limits)
        if entry.is_dynamic:
            held.retrieved += len(data)
            seen = held.seen | seen_set([file])
            await self.approver.obtain(
                self._registered(key), entry, self.fetcher.preview, seen=seen, in_hand={uri: file}
            )
            held.seen = held.seen | seen
        if self._held.get(key) is not held:
            raise SkillNotFound(f"{key.uri} was released while it was read: load it first", uri=key.uri)
        if held.is_kept and not is_cached:
            await self.fetcher.store(file)
        return file

    async def refreshed(self, skill: RegisteredSkill, error: SkillwireError) -> RegisteredSkill:
        """The skill with a fresh entry (step 6), or the original error if there is none."""
        try:
            entry = await self.source_of(skill.origin).get_entry(skill.uri)
        except SkillwireError:
            raise error from None
        self.take_fresh(skill.origin, entry)
        fresh = replace(skill, entry=entry)
        self.approver.forget_changed(fresh)
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

    def _registered(self, key: SkillKey) -> RegisteredSkill:
        skill = self.registry.get(key)
        if skill is None:
            raise SkillNotFound(f"{key.uri} is no longer served by {key.origin}", uri=key.uri)
        return skill
