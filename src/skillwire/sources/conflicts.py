"""Who serves which skill, when several places of origin want the same part of the tree of URIs.

A skill owns everything below its directory: its manifest is complete (ENT-2), and so are the skills nested
in it (FMT-8). So two origins never share a skill's directory. The outermost skill has it; of two at the
same place, the first. What loses is reported, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from skillwire.skill.uris import SkillUri, skill_root


@dataclass(frozen=True, slots=True)
class Conflict:
    """A skill of the origin number `owner` that lies where the skill `winner` of another origin is."""

    uri: SkillUri
    owner: int
    winner: SkillUri
    winning_owner: int


@dataclass(frozen=True, slots=True)
class Ownership:
    """The directory of every skill that may be served, with the number of its origin."""

    owners: Mapping[SkillUri, int]
    lost: tuple[Conflict, ...]

    def owner_of(self, uri: SkillUri) -> int | None:
        """The origin of the skill that a URI lies in or is the directory of; `None` outside every skill."""
        return next((self.owners[at] for at in directories_down_to(uri) if at in self.owners), None)


def resolve_conflicts(claims: Iterable[tuple[SkillUri, int]]) -> Ownership:
    """Decide about skills, given as the URI of their `SKILL.md` and the number of their origin."""
    owners: dict[SkillUri, int] = {}
    lost: list[Conflict] = []
    # From the outermost inwards; the sort is stable, so that the first comes first.
    for uri, owner in sorted(claims, key=lambda claim: claim[0].count("/")):
        root = skill_root(uri)
        taken = next((at for at in directories_down_to(root) if owners.get(at, owner) != owner), None)
        if taken is None:
            owners[root] = owner
        else:
            lost.append(Conflict(uri, owner, SkillUri(f"{taken}/SKILL.md"), owners[taken]))
    return Ownership(owners, tuple(lost))


def directories_down_to(uri: SkillUri) -> Iterator[SkillUri]:
    """Every directory that a URI lies in, the outermost first, and the URI itself."""
    at = uri.find("/", uri.index("://") + 3)
    while at >= 0:
        yield SkillUri(uri[:at])
        at = uri.find("/", at + 1)
    yield uri
