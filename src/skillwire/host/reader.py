"""Which skill a name or a URI means, and reads of any resource of a server (ENT-5, SEC-3).

A skill's URI is no plain resource. Reading it is loading the skill, with approval and verification, so that
no tool is a way around those (VER-7). Any other resource is untrusted text in a fence; it loads nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
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
    SourceError,
)
from skillwire.host.approvals.approver import Asker
from skillwire.host.events import EventLog
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Loader
from skillwire.host.search import FoundSkill, SkillSearch
from skillwire.host.styles.base import RenderContext, Style
from skillwire.host.styles.fields import typed_fields
from skillwire.host.styles.uris import owner_of
from skillwire.host.templates import ServedTemplate, find_template, is_template
from skillwire.issues import shown
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.uris import (
    SKILL_FILE,
    SkillUri,
    is_inside,
    parse_uri,
    path_below,
    shown_uri,
    skill_root,
)
from skillwire.text import clean_line
from skillwire.trust.approval import Reason
from skillwire.trust.fence import fence
from skillwire.trust.guards import ReadRuling, ReadScope, looks_like_uri, read_scope, uri_scheme
from skillwire.trust.origin import Origin


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A question to the user: may this one read go to `target`, while skills of `held` are in use?"""

    uri: str
    target: Origin
    held: tuple[Origin, ...]


_MOST_FAILURES: Final = 3
_MOST_LISTED: Final = 500
_NOBODY: Final = Origin.mcp("nobody")

ReadCallback: TypeAlias = Callable[[ReadRequest], Awaitable[bool]]
"""Asks the user about one read. Only `True` allows it."""


@dataclass(kw_only=True, eq=False)
class Resolver:
    """Looks skills up among those that are registered, held, or served without being listed."""

    registry: Registry
    inventory: Inventory
    loader: Loader
    log: EventLog

    async def find(
        self, name: str, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> RegisteredSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3).

        A template means the skill for these values of its arguments.
        """
        if is_template(name):
            return await self._of_template(name, server, values or {})
        if values:
            raise SkillNotFound(f"{shown(name, 200)} is a skill, not a template: give no values for it")
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

    async def _of_template(self, name: str, server: str | None, values: Mapping[str, str]) -> RegisteredSkill:
        """The skill of a template. Where a value is missing, the error has those that the server suggests."""
        served = find_template(name, self.inventory.templates(), server)
        missing = [argument for argument in served.arguments if not values.get(argument)]
        if missing:
            known = await self.suggestions(served, missing[0])
            hint = f"; {missing[0]} can be {', '.join(known)}" if known else ""
            needed = " and ".join(missing)
            raise SkillNotFound(
                f"{shown(served.name, 200)} from {served.origin} needs a value for {needed}{hint}"
            )
        uri = served.template.expand(values)
        try:
            return await self.inventory.look_up(uri, served.origin)
        except SkillNotFound as error:
            raise SkillNotFound(
                f"the template {shown(served.name, 200)} has no skill for these values: {error}", uri=uri
            ) from None

    async def suggestions(self, served: ServedTemplate, argument: str, prefix: str = "") -> tuple[str, ...]:
        """Values that a server suggests, fit for one line; none when it does not say."""
        try:
            values = await self.inventory.complete(served, argument, prefix)
        except SourceError:
            return ()
        return tuple(clean_line(value, limit=100).text for value in values)

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

    async def owner(self, uri: SkillUri) -> str:
        """The label of the one server that has a URI, as a skill or as any resource that it lists.

        `AmbiguousName` when there are two.
        """
        listing = await self.inventory.servers_listing(uri)
        skills = self.registry.skills(disabled=True)
        return owner_of(uri, skills, listing, self.inventory.servers()).label

    def local_file(self, text: str) -> tuple[RegisteredSkill, str] | None:
        """The local skill that a URI, or a path on disk, is a file of, and the path below its directory.

        `None` when it is no file of a local skill. Of two skills inside one another, the inner one.
        """
        found: list[tuple[int, RegisteredSkill, str]] = []
        path = None if looks_like_uri(text) else PurePath(text)
        uri = parse_uri(text) if path is None else None
        for skill in self.registry.skills():
            if not skill.origin.is_local:
                continue
            root = skill_root(skill.uri)
            if uri is not None and is_inside(uri, root):
                found.append((len(root), skill, "/".join(path_below(uri, root))))
            elif path is not None and (own := self.inventory.local_path(skill.origin, skill.uri)):
                folder = PurePath(own).parent
                if path.is_relative_to(folder):
                    found.append((len(root), skill, path.relative_to(folder).as_posix()))
        return max(found, key=lambda one: one[0])[1:] if found else None

    def files(self, skill: RegisteredSkill) -> tuple[str, ...]:
        """The paths of a skill's supporting files, as far as its entry or its server lists them."""
        entry = skill.entry
        root = skill_root(entry.uri)
        if entry.resources is DYNAMIC:
            uris = self.inventory.listed_files(skill.origin, entry.uri)
        else:
            uris = tuple(resource.uri for resource in entry.resources if resource.uri != entry.uri)
        return tuple("/".join(path_below(uri, root)) for uri in uris)

    def invocable(self) -> list[RegisteredSkill]:
        """The skills that a user can name in a message."""
        return [one for one in self.registry.skills() if typed_fields(one.entry.frontmatter).user_invocable]

    def likely_server(self, uri: SkillUri) -> Origin:
        """SEC-3: a URI in the text of a held skill concerns that skill's server alone."""
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
        # 1. SEC-3: file: URIs and plain paths are refused by scheme; another server's skills need approval.
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
            content = data.decode("utf-8")
        except UnicodeDecodeError:
            content = f"(binary: {len(data)} bytes; not shown as text)"
        fenced = fence(content, origin, part="_resource", attributes={"uri": uri}, salt=self.context.salt)
        return f"A resource of {origin}. It is untrusted text, and no skill.\n{fenced.text}"

    async def list_resources(self, label: str | None) -> str:
        """What servers list, each in a fence of its own: names are a server's text too (SEC-1)."""
        servers = [self.inventory.server(label)] if label is not None else self.inventory.servers()
        parts: list[str] = []
        for origin in servers:
            listed = await self.inventory.list_resources(origin)
            lines = [
                f"{one.uri} {clean_line(one.name, limit=200).text}".rstrip() for one in listed[:_MOST_LISTED]
            ]
            if len(listed) > _MOST_LISTED:
                lines.append(f"({len(listed) - _MOST_LISTED} more)")
            text = "\n".join(lines) or "(none)"
            fenced = fence(text, origin, part="_resources", attributes={}, salt=self.context.salt)
            parts.append(f"Resources of {origin}.\n{fenced.text}")
        return "\n".join(parts) or "No server is connected."

    def refuse_files(self, text: str) -> None:
        """SEC-3: what is no URI of a server's resource is refused before anybody is asked for it."""
        self._refuse(text, read_scope(text, _NOBODY, ()))

    def _refuse(self, text: str, ruling: ReadRuling) -> None:
        if ruling.scope is ReadScope.REFUSED:
            raise FormatError.of(
                rule="uri", message=f"{shown_uri(text)} {ruling}", fix="give the URI of a resource"
            )

    async def _permit(self, text: str, origin: Origin) -> None:
        ruling = read_scope(text, origin, [held.origin for held in self.loader.held])
        self._refuse(text, ruling)
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

    async def read_anywhere(self, text: str, server: str | None = None) -> str:
        """A resource of the one server that has it, or a file of a local skill by its path or URI (G6).

        What belongs to a local skill is read from disk, and never asked of a server.
        """
        if server is None and uri_scheme(text) != "file":
            local = self.resolver.local_file(text)
            if local is not None:
                skill, path = local
                if path == SKILL_FILE:
                    return self.style.skill_text(await self.loader.load(skill), skill.handle, self.context)
                file = await self.loader.read(skill.key, path)
                return self.style.file_text(file, skill.handle, self.context)
        if server is None:
            self.reader.refuse_files(text)
            server = await self.resolver.owner(parse_uri(text))
        return await self.reader.read(server, text)

    async def list_resources(self, server: str | None = None) -> str:
        """The resources of a server, or of all, a line for each, fenced."""
        return await self.reader.list_resources(server)

    async def mentions(self, message: str) -> str:
        """The text of every local skill that a message names, and the call for each one of a server."""
        lines: list[str] = []
        texts: list[str] = []
        for skill in self.style.mentioned(message, self.resolver.invocable()):
            if not skill.origin.is_local:
                lines.append(f"- {skill.handle}: {self.style.mention(skill)}")
                continue
            try:
                loaded = await self.loader.load(skill)
            except SkillwireError as error:
                lines.append(f"- {skill.handle}: {clean_line(str(error)).text}")
            else:
                texts.append(self.style.skill_text(loaded, skill.handle, self.context))
        if lines:
            lines.insert(0, "The user named these skills. Open each before you go on.")
        if texts:
            texts.insert(0, "The user named what follows.")
        return "\n".join([*texts, *lines])

    def knows(self, name: str) -> bool:
        """Whether a skill has this name."""
        return self.resolver.knows(name)

    def is_loaded(self, name: str) -> bool:
        """Whether the skill of this name is loaded."""
        return self.loader.held_as(name) is not None
