"""HostComponents: the parts of a host, made and connected with each other."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from skillwire.catalog import HostSkill, SkillTable
from skillwire.consent import ApprovalCallback, ConsentBackend, ConsentStore, ScopedCallback
from skillwire.errors import PolicyRefused, SkillwireError
from skillwire.host.admin import HostAdmin, SkillFeed
from skillwire.host.approver import Approver, Signatures
from skillwire.host.config.config import HostConfig, load_publishers
from skillwire.host.config.file import ConfigWatch
from skillwire.host.config.server import UntrustedServer
from skillwire.host.directories import HostOrigins, state_paths
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Fetcher, Loader
from skillwire.host.model import CatalogCache, ModelActions, OfferedSkills, ReadCallback, ResourceReader
from skillwire.host.policies import current_policy
from skillwire.host.registration import Following, Registration, StateWatch, folded_names
from skillwire.host.scanners import known_scans, scan_revision
from skillwire.host.search import Resolver, SkillSearch
from skillwire.host.sources import ListingCache
from skillwire.host.state import LONGEST_MESSAGE, Event, EventKind, EventRecorder, skill_event
from skillwire.host.storage import SkillCache, UsageRecorder
from skillwire.host.styles.base import RenderContext, Style
from skillwire.limits import Limits
from skillwire.skill import SkillUri
from skillwire.text import safe_line
from skillwire.trust import AdmissionRequest, Origin, Publisher, VerifiedSkill

_POLICY_SECONDS: Final = 1


class HostComponents:
    """The parts of a `SkillHost`. Nothing is opened by making it: no file, no connection."""

    def __init__(
        self,
        origins: HostOrigins,
        *,
        style: Style,
        limits: Limits,
        ask: ApprovalCallback | None,
        ask_read: ReadCallback | None,
        disabled: Iterable[str],
        discover: bool,
        watch: bool,
        cache_listings: bool | Literal["write"],
        connect_after: Callable[[], Awaitable[None]] | None,
        cache_directory: Path | None,
        approvals_file: Path | ConsentBackend | None,
        publishers: Iterable[Publisher],
        usage: UsageRecorder,
        semantic: bool,
        collect: Callable[..., HostOrigins],
    ) -> None:
        """`collect` is `collect_origins` with what does not come from a configuration."""
        self.config: ConfigWatch | None = None
        """The files that all of this came from, which are followed while the host is open."""
        self._collect = collect
        self._limits = limits
        places = state_paths()
        self.origins = origins
        self._publishers = tuple(publishers)
        self.style = style
        self.usage = usage
        self.watchers: list[Callable[[], None]] = []
        """Called when something changed that a person may be shown."""
        self._config_failures: set[Origin | str] = set()
        self._config_problem = ""
        self.log = EventRecorder()
        self.asker = ScopedCallback(ask)
        self.read_asker = ScopedCallback(ask_read)
        self.cache = SkillCache(cache_directory or places.cache, limits=limits)
        self.approvals = ConsentStore(approvals_file or places.approvals, on_problem=self.remark)
        self._bind(origins)
        self._ranks = dict(origins.ranks)
        naming = self.style.naming(self._ranks)
        self.registry = SkillTable(naming)
        registration = Registration(
            registry=self.registry,
            configs=origins.servers,
            log=self.log,
            disabled=folded_names(disabled),
            style=self.style,
            naming=naming,
            limits=limits,
            source_names=self._source_names,
            on_changed=self._changed,
        )
        listings = self.cache.directory.parent / "listings"
        self.inventory = Inventory(
            servers=origins.servers,
            sources=origins.sources,
            directories=origins.directories,
            later=origins.later,
            check_directory=self._check_directory,
            registry=self.registry,
            log=self.log,
            approvals=self.approvals,
            registration=registration,
            on_listed=self._listed,
            style=self.style,
            limits=limits,
            listings=ListingCache(listings, limits=limits) if cache_listings or connect_after else None,
            reads_listings=cache_listings != "write",
            connect_after=connect_after,
            discover=discover,
            watch=watch,
        )
        self.registration = registration
        self.approver = Approver(
            registry=self.registry,
            facts=self._admission_request,
            light_facts=self._light_request,
            store=self.approvals,
            signatures=Signatures(self._publishers, required=self._required_publishers, tell=self.log.record),
            cache=self.cache,
            asker=self.asker,
            tell=self.log.record,
            limits=limits,
        )
        self.fetcher = Fetcher(
            source_of=self.inventory.places.source,
            approver=self.approver,
            cache=self.cache,
            accept=self._check_style,
            listed_files=self.inventory.places.listed_files,
            limits=limits,
        )
        self.loader = Loader(
            registry=self.registry,
            source_of=self.inventory.places.source,
            take_fresh=registration.add,
            approver=self.approver,
            fetcher=self.fetcher,
            on_held=self._held_changed,
            on_use=usage.use,
            limits=limits,
        )
        # Fences that cannot be guessed, and that stay the same while the host is open.
        self.context = context = RenderContext(
            limits=limits,
            salt=secrets.token_bytes(16),
            local_path=self.inventory.places.local_path,
            listed_files=self.inventory.places.listed_files,
        )
        self.resolver = Resolver(
            registry=self.registry, inventory=self.inventory, loader=self.loader, log=self.log
        )
        reader = ResourceReader(
            inventory=self.inventory,
            loader=self.loader,
            registry=self.registry,
            asker=self.read_asker,
            style=self.style,
            context=context,
        )
        self.search = SkillSearch(
            registry=self.registry,
            source_of=self.inventory.places.source,
            cache=self.cache,
            limits=limits,
            semantic=semantic,
        )
        self.offered = OfferedSkills(
            self.registry,
            self.approver.is_offered,
            self._offer_revision,
        )
        self.actions = ModelActions(
            resolver=self.resolver,
            loader=self.loader,
            reader=reader,
            searcher=self.search,
            offered=self.offered.keys,
            usage=usage,
            style=self.style,
            context=context,
        )
        self.catalog = CatalogCache(
            self.offered, self.style, context, self.inventory.places.templates, on_turn=usage.offer
        )
        self.following = Following(
            registry=self.registry,
            approvals=self.approvals,
            held=self._held_uris,
            subscribe=self.inventory.follow,
            servers=self.inventory.places.servers,
            limits=limits,
        )
        self.admin = HostAdmin(
            approvals=self.approvals,
            cache=self.cache,
            _registry=self.registry,
            _inventory=self.inventory,
            _resolver=self.resolver,
            _loader=self.loader,
            _fetcher=self.fetcher,
            _approver=self.approver,
            _following=self.following,
            _watchers=self.watchers,
            _style=self.style,
            _limits=limits,
        )
        self.feed = SkillFeed(
            _registry=self.registry,
            _inventory=self.inventory,
            _registration=registration,
            _loader=self.loader,
            _fetcher=self.fetcher,
            _approver=self.approver,
            _following=self.following,
            _usage=usage,
        )

    async def open(
        self, tasks: TaskGroup, *, untrusted: Iterable[UntrustedServer], remarks: Iterable[str]
    ) -> None:
        """Read the policy and the approvals, list every origin, start what runs while the host is open."""
        await self.reload_policy()
        try:
            await self.approvals.open()
        except SkillwireError as error:
            # Then nothing is approved; local skills, and what needs no approval, still work.
            self.log.record(Event(kind=EventKind.FAILURE, message=str(error)))
        for remark in filter(None, (self.approvals.remark, *remarks)):
            self.remark(remark)
        tasks.start_soon(self.approvals.run)
        tasks.start_soon(self.usage.run)
        for server in untrusted:
            origin = Origin.mcp(server.label)
            message = f"{origin} {server.reason}"
            self.log.record(Event(kind=EventKind.FAILURE, message=message, origin=origin))
        await self.inventory.open(tasks)
        if self.inventory.watch:
            tasks.start_soon(self._watch_state)
            tasks.start_soon(self._watch_policy)

    def remark(self, message: str) -> None:
        self.log.record(Event(kind=EventKind.REMARK, message=message))

    def changed(self) -> None:
        """Tell whoever shows the state of this host."""
        for tell in self.watchers:
            tell()

    def _bind(self, origins: HostOrigins) -> None:
        """Use these origins where decisions and files are stored."""
        self.cache.refuse_inside(
            path for origin, path in origins.directories.items() if origin not in origins.later
        )
        self.cache.bind(origins.identities)
        self.approvals.bind(origins.identities)

    # What the parts ask of each other

    def _check_directory(self, path: Path) -> None:
        """`SourceError` for a directory in which the cache is: its files would become skills."""
        self.cache.refuse_inside([path])

    def _admission_request(self, skill: HostSkill) -> AdmissionRequest:
        return self.registration.candidate(skill.origin, skill.entry, disabled=not skill.enabled)

    def _check_style(self, verified: VerifiedSkill) -> None:
        self.style.check(verified, self._limits)

    def _held_changed(self, origin: Origin) -> None:
        self.following.update(origin)

    def _held_uris(self, origin: Origin) -> list[SkillUri]:
        return [held.entry.uri for held in self.loader.held if held.origin == origin]

    def _light_request(self, skill: HostSkill) -> AdmissionRequest:
        candidate = self.registration.light_candidate(skill.origin, skill.entry)
        scans = known_scans(candidate.policy, skill.entry)
        return candidate if scans is None else replace(candidate, scans=scans)

    def _source_names(self, origin: Origin) -> tuple[str, ...]:
        return self.origins.source_names(origin)

    def _offer_revision(self) -> tuple[int, ...]:
        """Return numbers that change when a model may be told of other skills."""
        return self.approvals.decline_revision, self.registration.policy_revision, scan_revision()

    def _required_publishers(self, origin: Origin) -> tuple[str, ...]:
        return self.origins.required_publishers(origin)

    # What changes while the host is open

    async def _watch_state(self) -> None:
        watch = StateWatch(
            self.approvals,
            self.config,
            on_approvals=self._approvals_changed,
            on_config=self._reconfigure,
            on_problem=self._set_config_problem,
        )
        await watch.run()

    async def _watch_policy(self) -> None:
        """Apart from the rest of the state: what a policy names may be slow to fetch."""
        while True:
            await anyio.sleep(_POLICY_SECONDS)
            await self.reload_policy()

    def _approvals_changed(self) -> None:
        """Something was approved, declined or revoked."""
        self.following.update_all()
        self.changed()

    async def reload_policy(self) -> None:
        """Judge by the policy as it is now. What it refuses is released: nothing more is read of it."""
        loaded = await anyio.to_thread.run_sync(current_policy)
        if not self.registration.set_policy(loaded):
            return
        self._recognize()
        for remark in loaded.remarks:
            self.remark(remark)
        for layer in loaded.policy.layers:
            if layer.problem:
                self.log.record(Event(kind=EventKind.FAILURE, message=layer.problem))
        for tell in self.registration.on_policy:
            tell()
        self.changed()
        for handle, held in self.loader.active():
            # As it was loaded, whatever its server has by now.
            skill = HostSkill(held.origin, held.entry, handle)
            try:
                await self.loader.require_permitted(skill)
            except PolicyRefused:
                self.loader.release(skill.key)
                message = f"{handle} from {held.origin} is refused by the policy now: it is released"
                self.log.record(skill_event(EventKind.POLICY, skill, message))
            except SkillwireError:
                continue  # It is judged again when something of it is read.

    def _recognize(self) -> None:
        """Recognize the publishers of the policy, then those of the configuration."""
        pinned = self.registration.loaded_policy.publishers
        self.approver.signatures.recognize((*pinned, *self._publishers))

    def _set_config_problem(self, message: str) -> None:
        self.log.end_failure(self._config_problem)
        self._config_problem = message
        if message:
            self.log.record(Event(kind=EventKind.FAILURE, message=message))
        self.changed()

    async def _reconfigure(self, config: HostConfig) -> None:
        """Become the host of an edited configuration: connect what is new, close what is not in it."""
        try:
            origins, publishers = await anyio.to_thread.run_sync(self._origins_of, config)
        except SkillwireError as error:
            self._set_config_problem(f"the configuration was changed and cannot be used: {error}")
            return
        before, self.origins = self.origins, origins
        closed = [one for one, server in before.servers.items() if origins.servers.get(one) != server]
        removed = [one for one in before.directories if one not in origins.directories]
        for origin in (*closed, *removed):
            await self.inventory.remove(origin)
        self._bind(origins)
        self._ranks.update(origins.ranks)
        self.registration.configs = self.inventory.places.configs = origins.servers
        self._publishers = tuple(publishers)
        self._recognize()
        self.registration.set_policy(self.registration.loaded_policy)  # Places may have other names now.
        for origin in origins.servers:
            if origin in closed or origin not in before.servers:
                await self.inventory.add(origin)
        for origin, source in origins.sources.items():
            if origin in origins.directories and origin not in before.directories:
                await self.inventory.add(origin, source)
        for skill in self.registration.set_disabled(config.disabled):
            self.loader.release(skill.key)
        self._report_config(config, [one for one in closed if one not in origins.servers])
        self.changed()

    def _origins_of(self, config: HostConfig) -> tuple[HostOrigins, list[Publisher]]:
        followed = self.config
        given = followed.directories if followed is not None else ()
        with_defaults = followed is not None and followed.default_directories and config.default_directories
        origins = self._collect(
            config.servers,
            (*config.local_directories, *given),
            with_default_directories=with_defaults,
            required_sources=config.required_sources,
        )
        return origins, load_publishers(config.publishers)

    def _report_config(self, config: HostConfig, closed: Sequence[Origin]) -> None:
        """Say what a changed configuration closed, in one line for each file, and what it cannot use."""
        for key in self._config_failures:
            self.log.end_failure(key)
        self._config_failures = set[Origin | str]()
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
            self.log.record(Event(kind=EventKind.FAILURE, message=message))
            self._config_failures.add(safe_line(message, limit=LONGEST_MESSAGE))
        reported = {name for names in untrusted.values() for name in names}
        for server in config.skipped:
            if server.label not in reported:
                origin = Origin.mcp(server.label)
                self.log.record(
                    Event(kind=EventKind.FAILURE, message=f"{origin} {server.reason}", origin=origin)
                )
                self._config_failures.add(origin)
        for origin in closed:
            if origin.label not in reported:
                self.remark(f"{origin} is closed: it is not configured any more")

    def _listed(self, origin: Origin) -> None:
        """Forget what was read of an origin: it may have changed."""
        self.fetcher.forget_current(origin)
        self.changed()

    def _changed(self, skill: HostSkill) -> None:
        """An entry changed: its approval ends, and an event is recorded if the skill is in use."""
        self.approver.end_outdated(skill)
        held = self.loader.held_text(skill.key)
        if held is not None and held.entry != skill.entry:
            message = f"{skill.handle} from {skill.origin} changed while it is in use; load it again"
            self.log.record(skill_event(EventKind.OUTDATED, skill, message))
