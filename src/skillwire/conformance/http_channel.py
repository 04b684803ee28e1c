"""HttpChannel: Streamable HTTP. Each request is a POST, answered by JSON or by an event stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

import httpx2

from skillwire.conformance.responses import Failure, Reply, parse_message
from skillwire.issues import shown
from skillwire.json_types import JsonObject, is_object
from skillwire.text import redact


class HttpChannel:
    """One client for all requests. `answer_bytes` acts while an answer arrives (SEC-9)."""

    is_one_pipe = False
    noise: Sequence[str] = ()
    last_words = ""

    def __init__(self, client: httpx2.AsyncClient, url: str, *, answer_bytes: int) -> None:
        self._client = client
        self._url = url
        self._answer_bytes = answer_bytes

    async def exchange(self, message: JsonObject, headers: Mapping[str, str]) -> Reply:
        try:
            async with self._client.stream("POST", self._url, json=message, headers=headers) as response:
                return await read_reply(
                    response.status_code, response.headers, response.aiter_raw(), self._answer_bytes
                )
        except httpx2.ConnectError as error:
            return Reply(failure=Failure.LOST, reason=f"no connection: {shown(redact(str(error)), 120)}")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return Reply(failure=Failure.LOST, reason=f"the connection failed: {type(error).__name__}")

    async def tell(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        with suppress(httpx2.HTTPError):
            async with self._client.stream("POST", self._url, json=message, headers=headers):
                pass

    async def end(self, headers: Mapping[str, str]) -> None:
        with suppress(httpx2.HTTPError):
            async with self._client.stream("DELETE", self._url, headers=headers):
                pass


async def read_reply(status: int, headers: Mapping[str, str], body: AsyncIterator[bytes], most: int) -> Reply:
    """The message in an HTTP response, whatever its status. `headers` are known by their small letters."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if headers.get("content-encoding", "identity") != "identity":
        return Reply(failure=Failure.HTTP, reason="a compressed answer, which was not asked for")
    session = headers.get("mcp-session-id", "")
    if kind == "text/event-stream":
        return await _from_events(body, most, session)
    held = bytearray()
    async for chunk in body:
        held += chunk
        if len(held) > most:
            return _too_large(most)
    if kind != "application/json":
        what = f"with {shown(kind, 60)}" if kind else "without a Content-Type"
        return Reply(failure=Failure.HTTP, reason=f"HTTP {status} {what}")
    try:
        message = parse_message(held)
    except ValueError as error:
        return Reply(failure=Failure.MALFORMED, reason=f"HTTP {status}: {error}")
    return Reply(message=message, size=len(held), session=session)


async def _from_events(body: AsyncIterator[bytes], most: int, session: str) -> Reply:
    """The event that answers us; all that goes before it counts towards the limit."""
    taken = 0
    held = bytearray()
    data: list[bytes] = []
    async for chunk in body:
        taken += len(chunk)
        if taken > most:
            return _too_large(most)
        held += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            continue
        *lines, held = held.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                data.append(bytes(line[5:].removeprefix(b" ")))
            elif not line and data:
                event, data = b"\n".join(data), []
                try:
                    message = parse_message(event) if event else None
                except ValueError as error:
                    return Reply(failure=Failure.MALFORMED, reason=str(error))
                if is_object(message) and "method" not in message:
                    return Reply(message=message, size=taken, session=session)
    return Reply(failure=Failure.LOST, reason="the event stream ended without an answer")


def _too_large(most: int) -> Reply:
    return Reply(failure=Failure.TOO_LARGE, reason=f"more than {most:,} bytes: cut off")
