"""Registration: what sources list, on its way into the table of a host.

`Rules` says which of it is listed. While the host opens, listings are collected, so that no source comes
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from skillwire.catalog import Changes, HostSkill, Naming, SkillKey, SkillTable, fold_handle
from skillwire.errors import Issue, LimitExceeded
from skillwire.host.events import MOST_EVENTS, Event, EventKind, EventRecorder, skill_event
from skillwire.host.rules import Rules, folded_names
from skillwire.host.styles.base import collision_lines
from skillwire.skill import SkillEntry, shown_uri
from skillwire.trust import Allowed, Denied, Origin, Step, require

_MOST_COLLISIONS: Final = 100


@dataclass(kw_only=True, eq=False)
class Registration:
    """Adds entries to the table of a host if they are listed, and reports what that changed."""

    table: SkillTable
    rules: Rules
    log: EventRecorder
    naming: Naming
    on_arrival: Callable[[Origin, Sequence[SkillEntry]], None] | None = field(default=None, init=False)
    """Called with what an origin listed while others are still waited for."""
    excluded: dict[Origin, int] = field(default_factory=dict[Origin, int], init=False)
    """How many listed skills of each origin the include and exclude rules hide."""
    _disabled_keys: set[SkillKey] = field(default_factory=set[SkillKey], init=False)
    # What was listed while opening; `None` once the host is open.
    _collected: dict[Origin, Sequence[SkillEntry]] | None = field(
        default_factory=dict[Origin, Sequence[SkillEntry]], init=False
    )

    @property
    def is_opening(self) -> bool:
        """Whether listings are still collected."""
        return self._collected is not None

    def finish_opening(self) -> None:
        """Register everything that was collected, at once."""
        collected, self._collected = self._collected or {}, None
        self._report(self.table.replace_many(collected))

    def has_skills(self, origin: Origin) -> bool:
        """Whether anything of an origin is registered or collected."""
        return bool(self.table.uris(origin) or (self._collected or {}).get(origin))

    def set_disabled(self, names: Iterable[str]) -> list[HostSkill]:
        """Disable these skills and enable those that were disabled by name before. Returns the former.

        What a program disabled or enabled by itself stays as it is.
        """
        self.rules.disabled = folded_names(names)
        skills = {skill.key: skill for skill in self.table.skills(disabled=True)}
        before, self._disabled_keys = self._disabled_keys, set[SkillKey]()
        found = [skill for skill in skills.values() if self._is_disabled(skill)]
        self._disabled_keys = {skill.key for skill in found}
        for key in before - self._disabled_keys:
            self.table.set_enabled(key, True)
        new = [skill for skill in found if skill.key not in before]
        for skill in new:
            self.table.set_enabled(skill.key, False)
        return new

    def _is_disabled(self, skill: HostSkill) -> bool:
        """Whether a skill is disabled by any name that it goes by: a collision must not enable it again."""
        qualified = f"{skill.origin.label}/{skill.entry.name}"  # As `skillwire config disable` writes it.
        handles = (skill.handle, qualified, *self.naming.handles(skill.key, skill.entry))
        return bool(self.rules.disabled & {skill.uri, *map(fold_handle, handles)})

    def add(self, origin: Origin, entry: SkillEntry) -> None:
        """Register one entry that a source just gave, or raise when it is not listed."""
        decision = self.rules.listing(origin, entry)
        if isinstance(decision, Denied) and decision.step is Step.STYLE:
            raise LimitExceeded(f"{shown_uri(entry.uri)} from {origin} {decision.message}")
        # Not `SkillNotFound`: callers must not go on to read it as something else.
        require(decision, entry.uri, origin)
        self._report(self.table.add(origin, entry))

    def replace(self, origin: Origin, entries: Iterable[SkillEntry], left_out: Iterable[str] = ()) -> None:
        """Register these as all that an origin lists, and record what cannot be used of it."""
        listed: list[SkillEntry] = []
        unusable_now = [*left_out]
        excluded = 0
        for entry in entries:
            decision = self.rules.listing(origin, entry)
            if isinstance(decision, Allowed):
                listed.append(entry)
            elif not self.rules.selects(origin, entry):
                excluded += 1
            elif refusal := self.rules.style_refusal(origin, entry):
                unusable_now.append(unusable(origin, self._style_issue(entry, refusal)))
        self.excluded[origin] = excluded
        self.log.leave_out(origin, unusable_now)
        if self.rules.closed_for(origin):
            return  # It stays empty, whatever comes late.
        if self._collected is not None:
            self._collected[origin] = listed
            if self.on_arrival is not None:
                self.on_arrival(origin, listed)
        else:
            self._report(self.table.replace(origin, listed))

    def clear(self, origin: Origin) -> None:
        """Remove all skills of an origin."""
        self.excluded.pop(origin, None)
        if self._collected is not None:
            self._collected[origin] = ()
        else:
            self._report(self.table.clear(origin))

    def fail(self, origin: Origin, message: str) -> None:
        """Record that an origin does not work."""
        self.log.record(Event(kind=EventKind.FAILURE, message=message, origin=origin))

    def _style_issue(self, entry: SkillEntry, refusal: str) -> Issue:
        fix = f"another style than {self.rules.style.name} takes it"
        return Issue(rule="style-cap", file=shown_uri(entry.uri), message=refusal, fix=fix)

    def _report(self, changes: Changes) -> None:
        for skill in changes.added if self.rules.disabled else ():
            if self._is_disabled(skill):
                self._disabled_keys.add(skill.key)
                self.table.set_enabled(skill.key, False)
        for kind, skills in (
            (EventKind.ADDED, changes.added),
            (EventKind.CHANGED, changes.changed),
            (EventKind.REMOVED, changes.removed),
        ):
            for skill in skills[-MOST_EVENTS:]:  # More than that are not kept.
                message = f"{skill.handle} from {skill.origin} was {kind}"
                self.log.record(skill_event(kind, skill, message))
        for collision in changes.collisions[:_MOST_COLLISIONS]:
            for line in collision_lines(collision):
                self.log.record(Event(kind=EventKind.COLLISION, message=line, handle=collision.handle))
        if len(changes.collisions) > _MOST_COLLISIONS:
            more = len(changes.collisions) - _MOST_COLLISIONS
            message = f"{more:,} more names are used by several skills; each is shown under a name of its own"
            self.log.record(Event(kind=EventKind.COLLISION, message=message))


def unusable(origin: Origin, issue: Issue) -> str:
    """One line about an entry that cannot be used."""
    return f"{origin} lists something that cannot be used: {issue}"
