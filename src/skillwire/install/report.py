"""Report: what an operation of the installer did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillwire.errors import SourceError
from skillwire.install.agents import CANONICAL_TARGET
from skillwire.install.apply import Outcome
from skillwire.install.candidates import Failure
from skillwire.install.plan import Act, Plan, Step


@dataclass(frozen=True, slots=True)
class Report:
    """What was done, by the names of skills.

    Nothing is missing if `stopped`, `refused` and `failures` are empty.
    """

    installed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    current: tuple[str, ...] = ()
    """Those that were as the lock says already."""
    stopped: tuple[Step, ...] = ()
    """Folders that were left as they are: someone edited them, or something is there that Skillwire did not
    put there."""
    refused: tuple[Failure, ...] = ()
    """What the user did not approve, or what a policy forbids."""
    failures: tuple[Failure, ...] = ()
    """What could not be fetched, verified or written."""
    copies: tuple[Path, ...] = ()
    """Where a copy was made because links are not allowed."""

    @property
    def is_whole(self) -> bool:
        return not (self.stopped or self.refused or self.failures)


def make_report(made: Plan, outcomes: Sequence[Outcome]) -> Report:
    """What was done of a plan."""
    done = [one for one in outcomes if one.done]
    # The first problem of a skill is the cause of the others.
    failures = {one.step.name: one.problem for one in reversed(outcomes) if not one.done}
    stopped = {step.name for step in made.stopped}
    new = {
        one.step.name for one in done if one.step.act is Act.INSTALL and one.step.target == CANONICAL_TARGET
    }
    written = {one.step.name for one in done if one.step.skill is not None}
    removed = {one.step.name for one in done if one.step.skill is None}
    current = {step.name for step in made.steps if step.act is Act.CURRENT} - written - stopped
    bad = set(failures)
    return Report(
        installed=tuple(sorted(new - bad)),
        updated=tuple(sorted(written - new - bad)),
        removed=tuple(sorted(removed - bad)),
        current=tuple(sorted(current - bad)),
        stopped=made.stopped,
        failures=tuple(
            Failure(name, SourceError(f"{name}: {problem}")) for name, problem in sorted(failures.items())
        ),
        copies=tuple(
            one.step.path for one in done if one.step.skill and one.step.link_to is not None and not one.link
        ),
    )


def merge_reports(first: Report, second: Report) -> Report:
    """What two operations did, one after the other. What either changed is not current."""
    changed = {*second.installed, *second.updated, *(failure.what for failure in second.failures)}
    return Report(
        installed=(*first.installed, *second.installed),
        updated=(*first.updated, *second.updated),
        removed=(*first.removed, *second.removed),
        current=tuple(name for name in first.current if name not in changed),
        stopped=(*first.stopped, *second.stopped),
        refused=(*first.refused, *second.refused),
        failures=(*first.failures, *second.failures),
        copies=(*first.copies, *second.copies),
    )
