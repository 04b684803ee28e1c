"""PageBeside: the review page at the address of another application, such as a gateway."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import TYPE_CHECKING, Any

from skillwire.server.http.asgi import StoppableApp

if TYPE_CHECKING:
    from skillwire.server.http.asgi import Asgi, Receive, Scope, Send
    from skillwire.ui.app import ReviewApp


class PageBeside(StoppableApp):
    """Two applications at one address: `app` serves the given paths, and `page` all others."""

    def __init__(self, app: Asgi, page: ReviewApp, paths: Collection[str]) -> None:
        super().__init__()
        self._app = app
        self._page = page
        self._paths = frozenset(paths)

    def end_streams(self) -> None:
        self._page.end_streams()
        if isinstance(self._app, StoppableApp):
            self._app.end_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            if isinstance(self._app, StoppableApp):
                self._app.connections = self.connections
            async with self._page.running():
                await self._app(scope, receive, self._preparing(send))
        elif scope["type"] != "http" or scope["path"] in self._paths:
            await self._app(scope, receive, send)
        else:
            await self._page(scope, receive, send)

    def _preparing(self, send: Send) -> Send:
        """`send` that prepares the page once the host is open, before the first request."""

        async def prepare_and_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "lifespan.startup.complete":
                self._page.prepare()
            await send(message)

        return prepare_and_send
