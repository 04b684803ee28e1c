"""SkillServer: an MCP server that serves skills and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillwire.documents import JsonObject
from skillwire.lazy import import_sdk
from skillwire.server.fastpath import EntryCache, FastPath, discovery
from skillwire.server.library import DEFAULT_OPTIONS, Catalog, ServerOptions, SkillLibrary
from skillwire.server.results import SkillResults
from skillwire.server.stdio import serve_stdio
from skillwire.server.watcher import Watcher
from skillwire.sources import Root, Source
from skillwire.version import VERSION

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from skillwire.access import Caller, Identity
    from skillwire.server.attach import SdkSession, Write
    from skillwire.server.http.app import McpEndpoint
    from skillwire.server.http.frontend import HttpFrontend

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
        self._results = self._make_results()
        self._watcher = Watcher(self.library) if options.watch else None
        self._fast_path = self._make_fast_path() if fast else None

    def _make_results(self) -> SkillResults:
        return SkillResults(self.library, self._options)

    def _make_fast_path(self) -> FastPath:
        room = self._options.limits.response_cache_bytes
        info = {"name": self._name, "version": VERSION}
        return FastPath(self._results, info, self._discover, entries=EntryCache(2 * room), room=room)

    async def _discover(self) -> JsonObject:
        return discovery(await self._introduce(), self._options)

    async def _introduce(self) -> str:
        """The instructions for a client that connects now."""
        return self._instructions

    @cached_property
    def low_level(self) -> Server[Any]:
        """The SDK's server, created on first use, because importing the SDK is slow."""
        import_sdk()
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
            await serve_stdio(self._fast_path, self._sdk_session, self._on_connect)

    def http_app(
        self,
        *,
        allowed_hosts: Iterable[str] = (),
        token: str | None = None,
        identity: Identity[Caller] | None = None,
        stateless: bool = False,
        well_known: bool = False,
    ) -> HttpFrontend[Caller, None]:
        """An ASGI application for any number of clients at `/mcp`. The ASGI server must support lifespans.

        `identity` finds the caller of a request, such as a `TokenFile`; `token` is a single token instead.
        With `well_known`, the skills are also served as archives under `/.well-known/agent-skills/`.
        """
        from skillwire.access import Callers, OpenIdentity
        from skillwire.server.http.app import library_app
        from skillwire.server.http.frontend import HostNames

        limits = self._options.limits
        if token is not None:
            identity = Callers.of_token(token, limits=limits)
        names = tuple(allowed_hosts)
        return library_app(
            self.library,
            self.endpoint(HostNames(names).all, stateless=stateless),
            identity or OpenIdentity(),
            allowed_hosts=names,
            well_known=well_known,
            limits=limits,
        )

    def endpoint(
        self, names: Iterable[str], *, stateless: bool = False, streamed: bool = False
    ) -> McpEndpoint:
        """The ASGI application at `/mcp`, for your own application, which must check tokens and the `Host`
        header.

        `names` are the host names that it responds to. With `streamed`, each response of a 2025 revision is a
        stream, so that the server can send requests to the client.
        """
        from skillwire.server.http.app import FastPathMiddleware, McpEndpoint

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

    def _sdk_session(self, write: Write, seen: Catalog | None) -> SdkSession:
        import_sdk()
        from skillwire.server.attach import SdkSession

        server = self.low_level
        if self._watcher is not None and self._watcher.notifier is not None and seen is not None:
            self._watcher.notifier.begin_with(seen)
        return SdkSession(server, write)

    def _on_connect(self, after_change: Callable[[], Awaitable[None]]) -> None:
        if self._watcher is not None:
            self._watcher.before_notifying = after_change
