"""Which skill a name or a URI means, and reads of any resource of a server (ENT-5, SEC-3).

A skill's URI is no plain resource. Reading it is loading the skill, with approval and verification, so that
no tool is a way around those (VER-7). Any other resource is untrusted text in a fence; it loads nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.catalog.render import render_directory
from skillwire.errors import (
    AmbiguousName,
    ApprovalRequired,
    FormatError,
    LimitExceeded,
    SkillNotFound,
    SkillwireError,
)
from skillwire.host.approvals.approver import Asker
from skillwire.host.events import EventLog
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Loader
from skillwire.host.search import FoundSkill, SkillSearch
from skillwire.host.styles.base import RenderContext, Style
from skillwire.host.styles.uris import owner_of
from skillwire.skill.uris import SKILL_FILE, SkillUri, is_inside, parse_uri, shown_uri, skill_root
from skillwire.trust.approval import Reason
from skillwire.trust.fence import fence
from skillwire.trust.guards import ReadScope, read_scope
from skillwire.trust.origin import Origin


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A question to the user: may this one read go to `target`, while skills of `held` are in use?"""

    uri: str
    target: Origin
    held: tuple[Origin, ...]


_MOST_FAILURES: Final = 3

ReadCallback: TypeAlias = Callable[[ReadRequest], Awaitable[bool]]
"""Asks the user about one read. Only `True` allows it."""


@dataclass(kw_only=True, eq=False)
class Resolver:
    """Looks skills up among those that are registered, held, or served without being listed."""

    registry: Registry
    inventory: Inventory
    loader: Loader
    log: EventLog

    async def find(self, name: str, server: str | None = None) -> RegisteredSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3)."""
        if "://" not in name:
            try:
                skill = self.registry.find(name)
            except SkillNotFound as error:
                raise self._with_failures(error) from None
            except AmbiguousName:
                if server is None:
                    raise
                skill = self._on_server(name, server)
            if server is not None and skill.origin.label != server:
                skill = self._on_server(name, server)
            return await self.inventory.current(skill)
        uri = parse_uri(name)
        try:
            return await self.inventory.current(self.registry.find_uri(uri, server))
        except SkillNotFound:
            origin = self.inventory.server(server) if server is not None else self.likely_server(uri)
            return await self.inventory.look_up(uri, origin)

    async def key(self, name: str) -> SkillKey:
        """The skill that a name means, the held one of that name first."""
        return self.loader.held_as(name) or (await self.find(name)).key

    def handle(self, key: SkillKey, name: str) -> str:
        """What a skill is called now; `name` when nobody lists it any more."""
        skill = self.registry.get(key)
        return skill.handle if skill else name

    def knows(self, name: str) -> bool:
        """Whether a skill is called so."""
        try:
            self.registry.find(name)
        except AmbiguousName:
            return True
        except SkillNotFound:
            return False
        return True

    def require_label(self, label: str) -> None:
        """Raise `SkillNotFound` when neither a server nor a directory has this label."""
        self.inventory.require_label(label)

    def registered_on(self, uri: SkillUri, server: str | None) -> str | None:
        """The label of the origin of a registered skill; `None` when it is not registered."""
        try:
            return self.registry.find_uri(uri, server).origin.label
        except SkillNotFound:
            return None

    def owner(self, uri: SkillUri) -> str:
        """The label of the one server that serves a URI; `AmbiguousName` when there are two."""
        return owner_of(uri, self.registry.skills(disabled=True), self.inventory.servers()).label

    def likely_server(self, uri: SkillUri) -> Origin:
        """SEC-3: a URI that stands in the text of a held skill concerns that skill's server alone."""
        held = [skill for skill in self.loader.held if not skill.origin.is_local]
        naming = [
            skill.origin
            for skill in held
            if (text := self.loader.held_text(SkillKey(skill.origin, skill.entry.uri))) and uri in text.body
        ]
        return self.inventory.only_server(uri, frozenset(naming or (skill.origin for skill in held)))

    def _on_server(self, name: str, server: str) -> RegisteredSkill:
        """The skill of this name on one server, where another one has the name too."""
        self.inventory.require_label(server)
        return self.registry.find(f"{server}/{name}")

    def _with_failures(self, error: SkillNotFound) -> SkillNotFound:
        """The error, with the servers and directories that could not be asked: it may be on one of those."""
        failed = [failure for failure in self.log.failures() if failure.origin is not None]
        if not failed:
            return error
        reasons = "; ".join(failure.message for failure in failed[:_MOST_FAILURES])
        more = f"; and {len(failed) - _MOST_FAILURES} more" if len(failed) > _MOST_FAILURES else ""
        return SkillNotFound(f"{error}. Not all places could be searched: {reasons}{more}", uri=error.uri)


@dataclass(kw_only=True, eq=False)
class ResourceReader:
    """Reads resources for a model."""

    inventory: Inventory
    loader: Loader
    registry: Registry
    asker: Asker[ReadCallback]
    style: Style
    context: RenderContext

    async def permit_look_up(self, label: str, text: str) -> None:
        """SEC-3: a model that looks for a skill on another server than its own reads from that server."""
        await self._permit(text, self.inventory.server(label))

    async def read(self, label: str, text: str) -> str:
        """The resource in a fence, or the skill that it is."""
        # 1. SEC-3: file: URIs and plain paths are refused by scheme; another server's skills need a yes.
        origin = self.inventory.server(label)
        await self._permit(text, origin)
        uri = parse_uri(text)
        # 2. VER-7: a skill is loaded, a file of a loaded skill is read as such.
        skill = await self._skill_at(uri, origin)
        if skill is not None:
            loaded = await self.loader.load(skill)
            return self.style.skill_text(loaded, skill.handle, self.context)
        owner = self._owner(uri, origin)
        if owner is not None:
            if self.loader.held_text(owner.key) is None:
                raise SkillNotFound(
                    f"{shown_uri(uri)} belongs to the skill {owner.handle}: load that first", uri=uri
                )
            file = await self.loader.read(owner.key, uri)
            return self.style.file_text(file, owner.handle, self.context)
        # 3. Anything else is a server's text: fenced, and no skill.
        data = (await self.inventory.source(origin).read(uri)).data
        try:
            shown = data.decode("utf-8")
        except UnicodeDecodeError:
            shown = f"(binary: {len(data)} bytes; not shown as text)"
        fenced = fence(shown, origin, part="_resource", attributes={"uri": uri}, salt=self.context.salt)
        return f"A resource of {origin}. It is untrusted text, and no skill.\n{fenced.text}"

    async def _permit(self, text: str, origin: Origin) -> None:
        ruling = read_scope(text, origin, [held.origin for held in self.loader.held])
        if ruling.scope is ReadScope.REFUSED:
            raise FormatError.of(
                rule="uri", message=f"{shown_uri(text)} {ruling}", fix="give the URI of a resource"
            )
        if ruling.scope is not ReadScope.NEEDS_APPROVAL:
            return
        request = ReadRequest(text, origin, ruling.others)
        ask = self.asker.current
        if ask is None or (await ask(request)) is not True:
            raise ApprovalRequired(
                f"{shown_uri(text)}: {ruling}", reason=Reason.NEW, origin=origin.label, uri=shown_uri(text)
            )

    async def _skill_at(self, uri: SkillUri, origin: Origin) -> RegisteredSkill | None:
        """The skill whose `SKILL.md` this is, listed or not (FMT-5: only the server can say so)."""
        if self.registry.get(SkillKey(origin, uri)) is not None:
            return self.registry.find_uri(uri, origin.label)  # Refused when it is switched off.
        if not uri.endswith(f"/{SKILL_FILE}"):
            return None
        try:
            return await self.inventory.look_up(uri, origin)
        except (ApprovalRequired, LimitExceeded):
            raise  # The user excluded it, or the style does not take it.
        except SkillwireError:
            return None

    def _owner(self, uri: SkillUri, origin: Origin) -> RegisteredSkill | None:
        """The registered skill that lists this file, the innermost one."""
        owners = [
            skill
            for skill in self.registry.skills(disabled=True)
            if skill.origin == origin and is_inside(uri, skill_root(skill.uri))
        ]
        return max(owners, key=lambda skill: len(skill.uri), default=None)


@dataclass(kw_only=True, eq=False)
class ModelActions:
    """What the tools of a model can do. Everything goes through approval and verification."""

    resolver: Resolver
    loader: Loader
    reader: ResourceReader
    searcher: SkillSearch
    style: Style
    context: RenderContext

    async def load_for_model(self, name: str, server: str | None = None) -> str:
        """The text of a skill. A model may name an unlisted one, but only where it may read (SEC-3)."""
        if "://" in name:
            uri = parse_uri(name)
            known = self.resolver.registered_on(uri, server)
            server = known or server or self.resolver.likely_server(uri).label
            if known is None:
                await self.reader.permit_look_up(server, uri)
        skill = await self.resolver.find(name, server)
        return self.style.skill_text(await self.loader.load(skill), skill.handle, self.context)

    async def read(self, name: str, path: str) -> str:
        """A file of a loaded skill, fenced."""
        key = await self.resolver.key(name)
        file = await self.loader.read(key, path)
        return self.style.file_text(file, self.resolver.handle(key, name), self.context)

    async def list_files(self, name: str, path: str = "") -> str:
        """A directory of a loaded skill, fenced: file names are a server's text too (SEC-1)."""
        key = await self.resolver.key(name)
        view = await self.loader.list_directory(key, path)
        context = self.context
        handle = self.resolver.handle(key, name)
        return render_directory(view, handle, key.origin, path, limits=context.limits, salt=context.salt)

    async def read_resource(self, server: str, uri: str) -> str:
        """A resource of a server; a skill's URI loads that skill (VER-7)."""
        return await self.reader.read(server, uri)

    async def search(self, query: str, *, server: str | None = None) -> Sequence[FoundSkill]:
        """The skills that fit a query best."""
        if server is not None:
            self.resolver.require_label(server)
        return await self.searcher.search(query, label=server)

    def owner(self, uri: str) -> str:
        """The label of the one server that serves a URI; `AmbiguousName` when there are two."""
        return self.resolver.owner(parse_uri(uri))

    def knows(self, name: str) -> bool:
        """Whether a skill has this name."""
        return self.resolver.knows(name)

    def is_loaded(self, name: str) -> bool:
        """Whether the skill of this name is loaded."""
        return self.loader.held_as(name) is not None
