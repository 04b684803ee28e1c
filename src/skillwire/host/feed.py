"""SkillFeed: the skills of a host for a program that passes them on, such as a gateway.

It provides entries, changes and verified files. It does not ask, approve or hold: the program that passes a
skill on decides who gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import SkillwireError
from skillwire.host.approvals.approver import Approver
from skillwire.host.fetcher import Fetcher
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Loader
from skillwire.host.registration import Registration
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri
from skillwire.sources.base import DirectoryChild
from skillwire.trust.admission import Candidate
from skillwire.trust.approval import Policy, is_nested
from skillwire.trust.origin import Origin
from skillwire.trust.verify import VerifiedFile


@dataclass(frozen=True, kw_only=True, eq=False)
class SkillFeed:
    """The skills of a host, independent of any agent: `host.feed`."""

    _registry: Registry
    _inventory: Inventory
    _registration: Registration
    _loader: Loader
    _fetcher: Fetcher
    _approver: Approver

    def skills(self) -> tuple[RegisteredSkill, ...]:
        """Every skill that is known and enabled. The same tuple while nothing changes."""
        return self._registry.skills()

    def origins(self) -> tuple[Origin, ...]:
        """Every server and directory, whether it works now or not."""
        return self._inventory.places.origins()

    def watch(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a skill was added, changed or removed."""
        self._registry.watch(lambda changes: callback())

    def watch_opening(self, callback: Callable[[Origin, Sequence[SkillEntry]], None]) -> None:
        """Call `callback` with the entries of each origin as they arrive, before the host is open.

        Use it to prepare them while slower origins are still listed; `skills` does not have them yet.
        """
        self._registration.on_collected = callback

    def candidate(self, skill: RegisteredSkill) -> Candidate:
        """What the admission of a skill depends on, without its approval."""
        signatures = self._approver.signatures
        return replace(
            self._registration.candidate(skill.origin, skill.entry, disabled=not skill.enabled),
            nested=is_nested(skill.uri, self._registry.uris(skill.origin)),
            require=signatures.required(skill.origin),
            signature=signatures.known(skill),
        )

    def policy(self, origin: Origin) -> Policy:
        """What the configuration says about all skills of an origin."""
        return self._registration.policy(origin)

    async def find(self, uri: SkillUri, origin: Origin) -> RegisteredSkill:
        """A skill of an origin, also one that it does not list (LST-3); `SkillNotFound` otherwise."""
        return await self._inventory.look_up(uri, origin)

    async def fetch(self, skill: RegisteredSkill, uri: SkillUri) -> VerifiedFile:
        """A file of a skill, from the cache or from its server, verified and cached (VER-1, VER-2, SEC-8)."""
        return await self._fetcher.fetch(skill, uri)

    async def check_publishers(self, skill: RegisteredSkill) -> None:
        """Check who signed a skill, if that matters; refuse it if a required publisher did not."""
        signatures = self._approver.signatures
        if signatures.required(skill.origin) or signatures.publishers:
            await self._approver.check_publishers(skill, self._fetcher.preview)

    async def refreshed(self, skill: RegisteredSkill, error: SkillwireError) -> RegisteredSkill:
        """The skill with a new entry, after a check failed (VER-6); raises `error` if there is none."""
        return await self._loader.refreshed(skill, error)

    async def read_directory(self, skill: RegisteredSkill, uri: SkillUri) -> Sequence[DirectoryChild]:
        """What the server of a skill lists in a directory, not verified."""
        return await self._inventory.places.source(skill.origin).read_directory(uri)

    def follow(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Subscribe to changes of these skills of a server, by the URIs of their `SKILL.md`."""
        self._inventory.follow(origin, uris)

    def remaining_seconds(self, origin: Origin) -> float | None:
        """How long the listing of a server may still be cached; `None` for a directory, which is watched."""
        return self._inventory.places.remaining_seconds(origin)

    def is_unavailable(self, origin: Origin) -> bool:
        """Whether an origin is a server that cannot be reached now."""
        return self._inventory.places.is_unavailable(origin)
