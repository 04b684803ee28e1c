"""ResourceReader: reads of any resource of a server, kept within their origin (SEC-3).

A skill's URI is no plain resource. Reading it takes the way of loading, with approval and verification, so
that no tool is a side door (VER-7). What is read otherwise is untrusted text in a fence; it loads nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from skillwire.catalog.naming import SkillKey
from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.errors import ApprovalRequired, FormatError, LimitExceeded, SkillNotFound, SkillwireError
from skillwire.host.inventory import Discovery
from skillwire.host.loader import Loader
from skillwire.host.styles.base import RenderContext, Style
from skillwire.issues import Issue
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


ReadCallback: TypeAlias = Callable[[ReadRequest], Awaitable[bool]]
"""Asks the user about one read. Only `True` allows it."""


class ResourceReader:
    """Reads resources for a model."""

    def __init__(
        self,
        discovery: Discovery,
        loader: Loader,
        registry: Registry,
        ask: ReadCallback | None,
        *,
        style: Style,
        showing: RenderContext,
    ) -> None:
        self._discovery = discovery
        self._loader = loader
        self._registry = registry
        self._ask = ask
        self._style = style
        self._showing = showing

    async def permit_look_up(self, label: str, text: str) -> None:
        """SEC-3: a model that looks for a skill on another server than its own reads from that server."""
        await self._permit(text, self._discovery.server(label))

    async def read(self, label: str, text: str) -> str:
        """The resource in a fence, or the skill that it is."""
        # 1. SEC-3: file: URIs and plain paths are refused by scheme; another server's skills need a yes.
        origin = self._discovery.server(label)
        await self._permit(text, origin)
        uri = parse_uri(text)
        # 2. VER-7: a skill is loaded, a file of a loaded skill is read as such.
        skill = await self._skill_at(uri, origin)
        if skill is not None:
            loaded = await self._loader.load(skill)
            return self._style.skill_text(loaded, skill.handle, self._showing)
        owner = self._owner(uri, origin)
        if owner is not None:
            if self._loader.held_text(owner.key) is None:
                raise SkillNotFound(
                    f"{shown_uri(uri)} belongs to the skill {owner.handle}: load that first", uri=uri
                )
            file = await self._loader.read(owner.key, uri)
            return self._style.file_text(file, owner.handle, self._showing)
        # 3. Anything else is a server's text: fenced, and no skill.
        data = (await self._discovery.source(origin).read(uri)).data
        try:
            shown = data.decode("utf-8")
        except UnicodeDecodeError:
            shown = f"(binary: {len(data)} bytes; not shown as text)"
        fenced = fence(shown, origin, part="_resource", attributes={"uri": uri}, salt=self._showing.salt)
        return f"A resource of {origin}. It is untrusted text, and no skill.\n{fenced.text}"

    async def _permit(self, text: str, origin: Origin) -> None:
        ruling = read_scope(text, origin, [held.origin for held in self._loader.held])
        if ruling.scope is ReadScope.REFUSED:
            raise FormatError(
                Issue(rule="uri", message=f"{shown_uri(text)} {ruling}", fix="give the URI of a resource")
            )
        if ruling.scope is not ReadScope.NEEDS_APPROVAL:
            return
        request = ReadRequest(text, origin, ruling.others)
        if self._ask is None or (await self._ask(request)) is not True:
            raise ApprovalRequired(
                f"{shown_uri(text)}: {ruling}", reason=Reason.NEW, origin=origin.label, uri=shown_uri(text)
            )

    async def _skill_at(self, uri: SkillUri, origin: Origin) -> RegisteredSkill | None:
        """The skill whose `SKILL.md` this is, listed or not (FMT-5: only the server can say so)."""
        if self._registry.get(SkillKey(origin, uri)) is not None:
            return self._registry.find_uri(uri, origin.label)  # Refused when it is switched off.
        if not uri.endswith(f"/{SKILL_FILE}"):
            return None
        try:
            return await self._discovery.look_up(uri, origin)
        except (ApprovalRequired, LimitExceeded):
            raise  # The user excluded it, or the style does not take it.
        except SkillwireError:
            return None

    def _owner(self, uri: SkillUri, origin: Origin) -> RegisteredSkill | None:
        """The registered skill that lists this file, the innermost one."""
        owners = [
            skill
            for skill in self._registry.skills(disabled=True)
            if skill.origin == origin and is_inside(uri, skill_root(skill.uri))
        ]
        return max(owners, key=lambda skill: len(skill.uri), default=None)
