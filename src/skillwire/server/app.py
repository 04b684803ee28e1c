"""SkillServer: a whole MCP server that serves skills and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mcp.server.lowlevel import Server
from starlette.types import ASGIApp

from skillwire.server.attach import attach
from skillwire.server.backstage import Backstage
from skillwire.server.http import http_app
from skillwire.server.lane import FastLane
from skillwire.server.library import SkillLibrary
from skillwire.server.service import SkillService
from skillwire.server.stdio import serve_stdio
from skillwire.server.surfaces import Surfaces
from skillwire.sources.base import Source
from skillwire.sources.roots import Root

INSTRUCTIONS = (
    "This server publishes Agent Skills through the extension io.modelcontextprotocol/skills. "
    "List them with skills/list, or ask for one with skills/get. Read a skill's SKILL.md with resources/read "
    "before you start the job it describes, and its other files when SKILL.md calls for them. "
    "Check every file against the digest in the skill's entry."
)


class SkillServer:
    """Serves directories, `prefix=directory` strings or `Source` objects over stdio or HTTP.

    While it runs, changes are seen and told to clients, unless `watch` is off. `surfaces` are for clients
    that do not know the extension.
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
        surfaces: Surfaces | None = None,
        watch: bool = True,
        fast: bool = True,
    ) -> None:
        self._service = SkillService(
            *sources,
            ttl_ms=ttl_ms,
            cache_scope=cache_scope,
            page_size=page_size,
            unlisted=unlisted,
            surfaces=surfaces,
            watch=watch,
        )
        self.library: SkillLibrary = self._service.library
        self.low_level: Server[Any] = Server(name, version=version("skillwire"), instructions=instructions)
        attach(self.low_level, self._service)
        answers = self._service.methods.answers
        self._lane = FastLane(answers, {"name": name, "version": version("skillwire")}) if fast else None

    async def run_stdio(self) -> None:
        """Serve one client over standard input and output until it goes away."""
        # Watching from the start: the lane may answer long before the SDK's server runs.
        watch = self._service.watch
        async with nullcontext() if watch is None else watch.running():
            await serve_stdio(self._lane, lambda write: Backstage(self.low_level, write))

    def http_app(
        self, *, allowed_hosts: Iterable[str] = (), token: str | None = None, stateless: bool = False
    ) -> ASGIApp:
        """An ASGI application that serves any number of clients at `/mcp`."""
        return http_app(self.low_level, allowed_hosts=allowed_hosts, token=token, stateless=stateless)
