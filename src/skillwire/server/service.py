"""SkillService: everything that one server gives out of its skills, ready to be put onto it.

The methods of the extension, the resources, and what older clients read; who is told of changes; the watch.
`SkillServer`, `add_skills` and `SkillsExtension` all put the same service onto a server.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus

from skillwire.server.handlers import Context, Handler, SkillMethods
from skillwire.server.legacy.prompts import SkillPrompts
from skillwire.server.legacy.tools import NAMES, SkillTools
from skillwire.server.merge import Wrap, both_of, call_theirs_first, list_after, read_first
from skillwire.server.notifications import (
    PROMPTS_CHANGED,
    TOOLS_CHANGED,
    Notifier,
    can_be_told,
    connection_of,
)
from skillwire.server.offer import Offer
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID

SETTINGS: Final[dict[str, Any]] = {DIRECTORY_READ_SETTING: True}
LISTEN: Final = "subscriptions/listen"
SUBSCRIBE: Final = "resources/subscribe"


class SkillService:
    """An offer, on the SDK. Where it is watched, clients are told of changes; otherwise of none."""

    def __init__(self, offer: Offer) -> None:
        library, cache, limits = offer.library, offer.cache, offer.limits
        mode = offer.legacy_features.tools
        self.library = library
        self.methods = SkillMethods(offer.answers)
        self.tools = None if mode == "never" else SkillTools(library, cache, mode, limits=limits)
        self.prompts = SkillPrompts(library, cache, limits=limits) if offer.legacy_features.prompts else None
        self.notifier: Notifier | None = None
        self.watch = offer.watch
        self._limits = limits
        if self.watch is not None:
            self.notifier = Notifier(
                library, offer.legacy_resources, bus=InMemorySubscriptionBus(), limits=limits
            )
            if self.tools is not None:
                self.notifier.lists[TOOLS_CHANGED] = self.tools.differs
            if self.prompts is not None:
                # Every prompt is a skill: when the skills are others, so are the prompts.
                self.notifier.lists[PROMPTS_CHANGED] = lambda _before, _after: True
            self.watch.notifier = self.notifier

    @property
    def bus(self) -> SubscriptionBus | None:
        """Where changes are published for clients of the 2026-07-28 era."""
        return None if self.notifier is None else self.notifier.bus

    def bindings(self) -> dict[str, tuple[type[types.RequestParams], Wrap]]:
        """Our part in the methods that a server may have itself: what they take, and how to handle them."""
        page, methods = types.PaginatedRequestParams, self.methods
        listed: list[tuple[str, str, Handler]] = [
            ("resources/list", "resources", methods.list_resources),
            ("resources/templates/list", "resourceTemplates", methods.list_templates),
        ]
        bindings: dict[str, tuple[type[types.RequestParams], Wrap]] = {
            method: (page, list_after(method, key, ours)) for method, key, ours in listed
        }
        read = "resources/read"
        bindings[read] = (types.ReadResourceRequestParams, read_first(read, methods.read_resource))
        if self.tools is not None:
            listing, call = "tools/list", "tools/call"
            wrap = list_after(listing, "tools", self.tools.list_tools, by_name=True)
            bindings[listing] = (page, wrap)
            wrap = call_theirs_first(call, listing, "tools", self.tools.call_tool, _is_our_tool)
            bindings[call] = (types.CallToolRequestParams, wrap)
        if self.prompts is not None:
            listing, get = "prompts/list", "prompts/get"
            wrap = list_after(listing, "prompts", self.prompts.list_prompts, by_name=True)
            bindings[listing] = (page, wrap)
            wrap = call_theirs_first(get, listing, "prompts", self.prompts.get_prompt, self.prompts.knows)
            bindings[get] = (types.GetPromptRequestParams, wrap)
        if self.notifier is not None:
            bindings[SUBSCRIBE] = (
                types.SubscribeRequestParams,
                both_of(SUBSCRIBE, self.notifier.subscribe),
            )
            end = "resources/unsubscribe"
            bindings[end] = (types.UnsubscribeRequestParams, both_of(end, self.notifier.unsubscribe))
        return bindings

    def listen(self, theirs: Handler | None) -> Handler | None:
        """The handler of `subscriptions/listen`; `theirs` must publish what is on our bus."""
        if self.notifier is None:
            return theirs
        # All that one client can ask for fits, so a burst ends no stream.
        room = self._limits.subscriptions_per_client + 16
        ours = ListenHandler(
            self.notifier.bus, max_subscriptions=self._limits.listeners, max_buffered_events=room
        )
        return self.notifier.listening(theirs or ours)

    async def on_handshake(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: put the `initialize` answer of the 2025 era right (CAP-4).

        That era's schema knows no `extensions`, so the SDK drops them on the way out. Changes are promised
        where they can be delivered, and only there.
        """
        result = await call_next(ctx)
        if ctx.method != "initialize" or not isinstance(result, dict):
            return result
        capabilities: dict[str, Any] = result.setdefault("capabilities", {})
        capabilities.setdefault("extensions", {})[EXTENSION_ID] = dict(SETTINGS)
        if self.notifier is not None and self.watch is not None:
            is_told = can_be_told(ctx) and self.watch.is_running
            if is_told:
                await self.notifier.join(connection_of(ctx))
            capabilities.setdefault("resources", {})["subscribe"] = is_told
            for kind, is_ours in {"resources": True, "tools": self.tools, "prompts": self.prompts}.items():
                if is_ours and kind in capabilities:
                    capabilities[kind]["listChanged"] = is_told
        return result


async def _is_our_tool(name: str) -> bool:
    return name in NAMES
