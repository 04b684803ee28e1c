"""SkillEntry: what a server says about one skill (ENT-1), as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

from skillwire.json_types import JsonValue
from skillwire.skill.dialects import Dialect, Draft
from skillwire.skill.digests import Digest
from skillwire.skill.uris import SkillUri


class Dynamic(Enum):
    """The type of `DYNAMIC`, its only value."""

    DYNAMIC = "dynamic"


DYNAMIC: Final = Dynamic.DYNAMIC
"""Replaces the list of files if the skill's content is generated on request (ENT-2)."""


NO_SIZE: Final = -1
"""Replaces the size if an older dialect only lists the digest."""


@dataclass(frozen=True, slots=True)
class SkillResource:
    """One file of a skill."""

    uri: SkillUri
    digest: Digest
    """The digest of its bytes as they are served: before any decoding, and with the line ends that they
    have."""
    size: int
    """Its length in bytes, or `NO_SIZE`."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill. `resources` has every file once, including `SKILL.md`, or is `DYNAMIC`. `draft` is set for
    an older dialect.
    """

    uri: SkillUri
    frontmatter: Mapping[str, JsonValue]
    resources: tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC]
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    draft: Draft | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect in which the server listed this skill."""
        return self.draft.dialect if self.draft else Dialect.FINAL

    @property
    def carried_fields(self) -> frozenset[str] | None:
        """The frontmatter fields that can be compared; `None` means all of them (VER-2)."""
        return self.draft.carried if self.draft else None

    @property
    def name(self) -> str:
        """The frontmatter's name."""
        name = self.frontmatter.get("name")
        return name if isinstance(name, str) else ""

    @property
    def description(self) -> str:
        """The frontmatter's description."""
        description = self.frontmatter.get("description")
        return description if isinstance(description, str) else ""

    @property
    def is_dynamic(self) -> bool:
        return self.resources is DYNAMIC

    @property
    def total_size(self) -> int:
        """The total size of all files with a listed size; 0 for a dynamic skill."""
        return 0 if self.resources is DYNAMIC else sum(max(resource.size, 0) for resource in self.resources)
