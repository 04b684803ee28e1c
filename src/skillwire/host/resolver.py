"""Resolver: which skill a name or a URI means (ENT-5, LST-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import AmbiguousName, SkillNotFound, SourceError
from skillwire.host.events import EventLog
from skillwire.host.inventory import Inventory
from skillwire.host.loader import Loader
from skillwire.host.styles.fields import typed_fields
from skillwire.host.styles.uris import owner_of
from skillwire.host.templates import ServedTemplate, find_template, is_template
from skillwire.issues import shown
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.uris import SkillUri, is_inside, parse_uri, path_below, skill_root
from skillwire.text import clean_line
from skillwire.trust.guards import looks_like_uri
from skillwire.trust.origin import Origin

_MOST_FAILURES: Final = 3
"""A message names this many origins that do not work, and counts the others."""


@dataclass(kw_only=True, eq=False)
class Resolver:
    """Looks skills up: first among those that are registered, and then, for a URI, on the one server that
    may have it without listing it.
    """

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
            if not self.knows(name):
                await self.inventory.list_cached_again()
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
            origin = self.inventory.places.server(server) if server is not None else self.likely_server(uri)
            return await self.inventory.look_up(uri, origin)

    async def _of_template(self, name: str, server: str | None, values: Mapping[str, str]) -> RegisteredSkill:
        """The skill of a template. Where a value is missing, the error has those that the server suggests."""
        served = find_template(name, self.inventory.places.templates(), server)
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
            values = await self.inventory.places.complete(served, argument, prefix)
        except SourceError:
            return ()
        return tuple(clean_line(value, limit=100).text for value in values)

    async def key(self, name: str) -> SkillKey:
        """The skill that a name means, the held one of that name first."""
        return self.loader.held_as(name) or (await self.find(name)).key

    def handle(self, key: SkillKey, name: str) -> str:
        """What a skill is called now; `name` if it is no longer listed."""
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
        self.inventory.places.require_label(label)

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
        listing = await self.inventory.places.servers_listing(uri)
        skills = self.registry.skills(disabled=True)
        return owner_of(uri, skills, listing, self.inventory.places.servers()).label

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
            elif path is not None and (own := self.inventory.places.local_path(skill.origin, skill.uri)):
                folder = PurePath(own).parent
                if path.is_relative_to(folder):
                    found.append((len(root), skill, path.relative_to(folder).as_posix()))
        return max(found, key=lambda one: one[0])[1:] if found else None

    def files(self, skill: RegisteredSkill) -> tuple[str, ...]:
        """The paths of a skill's supporting files, as far as its entry or its server lists them."""
        entry = skill.entry
        root = skill_root(entry.uri)
        if entry.resources is DYNAMIC:
            uris = self.inventory.places.listed_files(skill.origin, entry.uri)
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
        return self.inventory.places.only_server(uri, frozenset(naming or (skill.origin for skill in held)))

    def _on_server(self, name: str, server: str) -> RegisteredSkill:
        """The skill of this name on one server, where another one has the name too."""
        self.inventory.places.require_label(server)
        return self.registry.find(f"{server}/{name}")

    def _with_failures(self, error: SkillNotFound) -> SkillNotFound:
        """The error, with the servers and directories that could not be asked: it may be on one of those."""
        failed = [failure for failure in self.log.failures() if failure.origin is not None]
        if not failed:
            return error
        reasons = "; ".join(failure.message for failure in failed[:_MOST_FAILURES])
        more = f"; and {len(failed) - _MOST_FAILURES} more" if len(failed) > _MOST_FAILURES else ""
        return SkillNotFound(f"{error}. Not all places could be searched: {reasons}{more}", uri=error.uri)
