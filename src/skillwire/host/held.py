"""HeldSkills: the skills that are loaded, each with the entry that it was loaded with (VER-3)."""

from __future__ import annotations

from dataclasses import dataclass

from skillwire.catalog import SkillKey
from skillwire.errors import SkillNotFound
from skillwire.host.following import Following
from skillwire.trust import Approval, HeldSkill, Origin, ResourceSet, VerifiedSkill


@dataclass(slots=True, eq=False)
class Held:
    """A skill in use. The handle is the one it was loaded under, so that it can always be released."""

    handle: str
    skill: HeldSkill
    verified: VerifiedSkill
    seen: ResourceSet
    retrieved: int
    """How many bytes of it were retrieved."""
    is_kept: bool
    """Whether its approval is stored."""
    once: Approval | None
    """The approval of what was shown for this load alone: files that are read later may be among that."""

    @property
    def key(self) -> SkillKey:
        return SkillKey(self.skill.origin, self.skill.entry.uri)


class HeldSkills:
    """What is loaded, until it is released. Changes of it are followed at its server."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._held: dict[SkillKey, Held] = {}

    def every(self) -> tuple[Held, ...]:
        """The held skills, the one that was loaded last at the end."""
        return tuple(self._held.values())

    def skills(self) -> tuple[HeldSkill, ...]:
        """The same with no more than what guards need."""
        return tuple(held.skill for held in self._held.values())

    def get(self, key: SkillKey) -> Held | None:
        return self._held.get(key)

    def require(self, key: SkillKey) -> Held:
        """The held skill, or a `SkillNotFound` that says to load it."""
        held = self._held.get(key)
        if held is None:
            raise SkillNotFound(f"{key.uri} is not loaded: load it first", uri=key.uri)
        return held

    def named(self, name: str) -> SkillKey | None:
        """The held skill of this handle or URI, even if it is no longer listed."""
        keys = [key for key, held in self._held.items() if name in (held.handle, key.uri)]
        return keys[0] if len(keys) == 1 else None

    def hold(self, held: Held) -> None:
        """Hold a skill from now on, in place of an earlier version of it."""
        self._held.pop(held.key, None)  # What was loaded last comes last.
        self._held[held.key] = held
        self._follow(held.skill.origin)

    def release(self, key: SkillKey) -> bool:
        """The skill's text has left the context; false when it was not held."""
        if self._held.pop(key, None) is None:
            return False
        self._follow(key.origin)
        return True

    def release_server(self, origin: Origin) -> None:
        """Release every skill of a server."""
        for key in [key for key in self._held if key.origin == origin]:
            self.release(key)

    def _follow(self, origin: Origin) -> None:
        uris = [key.uri for key in self._held if key.origin == origin]
        self._following.hold(origin, uris)
