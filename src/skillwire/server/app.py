"""SkillServer: a whole MCP server that serves skills and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from mcp.server.lowlevel import Server
from starlette.types import ASGIApp

from skillwire.server.answers import CacheAdvice
from skillwire.server.attach import attach, make_library
from skillwire.server.backstage import Backstage
from skillwire.server.http import http_app
from skillwire.server.lane import FastLane
from skillwire.server.library import SkillLibrary
from skillwire.server.methods import SkillMethods
from skillwire.server.stdio import serve_stdio
from skillwire.sources.base import Source
from skillwire.sources.roots import Root

INSTRUCTIONS = (
    "This server publishes Agent Skills through the extension io.modelcontextprotocol/skills. "
    "List them with skills/list, or ask for one with skills/get. Read a skill's SKILL.md with resources/read "
    "before you start the job it describes, and its other files when SKILL.md calls for them. "
    "Check every file against the digest in the skill's entry."
)


class SkillServer:
    """Serves directories, `prefix=directory` strings or `Source` objects over stdio or HTTP."""

    def __init__(
        self,
        *sources: Source | Root | str | Path,
        name: str = "skillwire",
        instructions: str = INSTRUCTIONS,
        ttl_ms: int = 60_000,
        cache_scope: Literal["public", "private"] = "public",
        page_size: int = 100,
        unlisted: Iterable[str] = (),
        fast: bool = True,
    ) -> None:
        self.library: SkillLibrary = make_library(sources, page_size=page_size, unlisted=unlisted)
        self.low_level: Server[Any] = Server(name, version=version("skillwire"), instructions=instructions)
        methods = SkillMethods(self.library, CacheAdvice(ttl_ms, cache_scope))
        attach(self.low_level, methods)
        self._lane = (
            FastLane(methods.answers, {"name": name, "version": version("skillwire")}) if fast else None
        )

    async def run_stdio(self) -> None:
        """Serve one client over standard input and output until it goes away."""
        await serve_stdio(self._lane, lambda write: Backstage(self.low_level, write))

    def http_app(
        self, *, allowed_hosts: Iterable[str] = (), token: str | None = None, stateless: bool = False
    ) -> ASGIApp:
        """An ASGI application that serves any number of clients at `/mcp`."""
        return http_app(self.low_level, allowed_hosts=allowed_hosts, token=token, stateless=stateless)
