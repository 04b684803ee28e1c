"""Loader: from a registered skill to text that a model may see.

Loading takes these steps, and each file read later takes the same ones from the third on.

1. The entry is sound and within the limits; otherwise nothing is fetched (ENT-2, ENT-6).
2. The skill is approved as its entry is now, or the user is asked (SEC-5, SEC-6).
3. The entry is held: from here on only its files are read (VER-3).
4. The bytes come from the cache, where their digest is computed anew, or from the server (SEC-8, VER-5).
5. The bytes are verified against the held entry (VER-1, VER-2).
6. A failed check may be a stale entry: it is refreshed once and tried once more, then refused. Another
   set of files takes the approval back, so step 2 asks again (VER-6).
7. What was verified is cached and rendered in its fence (SEC-1).

A dynamic skill promises no digests, so step 2 comes after step 5 for it: the user agrees to what was seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import ApprovalRequired, FormatError, SkillNotFound, SkillwireError, VerificationError
from skillwire.host.approvals import ApprovalStore
from skillwire.host.cache import SkillCache
from skillwire.host.events import Event, EventKind
from skillwire.host.standing import Standing, since_approval, standing_of
from skillwire.limits import Limits
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SKILL_FILE, SkillUri
from skillwire.sources.directory import DirectorySource
from skillwire.sources.mcp import McpSource
from skillwire.trust.acting import HeldSkill, requested_tools
from skillwire.trust.approval import (
    NO_GRANTS,
    Approval,
    Ask,
    FileChange,
    Grants,
    Policy,
    Reason,
    ResourceSet,
    approve,
    decide,
    difference,
    is_nested,
    require,
    resource_set,
    seen_set,
)
from skillwire.trust.directory import DirectoryView, filter_directory, listed_children
from skillwire.trust.origin import Origin
from skillwire.trust.paths import skill_directory, skill_file
from skillwire.trust.verify import (
    CheckedEntry,
    VerifiedFile,
    VerifiedSkill,
    check_entry,
    verify_file,
    verify_skill_md,
)

SkillSource: TypeAlias = DirectorySource | McpSource
_STALE: Final = (VerificationError, FormatError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to the user: may this skill be loaded, as it is now?"""

    skill: RegisteredSkill
    reason: Reason
    changes: tuple[FileChange, ...]
    nested: bool
    requested_tools: tuple[str, ...]
    preview: Callable[[str], Awaitable[VerifiedFile]] = field(repr=False)
    """Reads a file of the skill for the user's eyes. It is no load (SEC-7)."""


ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Awaitable[Grants | bool]]
"""Asks the user. `True` loads the skill with no grants, `Grants` with those, `False` does not load it."""


@dataclass(slots=True)
class _Held:
    skill: HeldSkill
    verified: VerifiedSkill
    seen: ResourceSet
    retrieved: int


class Loader:
    """Loads skills, holds what is loaded, and reads the files of what is held."""

    def __init__(
        self,
        *,
        registry: Registry,
        source_of: Callable[[Origin], SkillSource],
        policy_of: Callable[[Origin], Policy],
        approvals: ApprovalStore,
        cache: SkillCache,
        ask: ApprovalCallback | None,
        tell: Callable[[Event], None],
        limits: Limits,
    ) -> None:
        self._registry = registry
        self._source_of = source_of
        self._policy_of = policy_of
        self._approvals = approvals
        self._cache = cache
        self._ask = ask
        self._tell = tell
        self._limits = limits
        self._held: dict[SkillKey, _Held] = {}
        self._seen_approvals: dict[SkillKey, Approval] = {}

    @property
    def held(self) -> tuple[HeldSkill, ...]:
        return tuple(held.skill for held in self._held.values())

    def held_text(self, key: SkillKey) -> VerifiedSkill | None:
        held = self._held.get(key)
        return held.verified if held else None

    def grants(self, key: SkillKey) -> Grants:
        """What the user granted to a held skill."""
        return self._require_held(key).skill.grants

    def release(self, key: SkillKey) -> bool:
        """The skill's text has left the context; false when it was not held."""
        return self._held.pop(key, None) is not None

    async def load(self, skill: RegisteredSkill) -> VerifiedSkill:
        """Take a skill through all steps, with one refresh at most."""
        try:
            return await self._attempt(skill)
        except _STALE as error:
            fresh = await self._refresh(skill, error)
            return await self._attempt(fresh)

    async def read(self, key: SkillKey, path: str) -> VerifiedFile:
        """A file of a held skill, with one refresh at most."""
        held = self._require_held(key)
        uri = skill_file(held.skill.entry, path)
        try:
            return await self._read(key, held, uri)
        except _STALE as error:
            skill = self._registered(key)
            fresh = await self._refresh(skill, error)
            if resource_set(fresh.entry) != resource_set(held.skill.entry) or fresh.entry.is_dynamic:
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
        return filter_directory(entry, directory, await self._source_of(key.origin).read_directory(directory))

    async def preview(self, skill: RegisteredSkill, path: str = SKILL_FILE) -> VerifiedFile:
        """A file for the user's eyes: verified, but neither loaded, held, cached nor approved (SEC-7)."""
        entry = check_entry(skill.entry, limits=self._limits)
        uri = skill_file(entry, path)
        data = await self._fetch(entry, skill.origin, uri, keep=True)
        if uri == entry.uri:
            return verify_skill_md(entry, data, skill.origin, limits=self._limits).file
        return verify_file(entry, uri, data, skill.origin, limits=self._limits)

    def approve(self, skill: RegisteredSkill, grants: Grants = NO_GRANTS) -> Approval:
        """Record the user's yes to a skill as its entry is now."""
        entry = check_entry(skill.entry, limits=self._limits)
        if entry.is_dynamic:
            raise ApprovalRequired(
                f"{skill.handle} is made on request: it can only be approved when it is loaded and seen",
                reason=Reason.UNBINDABLE,
                origin=skill.origin.label,
                uri=entry.uri,
            )
        approval = approve(entry, skill.origin, grants=grants)
        self._approvals.put(approval, entry)
        return approval

    def revoke(self, key: SkillKey) -> bool:
        """Take the user's yes back, and let go of the skill; false when there was none."""
        self.release(key)
        seen = self._seen_approvals.pop(key, None) is not None
        return self._approvals.remove(key.origin, key.uri) or seen

    def forget_changed(self, skill: RegisteredSkill) -> None:
        """Take back an approval that no longer fits the entry (SEC-6)."""
        stored = None if skill.origin.is_local else self._approvals.get(skill.origin, skill.uri)
        if stored is None or stored.resources == resource_set(skill.entry):
            return
        self._approvals.withdraw(skill.origin, skill.uri)
        changes = difference(stored.resources, resource_set(skill.entry))
        self._tell(
            Event(
                kind=EventKind.REVOKED,
                message=f"{skill.handle} changed ({len(changes)} files): its approval is taken back",
                origin=skill.origin.label,
                handle=skill.handle,
                uri=skill.uri,
            )
        )

    def standing(self, skill: RegisteredSkill) -> Standing:
        """How a skill stands with the user now. Changes nothing and asks nobody."""
        origin = skill.origin
        stored = None
        if not origin.is_local:
            stored = self._seen_approvals.get(skill.key) or self._approvals.get(origin, skill.uri)
        return standing_of(
            skill,
            self._policy_of(origin),
            stored,
            self._withdrawn(skill),
            nested=is_nested(skill.uri, self._registry.uris(origin)),
            limits=self._limits,
        )

    def _withdrawn(self, skill: RegisteredSkill) -> Approval | None:
        return None if skill.origin.is_local else self._approvals.withdrawn(skill.origin, skill.uri)

    async def _attempt(self, skill: RegisteredSkill) -> VerifiedSkill:
        # Step 1. ENT-2, ENT-6: decided from the entry alone.
        entry = check_entry(skill.entry, limits=self._limits)
        grants = NO_GRANTS
        # Step 2. SEC-5, SEC-6: approved as it is now, before a byte is fetched.
        if entry.resources is not DYNAMIC:
            grants = await self._approved(skill, entry)
        # Steps 4 and 5. SEC-8, VER-1, VER-2.
        data = await self._fetch(entry, skill.origin, entry.uri)
        verified = verify_skill_md(entry, data, skill.origin, limits=self._limits)
        seen = seen_set([verified.file])
        if entry.resources is DYNAMIC:
            grants = await self._approved(skill, entry, seen=seen)
        # Step 3. VER-3: held until it is released.
        held = HeldSkill(skill.origin, entry, grants)
        self._held[skill.key] = _Held(held, verified, seen, len(data))
        # Step 7. SEC-8.
        self._cache.put(verified.file)
        return verified

    async def _read(self, key: SkillKey, held: _Held, uri: SkillUri) -> VerifiedFile:
        entry, origin = held.skill.entry, held.skill.origin
        data = await self._fetch(entry, origin, uri)
        file = verify_file(entry, uri, data, origin, retrieved=held.retrieved, limits=self._limits)
        if entry.is_dynamic:
            held.retrieved += len(data)
            seen = held.seen | seen_set([file])
            await self._approved(self._registered(key), entry, seen=seen)
            held.seen = seen
        self._cache.put(file)
        return file

    async def _fetch(
        self, entry: CheckedEntry, origin: Origin, uri: SkillUri, *, keep: bool = False
    ) -> bytes:
        if not origin.is_local and entry.resources is not DYNAMIC:
            digest = next(resource.digest for resource in entry.resources if resource.uri == uri)
            if (cached := self._cache.get(origin, uri, digest, keep=keep)) is not None:
                return cached
        return await self._source_of(origin).read(uri)

    async def _approved(
        self, skill: RegisteredSkill, entry: CheckedEntry, *, seen: ResourceSet = frozenset()
    ) -> Grants:
        """The grants of an approved skill; asks the user where somebody can be asked (step 2)."""
        origin = skill.origin
        self.forget_changed(skill)
        stored = None
        if not origin.is_local:
            stored = self._seen_approvals.get(skill.key) or self._approvals.get(origin, entry.uri)
        nested = is_nested(entry.uri, self._registry.uris(origin))
        decision = decide(entry, origin, self._policy_of(origin), stored, nested=nested, seen=seen)
        decision = since_approval(decision, entry, self._withdrawn(skill))
        if not isinstance(decision, Ask) or self._ask is None:
            return require(decision, entry, origin)
        answer = await self._ask(
            ApprovalRequest(
                skill=skill,
                reason=decision.reason,
                changes=decision.changes,
                nested=nested,
                requested_tools=requested_tools(entry.frontmatter.get("allowed-tools")),
                preview=lambda path: self.preview(skill, path),
            )
        )
        if answer is False:
            raise ApprovalRequired(
                f"{skill.handle} from {origin} was not approved: it is not loaded",
                reason=Reason.DENIED,
                origin=origin.label,
                uri=entry.uri,
            )
        grants = answer if isinstance(answer, Grants) else NO_GRANTS
        approval = approve(entry, origin, grants=grants, seen=seen)
        if approval.bound:
            self._approvals.put(approval, entry)
        else:
            self._seen_approvals[skill.key] = approval
        return grants

    async def _refresh(self, skill: RegisteredSkill, error: SkillwireError) -> RegisteredSkill:
        """The skill with a fresh entry (step 6), or the error again when there is none to be had."""
        try:
            entry = await self._source_of(skill.origin).get_entry(skill.uri)
        except SkillwireError:
            raise error from None
        self._registry.add(skill.origin, entry)
        fresh = replace(skill, entry=entry)
        self.forget_changed(fresh)
        return fresh

    def _changed(self, held: HeldSkill, entry: SkillEntry) -> ApprovalRequired:
        ask = Ask(Reason.CHANGED, difference(resource_set(held.entry), resource_set(entry)))
        try:
            require(ask, held.entry, held.origin)
        except ApprovalRequired as required:
            return required
        raise AssertionError("a question is never a yes")

    def _require_held(self, key: SkillKey) -> _Held:
        held = self._held.get(key)
        if held is None:
            raise SkillNotFound(f"{key.uri} is not loaded: load it first", uri=key.uri)
        return held

    def _registered(self, key: SkillKey) -> RegisteredSkill:
        skill = self._registry.get(key)
        if skill is None:
            raise SkillNotFound(f"{key.uri} is no longer served by {key.origin}", uri=key.uri)
        return skill
