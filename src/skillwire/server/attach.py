"""add_skills: one line that gives any MCP server in Python its skills.

The handlers go onto the low-level server that every framework stands on. Resources, tools and prompts that
the server already has stay where they are: ours are listed after them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, cast

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler

from skillwire.server.handlers import Handler
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.library import SkillLibrary
from skillwire.server.offer import Offer
from skillwire.server.service import LISTEN, SETTINGS, SkillService
from skillwire.server.watcher import with_lifespan
from skillwire.sources.base import Source
from skillwire.sources.directory.roots import Root
from skillwire.wire.v1 import EXTENSION_ID

# Where the frameworks keep the low-level server they are built on.
_INNER_SERVER = ("_lowlevel_server", "_mcp_server")


def add_skills(
    server: object,
    *sources: Source | Root | str | Path,
    ttl_ms: int = 60_000,
    cache_scope: Literal["public", "private"] = "public",
    page_size: int = 100,
    unlisted: Iterable[str] = (),
    legacy_features: LegacyFeatures | None = None,
    watch: bool = True,
) -> SkillLibrary:
    """Serve skills from `server`, a low-level `Server`, an `MCPServer` or a FastMCP server.

    Sources are directories, `prefix=directory` strings or `Source` objects. While the server runs,
    clients are notified of changes, unless `watch` is off. `legacy_features` are for clients that do not know
    the extension.
    """
    service = SkillService(
        Offer(
            *sources,
            ttl_ms=ttl_ms,
            cache_scope=cache_scope,
            page_size=page_size,
            unlisted=unlisted,
            legacy_features=legacy_features,
            watch=watch,
        )
    )
    attach(_low_level(server), service)
    return service.library


def attach(server: Server[Any], service: SkillService) -> None:
    """Put a service onto a low-level server and declare the extension (CAP-1, CAP-2)."""
    if EXTENSION_ID in server.extensions:
        raise ValueError(
            f"this server already declares {EXTENSION_ID}; pass all sources to one add_skills call"
        )
    for method, params, handler in service.methods.extension_methods():
        server.add_request_handler(method, params, handler)
    present = {method: _present(server, method) for method in (*service.bindings(), LISTEN)}
    for method, (params, wrap) in service.bindings().items():
        server.add_request_handler(method, params, wrap(present.get))
    _attach_listening(server, service, present[LISTEN])
    if service.tools is not None and present.get("tools/list") is None:
        server.get_tool_input_schema = service.tools.schema_of
    run = service.library.opened if service.watch is None else service.watch.running
    server.lifespan = with_lifespan(server.lifespan, run)
    server.extensions[EXTENSION_ID] = dict(SETTINGS)
    server.middleware.append(service.on_handshake)


def _attach_listening(server: Server[Any], service: SkillService, theirs: Handler | None) -> None:
    """Take part in the streams of the 2026-07-28 era, on the server's own bus where it has one."""
    if service.notifier is None:
        return
    if isinstance(theirs, ListenHandler):
        service.notifier.bus = theirs._bus  # pyright: ignore[reportPrivateUsage] - the one way to it
    elif theirs is not None:
        return  # A handler of another kind: what it listens to, we cannot know.
    handler = service.listen(theirs)
    if handler is not None:
        server.add_request_handler(LISTEN, types.SubscriptionsListenRequestParams, handler)


def _low_level(server: object) -> Server[Any]:
    if isinstance(server, Server):
        return cast("Server[Any]", server)
    for name in _INNER_SERVER:
        inner = getattr(server, name, None)
        if isinstance(inner, Server):
            return cast("Server[Any]", inner)
    raise TypeError(
        f"{type(server).__name__} is no MCP server; pass a Server, an MCPServer or a FastMCP server"
    )


def _present(server: Server[Any], method: str) -> Handler | None:
    entry = server.get_request_handler(method)
    return entry.handler if entry else None
