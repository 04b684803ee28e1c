"""A review page that a browser can open: a host on simulated servers, served in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from simulator import Simulator, make_host
from skillwire.clients import BaseDirectories, Scope
from skillwire.host import ServerConfig, SkillHost
from skillwire.install import Installer, SkillFetcher, StateFiles, Workspace
from skillwire.server import Address, HttpServer
from skillwire.server.http.server import listen
from skillwire.ui import ReviewApp
from ui.browser import Browser, chromium


class Served:
    """A page that is served. `call` runs something in its event loop."""

    def __init__(self, portal: BlockingPortal, host: SkillHost, app: ReviewApp, base: str) -> None:
        self._portal = portal
        self.host = host
        self.app = app
        self.base = base

    def call(self, action: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        return self._portal.call(action, *args)

    def link(self, path: str = "/") -> str:
        async def make() -> str:
            return self.app.link(path)

        return self.call(make)

    def refresh(self) -> None:
        self.call(self.host.refresh)


@contextmanager
def served(
    folder: Path, *, directories: tuple[Any, ...] = (), audit_log: Path | None = None, **servers: Simulator
) -> Generator[Served]:
    """The page of a host on these servers, with a project in `folder`."""
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)

    def installer() -> Installer:
        places = BaseDirectories(project=project, home=folder / "home", environment={})
        work = Workspace.open(Scope.PROJECT, places=places, files=StateFiles(folder / "install"))
        return Installer(work, SkillFetcher(project))

    async def run(started: Callable[[tuple[SkillHost, ReviewApp, str, HttpServer]], None]) -> None:
        async with AsyncExitStack() as stack:
            configs = {label: ServerConfig(instance=one.server) for label, one in servers.items()}
            host = make_host(folder, directories=directories, servers=configs)
            await stack.enter_async_context(host)
            address = Address("127.0.0.1", 0)
            listening = listen(address)
            port = listening.getsockname()[1]
            app = ReviewApp(
                host,
                names=["127.0.0.1"],
                port=port,
                installers={"project": installer},
                audit_log=audit_log,
            )
            server = HttpServer(app, address, listening=listening, path="/")
            started((host, app, f"http://127.0.0.1:{port}", server))
            await server.serve()

    with start_blocking_portal() as portal:
        got: dict[str, Any] = {}
        ready = portal.call(anyio.Event)

        def started(values: tuple[SkillHost, ReviewApp, str, HttpServer]) -> None:
            got["values"] = values
            ready.set()

        future = portal.start_task_soon(run, started)
        portal.call(ready.wait)
        host, app, base, server = got["values"]
        try:
            yield Served(portal, host, app, base)
        finally:
            portal.call(server.stop)
            future.result(30)


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with chromium() as started:
        yield started
