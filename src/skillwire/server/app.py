"""SkillServer: a whole MCP server that serves skills and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from skillwire.server.fastpath.parse import FastPath, discovery
from skillwire.server.http.lazy import Asgi
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.library import SkillLibrary
from skillwire.server.offer import Offer
from skillwire.server.stdio.transport import serve_stdio
from skillwire.sources.base import Source
from skillwire.sources.directory.roots import Root
from skillwire.version import VERSION

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from skillwire.server.stdio.sdk_session import SdkSession, Write

INSTRUCTIONS = (
    "This server publishes Agent Skills through the extension io.modelcontextprotocol/skills. "
    "List them with skills/list, or ask for one with skills/get. Read a skill's SKILL.md with resources/read "
    "before you start the job it describes, and its other files when SKILL.md calls for them. "
    "Check every file against the digest in the skill's entry."
)


class SkillServer:
    """Serves directories, `prefix=directory` strings or `Source` objects over stdio or HTTP.

    While it runs, it notifies clients of changes, unless `watch` is off. `legacy_features` are for clients
    that do not know the extension. With `fast` off, every request goes through the SDK.
    """

    def __init__(
        self,
        *sources: Source | Root | str | Path,
        name: str = "skillwire",
        instructions: str = INSTRUCTIONS,
        ttl_ms: int = 60_000,
        cache_scope: Literal["public", "private"] = "public",
        page_size: int = 100,
        unlisted: Iterable[str] = (),
        legacy_features: LegacyFeatures | None = None,
        watch: bool = True,
        fast: bool = True,
    ) -> None:
        self._name = name
        self._instructions = instructions
        self._offer = Offer(
            *sources,
            ttl_ms=ttl_ms,
            cache_scope=cache_scope,
            page_size=page_size,
            unlisted=unlisted,
            legacy_features=legacy_features,
            watch=watch,
        )
        self._lane: FastPath | None = None
        if fast:
            self._lane = FastPath(
                self._offer.answers,
                {"name": name, "version": VERSION},
                discovery(instructions, self._offer.legacy_features, watched=watch),
            )

    @property
    def library(self) -> SkillLibrary:
        return self._offer.library

    @cached_property
    def low_level(self) -> Server[Any]:
        """The SDK's server, made when it is first asked for: importing it takes longer than most answers."""
        from mcp.server.lowlevel import Server

        from skillwire.server.attach import attach
        from skillwire.server.service import SkillService

        server: Server[Any] = Server(self._name, version=VERSION, instructions=self._instructions)
        attach(server, SkillService(self._offer))
        return server

    async def run_stdio(self) -> None:
        """Serve one client over standard input and output until it goes away."""
        # Watched without the SDK: the lane may answer long before the SDK's server runs.
        watch = self._offer.watch
        async with self.library.opened() if watch is None else watch.running_soon():
            await serve_stdio(self._lane, self._sdk_session)

    def http_app(
        self, *, allowed_hosts: Iterable[str] = (), token: str | None = None, stateless: bool = False
    ) -> Asgi:
        """An ASGI application for any number of clients at `/mcp`, for a server that keeps lifespans."""
        from skillwire.server.http.app import http_app

        watch = self._offer.watch
        return http_app(
            self._lane,
            lambda: self.low_level,
            around=self.library.opened if watch is None else watch.running_soon,
            allowed_hosts=allowed_hosts,
            token=token,
            stateless=stateless,
        )

    def _sdk_session(self, write: Write) -> SdkSession:
        from skillwire.server.stdio.sdk_session import SdkSession

        return SdkSession(self.low_level, write)
