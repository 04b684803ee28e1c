"""Proposal: what would be installed, compared with what is pinned. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skillwire.errors import (
    FormatError,
    RefusedByPolicy,
    SkillwireError,
)
from skillwire.install.candidates import Candidate, Failure, Fetched
from skillwire.install.lock import Lock, LockedSkill
from skillwire.issues import shown
from skillwire.trust.signers import signer_change


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be installed. A candidate in `known` is installed already, as it is."""

    candidates: tuple[Candidate, ...]
    before: Mapping[str, LockedSkill] = field(default_factory=dict[str, LockedSkill])
    """What is pinned now, of those that would be replaced."""
    known: tuple[Candidate, ...] = ()
    failures: tuple[Failure, ...] = ()


def propose(fetched: Fetched, lock: Lock, targets: tuple[str, ...] | None) -> Proposal:
    """What of this is new, by name. `targets` of `None` means an update: each skill keeps its own.

    A name that another source has already, or that two skills have, is a failure.
    """
    failures = list(fetched.failures)
    new: dict[str, Candidate] = {}
    known: list[Candidate] = []
    before: dict[str, LockedSkill] = {}
    for candidate in fetched.candidates:
        pinned = lock.get(candidate.name)
        if candidate.name in new or any(one.name == candidate.name for one in known):
            failures.append(Failure(candidate.name, _two_of_one_name(candidate)))
            continue
        if pinned is not None and targets is not None and not _same_source(pinned, candidate.skill):
            failures.append(Failure(candidate.name, _name_taken(pinned)))
            continue
        own = targets if targets is not None else pinned.targets if pinned else ()
        merged = sorted({*own, *(pinned.targets if pinned else ())})
        ready = candidate.for_targets(merged)
        if pinned is not None:
            ready = replace(ready, skill=ready.skill.with_unknown_keys(pinned))
        if pinned is not None and _is_pinned(pinned, ready.skill):
            known.append(ready)
            continue
        if pinned is not None:
            before[candidate.name] = pinned
        new[candidate.name] = ready
    return Proposal(tuple(new.values()), before, tuple(known), tuple(failures))


def not_granted(skill: LockedSkill, tools: Sequence[str]) -> SkillwireError:
    """Why a skill with powers is not installed."""
    if tools:
        return RefusedByPolicy(
            f"{skill.name} asks for tools ({shown(' '.join(tools), 200)}) that were not granted: "
            "--allow-tools grants them"
        )
    return RefusedByPolicy(
        f"{skill.name} has scripts ({shown(', '.join(skill.powers.scripts), 200)}) that were not granted: "
        "--allow-code grants them"
    )


def _is_pinned(pinned: LockedSkill, candidate: LockedSkill) -> bool:
    return (
        pinned.digest == candidate.digest
        and pinned.targets == candidate.targets
        and pinned.powers == candidate.powers
        and pinned.pin == candidate.pin
        and pinned.source == candidate.source
        and [file.executable for file in pinned.files] == [file.executable for file in candidate.files]
        # The same files can lose their signer: a certificate expires, a publisher is no longer configured.
        and not signer_change(pinned.signer, candidate.signer)
    )


def _same_source(pinned: LockedSkill, candidate: LockedSkill) -> bool:
    return pinned.source == candidate.source or pinned.pin.identity == candidate.pin.identity


def _name_taken(pinned: LockedSkill) -> SkillwireError:
    return RefusedByPolicy(
        f"{pinned.name} is already installed from {shown(pinned.source, 200)}: to replace it, run "
        f"`skillwire remove {pinned.name}` first"
    )


def _two_of_one_name(candidate: Candidate) -> SkillwireError:
    return FormatError.of(
        rule="two-skills",
        message=f"two skills are called {candidate.name}, one in {shown(candidate.skill.source, 200)}",
        fix="add one of them by its own path",
    )
