"""Resolver: which skill a name or a URI means, and which server a URI is a matter of (ENT-5, SEC-3)."""

from __future__ import annotations

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import AmbiguousName, SkillNotFound
from skillwire.host.inventory import Discovery
from skillwire.host.loader import Loader
from skillwire.host.styles.owners import owner_of
from skillwire.skill.uris import SkillUri, parse_uri
from skillwire.trust.origin import Origin


class Resolver:
    """Looks skills up among those that are registered, held, or served without being listed."""

    def __init__(self, registry: Registry, discovery: Discovery, loader: Loader) -> None:
        self._registry = registry
        self._discovery = discovery
        self._loader = loader

    async def find(self, name: str, server: str | None = None) -> RegisteredSkill:
        """The skill that a handle or a URI means, also one that its server does not list (LST-3)."""
        if "://" not in name:
            return self._registry.find(name)
        uri = parse_uri(name)
        try:
            return self._registry.find_uri(uri, server)
        except SkillNotFound:
            origin = self._discovery.server(server) if server is not None else self.likely_server(uri)
            return await self._discovery.look_up(uri, origin)

    async def key(self, name: str) -> SkillKey:
        """The skill that a name means, the held one of that name first."""
        return self._loader.held_as(name) or (await self.find(name)).key

    def handle(self, key: SkillKey, name: str) -> str:
        """What a skill is called now; `name` when nobody lists it any more."""
        skill = self._registry.get(key)
        return skill.handle if skill else name

    def knows(self, name: str) -> bool:
        """Whether a skill is called so."""
        try:
            self._registry.find(name)
        except AmbiguousName:
            return True
        except SkillNotFound:
            return False
        return True

    def registered_on(self, uri: SkillUri, server: str | None) -> str | None:
        """The label of the origin of a registered skill; `None` when it is not registered."""
        try:
            return self._registry.find_uri(uri, server).origin.label
        except SkillNotFound:
            return None

    def owner(self, uri: SkillUri) -> str:
        """The label of the one server that serves a URI; `AmbiguousName` when there are two."""
        servers = [Origin.mcp(state.label) for state in self._discovery.states()]
        return owner_of(uri, self._registry.skills(disabled=True), servers).label

    def likely_server(self, uri: SkillUri) -> Origin:
        """SEC-3: a URI that stands in the text of a held skill is a matter of that skill's server alone."""
        held = [skill for skill in self._loader.held if not skill.origin.is_local]
        naming = [
            skill.origin
            for skill in held
            if (text := self._loader.held_text(SkillKey(skill.origin, skill.entry.uri))) and uri in text.body
        ]
        return self._discovery.only_server(uri, frozenset(naming or (skill.origin for skill in held)))
