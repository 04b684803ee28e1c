"""Intake: which entries of a server or directory get into the registry, and what is told about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from skillwire.catalog.naming import Naming
from skillwire.catalog.registry import Changes, RegisteredSkill, Registry
from skillwire.errors import ApprovalRequired, LimitExceeded
from skillwire.host.config.server import ServerConfig
from skillwire.host.events import Event, EventKind, EventLog
from skillwire.host.styles.base import Style
from skillwire.host.styles.ranks import collision_lines
from skillwire.host.styles.switches import OPEN
from skillwire.issues import Issue
from skillwire.limits import Limits
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import shown_uri
from skillwire.trust.approval import Reason
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
        if self.gates.closed_for(origin):
            return  # Its slot stays empty, whatever comes late.
        wanted = [entry for entry in entries if self._wants(origin, entry)]
        refusals = [(entry, self._refusal(origin, entry)) for entry in wanted]
        self.remark(origin, [self._issue(entry, refusal) for entry, refusal in refusals if refusal])
        taken = tuple(entry for entry, refusal in refusals if not refusal)
        if self._collected is not None:
            self._collected[origin] = taken
            self._registry.foresee(origin, taken)  # Others are still waited for: there is time now.
        else:
            self._report(self._registry.replace(origin, taken))

    def take_one(self, origin: Origin, entry: SkillEntry) -> None:
        """Take in one entry that a server just gave, or raise when it is not wanted."""
        if not self._wants(origin, entry):
            # Not `SkillNotFound`: nobody may go on to read it as something else.
            raise ApprovalRequired(
                f"{shown_uri(entry.uri)} from {origin} is excluded by the configuration; change that",
                reason=Reason.DENIED,
                origin=origin.label,
                uri=entry.uri,
            )
        if refusal := self._refusal(origin, entry):
            raise LimitExceeded(f"{shown_uri(entry.uri)} from {origin} is not taken: {refusal}")
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

    def _wants(self, origin: Origin, entry: SkillEntry) -> bool:
        """Whether the user wants this skill of this server; what is excluded never gets into the registry."""
        config = self._configs.get(origin)
        return config is None or config.selection.admits(entry)

    def _refusal(self, origin: Origin, entry: SkillEntry) -> str:
        """Why the style does not take a server's skill; empty when it does."""
        return "" if origin.is_local else self._style.refusal(entry, self._limits)

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
