"""Intake: which entries of a server or directory get into the registry, and what is told about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from skillwire.catalog.naming import Naming
from skillwire.catalog.registry import Changes, RegisteredSkill, Registry
from skillwire.errors import LimitExceeded
from skillwire.host.config.server import ServerConfig
from skillwire.host.events import Event, EventKind, EventLog
from skillwire.host.styles.base import Style
from skillwire.host.styles.ranks import collision_lines
from skillwire.host.styles.switches import OPEN
from skillwire.issues import Issue
from skillwire.limits import Limits
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import shown_uri
from skillwire.trust.admission import Act, Allowed, Candidate, admit, require
from skillwire.trust.approval import Policy
from skillwire.trust.origin import Origin

_REMARKS: Final = 20


class Intake:
    """Takes entries in, keeps out what the user or the style does not want, and tells of every change.

    While a host opens, what comes is collected and taken in at once, so that no origin is first.
    """

    def __init__(
        self,
        *,
        servers: Mapping[Origin, ServerConfig],
        registry: Registry,
        log: EventLog,
        disabled: Collection[str],
        style: Style,
        naming: Naming,
        limits: Limits,
        on_changed: Callable[[RegisteredSkill], None],
    ) -> None:
        self._configs = dict(servers)
        self._registry = registry
        self._log = log
        self._disabled = frozenset(disabled)
        self._style = style
        self._naming = naming
        self._limits = limits
        self._on_changed = on_changed
        self.gates = OPEN
        # What was found while opening; `None` once the host is open.
        self._collected: dict[Origin, Sequence[SkillEntry]] | None = {}

    @property
    def collecting(self) -> bool:
        return self._collected is not None

    def open(self) -> None:
        """Take in all that was collected. From here on everything is taken in as it comes."""
        collected, self._collected = self._collected or {}, None
        self._report(self._registry.replace_many(collected))

    def take(self, origin: Origin, entries: Iterable[SkillEntry]) -> None:
        """Take these as all that an origin lists."""
        candidates = [self.candidate(origin, entry) for entry in entries]
        self.remark(
            origin,
            [
                self._issue(one.entry, one.style_refusal)
                for one in candidates
                if one.selected and one.style_refusal
            ],
        )
        taken = tuple(one.entry for one in candidates if isinstance(admit(one, Act.LIST), Allowed))
        if self.gates.closed_for(origin):
            return  # Its slot stays empty, whatever comes late.
        if self._collected is not None:
            self._collected[origin] = taken
            self._registry.foresee(origin, taken)  # Others are still waited for: there is time now.
        else:
            self._report(self._registry.replace(origin, taken))

    def take_one(self, origin: Origin, entry: SkillEntry) -> None:
        """Take in one entry that a server just gave, or raise when it is not wanted."""
        candidate = self.candidate(origin, entry)
        if candidate.selected and candidate.style_refusal:
            raise LimitExceeded(
                f"{shown_uri(entry.uri)} from {origin} is not taken: {candidate.style_refusal}"
            )
        # Not `SkillNotFound`: nobody may go on to read it as something else.
        require(admit(candidate, Act.LIST), entry.uri, origin)
        self._report(self._registry.add(origin, entry))

    def empty(self, origin: Origin) -> None:
        """Let go of all that an origin listed."""
        if self._collected is not None:
            self._collected[origin] = ()
        else:
            self._report(self._registry.clear(origin))

    def remark(self, origin: Origin, issues: Sequence[Issue]) -> None:
        """Tell of a few of the entries that cannot be used: a bad server does not fill the log."""
        for issue in issues[:_REMARKS]:
            self.tell(EventKind.REMARK, f"{origin} lists something that cannot be used: {issue}", origin)
        if len(issues) > _REMARKS:
            more = len(issues) - _REMARKS
            self.tell(EventKind.REMARK, f"{origin} lists {more:,} more that cannot be used", origin)

    def tell(self, kind: EventKind, message: str, origin: Origin) -> None:
        self._log.tell(Event(kind=kind, message=message, origin=origin.label))

    def candidate(self, origin: Origin, entry: SkillEntry, *, disabled: bool = False) -> Candidate:
        """What is known about a skill of an origin, without its approval."""
        config = self._configs.get(origin)
        return Candidate(
            origin=origin,
            entry=entry,
            switched_off=self.gates.closed_for(origin),
            selected=config is None or config.selection.admits(entry),
            style_refusal="" if origin.is_local else self._style.refusal(entry, self._limits),
            disabled=disabled,
            policy=config.approval if config else Policy.PROMPT,
        )

    def _issue(self, entry: SkillEntry, refusal: str) -> Issue:
        fix = f"another style than {self._style.name} takes it"
        return Issue(rule="style-cap", file=shown_uri(entry.uri), message=refusal, fix=fix)

    def _report(self, changes: Changes) -> None:
        for skill in changes.added if self._disabled else ():
            # Every name that it goes by: a collision must not switch it on again.
            names = {skill.uri, skill.handle, *self._naming.handles(skill.key, skill.entry)}
            if names & self._disabled:
                self._registry.set_enabled(skill.key, False)
        for skill in changes.changed:
            self._on_changed(skill)
        for kind, skills in (
            (EventKind.ADDED, changes.added),
            (EventKind.CHANGED, changes.changed),
            (EventKind.REMOVED, changes.removed),
        ):
            for skill in skills:
                self._log.tell(
                    Event(
                        kind=kind,
                        message=f"{skill.handle} from {skill.origin} was {kind}",
                        origin=skill.origin.label,
                        handle=skill.handle,
                        uri=skill.uri,
                    )
                )
        for collision in changes.collisions:
            for line in collision_lines(collision):
                self._log.tell(Event(kind=EventKind.COLLISION, message=line, handle=collision.handle))
