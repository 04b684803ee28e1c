"""HTTP to a server, or to an application of this process."""

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
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

import anyio
import httpx2

from skillwire.conformance.channels import Trace, Unsolicited, no_trace
from skillwire.conformance.messages import (
    PASSING_STATUSES,
    Reply,
    RequestFailure,
    TooManyValues,
    parse_message,
)
from skillwire.documents import JsonObject, is_object
from skillwire.errors import SourceError
from skillwire.net import Credentials, connect_failure, status_failure
from skillwire.text import shown

ACCEPTED = 202
_OPTIONS: Final = "--token-env VARIABLE or --header 'Authorization: Bearer ...'"
_CREDENTIALS: Final = Credentials(
    give_token=f"pass one with {_OPTIONS}",
    if_refused=f"pass another one with {_OPTIONS}",
    log_in="it requires an OAuth login: pass an access token with --token-env VARIABLE, or add the server "
    "and run `skillwire servers login NAME`",
)


class HttpChannel:
    """One client for all requests. `answer_bytes` acts while an answer arrives (SEC-9).

    `make_client` makes the client of a fresh connection.
    """

    is_one_pipe = False
    error_output: tuple[str, ...] = ()

    def __init__(
        self,
        client: httpx2.AsyncClient,
        url: str,
        *,
        answer_bytes: int,
        make_client: Callable[[], httpx2.AsyncClient],
        trace: Trace = no_trace,
    ) -> None:
        self._client = client
        self._url = url
        self._answer_bytes = answer_bytes
        self._make_client = make_client
        self._trace = trace
        self.unsolicited = Unsolicited()

    async def exchange(
        self, message: JsonObject, headers: Mapping[str, str], *, fresh: bool = False
    ) -> Reply:
        body = json.dumps(message).encode()
        if fresh:
            try:
                async with self._make_client() as client:
                    return await self._post(client, body, headers, _Connection())
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                return self._failed(error)
        connection = _Connection()
        try:
            return await self._post(self._client, body, headers, connection)
        except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
            if not connection.is_new:
                # HTTP lets a server close an idle connection at any time, also while a request is on its way.
                return await self.exchange(message, headers, fresh=True)
            return self._failed(error)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return self._failed(error)

    async def _post(
        self, client: httpx2.AsyncClient, body: bytes, headers: Mapping[str, str], connection: _Connection
    ) -> Reply:
        self._trace("sent", body)
        kind = {"Content-Type": "application/json"}
        async with client.stream(
            "POST",
            self._url,
            content=body,
            headers={**headers, **kind},
            extensions={"trace": connection.trace},
        ) as response:
            self._trace("http", f"{response.status_code}".encode())
            return await read_reply(
                response.status_code,
                response.headers,
                response.aiter_raw(),
                most=self._answer_bytes,
                unsolicited=self.unsolicited,
                has_token="authorization" in client.headers,
                trace=self._trace,
            )

    def _failed(self, error: Exception) -> Reply:
        failure = connect_failure(error, self._url)
        advice = failure.advice
        if isinstance(error, httpx2.TimeoutException):
            advice += ", or give it longer with --timeout"
        return Reply(failure=RequestFailure.CONNECTION, reason=failure.reason, advice=advice)

    async def notify(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        body = json.dumps(message).encode()
        kind = {"Content-Type": "application/json"}
        with suppress(httpx2.HTTPError):
            for is_last in (False, True):
                self._trace("sent", body)
                async with self._client.stream(
                    "POST", self._url, content=body, headers={**headers, **kind}
                ) as response:
                    self._trace("http", f"{response.status_code}".encode())
                    status = response.status_code
                if status == ACCEPTED:
                    return
                if is_last or status not in PASSING_STATUSES:
                    self.unsolicited.accepted.append(status)
                    return

    async def end(self, headers: Mapping[str, str]) -> None:
        with suppress(httpx2.HTTPError):
            async with self._client.stream("DELETE", self._url, headers=headers):
                pass


class _Connection:
    """Notes whether a request opened a connection. `is_new` is false for one that was used before."""

    is_new = False

    async def trace(self, name: str, info: object) -> None:
        self.is_new = self.is_new or name.startswith("connection.connect")


async def read_reply(
    status: int,
    headers: Mapping[str, str],
    body: AsyncIterator[bytes],
    *,
    most: int,
    unsolicited: Unsolicited,
    has_token: bool,
    trace: Trace = no_trace,
) -> Reply:
    """The message in an HTTP response, whatever its status. The keys of `headers` are in lowercase."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if headers.get("content-encoding", "identity") != "identity":
        return Reply(
            failure=RequestFailure.HTTP, reason="a compressed answer, which was not asked for", status=status
        )
    session = headers.get("mcp-session-id", "")
    if kind == "text/event-stream":
        return await _EventReader(most, unsolicited, trace).read(body, status, session)
    held = bytearray()
    async for chunk in body:
        held += chunk
        if len(held) > most:
            return _too_large(most, status)
    trace("received", bytes(held))
    if kind != "application/json":
        reason, advice = status_failure(status, headers, replace(_CREDENTIALS, has_token=has_token))
        return Reply(failure=RequestFailure.HTTP, reason=reason, advice=advice, status=status)
    return _parsed(held, len(held), status, session, prefix=f"HTTP {status}: ")


def _parsed(
    data: bytes | bytearray, size: int, status: int | None, session: str, *, prefix: str = ""
) -> Reply:
    try:
        message, values = parse_message(data)
    except TooManyValues as error:
        return Reply(failure=RequestFailure.TOO_LARGE, reason=str(error), status=status)
    except ValueError as error:
        return Reply(failure=RequestFailure.MALFORMED, reason=f"{prefix}{error}", status=status)
    return Reply(message=message, size=size, values=values, session=session, status=status)


class _EventReader:
    """Finds the event that answers us; everything before it counts towards the limit."""

    def __init__(self, most: int, unsolicited: Unsolicited, trace: Trace) -> None:
        self._most = most
        self._unsolicited = unsolicited
        self._trace = trace

    async def read(self, body: AsyncIterator[bytes], status: int, session: str) -> Reply:
        taken = 0
        held = bytearray()
        data: list[bytes] = []
        async for chunk in body:
            taken += len(chunk)
            if taken > self._most:
                return _too_large(self._most, status)
            held += chunk
            if b"\n" not in chunk and b"\r" not in chunk:
                continue
            *lines, held = held.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    data.append(bytes(line[5:].removeprefix(b" ")))
                elif not line and data:
                    event, data = b"\n".join(data), []
                    reply = self._event(event, taken, status, session)
                    if reply is not None:
                        return reply
        return Reply(
            failure=RequestFailure.CONNECTION,
            reason="the event stream ended without an answer",
            status=status,
        )

    def _event(self, event: bytes, taken: int, status: int, session: str) -> Reply | None:
        if not event:
            return None
        self._trace("received", event)
        reply = _parsed(event, taken, status, session)
        message = reply.message
        if reply.failure is not None or not is_object(message):
            return reply
        if "method" in message:
            self._unsolicited.note_message(message)
            return None
        return reply


def _too_large(most: int, status: int) -> Reply:
    return Reply(failure=RequestFailure.TOO_LARGE, reason=f"more than {most:,} bytes: cut off", status=status)


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

    async def exchange(
        self, message: JsonObject, headers: Mapping[str, str], *, fresh: bool = False
    ) -> Reply:
        sent = json.dumps(message).encode()
        self.trace("sent", sent)
        try:
            status, given, body = await self._request("POST", sent, headers)
        except Exception as error:  # Whatever an application raises, a server would have turned into a 500.
            return Reply(failure=RequestFailure.HTTP, reason=f"the application raised {type(error).__name__}")

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
            has_token=any(name.lower() == "authorization" for name in self.headers),
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
    """Return the `receive` of an application: one message at once, the other after the event."""
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
