"""Resolves conflicts between sources that have skills at the same URIs.

A skill owns everything below its directory, including nested skills, because its manifest is complete (ENT-2,
FMT-8). So two sources never share a skill's directory. The outermost skill wins; of two at the same place,
the first. The others are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from skillwire.skill.uris import SkillUri, skill_root


@dataclass(frozen=True, slots=True)
class Conflict:
    """A skill of source number `owner` that is in the place of the skill `winner` of another source."""

    uri: SkillUri
    owner: int
    winner: SkillUri
    winning_owner: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """The directory of every skill that may be served, with the number of its source."""

    owners: Mapping[SkillUri, int]
    lost: tuple[Conflict, ...]

    def owner_of(self, uri: SkillUri) -> int | None:
        """The source of the skill at or around a URI; `None` outside of skills."""
        return next((self.owners[at] for at in directories_down_to(uri) if at in self.owners), None)


def resolve_conflicts(skills: Iterable[tuple[SkillUri, int]]) -> Ownership:
    """Resolve the conflicts of skills, given as the URI of their `SKILL.md` and their source's number."""
    owners: dict[SkillUri, int] = {}
    lost: list[Conflict] = []
    # Outermost first; the sort is stable, so that the first source comes first.
    for uri, owner in sorted(skills, key=lambda skill: skill[0].count("/")):
        root = skill_root(uri)
        taken = next((at for at in directories_down_to(root) if owners.get(at, owner) != owner), None)
        if taken is None:
            owners[root] = owner
        else:
            lost.append(Conflict(uri, owner, SkillUri(f"{taken}/SKILL.md"), owners[taken]))
    return Ownership(owners, tuple(lost))


def directories_down_to(uri: SkillUri) -> Iterator[SkillUri]:
    """The directories around a URI, outermost first, and the URI itself."""
    at = uri.find("/", uri.index("://") + 3)
    while at >= 0:
        yield SkillUri(uri[:at])
        at = uri.find("/", at + 1)
    yield uri
