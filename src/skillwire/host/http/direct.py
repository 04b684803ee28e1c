"""Direct requests: one POST each, to a server of the 2026-07-28 revision over HTTP.

That revision has no sessions. A request is complete in itself, and its answer is the answer to its POST, so
the streams and tasks in which the SDK's session carries messages both ways have nothing to do for it; they
cost more than the request does. The SDK still connects, listens for changes and follows redirects.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, TypeAlias, cast

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

from skillwire.host.http.client import Answer, CappedClient
from skillwire.telemetry import trace_context

Result: TypeAlias = Mapping[str, object]

_METHOD, _NAME = MCP_METHOD_HEADER.lower(), MCP_NAME_HEADER.lower()
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
        headers = {**self._headers, _METHOD: method}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            headers[_NAME] = encode_header_value(name)
        message = {
            "jsonrpc": "2.0",
            "id": identity,
            "method": method,
            "params": {**params, "_meta": {**self._meta, **trace_context()}},
        }
        answer = await self._http.post_message(self._url, headers, to_json(message))
        if isinstance(answer, Answer):
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
