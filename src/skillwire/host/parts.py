"""HostParts: the parts of a host, made and connected with each other."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import SkillwireError
from skillwire.host.admin import HostAdmin
from skillwire.host.approvals.approver import Approver
from skillwire.host.approvals.asking import ApprovalCallback, Asker
from skillwire.host.approvals.database import ApprovalBackend
from skillwire.host.approvals.store import ApprovalStore
from skillwire.host.cache import SkillCache
from skillwire.host.config.file import identities_by_label
from skillwire.host.config.trust import UntrustedServer
from skillwire.host.directories import state_places
from skillwire.host.events import Event, EventKind, EventRecorder, skill_event
from skillwire.host.feed import SkillFeed
from skillwire.host.fetcher import Fetcher
from skillwire.host.inventory import Inventory
from skillwire.host.listings import ListingCache
from skillwire.host.loader import Loader
from skillwire.host.origins import HostOrigins
from skillwire.host.reader import ModelActions, ReadCallback, ResourceReader
from skillwire.host.registration import Registration, folded_names
from skillwire.host.resolver import Resolver
from skillwire.host.search import SkillSearch
from skillwire.host.signatures import Signatures
from skillwire.host.styles.base import RenderContext, Style
from skillwire.host.tools import CatalogCache, OfferedSkills
from skillwire.limits import Limits
from skillwire.trust.origin import Origin
from skillwire.trust.publishers import Publisher


class HostParts:
    """What a `SkillHost` consists of. Nothing is opened by making it: no file, no connection."""

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
        cache_listings: bool,
        cache_directory: Path | None,
        approvals_file: Path | ApprovalBackend | None,
        publishers: Iterable[Publisher],
    ) -> None:
        places = state_places()
        self.style = style
        self.log = EventRecorder()
        self.asker = Asker(ask)
        self.read_asker = Asker(ask_read)
        self.cache = SkillCache(cache_directory or places.cache, limits=limits)
        self.approvals = ApprovalStore(approvals_file or places.approvals, on_problem=self.remark)
        self.cache.refuse_inside(
            path for origin, path in origins.directories.items() if origin not in origins.later
        )
        self.cache.bind(origins.identities)
        self.approvals.bind(origins.identities, identities_by_label)
        naming = self.style.naming(origins.ranks)
        self.registry = Registry(naming)
        registration = Registration(
            registry=self.registry,
            configs=origins.servers,
            log=self.log,
            disabled=folded_names(disabled),
            style=self.style,
            naming=naming,
            limits=limits,
            on_changed=self._changed,
        )
        listings = self.cache.directory.parent / "listings"
        self.inventory = Inventory(
            servers=origins.servers,
            sources=origins.sources,
            directories=origins.directories,
            later=origins.later,
            check_directory=lambda path: self.cache.refuse_inside([path]),
            registry=self.registry,
            log=self.log,
            approvals=self.approvals,
            registration=registration,
            on_listed=self._listed,
            style=self.style,
            limits=limits,
            listings=ListingCache(listings, limits=limits) if cache_listings else None,
            discover=discover,
            watch=watch,
        )
        self.approver = Approver(
            registry=self.registry,
            facts=lambda skill: registration.candidate(skill.origin, skill.entry, disabled=not skill.enabled),
            policy=registration.policy,
            approvals=self.approvals,
            signatures=Signatures(publishers, required=origins.required_publishers, tell=self.log.record),
            cache=self.cache,
            asker=self.asker,
            tell=self.log.record,
            limits=limits,
        )
        self.fetcher = Fetcher(
            source_of=self.inventory.places.source,
            approver=self.approver,
            cache=self.cache,
            accept=lambda verified: self.style.check(verified, limits),
            listed_files=self.inventory.places.listed_files,
            limits=limits,
        )
        self.loader = Loader(
            registry=self.registry,
            source_of=self.inventory.places.source,
            take_fresh=registration.add,
            approver=self.approver,
            fetcher=self.fetcher,
            on_held=self._follow_held,
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
            registry=self.registry, source_of=self.inventory.places.source, cache=self.cache, limits=limits
        )
        self.offered = OfferedSkills(
            self.registry, self.approver.is_offered, lambda: self.approvals.decline_revision
        )
        self.actions = ModelActions(
            resolver=self.resolver,
            loader=self.loader,
            reader=reader,
            searcher=self.search,
            offered=self.offered.keys,
            style=self.style,
            context=context,
        )
        self.catalog = CatalogCache(self.offered, self.style, context, self.inventory.places.templates)
        self.admin = HostAdmin(
            approvals=self.approvals,
            cache=self.cache,
            _registry=self.registry,
            _inventory=self.inventory,
            _resolver=self.resolver,
            _loader=self.loader,
            _fetcher=self.fetcher,
            _approver=self.approver,
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
        )

    async def open(
        self, tasks: TaskGroup, *, untrusted: Iterable[UntrustedServer], remarks: Iterable[str]
    ) -> None:
        """Read the approvals, connect and list every origin, and start what runs while the host is open."""
        try:
            await anyio.to_thread.run_sync(self.cache.adopt)
            await self.approvals.open()
        except SkillwireError as error:
            # Then nothing is approved; local skills, and what needs no approval, still work.
            self.log.record(Event(kind=EventKind.FAILURE, message=str(error)))
        for remark in filter(None, (self.approvals.remark, *remarks)):
            self.remark(remark)
        tasks.start_soon(self.approvals.run)
        for server in untrusted:
            origin = Origin.mcp(server.label)
            message = f"{origin} {server.reason}"
            self.log.record(Event(kind=EventKind.FAILURE, message=message, origin=origin))
        await self.inventory.open(tasks)

    def remark(self, message: str) -> None:
        self.log.record(Event(kind=EventKind.REMARK, message=message))

    def _listed(self, origin: Origin) -> None:
        """What was read of an origin may have changed."""
        self.fetcher.forget_current(origin)

    def _follow_held(self, origin: Origin) -> None:
        """Subscribe to changes of what is in use, and of nothing else."""
        held = [held.entry.uri for held in self.loader.held if held.origin == origin]
        self.inventory.follow(origin, held)

    def _changed(self, skill: RegisteredSkill) -> None:
        """An entry changed: its approval ends, and an event is recorded if the skill is in use."""
        self.approver.forget_changed(skill)
        held = self.loader.held_text(skill.key)
        if held is not None and held.entry != skill.entry:
            message = f"{skill.handle} from {skill.origin} changed while it is in use; load it again"
            self.log.record(skill_event(EventKind.OUTDATED, skill, message))
