"""EventStreams: an ASGI layer that can end the event streams which clients hold open.

Without it a server that stops would wait for clients that have no reason to go, and then cut them off.
"""

from __future__ import annotations

import asyncio

from skillwire.server.http.lazy import Asgi, Message, Receive, Scope, Send

_EVENT_STREAM = b"text/event-stream"


class EventStreams:
    """Passes every request on. After `end`, a stream sees its client as gone; other requests are answered."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._ending = asyncio.Event()

    def end(self) -> None:
        self._ending.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_stream = is_open = False

        async def send_and_see(message: Message) -> None:
            nonlocal is_stream, is_open
            if message["type"] == "http.response.start":
                is_stream = any(
                    name.lower() == b"content-type" and value.startswith(_EVENT_STREAM)
                    for name, value in message["headers"]
                )
            is_open = is_stream and message.get("more_body", True)
            await send(message)

        async def receive_until_the_end() -> Message:
            if not is_stream and scope["method"] != "GET":
                return await receive()
            incoming, ending = asyncio.ensure_future(receive()), asyncio.ensure_future(self._ending.wait())
            try:
                await asyncio.wait({incoming, ending}, return_when=asyncio.FIRST_COMPLETED)
                return incoming.result() if incoming.done() else {"type": "http.disconnect"}
            finally:
                incoming.cancel()
                ending.cancel()

        await self._app(scope, receive_until_the_end, send_and_see)
        if is_open and self._ending.is_set():
            # Nobody but us is gone: the client gets a proper end.
            await send({"type": "http.response.body", "body": b"", "more_body": False})
