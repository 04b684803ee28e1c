"""Subscriptions: what one server says has changed, on either era of the protocol.

On 2026-07-28 a client opens a stream of changes and names what it follows. Before, it subscribes to each URI,
and notifications arrive as messages. Both end in the same `changes`. Like `sessions.py`, this module imports
the MCP SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated

from skillwire.errors import SkillwireError
from skillwire.limits import Limits

_MOST_CHANGES: Final = 100


class Subscriptions:
    """The changes of one server. They outlast its connections: what is followed is subscribed to again."""

    def __init__(
        self,
        *,
        limits: Limits,
        listen_after: anyio.Event | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        """No stream is opened before `listen_after` is set."""
        self._limits = limits
        self._listen_after = listen_after
        self._sleep = sleep
        self._changed: dict[str | None, None] = {}
        self._was_notified = False
        self._has_changes = anyio.Event()
        self._followed: frozenset[str] = frozenset()
        self._resubscribe: Callable[[], None] = _nothing

    async def changes(self) -> AsyncGenerator[Collection[str | None]]:
        """The URIs that the server says have changed, and `None` for its listing.

        They come together, and no more often than the limit, so that a server cannot keep the host busy.
        What the host looks at by itself, after it subscribed, does not count toward the limit: the first edit
        after a connection is seen at once.
        """
        while True:
            await self._has_changes.wait()
            self._has_changes = anyio.Event()
            changed, self._changed = self._changed, {}
            was_notified, self._was_notified = self._was_notified, False
            yield tuple(changed) if len(changed) <= _MOST_CHANGES else (None,)
            if was_notified:
                await self._sleep(self._limits.change_seconds)

    def follow(self, uris: Collection[str]) -> None:
        """Receive changes at and below these URIs, from now on and after every reconnection."""
        if self._followed != frozenset(uris):
            self._followed = frozenset(uris)
            self._resubscribe()

    def disconnected(self) -> None:
        """There is no connection to subscribe on; `listen` or `subscribe` is called on the next one."""
        self._resubscribe = _nothing

    async def on_message(self, message: object) -> None:
        """Note what changed. Anything else that a server sends unasked is ignored."""
        if isinstance(message, types.ResourceUpdatedNotification):
            self._notify(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            self._notify(None)

    async def listen(self, client: Client) -> None:
        """On 2026-07-28: keep a stream of changes open until the server ends it."""
        if self._listen_after is not None:
            await self._listen_after.wait()
        subscribed: frozenset[str] = frozenset()
        is_first = True
        while True:
            wanted = self._followed
            async with client.listen(
                resources_list_changed=True, resource_subscriptions=sorted(wanted)
            ) as changes:
                with anyio.CancelScope() as stream:
                    self._resubscribe = stream.cancel
                    if self._followed != wanted:
                        stream.cancel()  # Another skill was loaded while the stream was being opened.
                    # Nobody was notified of what changed before the stream was open.
                    self._look_again(*([None] if is_first else []), *sorted(wanted - subscribed))
                    is_first = False
                    subscribed = wanted
                    async for change in changes:
                        self._notify(change.uri if isinstance(change, ResourceUpdated) else None)
            if not stream.cancelled_caught:
                return

    async def subscribe(self, request: Callable[[str, Mapping[str, object]], Awaitable[object]]) -> None:
        """On the 2025 era: subscribe to each URI by itself. Notifications go to `on_message`."""
        subscribed: frozenset[str] = frozenset()
        while True:
            again = anyio.Event()
            self._resubscribe = again.set
            wanted = self._followed
            for method, uris in (
                ("resources/subscribe", wanted - subscribed),
                ("resources/unsubscribe", subscribed - wanted),
            ):
                for uri in uris:
                    with suppress(
                        SkillwireError
                    ):  # A server that refuses sends no notifications: that is all.
                        await request(method, {"uri": uri})
            # Nobody was notified of what changed before the subscription.
            self._look_again(*sorted(wanted - subscribed))
            subscribed = wanted
            await again.wait()

    def _notify(self, *uris: str | None) -> None:
        """The server says that these have changed."""
        self._was_notified = True
        self._look_again(*uris)

    def _look_again(self, *uris: str | None) -> None:
        if len(self._changed) <= _MOST_CHANGES:  # Beyond that, everything is listed again.
            self._changed.update(dict.fromkeys(uris))
        self._has_changes.set()


def _nothing() -> None:
    """Used while there is no connection."""
