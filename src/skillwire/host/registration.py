"""Registration: what sources list, on its way into the table of a host. Following: which of it is watched.

`trust/admission.py` decides what is listed; `Registration` collects the facts for it, applies the decision,
and reports what changed. While the host opens, listings are collected, so that no source comes first.

A host is told about changes of the skills in use, those that a person approved, those that a page shows now,
and those that a gateway serves. It subscribes to their directories where a server offers that. A server may
accept a subscription and send nothing, so `Inventory` also lists every server again when its listing expires.
`StateWatch` notices what other processes change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from skillwire.catalog import Changes, HostSkill, Naming, SkillKey, SkillTable, fold_handle
from skillwire.consent import ConsentStore
from skillwire.errors import Issue, LimitExceeded, SkillwireError
from skillwire.host.config.config import HostConfig
from skillwire.host.config.file import ConfigWatch
from skillwire.host.config.server import ServerConfig
from skillwire.host.policies import NOTHING, LoadedPolicy
from skillwire.host.state import MOST_EVENTS, OPEN, Event, EventKind, EventRecorder, Switches, skill_event
from skillwire.host.styles.base import Style, collision_lines
from skillwire.limits import Limits
from skillwire.skill import SkillEntry, SkillUri, shown_uri, skill_root
from skillwire.trust import AdmissionRequest, Allowed, ApprovalMode, Origin, Purpose, admit, require

_MOST_COLLISIONS: Final = 100


@dataclass(kw_only=True, eq=False)
class Registration:
    """Adds entries to the registry if they are admitted, and reports what that changed."""

    registry: SkillTable
    configs: Mapping[Origin, ServerConfig]
    log: EventRecorder
    disabled: frozenset[str]
    """URIs, and names in the spelling in which names are compared (`fold_handle`)."""
    style: Style
    naming: Naming
    limits: Limits
    source_names: Callable[[Origin], tuple[str, ...]]
    on_changed: Callable[[HostSkill], None]
    """Called for every skill whose entry is a different one now."""
    on_collected: Callable[[Origin, Sequence[SkillEntry]], None] | None = field(default=None, init=False)
    """Called with what an origin listed while others are still waited for."""
    switches: Switches = field(default=OPEN, init=False)
    loaded_policy: LoadedPolicy = field(default=NOTHING, init=False)
    policy_revision: int = field(default=0, init=False)
    """A number that changes with the policy."""
    on_policy: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]], init=False)
    """Called when another policy holds, and what it refuses was released."""
    _names: dict[Origin, tuple[str, ...]] = field(default_factory=dict[Origin, tuple[str, ...]], init=False)
    removed: set[Origin] = field(default_factory=set[Origin], init=False)
    """Origins that are not part of the host any more: an answer of theirs that comes late is ignored."""
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
        self._report(self.registry.replace_many(collected))

    def has_skills(self, origin: Origin) -> bool:
        """Whether anything of an origin is registered or collected."""
        return bool(self.registry.uris(origin) or (self._collected or {}).get(origin))

    def candidate(self, origin: Origin, entry: SkillEntry, *, disabled: bool = False) -> AdmissionRequest:
        """Return the facts that the admission of a skill depends on, without its approval."""
        loaded = self.loaded_policy
        names = self.names(origin) if loaded.policy.given else ()
        return AdmissionRequest(
            origin=origin,
            entry=entry,
            policy=loaded.policy,
            sources=names,
            team=loaded.team(entry, names) if loaded.approvals else (),
            unavailable=self.closed_for(origin),
            selected=self._is_selected(origin, entry),
            style_refusal=self._style_refusal(origin, entry),
            disabled=disabled,
            approval_mode=self.approval_mode(origin),
        )

    def _is_selected(self, origin: Origin, entry: SkillEntry) -> bool:
        config = self.configs.get(origin)
        return config is None or config.selection.admits(entry)

    def _style_refusal(self, origin: Origin, entry: SkillEntry) -> str:
        return "" if origin.is_local else self.style.refusal(entry, self.limits)

    def light_candidate(self, origin: Origin, entry: SkillEntry) -> AdmissionRequest:
        """Return the facts that decide whether a model is told of a listed skill."""
        loaded = self.loaded_policy
        if not loaded.policy.given:
            return AdmissionRequest(origin=origin, entry=entry, approval_mode=self.approval_mode(origin))
        names = self.names(origin)
        return AdmissionRequest(
            origin=origin,
            entry=entry,
            approval_mode=self.approval_mode(origin),
            policy=loaded.policy,
            sources=names,
            team=loaded.team(entry, names) if loaded.approvals else (),
        )

    def set_policy(self, loaded: LoadedPolicy) -> bool:
        """Judge by this policy from now on; whether it is another one."""
        self._names.clear()
        if loaded == self.loaded_policy:
            return False
        self.loaded_policy = loaded
        self.policy_revision += 1
        return True

    def names(self, origin: Origin) -> tuple[str, ...]:
        """The names of an origin as the patterns of a policy have them."""
        found = self._names.get(origin)
        if found is None:
            found = self._names[origin] = self.source_names(origin)
        return found

    def approval_mode(self, origin: Origin) -> ApprovalMode:
        """Return the configured approval mode of all skills of an origin."""
        config = self.configs.get(origin)
        return config.approval if config else ApprovalMode.PROMPT

    def closed_for(self, origin: Origin) -> str:
        """Why nothing of an origin is taken; empty when it is."""
        if origin in self.removed:
            return "it is not configured any more"
        return self.switches.closed_for(origin)

    def set_disabled(self, names: Iterable[str]) -> list[HostSkill]:
        """Disable these skills and enable those that were disabled by name before. Returns the former.

        What a program disabled or enabled by itself stays as it is.
        """
        self.disabled = folded_names(names)
        skills = {skill.key: skill for skill in self.registry.skills(disabled=True)}
        before, self._disabled_keys = self._disabled_keys, set[SkillKey]()
        found = [skill for skill in skills.values() if self._is_disabled(skill)]
        self._disabled_keys = {skill.key for skill in found}
        for key in before - self._disabled_keys:
            self.registry.set_enabled(key, True)
        new = [skill for skill in found if skill.key not in before]
        for skill in new:
            self.registry.set_enabled(skill.key, False)
        return new

    def _is_disabled(self, skill: HostSkill) -> bool:
        """Whether a skill is disabled by any name that it goes by: a collision must not enable it again."""
        qualified = f"{skill.origin.label}/{skill.entry.name}"  # As `skillwire config disable` writes it.
        handles = (skill.handle, qualified, *self.naming.handles(skill.key, skill.entry))
        return bool(self.disabled & {skill.uri, *map(fold_handle, handles)})

    def add(self, origin: Origin, entry: SkillEntry) -> None:
        """Register one entry that a source just gave, or raise when it is not admitted."""
        candidate = self.candidate(origin, entry)
        if candidate.selected and candidate.style_refusal:
            raise LimitExceeded(
                f"{shown_uri(entry.uri)} from {origin} is not taken: {candidate.style_refusal}"
            )
        # Not `SkillNotFound`: callers must not go on to read it as something else.
        require(admit(candidate, Purpose.LIST), entry.uri, origin)
        self._report(self.registry.add(origin, entry))

    def replace(self, origin: Origin, entries: Iterable[SkillEntry], left_out: Iterable[str] = ()) -> None:
        """Register these as all that an origin lists, and record what cannot be used of it."""
        admitted: list[SkillEntry] = []
        refused: list[AdmissionRequest] = []
        excluded = 0
        decisions: dict[tuple[bool, str], bool] = {}
        for entry in entries:
            # These two are all in which the skills of an origin differ here.
            differs = self._is_selected(origin, entry), self._style_refusal(origin, entry)
            is_selected, style_refusal = differs
            if differs not in decisions:
                candidate = self.candidate(origin, entry)
                decisions[differs] = isinstance(admit(candidate, Purpose.LIST), Allowed)
            if decisions[differs]:
                admitted.append(entry)
            elif not is_selected:
                excluded += 1
            elif style_refusal:
                refused.append(self.candidate(origin, entry))
        self.excluded[origin] = excluded
        self.log.leave_out(
            origin, [*left_out, *(unusable(origin, self._style_issue(one)) for one in refused)]
        )
        if self.closed_for(origin):
            return  # It stays empty, whatever comes late.
        if self._collected is not None:
            self._collected[origin] = admitted
            if self.on_collected is not None:
                self.on_collected(origin, admitted)
        else:
            self._report(self.registry.replace(origin, admitted))

    def clear(self, origin: Origin) -> None:
        """Remove all skills of an origin."""
        self.excluded.pop(origin, None)
        if self._collected is not None:
            self._collected[origin] = ()
        else:
            self._report(self.registry.clear(origin))

    def fail(self, origin: Origin, message: str) -> None:
        """Record that an origin does not work."""
        self.log.record(Event(kind=EventKind.FAILURE, message=message, origin=origin))

    def _style_issue(self, refused: AdmissionRequest) -> Issue:
        fix = f"another style than {self.style.name} takes it"
        file = shown_uri(refused.entry.uri)
        return Issue(rule="style-cap", file=file, message=refused.style_refusal, fix=fix)

    def _report(self, changes: Changes) -> None:
        for skill in changes.added if self.disabled else ():
            if self._is_disabled(skill):
                self._disabled_keys.add(skill.key)
                self.registry.set_enabled(skill.key, False)
        for skill in changes.changed:
            self.on_changed(skill)
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


def folded_names(names: Iterable[str]) -> frozenset[str]:
    """Names and URIs, as `Registration.disabled` wants them: case does not matter in a name."""
    return frozenset(spelling for name in names for spelling in (name, fold_handle(name)))


_MOST_SHOWN: Final = 50
"""The number of skills that pages showed last, which are followed."""


@dataclass(kw_only=True, eq=False)
class Following:
    """The skills that a host follows at each server, as a few directories."""

    registry: SkillTable
    approvals: ConsentStore
    held: Callable[[Origin], Iterable[SkillUri]]
    """The skills of an origin that are in use."""
    subscribe: Callable[[Origin, Collection[SkillUri]], None]
    """Subscribes to changes at and below these directories of a server, and to nothing else of it."""
    servers: Callable[[], Iterable[Origin]]
    limits: Limits
    _shown: OrderedDict[SkillKey, None] = field(default_factory=OrderedDict[SkillKey, None], init=False)
    _served: dict[Origin, tuple[SkillUri, ...]] = field(
        default_factory=dict[Origin, tuple[SkillUri, ...]], init=False
    )
    # Also what was approved before it changed: a person is shown how it differs now.
    _approved: dict[Origin, set[SkillUri]] = field(default_factory=dict[Origin, set[SkillUri]], init=False)

    def __post_init__(self) -> None:
        self.registry.watch(self._listed)

    def show(self, skill: HostSkill) -> None:
        """Follow a skill that a person is shown now."""
        is_new = skill.key not in self._shown
        self._shown[skill.key] = None
        self._shown.move_to_end(skill.key)
        while len(self._shown) > _MOST_SHOWN:
            self._shown.popitem(last=False)
        if is_new:
            self.update(skill.origin)

    def serve(self, origin: Origin, uris: Collection[SkillUri]) -> None:
        """Follow these skills of a server, which are served to others, instead of those before."""
        self._served[origin] = tuple(uris)
        self.update(origin)

    def update(self, origin: Origin) -> None:
        """Subscribe to what is followed of a server now."""
        if origin.is_local:
            return  # Directories are watched as a whole.
        approved = self._approved.setdefault(origin, set())
        approved.update(SkillUri(record.key.uri) for record in self.approvals.approved(origin, caller=None))
        shown = [key.uri for key in self._shown if key.origin == origin]
        # What is more important comes first: the number is limited.
        wanted = [*self.held(origin), *shown, *self._served.get(origin, ()), *sorted(approved)]
        listed = self.registry.uris(origin)
        roots = dict.fromkeys(skill_root(uri) for uri in wanted if uri in listed)
        self.subscribe(origin, few_directories(tuple(roots), self.limits.followed_directories))

    def update_all(self) -> None:
        """The same for every server, after approvals changed."""
        for origin in self.servers():
            self.update(origin)

    def _listed(self, changes: Changes) -> None:
        for origin in dict.fromkeys(skill.origin for skill in (*changes.added, *changes.removed)):
            self.update(origin)


def few_directories(roots: Collection[SkillUri], most: int) -> tuple[SkillUri, ...]:
    """Directories that cover these, at most so many. Where there are too many, the deepest are covered by
    the directories above them, the largest groups first. What does not fit even so is left out from the end.
    """
    found = tuple(dict.fromkeys(roots))
    depth = max(map(_depth, found), default=0)
    while len(found) > most and depth > 1:
        groups: dict[SkillUri, list[SkillUri]] = {}
        for root in found:
            if _depth(root) == depth:
                groups.setdefault(SkillUri(root.rpartition("/")[0]), []).append(root)
        above: dict[SkillUri, SkillUri] = {}
        excess = len(found) - most
        for parent in sorted(groups, key=lambda one: len(groups[one]), reverse=True):
            if excess <= 0:
                break
            above |= dict.fromkeys(groups[parent], parent)
            excess -= len(groups[parent]) - 1
        found = tuple(dict.fromkeys(above.get(root, root) for root in found))
        depth -= 1
    return found[:most]


def _depth(directory: SkillUri) -> int:
    """The number of segments of a URI, the first one being its authority."""
    return directory.partition("://")[2].count("/") + 1


_LOOK_SECONDS: Final = 0.5
_LOOKS_PER_REFRESH: Final = 2
"""How often the files are looked at for each time that the decisions are, which may be in a database."""


class StateWatch:
    """Looks at the state of the user twice a second. A look is a `stat` of each file, in a thread."""

    def __init__(
        self,
        approvals: ConsentStore,
        config: ConfigWatch | None,
        *,
        on_approvals: Callable[[], None],
        on_config: Callable[[HostConfig], Awaitable[None]],
        on_problem: Callable[[str], None],
    ) -> None:
        """`on_approvals` and `on_config` are called after a change, of this process or another; `on_problem`
        with why a configuration has no effect, and with an empty text when it has.
        """
        self._approvals = approvals
        self._config = config
        self._on_approvals = on_approvals
        self._on_config = on_config
        self._on_problem = on_problem
        self._stamp = self._seen = config.loaded_stamp if config is not None else ()
        self._current = config.loaded if config is not None else HostConfig()

    async def run(self) -> None:
        """Look until canceled."""
        looks, revision = 0, self._approvals.revision
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            looks += 1
            if looks % _LOOKS_PER_REFRESH == 0:
                # A store that cannot be read approves nothing; whoever uses it is told.
                with suppress(SkillwireError):
                    await self._approvals.refresh()
                if self._approvals.revision != revision:
                    revision = self._approvals.revision
                    self._on_approvals()
            if self._config is not None:
                await self._look_at_files(self._config)

    async def _look_at_files(self, config: ConfigWatch) -> None:
        seen, self._seen = self._seen, await anyio.to_thread.run_sync(config.stamp)
        # A file that changed since the last look may still be being written, or be trusted in a moment.
        if self._seen == self._stamp or self._seen != seen:
            return
        self._stamp = self._seen
        try:
            current = await anyio.to_thread.run_sync(config.load)
        except SkillwireError as error:
            self._on_problem(f"the configuration was changed and cannot be used: {error}")
            remaining = await anyio.to_thread.run_sync(config.without_project, self._current)
            if remaining is None:
                return
            current = remaining
        else:
            self._on_problem("")
        self._current = current
        await self._on_config(current)
