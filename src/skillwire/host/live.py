"""LiveState: what changes while a host is open: decisions of other processes, the policy, the
configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from skillwire.catalog import HostSkill
from skillwire.consent import ConsentStore
from skillwire.errors import PolicyRefused, SkillwireError
from skillwire.host.config.config import HostConfig, load_publishers
from skillwire.host.decide import Decider
from skillwire.host.directories import HostOrigins
from skillwire.host.events import LONGEST_MESSAGE, Event, EventKind, EventRecorder, skill_event
from skillwire.host.following import Following
from skillwire.host.places import Places
from skillwire.host.policies import PolicyFiles
from skillwire.host.settings import HostSettings
from skillwire.host.styles.base import Rank
from skillwire.limits import Limits
from skillwire.text import safe_line
from skillwire.trust import Origin, Publisher

_POLICY_SECONDS: Final = 1
_LOOK_SECONDS: Final = 0.5
_LOOKS_PER_REFRESH: Final = 2
"""How often the files are looked at for each time that the decisions are, which may be in a database."""


class LiveState:
    """Looks at the state of the user twice a second. A look is a `stat` of each file, in a thread."""

    def __init__(
        self,
        settings: HostSettings,
        *,
        places: Places,
        following: Following,
        decide: Decider,
        consent: ConsentStore,
        log: EventRecorder,
        limits: Limits,
        ranks: dict[Origin, Rank],
    ) -> None:
        """`ranks` is the precedence of the origins, which the names of skills depend on."""
        self._settings = settings
        self._rules = places.rules
        self._places = places
        self._following = following
        self._decide = decide
        self._consent = consent
        self._log = log
        self._limits = limits
        self._ranks = ranks
        self._policy_files = settings.policy or PolicyFiles()
        self._publishers = tuple(settings.publishers)
        self._config = settings.config
        self._stamp = self._seen = self._config.loaded_stamp if self._config is not None else ()
        self._current = self._config.loaded if self._config is not None else HostConfig()
        self._failures: set[Origin | str] = set()
        self._problem = ""

    async def watch_state(self) -> None:
        """Follow decisions of other processes, and the configuration, until canceled."""
        looks, revision = 0, self._consent.revision
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            looks += 1
            if looks % _LOOKS_PER_REFRESH == 0:
                # A store that cannot be read approves nothing; whoever uses it is told.
                with suppress(SkillwireError):
                    await self._consent.refresh()
                if self._consent.revision != revision:
                    revision = self._consent.revision
                    self._following.update_all()
                    self._log.changed()
            await self._look_at_files()

    async def watch_policy(self) -> None:
        """Apart from the rest of the state: what a policy names may be slow to fetch."""
        while True:
            await anyio.sleep(_POLICY_SECONDS)
            await self.reload_policy()

    # The policy

    async def reload_policy(self) -> None:
        """Judge by the policy as it is now. What it refuses is released: nothing more is read of it."""
        loaded = await anyio.to_thread.run_sync(self._policy_files.current)
        if not self._rules.set_policy(loaded):
            return
        self._recognize()
        for remark in loaded.remarks:
            self._log.remark(remark)
        for layer in loaded.policy.layers:
            if layer.problem:
                self._log.record(Event(kind=EventKind.FAILURE, message=layer.problem))
        self._log.changed()
        for held in reversed(self._decide.held.every()):
            # As it was loaded, whatever its server has by now.
            skill = HostSkill(held.skill.origin, held.skill.entry, held.handle)
            try:
                await self._decide.require_permitted(skill)
                # It is scanned, and its signature checked, where the policy asks for that now.
                await self._decide.require_usable(self._decide.open(skill))
            except PolicyRefused:
                self._decide.held.release(skill.key)
                message = f"{held.handle} from {skill.origin} is refused by the policy now: it is released"
                self._log.record(skill_event(EventKind.POLICY, skill, message))
            except SkillwireError:
                continue  # It is judged again when something of it is read.

    def _recognize(self) -> None:
        """Recognize the publishers of the policy, then those of the configuration."""
        pinned = self._rules.policy.publishers
        self._decide.signatures.recognize((*pinned, *self._publishers))

    # The configuration

    async def _look_at_files(self) -> None:
        config = self._config
        if config is None:
            return
        seen, self._seen = self._seen, await anyio.to_thread.run_sync(config.stamp)
        # A file that changed since the last look may still be being written, or be trusted in a moment.
        if self._seen == self._stamp or self._seen != seen:
            return
        self._stamp = self._seen
        try:
            current = await anyio.to_thread.run_sync(config.load)
        except SkillwireError as error:
            self._set_problem(f"the configuration was changed and cannot be used: {error}")
            remaining = await anyio.to_thread.run_sync(config.without_project, self._current)
            if remaining is None:
                return
            current = remaining
        else:
            self._set_problem("")
        self._current = current
        await self._reconfigure(current)

    def _set_problem(self, message: str) -> None:
        self._log.end_failure(self._problem)
        self._problem = message
        if message:
            self._log.record(Event(kind=EventKind.FAILURE, message=message))
        self._log.changed()

    async def _reconfigure(self, config: HostConfig) -> None:
        """Become the host of an edited configuration: connect what is new, close what is not in it."""
        try:
            origins, publishers = await anyio.to_thread.run_sync(self._origins_of, config)
        except SkillwireError as error:
            self._set_problem(f"the configuration was changed and cannot be used: {error}")
            return
        before = self._rules.origins
        closed = [one for one, server in before.servers.items() if origins.servers.get(one) != server]
        removed = [one for one in before.directories if one not in origins.directories]
        for origin in (*closed, *removed):
            await self._places.remove(origin)
        self._places.bind(origins)
        self._ranks.update(origins.ranks)
        self._rules.set_origins(origins)
        self._publishers = tuple(publishers)
        self._recognize()
        for origin in origins.servers:
            if origin in closed or origin not in before.servers:
                await self._places.add(origin)
        for origin, source in origins.sources.items():
            if origin in origins.directories and origin not in before.directories:
                await self._places.add(origin, source)
        for skill in self._places.registration.set_disabled(config.disabled):
            self._decide.held.release(skill.key)
        self._report_config(config, [one for one in closed if one not in origins.servers])
        self._log.changed()

    def _origins_of(self, config: HostConfig) -> tuple[HostOrigins, list[Publisher]]:
        followed = self._config
        given = followed.directories if followed is not None else ()
        with_defaults = followed is not None and followed.default_directories and config.default_directories
        settings = replace(
            self._settings,
            servers=config.servers,
            directories=(*config.local_directories, *given),
            default_directories=with_defaults,
            required_sources=config.required_sources,
        )
        return settings.collect(self._rules.style, self._limits), load_publishers(config.publishers)

    def _report_config(self, config: HostConfig, closed: Sequence[Origin]) -> None:
        """Say what a changed configuration closed, in one line for each file, and what it cannot use."""
        for key in self._failures:
            self._log.end_failure(key)
        self._failures = set[Origin | str]()
        labels = {origin.label for origin in closed}
        untrusted: dict[Path, list[str]] = {}
        for server in config.untrusted:
            if server.label in labels:
                untrusted.setdefault(server.file, []).append(server.label)
        for file, names in untrusted.items():
            message = (
                f"{file} was changed, and you have not trusted it as it is now: {', '.join(names)} "
                f"{'is' if len(names) == 1 else 'are'} closed; to review it and trust it, "
                "run `skillwire trust` in that project"
            )
            self._log.record(Event(kind=EventKind.FAILURE, message=message))
            self._failures.add(safe_line(message, limit=LONGEST_MESSAGE))
        reported = {name for names in untrusted.values() for name in names}
        for server in config.skipped:
            if server.label not in reported:
                origin = Origin.mcp(server.label)
                self._log.record(
                    Event(kind=EventKind.FAILURE, message=f"{origin} {server.reason}", origin=origin)
                )
                self._failures.add(origin)
        for origin in closed:
            if origin.label not in reported:
                self._log.remark(f"{origin} is closed: it is not configured any more")
