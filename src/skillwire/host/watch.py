"""Changes that an open host follows: skills of servers, decisions of people, configuration files.

`Following` is which skills of servers a host is told about when they change: those in use, those that a
person approved, those that a page shows now, and those that a gateway serves. A host subscribes to their
directories where a server offers that. A server may accept a subscription and send nothing, so `Inventory`
also lists every server again when its listing expires. `StateWatch` notices what other processes change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.to_thread

from skillwire.catalog import Changes, HostSkill, SkillKey, SkillTable
from skillwire.consent import ConsentStore
from skillwire.errors import SkillwireError
from skillwire.host.config.config import HostConfig
from skillwire.host.config.file import ConfigWatch
from skillwire.limits import Limits
from skillwire.skill import SkillUri, skill_root
from skillwire.trust import Origin

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
