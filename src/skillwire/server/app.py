"""SkillServer: an MCP server that serves skills and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillwire.server.fastpath.answer import FastPath, discovery
from skillwire.server.library import SkillLibrary
from skillwire.server.options import DEFAULT_OPTIONS, ServerOptions
from skillwire.server.results import SkillResults
from skillwire.server.stdio.transport import serve_stdio
from skillwire.server.watcher import Watcher
from skillwire.sources.base import Source
from skillwire.sources.directory.roots import Root
from skillwire.version import VERSION

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from skillwire.server.http.app import McpEndpoint
    from skillwire.server.http.asgi import Asgi
    from skillwire.server.http.auth import Tokens
    from skillwire.server.stdio.sdk_session import SdkSession, Write

_ABOUT = (
    "This server publishes Agent Skills: instructions for particular kinds of tasks. Before you start a "
    "task, check whether a skill fits it, and load that skill first"
)
_BY_TOOLS = f"{_ABOUT}, with the tool load_skill. Read the files that it names with read_skill_file."
_BY_RESOURCES = f"{_ABOUT}: read its SKILL.md resource, and its other files when SKILL.md calls for them."


def default_instructions(options: ServerOptions) -> str:
    """The default instructions. A model can call tools and read resources, but not call methods of the
    extension.
    """
    return _BY_RESOURCES if options.legacy_features.tools == "never" else _BY_TOOLS


class SkillServer:
    """Serves directories, `prefix=directory` strings or `Source` objects over stdio or HTTP.

    Nothing is opened before the server runs. With `fast=False`, every request goes through the SDK.
    """

    def __init__(
        self,
        *sources: Source | Root | str | Path,
        name: str = "skillwire",
        instructions: str | None = None,
        options: ServerOptions = DEFAULT_OPTIONS,
        fast: bool = True,
    ) -> None:
        self.library = SkillLibrary(sources, options)
        self._name = name
        self._instructions = default_instructions(options) if instructions is None else instructions
        self._options = options
        self._results = SkillResults(self.library, options)
        self._watcher = Watcher(self.library) if options.watch else None
        self._fast_path = self._make_fast_path() if fast else None

    def _make_fast_path(self) -> FastPath:
        options = self._options
        found = discovery(self._instructions, options.legacy_features, watched=options.watch)
        return FastPath(self._results, {"name": self._name, "version": VERSION}, lambda: found)

    @cached_property
    def low_level(self) -> Server[Any]:
        """The SDK's server, created on first use, because importing the SDK is slow."""
        return self._make_low_level()

    def _make_low_level(self) -> Server[Any]:
        from mcp.server.lowlevel import Server

        from skillwire.server.attach import SkillService, attach

        server: Server[Any] = Server(self._name, version=VERSION, instructions=self._instructions)
        attach(server, SkillService(self._results, self._watcher))
        return server

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[SkillLibrary]:
        """Open the sources for the duration of the block, without serving them."""
        async with self.library.opened():
            yield self.library

    async def run_stdio(self) -> None:
        """Serve one client over standard input and output until it disconnects."""
        async with self._running():
            await serve_stdio(self._fast_path, self._sdk_session)

    def http_app(
        self,
        *,
        allowed_hosts: Iterable[str] = (),
        token: str | Tokens | None = None,
        stateless: bool = False,
        well_known: bool = False,
    ) -> Asgi:
        """An ASGI application for any number of clients at `/mcp`. The ASGI server must support lifespans.

        With `well_known`, the skills are also served as archives under `/.well-known/agent-skills/`.
        """
        from skillwire.server.http.app import HostNames, HttpApp

        endpoint = self.endpoint(HostNames(allowed_hosts).all, stateless=stateless)
        return HttpApp(self.library, endpoint, token=token, well_known=well_known)

    def endpoint(
        self, names: Iterable[str], *, stateless: bool = False, streamed: bool = False
    ) -> McpEndpoint:
        """The ASGI application at `/mcp`, for your own application, which must check tokens and the `Host`
        header.

        `names` are the host names that it responds to. With `streamed`, each response of a 2025 revision is a
        stream, so that the server can send requests to the client.
        """
        from skillwire.server.http.app import McpEndpoint
        from skillwire.server.http.fast import FastPathMiddleware

        fast_path = self._fast_path
        return McpEndpoint(
            lambda: self.low_level,
            fast_path=None if fast_path is None else partial(FastPathMiddleware, fast_path),
            around=self._running,
            names=names,
            stateless=stateless,
            streamed=streamed,
            limits=self._options.limits,
        )

    def _running(self) -> AbstractAsyncContextManager[None]:
        # Watched without the SDK: the fast path may respond long before the SDK's server runs.
        return self.library.opened() if self._watcher is None else self._watcher.running_soon()

    def _sdk_session(self, write: Write) -> SdkSession:
        from skillwire.server.stdio.sdk_session import SdkSession

        return SdkSession(self.low_level, write)
