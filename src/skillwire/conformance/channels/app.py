"""AppChannel: an ASGI application in this process, started for as long as it is verified."""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import anyio

from skillwire.conformance.channels import Trace, Unsolicited, no_trace
from skillwire.conformance.channels.http import ACCEPTED, read_reply
from skillwire.conformance.messages import Failure, Reply
from skillwire.errors import SourceError
from skillwire.issues import shown
from skillwire.json_types import JsonObject

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
_BUILDERS = ("http_app", "streamable_http_app")
_HOST = "127.0.0.1:8000"  # With a port: servers that check the name often require one.


def app_of(server: object) -> App | None:
    """The application of a server object, or the object itself when it is one, or `None`."""
    for name in _BUILDERS:
        build = getattr(server, name, None)
        if callable(build):
            return cast("App", build())
    return cast("App", server) if callable(server) else None


@dataclass(eq=False)
class AppChannel:
    """Streamable HTTP without a socket. The application sees a request from loopback."""

    app: App
    path: str
    headers: Mapping[str, str]
    answer_bytes: int
    trace: Trace = no_trace
    unsolicited: Unsolicited = field(default_factory=Unsolicited, init=False)
    is_one_pipe: bool = field(default=False, init=False)
    error_output: tuple[str, ...] = field(default=(), init=False)

    async def exchange(self, message: JsonObject, headers: Mapping[str, str]) -> Reply:
        sent = json.dumps(message).encode()
        self.trace("sent", sent)
        try:
            status, given, body = await self._request("POST", sent, headers)
        except Exception as error:  # Whatever an application raises, a server would have turned into a 500.
            return Reply(failure=Failure.HTTP, reason=f"the application raised {type(error).__name__}")

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in body:
                yield chunk

        self.trace("http", f"{status}".encode())
        return await read_reply(
            status,
            given,
            chunks(),
            most=self.answer_bytes,
            unsolicited=self.unsolicited,
            trace=self.trace,
        )

    async def notify(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        sent = json.dumps(message).encode()
        self.trace("sent", sent)
        with suppress(Exception):  # Nobody waits for an answer.
            status, _, _ = await self._request("POST", sent, headers)
            if status != ACCEPTED:
                self.unsolicited.accepted.append(status)

    async def end(self, headers: Mapping[str, str]) -> None:
        with suppress(Exception):
            await self._request("DELETE", b"", headers)

    async def _request(
        self, method: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], list[bytes]]:
        sent = {**self.headers, **headers, "Host": _HOST, "Content-Type": "application/json"}
        scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in sent.items()
            ],
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 80),
        }
        ended = anyio.Event()
        request: Message = {"type": "http.request", "body": body, "more_body": False}
        receive = _receiver(request, ended, {"type": "http.disconnect"})
        start: Message = {"status": 500, "headers": []}
        chunks: list[bytes] = []
        taken = 0

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                nonlocal taken
                if taken <= self.answer_bytes:  # What exceeds the limit is dropped.
                    chunks.append(bytes(message.get("body", b"")))
                    taken += len(chunks[-1])
                if not message.get("more_body", False):
                    ended.set()

        await self.app(scope, receive, send)
        given = {name.decode("latin-1").lower(): text.decode("latin-1") for name, text in start["headers"]}
        return start["status"], given, chunks


def _receiver(first: Message, event: anyio.Event, last: Message) -> Callable[[], Awaitable[Message]]:
    """What an application receives: one message at once, the other after the event."""
    waiting = [first]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await event.wait()
        return last

    return receive


@asynccontextmanager
async def lifespan(app: App) -> AsyncGenerator[None]:
    """Start an application, and stop it on exit. One without a lifespan just runs."""
    started, stopping, ended = anyio.Event(), anyio.Event(), anyio.Event()
    receive = _receiver({"type": "lifespan.startup"}, stopping, {"type": "lifespan.shutdown"})
    failure: list[str] = []

    async def send(message: Message) -> None:
        if message["type"] == "lifespan.startup.failed":
            failure.append(str(message.get("message", "")))
        started.set()

    async def run() -> None:
        try:
            await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
        except Exception:
            if started.is_set():
                raise
        finally:
            started.set()
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await started.wait()
        if failure:
            raise SourceError(f"the application did not start: {shown(failure[0])}")
        try:
            yield
        finally:
            stopping.set()
            with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                await ended.wait()
            tasks.cancel_scope.cancel()
