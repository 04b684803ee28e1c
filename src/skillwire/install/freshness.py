"""Freshness: whether what is pinned is what its source has now. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.install.lock import LockedSkill


class Freshness(StrEnum):
    """Whether a pinned skill is what its source has now."""

    CURRENT = "current"
    """The source has exactly the pinned files."""
    OUTDATED = "outdated"
    """The source has other files under the name; `Check.detail` is their digest."""
    GONE = "gone"
    """The source answers, and no longer has the skill. What is installed stays until the user removes it,
    because the pinned bytes are kept."""
    UNKNOWN = "unknown"
    """The source cannot be reached, or what it says cannot be used; `Check.detail` says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """What a source says about one pinned skill."""

    skill: LockedSkill
    freshness: Freshness
    detail: str = ""
    """The digest at the source when the skill is outdated, the reason when it is gone or unknown."""

    @classmethod
    def compared(cls, skill: LockedSkill, same: bool, digest: str) -> Check:
        """The source has the pinned files, or others with this digest."""
        return cls(skill, Freshness.CURRENT) if same else cls(skill, Freshness.OUTDATED, digest)

    @classmethod
    def failed(cls, skill: LockedSkill, error: SkillwireError) -> Check:
        """The source does not have the skill, or could not be asked."""
        gone = isinstance(error, SkillNotFound)
        return cls(skill, Freshness.GONE if gone else Freshness.UNKNOWN, str(error))
