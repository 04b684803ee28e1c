"""Loader: from a skill of the table to text that a model may see.

Loading takes these steps, in this order; each file read later takes steps 4 and 5, and 6 if it applies.

1. The entry is sound and within the limits; otherwise nothing is fetched (ENT-2, ENT-6).
2. Who signed it and what scanners find in it is learned, where that decides. At most the signature file is
   fetched; only scanners with a threshold get all files before anybody is asked.
3. It is decided, and the user is asked if they have to be, before a byte is loaded (SEC-5, SEC-6).
4. The bytes come from the cache, where their digest is computed again, or from the server (SEC-8, VER-5).
5. The bytes are verified against the entry (VER-1, VER-2).
6. A dynamic skill promises no digests, so what was seen is decided about: the files that its server lists are
   read too, and the user agrees to exactly these. Any other file is a question of its own, when it is read.
7. It is decided once more, as people and the policy have it now, and the entry is held: from here on only its
   files are read (VER-3).
8. What was verified is cached, and rendered in its fence (SEC-8, SEC-1).

If a step fails, the entry may be stale: it is refreshed once, and all steps are taken once more. Another set
of files takes the approval back, so step 3 asks again (VER-6).
Skills of earlier drafts are files: their approved bytes are used again until their server tells of a change.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from skillwire.catalog import LOAD_TOOL, READ_TOOL, HostSkill, SkillKey, SkillTable
from skillwire.errors import (
    FormatError,
    SkillNotFound,
    SkillwireError,
    VerificationError,
)
from skillwire.host.decide import Decider, changed_since, skill_facts
from skillwire.host.files import SkillReader
from skillwire.host.held import Held, HeldSkills
from skillwire.host.places import Places
from skillwire.host.storage import SkillUse, UsageRecorder
from skillwire.host.styles.base import RenderContext, Style
from skillwire.limits import Limits
from skillwire.skill import SKILL_FILE, SkillUri
from skillwire.telemetry import operation
from skillwire.trust import (
    Ask,
    DirectoryView,
    HeldSkill,
    VerifiedFile,
    VerifiedSkill,
    resource_set,
    seen_set,
    skill_file,
)
from skillwire.trust.verify import filter_directory, listed_children, skill_directory

_STALE: Final = (VerificationError, FormatError)
# A listed file that is not there is a sign of a stale entry too.
_STALE_FILE: Final = (*_STALE, SkillNotFound)


@dataclass(kw_only=True, eq=False)
class Loader:
    """Loads skills, and reads the files of what is held."""

    places: Places
    table: SkillTable
    files: SkillReader
    decide: Decider
    held: HeldSkills
    usage: UsageRecorder
    style: Style
    context: RenderContext
    limits: Limits
    _turns: dict[SkillKey, anyio.Lock] = field(default_factory=dict[SkillKey, anyio.Lock], init=False)

    async def load_text(self, skill: HostSkill) -> str:
        """The text of a skill for a model, taken through all steps."""
        return self.style.skill_text(await self.load(skill), skill.handle, self.context)

    async def load(self, skill: HostSkill) -> VerifiedSkill:
        """Take a skill through all steps, with one refresh at most."""
        # One load of a skill at a time, so that the user is asked once.
        async with self._turns.setdefault(skill.key, anyio.Lock()):
            with self._observed(LOAD_TOOL, SkillUse("loaded", skill, SKILL_FILE)):
                try:
                    return await self._load(skill)
                except _STALE as error:
                    return await self._load(await self.places.refreshed(skill, error))

    async def _load(self, skill: HostSkill) -> VerifiedSkill:
        # Step 1. ENT-2, ENT-6: decided from the entry alone.
        case = self.decide.open(skill)
        entry = case.entry
        # Step 2.
        await self.decide.examine(case)
        # Step 3. SEC-5, SEC-6: decided as it is now, before a byte is loaded.
        decision = await self.decide.decide(case)
        if isinstance(decision, Ask) and not entry.is_dynamic:
            await self.decide.ask(case, decision)
        # Steps 4 and 5. SEC-8, VER-1, VER-2.
        read = await self.files.read_verified(skill.origin, entry, entry.uri)
        verified = read.skill
        if verified is None:
            raise AssertionError("the URI of an entry is that of its SKILL.md")
        self.style.check(verified, self.limits)
        seen = seen_set([verified.file])
        listed: Sequence[VerifiedFile] = ()
        # Step 6. SEC-6: nobody could agree to its bytes before they were there.
        if entry.is_dynamic:
            decision = await self.decide.decide(case, seen=seen)
            if isinstance(decision, Ask):
                listed = await self.files.listed(skill, entry, retrieved=len(verified.file.data))
                await self.decide.ask(case, decision, files=[verified.file, *listed])
                decision = None
        else:
            decision = None
        # Step 7. VER-3: held until it is released, unless the approval was revoked in the meantime.
        if decision is None:
            decision = await self.decide.confirm(case, seen=seen)
        # Nothing is waited for between the decision and this: whoever revokes it from here on releases it.
        is_kept = case.once is None
        self.held.hold(
            Held(
                handle=skill.handle,
                skill=HeldSkill(skill.origin, entry, decision.grants),
                verified=verified,
                seen=seen,
                retrieved=len(verified.file.data),
                is_kept=is_kept,
                once=case.once,
            )
        )
        try:
            await self.decide.note_load(case, decision)
        except BaseException:
            self.held.release(skill.key)  # The caller does not get it.
            raise
        # Step 8. SEC-8. With an approval for one load, the bytes of the kept one stay to compare with.
        for file in [*([] if read.is_cached else [verified.file]), *listed] if is_kept else ():
            await self.files.store(file)
        return verified

    async def read(self, key: SkillKey, path: str) -> VerifiedFile:
        """A file of a held skill, with one refresh at most."""
        held = self.held.require(key)
        skill = self.table.get(key) or HostSkill(key.origin, held.skill.entry, held.handle)
        with self._observed(READ_TOOL, SkillUse("read", skill, path)):
            uri = skill_file(held.skill.entry, path)
            # Read again with every file: a digest may have been revoked since the skill was loaded.
            await self.decide.require_permitted(HostSkill(key.origin, held.skill.entry, held.handle))
            try:
                return await self._read(key, held, uri)
            except _STALE_FILE as error:
                fresh = await self.places.refreshed(self._registered(key), error)
                if resource_set(fresh.entry) != resource_set(held.skill.entry):
                    # VER-6: the server has something else now, and the text in the context is the old one.
                    self.held.release(key)
                    raise changed_since(held.skill, fresh.entry) from error
                return await self._read(key, held, uri)

    async def _read(self, key: SkillKey, held: Held, uri: SkillUri) -> VerifiedFile:
        entry, origin = held.skill.entry, held.skill.origin
        # Steps 4 and 5. SEC-8, VER-1.
        read = await self.files.read_verified(origin, entry, uri, retrieved=held.retrieved)
        if entry.is_dynamic:
            held.retrieved += len(read.file.data)
            # Step 6. SEC-6: a question is about this file alone. What was agreed to for this load counts.
            await self._agree(key, held, read.file)
        if self.held.get(key) is not held:
            raise SkillNotFound(f"{key.uri} was released while it was read: load it first", uri=key.uri)
        if held.is_kept and not read.is_cached:
            await self.files.store(read.file)
        return read.file

    async def _agree(self, key: SkillKey, held: Held, file: VerifiedFile) -> None:
        case = self.decide.open(self._registered(key), held.skill.entry)
        case.once, seen = held.once, seen_set([file])
        decision = await self.decide.decide(case, seen=seen)
        if isinstance(decision, Ask):
            await self.decide.ask(case, decision, files=[file])
            held.once = case.once
            await self.decide.note_load(case, await self.decide.confirm(case, seen=seen))
        held.seen = held.seen | seen

    async def list_directory(self, key: SkillKey, path: str) -> DirectoryView:
        """A directory of a held skill: from its entry, or for a dynamic one from its server (VER-4)."""
        entry = self.held.require(key).skill.entry
        directory = skill_directory(entry, path)
        if not entry.is_dynamic:
            return listed_children(entry, directory)
        children = await self.places.source(key.origin).read_directory(directory)
        return filter_directory(entry, directory, children)

    async def replayable(self, key: SkillKey) -> VerifiedSkill | str:
        """A held skill to repeat, or why it must not be: it changed, or its approval was revoked."""
        held = self.held.require(key)
        skill = self.table.get(key)
        if skill is None:
            return "is no longer served"
        if not skill.enabled:
            return "is disabled"
        if resource_set(skill.entry) != resource_set(held.skill.entry) or skill.entry != held.skill.entry:
            return "has changed since it was loaded"
        if held.is_kept:
            try:
                await self.decide.confirm(self.decide.open(skill, held.skill.entry), seen=held.seen)
            except SkillwireError:
                return "is no longer approved"
        return held.verified

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
                self.usage.use(replace(use, kind="refused"))
                raise
            self.usage.use(use)

    def _registered(self, key: SkillKey) -> HostSkill:
        skill = self.table.get(key)
        if skill is None:
            raise SkillNotFound(f"{key.uri} is no longer served by {key.origin}", uri=key.uri)
        return skill
