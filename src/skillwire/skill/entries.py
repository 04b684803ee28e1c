"""SkillEntry: what a server says about one skill (ENT-1), as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from skillwire.skill.digests import Digest
from skillwire.skill.uris import SkillUri

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"


class Dynamic(Enum):
    """The type of `DYNAMIC`, its only value."""

    DYNAMIC = "dynamic"


DYNAMIC: Final = Dynamic.DYNAMIC
"""In place of a list of files: the skill's content is made on request and cannot be bound (ENT-2)."""


@dataclass(frozen=True, slots=True)
class SkillResource:
    """One file of a skill."""

    uri: SkillUri
    digest: Digest
    size: int


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill. `resources` holds every file once, `SKILL.md` included, or is `DYNAMIC`."""

    uri: SkillUri
    frontmatter: Mapping[str, JsonValue]
    resources: tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC]
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])

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
        """The bytes of all listed files; 0 for a dynamic skill, which lists none."""
        return 0 if self.resources is DYNAMIC else sum(resource.size for resource in self.resources)
