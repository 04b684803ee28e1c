"""HTTP for connections: a client whose answers have a limit in size and time while they arrive (SEC-9).

Whatever goes wrong becomes an answer that names it, not an exception: an exception would end all requests of
the connection, and a bad answer concerns one. The answer carries a mark that no server knows, so that our
words are never taken for a server's, nor a server's for ours.

`DirectRequests` sends one POST for each request to a server of the 2026-07-28 revision. That revision has no
sessions. A request is complete in itself, and its answer is the answer to its POST, so the streams and tasks
in which the SDK's session carries messages both ways have nothing to do for it; they cost more than the
request does. The SDK still connects, listens for changes and follows redirects.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from math import inf
from typing import Any, Final, Protocol, TypeAlias, cast

import anyio
import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from skillwire.documents import check_json
from skillwire.errors import LimitExceeded
from skillwire.net import Credentials, connect_failure, ssl_trust, status_failure
from skillwire.telemetry import trace_context

_STREAM_PAUSE: Final = 30.0
"""Seconds between two streams of notifications from one server: one that ends its stream at once could
otherwise have it opened again for ever."""
_TOO_LONG: Final = "an answer of more than {:,} bytes: it is cut off"
_TOO_LATE: Final = "no answer within {:g} s"
_SESSION: Final = "mcp-session-id"
_METHOD: Final = "mcp-method"
_LISTEN: Final = "subscriptions/listen"


class FailureKind(StrEnum):
    """A kind of failure, by what has to follow. The value is part of the marked message."""

    GONE = "gone"
    """The connection is of no more use: a new one is opened."""
    LIMIT = "limit"
    """One answer was larger or slower than it may be. The request fails with `LimitExceeded`, and the
    connection is used on."""
    REFUSED = "refused"
    """The server does not want this request. The request fails with `SourceError`."""


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """A problem with one request."""

    kind: FailureKind
    words: str
    """The failure and what to do, in our own words; a few of the server's are quoted only through
    `shown`."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer that has come whole, within the limits."""

    response: httpx2.Response
    """The status and the headers; its own body has been read."""
    content_type: str
    """The header in lower case, with its parameters; empty when the server sent none."""
    body: bytes


class TokenSource(Protocol):
    """Where the tokens of a login come from."""

    async def get(self) -> str:
        """The token to send; empty when there is none."""
        ...

    async def after_refusal(self, refused: str) -> str:
        """Another token than the one that the server refused; empty when there is none."""
        ...


class CappedClient(httpx2.AsyncClient):
    """An HTTP client for one server, with its headers and its token, or the tokens of a login."""

    def __init__(
        self,
        headers: Mapping[str, str],
        token: str,
        *,
        limit: int,
        seconds: float,
        label: str = "NAME",
        login: TokenSource | None = None,
    ) -> None:
        self._label = label
        self._login = login
        self._limit = limit
        self._seconds = seconds
        self._stream_opened = -inf
        self._has_token = bool(token) or any(name.lower() == "authorization" for name in headers)
        self._mark = f"[{secrets.token_hex(16)}]"
        sent = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
        sent["Accept-Encoding"] = "identity"
        if token:
            sent["Authorization"] = f"Bearer {token}"
        timeout = httpx2.Timeout(seconds)
        super().__init__(headers=sent, timeout=timeout, follow_redirects=False, verify=ssl_trust())
        self._fixed_headers = dict(self.headers)
        self._extensions = {"timeout": timeout.as_dict()}

    def problem_in(self, message: str) -> HttpFailure | None:
        """The problem that an error message of the SDK passes on, if it is one of ours."""
        _, mark, said = message.partition(self._mark)
        kind, _, words = said.partition(":")
        return HttpFailure(FailureKind(kind), words) if mark else None

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; what comes back is within the limits, or says why there is nothing."""
        standing = request.method == "GET" or request.headers.get(_METHOD) == _LISTEN
        if request.method == "GET" and not self._may_open_stream():
            return httpx2.Response(405, request=request)
        if standing:
            # It says something when something changes, which may be never.
            request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": None}
        options["stream"] = True
        once = super().send
        try:
            with anyio.fail_after(self._seconds):
                answer = await self._exchange(
                    request.headers, lambda: once(request, **options), standing=standing
                )
        except TimeoutError:
            answer = self._answer(FailureKind.LIMIT, _TOO_LATE.format(self._seconds))
        if not isinstance(answer, HttpAnswer):
            answer.request = request
            return answer
        response = answer.response
        whole = httpx2.Response(
            response.status_code, headers=response.headers, content=answer.body, request=request
        )
        whole.next_request = response.next_request
        return whole

    async def post_message(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> HttpAnswer | httpx2.Response:
        """Send a message as `send` does, but without cookies, redirects and a time limit of its own.

        That takes less than half of the time. The names of `headers` are in lower case. A response, as
        opposed to an `HttpAnswer`, is a stream of events, or says why there is nothing.
        """
        sent = {**self._fixed_headers, **headers}

        async def send_once() -> httpx2.Response:
            request = httpx2.Request("POST", url, headers=sent, content=body, extensions=self._extensions)
            return await super(CappedClient, self).send(request, stream=True)

        answer = await self._exchange(sent, send_once, standing=False)
        if isinstance(answer, httpx2.Response):
            answer.request = httpx2.Request("POST", url)
        return answer

    async def _exchange(
        self,
        headers: MutableMapping[str, str],
        once: Callable[[], Awaitable[httpx2.Response]],
        *,
        standing: bool,
    ) -> HttpAnswer | httpx2.Response:
        try:
            response = await self._authorized(headers, once)
            return await self._within_limits(response, headers, standing=standing)
        except httpx2.TimeoutException:
            return self._answer(FailureKind.LIMIT, _TOO_LATE.format(self._seconds))
        except httpx2.TransportError as error:
            return self._answer(FailureKind.GONE, str(connect_failure(error)))

    async def _authorized(
        self,
        headers: MutableMapping[str, str],
        once: Callable[[], Awaitable[httpx2.Response]],
    ) -> httpx2.Response:
        """The response to a request, sent with the token of the login; once more if that was refused."""
        if self._login is None:
            return await once()
        token = await self._login.get()
        if token:
            headers["authorization"] = f"Bearer {token}"
        response = await once()
        if response.status_code != 401 or not (other := await self._login.after_refusal(token)):
            return response
        await response.aclose()
        headers["authorization"] = f"Bearer {other}"
        return await once()

    def _may_open_stream(self) -> bool:
        """Not again at once: a server that ends its stream could have it opened again for ever."""
        before, self._stream_opened = self._stream_opened, anyio.current_time()
        return self._stream_opened - before > _STREAM_PAUSE

    async def _within_limits(
        self,
        response: httpx2.Response,
        sent: Mapping[str, str],
        *,
        standing: bool,
    ) -> HttpAnswer | httpx2.Response:
        if response.headers.get("content-encoding", "identity") != "identity":
            # An encoding could unpack to far more than arrives.
            await response.aclose()
            return self._answer(
                FailureKind.LIMIT, "a compressed answer, which was not asked for: it is refused"
            )
        kind = response.headers.get("content-type", "").lower()
        if response.status_code < 300 and kind.startswith("text/event-stream"):
            if not standing:
                # It ends with the answer, so it has the limits of one.
                response.stream = _CappedStream(response, self._limit, self._seconds, self._mark)
            return response
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._limit:
                    return self._answer(FailureKind.LIMIT, _TOO_LONG.format(self._limit))
        finally:
            await response.aclose()
        try:
            check_json(body)
        except LimitExceeded as error:
            return self._answer(FailureKind.LIMIT, str(error))
        if response.status_code >= 400 and (
            problem := self._refusal(response, kind, has_session=_SESSION in sent)
        ):
            return self._answer(problem.kind, problem.words)
        if response.status_code == 200 and body and not kind.startswith("application/json"):
            return self._answer(FailureKind.REFUSED, self._status_words(response))
        return HttpAnswer(response, kind, bytes(body))

    def _refusal(self, response: httpx2.Response, kind: str, *, has_session: bool) -> HttpFailure | None:
        """Return the failure that a status means, where the body does not say it as MCP does."""
        status = response.status_code
        if status < 400:
            return None
        if status == 404 and has_session:
            return HttpFailure(FailureKind.GONE, "the server has forgotten the session (HTTP 404)")
        if status != 401 and kind.startswith("application/json"):
            return None
        return HttpFailure(FailureKind.REFUSED, self._status_words(response))

    def _status_words(self, response: httpx2.Response) -> str:
        log_in = f"run `skillwire servers login {self._label}`"
        credentials = Credentials(
            has_login=self._login is not None,
            has_token=self._has_token,
            log_in=log_in,
            give_token=f"name it with token_env, or {log_in}",
            if_refused="check it in your settings",
        )
        return str(status_failure(response.status_code, response.headers, credentials))

    def _answer(self, kind: FailureKind, words: str) -> httpx2.Response:
        error = {"code": -32000, "message": f"{self._mark}{kind}:{words}"}
        return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": error})


class _CappedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, limit: int, seconds: float, mark: str) -> None:
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            raise AssertionError("an asynchronous client has asynchronous streams")
        self._stream = response.stream
        self._limit = limit
        self._seconds = seconds
        self._mark = mark
        self._until = anyio.current_time() + seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        event = bytearray()
        chunks = aiter(self._stream)
        while True:
            try:
                with anyio.fail_after(max(self._until - anyio.current_time(), 0)):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise self._cut(_TOO_LATE.format(self._seconds)) from None
            taken += len(chunk)
            if taken > self._limit:
                raise self._cut(_TOO_LONG.format(self._limit))
            # An event is parsed when its last line has come: until then it can be refused.
            event += chunk
            try:
                check_json(event)
            except LimitExceeded as error:
                raise self._cut(str(error)) from None
            if (end := max(event.rfind(b"\n\n"), event.rfind(b"\r\n\r\n"))) >= 0:
                del event[:end]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _cut(self, words: str) -> httpx2.SSEError:
        # The SDK passes the words of this error on, to the one request that it concerns.
        return httpx2.SSEError(f"{self._mark}{FailureKind.LIMIT}:{words}")


Result: TypeAlias = Mapping[str, object]

_METHOD_HEADER, _NAME_HEADER = MCP_METHOD_HEADER.lower(), MCP_NAME_HEADER.lower()
_ENDED: Final = "the stream ended without an answer"


class DirectRequests:
    """Sends requests to one server over the client of its connection, which holds every answer to its limits.

    `on_message` is called for each message that comes in a stream before the answer.
    """

    def __init__(
        self,
        http: CappedClient,
        url: str,
        *,
        revision: str,
        client_info: types.Implementation,
        capabilities: types.ClientCapabilities,
        event_bytes: int,
        on_message: Callable[[object], None],
    ) -> None:
        self._http = http
        self._url = url
        self._event_bytes = event_bytes
        self._on_message = on_message
        self._ids = count(1)
        self._meta = {
            types.PROTOCOL_VERSION_META_KEY: revision,
            types.CLIENT_INFO_META_KEY: _dumped(client_info),
            types.CLIENT_CAPABILITIES_META_KEY: _dumped(capabilities),
        }
        self._headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            MCP_PROTOCOL_VERSION_HEADER.lower(): revision,
            **_credentials(httpx2.URL(url)),
        }

    async def request(self, method: str, params: Mapping[str, object]) -> Result | None:
        """The result of a request; `None` when the SDK has to ask, because the answer is no plain one.

        `MCPError` is what the server refuses with, or what the client says about the answer. `ValueError`
        means that the answer is not MCP.
        """
        identity = next(self._ids)
        headers = {**self._headers, _METHOD_HEADER: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[_NAME_HEADER] = encode_header_value(name)
        message = {
            "jsonrpc": "2.0",
            "id": identity,
            "method": method,
            "params": {**params, "_meta": {**self._meta, **trace_context()}},
        }
        answer = await self._http.post_message(self._url, headers, to_json(message))
        if isinstance(answer, HttpAnswer):
            status = answer.response.status_code
            if not answer.content_type.startswith("application/json") or 200 < status < 400:
                return None
            return _result(_parsed(answer.body), identity, is_refusal=status >= 400)
        if answer.status_code < 300:
            try:
                return await self._streamed_result(answer, identity)
            finally:
                await answer.aclose()
        return _result(_parsed(answer.content), identity, is_refusal=True)

    async def _streamed_result(self, response: httpx2.Response, identity: int) -> Result | None:
        """The result in a stream of events. Whatever comes before it is for `on_message`."""
        try:
            async for event in httpx2.EventSource(response, max_event_size=self._event_bytes):
                if event.event != "message" or not event.data:
                    continue
                message = _parsed(event.data)
                if "method" not in message:
                    return _result(message, identity, is_refusal=False)
                self._on_message(_validated(message))
        except httpx2.SSEError as error:
            raise MCPError(types.CONNECTION_CLOSED, str(error)) from None
        except httpx2.TransportError:
            pass
        raise MCPError(types.CONNECTION_CLOSED, _ENDED)


def _credentials(url: httpx2.URL) -> dict[str, str]:
    """The header for the user and password of a URL, as httpx sends them."""
    if not url.userinfo:
        return {}
    given = f"{url.username}:{url.password}".encode()
    return {"authorization": f"Basic {b64encode(given).decode()}"}


def _dumped(model: Any) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _parsed(text: str | bytes) -> Result:
    try:
        message: object = from_json(text)
    except ValueError:
        raise _not_mcp() from None
    if not isinstance(message, dict):
        raise _not_mcp()
    return cast("Result", message)


def _validated(message: Result) -> object:
    try:
        return types.jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        raise _not_mcp() from None


def _result(message: Result, identity: int, *, is_refusal: bool) -> Result | None:
    """The result in a message; `None` when a status refuses and no error is there that says why."""
    result, error = message.get("result"), message.get("error")
    is_ours = message.get("id") == identity or (is_refusal and message.get("id") is None)
    if message.get("jsonrpc") == "2.0" and is_ours:
        if isinstance(error, dict):
            said = types.ErrorData.model_validate(error)
            raise MCPError(said.code, said.message, said.data)
        if isinstance(result, dict) and not is_refusal:
            return cast("Result", result)
    if is_refusal:
        return None
    raise _not_mcp()


def _not_mcp() -> ValueError:
    return ValueError("the answer is not MCP")
