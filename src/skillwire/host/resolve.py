"""Resolver: which skill a name or a URI means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from skillwire.catalog import HostSkill, SkillKey, SkillTable
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.host.events import EventLog
from skillwire.host.held import HeldSkills
from skillwire.host.places import Places
from skillwire.host.state import find_template, is_template
from skillwire.host.styles.base import owner_of, typed_fields
from skillwire.skill import SkillUri, is_inside, parse_uri, path_below, skill_root
from skillwire.text import shown
from skillwire.trust import Origin, looks_like_uri

_MOST_FAILURES: Final = 3
"""A message names this many origins that do not work, and counts the others."""


@dataclass(kw_only=True, eq=False)
class Resolver:
    """Looks skills up: first among those that are registered, and then, for a URI, on the one server that
    may have it without listing it.
    """

    table: SkillTable
    places: Places
    held: HeldSkills
    log: EventLog

    async def find(
        self, name: str, server: str | None = None, values: Mapping[str, str] | None = None
    ) -> HostSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3).

        A template means the skill for these values of its arguments.
        """
        if is_template(name):
            return await self._of_template(name, server, values or {})
        if values:
            raise SkillNotFound(f"{shown(name, 200)} is a skill, not a template: give no values for it")
        if "://" not in name:
            if not self.knows(name):
                await self.places.list_cached_again()
            try:
                skill = self.table.find(name)
            except SkillNotFound as error:
                raise self._with_failures(error) from None
            except AmbiguousName:
                if server is None:
                    raise
                skill = self._on_server(name, server)
            if server is not None and skill.origin.label != server:
                skill = self._on_server(name, server)
            return await self.places.current(skill)
        uri = parse_uri(name)
        try:
            return await self.places.current(self.table.find_uri(uri, server))
        except SkillNotFound:
            origin = self.places.server(server) if server is not None else self.likely_server(uri)
            return await self.places.look_up(uri, origin)

    async def _of_template(self, name: str, server: str | None, values: Mapping[str, str]) -> HostSkill:
        """The skill of a template. Where a value is missing, the error has those that the server suggests."""
        served = find_template(name, self.places.templates(), server)
        missing = [argument for argument in served.arguments if not values.get(argument)]
        if missing:
            known = await self.places.suggestions(served, missing[0])
            hint = f"; {missing[0]} can be {', '.join(known)}" if known else ""
            needed = " and ".join(missing)
            raise SkillNotFound(
                f"{shown(served.name, 200)} from {served.origin} needs a value for {needed}{hint}"
            )
        uri = served.template.expand(values)
        try:
            return await self.places.look_up(uri, served.origin)
        except SkillNotFound as error:
            raise SkillNotFound(
                f"the template {shown(served.name, 200)} has no skill for these values: {error}", uri=uri
            ) from None

    async def key(self, name: str) -> SkillKey:
        """The skill that a name means, the held one of that name first."""
        return self.held.named(name) or (await self.find(name)).key

    def handle(self, key: SkillKey, name: str) -> str:
        """Return the current handle of a skill; `name` if it is no longer listed."""
        skill = self.table.get(key)
        return skill.handle if skill else name

    def knows(self, name: str) -> bool:
        """Whether a skill is called so."""
        try:
            self.table.find(name)
        except AmbiguousName:
            return True
        except SkillNotFound:
            return False
        return True

    def registered_on(self, uri: SkillUri, server: str | None) -> str | None:
        """The label of the origin of a registered skill; `None` when it is not registered."""
        try:
            return self.table.find_uri(uri, server).origin.label
        except SkillNotFound:
            return None

    async def owner(self, uri: SkillUri) -> str:
        """The label of the one server that has a URI, as a skill or as any resource that it lists.

        `AmbiguousName` when there are two.
        """
        listing = await self.places.servers_listing(uri)
        skills = self.table.skills(disabled=True)
        return owner_of(uri, skills, listing, self.places.server_origins()).label

    def local_file(self, text: str) -> tuple[HostSkill, str] | None:
        """The local skill that a URI, or a path on disk, is a file of, and the path below its directory.

        `None` when it is no file of a local skill. Of two skills inside one another, the inner one.
        """
        found: list[tuple[int, HostSkill, str]] = []
        path = None if looks_like_uri(text) else PurePath(text)
        uri = parse_uri(text) if path is None else None
        for skill in self.table.skills():
            if not skill.origin.is_local:
                continue
            root = skill_root(skill.uri)
            if uri is not None and is_inside(uri, root):
                found.append((len(root), skill, "/".join(path_below(uri, root))))
            elif path is not None and (own := self.places.local_path(skill.origin, skill.uri)):
                folder = PurePath(own).parent
                if path.is_relative_to(folder):
                    found.append((len(root), skill, path.relative_to(folder).as_posix()))
        return max(found, key=lambda one: one[0])[1:] if found else None

    def invocable(self) -> list[HostSkill]:
        """The skills that a user can name in a message."""
        return [one for one in self.table.skills() if typed_fields(one.entry.frontmatter).user_invocable]

    def likely_server(self, uri: SkillUri) -> Origin:
        """SEC-3: a URI in the text of a held skill concerns that skill's server alone."""
        held = [one for one in self.held.every() if not one.skill.origin.is_local]
        naming = [one.skill.origin for one in held if uri in one.verified.body]
        return self.places.only_server(uri, frozenset(naming or (one.skill.origin for one in held)))

    def _on_server(self, name: str, server: str) -> HostSkill:
        """The skill of this name on one server, where another one has the name too."""
        self.places.require_label(server)
        return self.table.find(f"{server}/{name}")

    def _with_failures(self, error: SkillNotFound) -> SkillNotFound:
        """The error, with the servers and directories that could not be asked: it may be on one of those."""
        failed = [failure for failure in self.log.failures() if failure.origin is not None]
        if not failed:
            return error
        reasons = "; ".join(failure.message for failure in failed[:_MOST_FAILURES])
        more = f"; and {len(failed) - _MOST_FAILURES} more" if len(failed) > _MOST_FAILURES else ""
        return SkillNotFound(f"{error}. Not all places could be searched: {reasons}{more}", uri=error.uri)
