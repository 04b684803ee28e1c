"""Ranks: the precedence of origins, for styles in which one of several skills keeps the name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from skillwire.catalog.naming import Keeper, SkillKey, nobody
from skillwire.catalog.registry import Collision
from skillwire.trust.origin import Origin


class Layer(IntEnum):
    """Where skills come from, in the order of Wayland: the first takes precedence."""

    BUNDLED = 0
    """Skills that are part of the agent."""
    MCP = 1
    USER = 2
    PROJECT = 3
    ADDED = 4
    """A directory that was named for this run."""
    COMMANDS = 5
    """A folder of flat command files, which agents used before skills."""


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """A layer, and the position of the origin among those that the user named in it."""

    layer: Layer
    number: int


Ranks: TypeAlias = Mapping[Origin, Rank]
KeeperOf: TypeAlias = Callable[[Ranks], Keeper]


def nobody_keeps(ranks: Ranks) -> Keeper:
    """No skill keeps the name: all are shown with their origin."""
    return nobody


def highest_layer_keeps(ranks: Ranks) -> Keeper:
    """The skill of the first layer keeps the name; within a layer, that of the origin named first."""
    return lambda claimants: _single_best(claimants, lambda origin: (False, ranks[origin]))


def local_then_first_keeps(ranks: Ranks) -> Keeper:
    """A local skill keeps the name; if there is none, the skill of the server that was named first."""
    return lambda claimants: _single_best(claimants, lambda origin: (not origin.is_local, ranks[origin]))


def local_keeps(ranks: Ranks) -> Keeper:
    """A local skill keeps the name; a skill of a server never does."""

    def keeper(claimants: Sequence[SkillKey]) -> SkillKey | None:
        local = [key for key in claimants if key.origin.is_local]
        return _single_best(local, lambda origin: (False, ranks[origin])) if local else None

    return keeper


def _single_best(
    claimants: Sequence[SkillKey], order: Callable[[Origin], tuple[bool, Rank]]
) -> SkillKey | None:
    """The skill of the best rank, unless its origin has two of that name, which need their paths (ENT-5)."""
    best = min((key.origin for key in claimants), key=order)
    keys = [key for key in claimants if key.origin == best]
    return keys[0] if len(keys) == 1 else None


def collision_lines(collision: Collision) -> tuple[str, ...]:
    """Messages for the user: one for each skill that is masked by another, or one for all."""
    winners = [skill for skill in collision.skills if skill.handle == collision.handle]
    if len(winners) != 1:
        return (str(collision),)
    (winner,) = winners
    return tuple(
        f"{collision.handle} from {skill.origin} is masked by the one from {winner.origin}; "
        f"it can be loaded as {skill.handle}"
        for skill in collision.skills
        if skill.key != winner.key
    )
