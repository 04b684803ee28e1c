"""HttpChannel: Streamable HTTP. Each request is a POST, answered by JSON or by an event stream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import httpx2

from skillwire.conformance.channels import Trace, Unsolicited, no_trace
from skillwire.conformance.channels.advice import connect_failure, status_failure
from skillwire.conformance.messages import Failure, Reply, TooManyValues, parse_message
from skillwire.json_types import JsonObject, is_object

ACCEPTED = 202


class HttpChannel:
    """One client for all requests. `answer_bytes` acts while an answer arrives (SEC-9)."""

    is_one_pipe = False
    error_output: tuple[str, ...] = ()

    def __init__(
        self, client: httpx2.AsyncClient, url: str, *, answer_bytes: int, trace: Trace = no_trace
    ) -> None:
        self._client = client
        self._url = url
        self._answer_bytes = answer_bytes
        self._trace = trace
        self.unsolicited = Unsolicited()

    async def exchange(self, message: JsonObject, headers: Mapping[str, str]) -> Reply:
        body = json.dumps(message).encode()
        self._trace("sent", body)
        kind = {"Content-Type": "application/json"}
        try:
            async with self._client.stream(
                "POST", self._url, content=body, headers={**headers, **kind}
            ) as response:
                self._trace("http", f"{response.status_code}".encode())
                return await read_reply(
                    response.status_code,
                    response.headers,
                    response.aiter_raw(),
                    most=self._answer_bytes,
                    unsolicited=self.unsolicited,
                    trace=self._trace,
                )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason, advice = connect_failure(error, self._url)
            return Reply(failure=Failure.CONNECTION, reason=reason, advice=advice)

    async def notify(self, message: JsonObject, headers: Mapping[str, str]) -> None:
        body = json.dumps(message).encode()
        self._trace("sent", body)
        kind = {"Content-Type": "application/json"}
        with suppress(httpx2.HTTPError):
            async with self._client.stream(
                "POST", self._url, content=body, headers={**headers, **kind}
            ) as response:
                self._trace("http", f"{response.status_code}".encode())
                if response.status_code != ACCEPTED:
                    self.unsolicited.accepted.append(response.status_code)

    async def end(self, headers: Mapping[str, str]) -> None:
        with suppress(httpx2.HTTPError):
            async with self._client.stream("DELETE", self._url, headers=headers):
                pass


async def read_reply(
    status: int,
    headers: Mapping[str, str],
    body: AsyncIterator[bytes],
    *,
    most: int,
    unsolicited: Unsolicited,
    trace: Trace = no_trace,
) -> Reply:
    """The message in an HTTP response, whatever its status. The keys of `headers` are in lowercase."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if headers.get("content-encoding", "identity") != "identity":
        return Reply(
            failure=Failure.HTTP, reason="a compressed answer, which was not asked for", status=status
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
        reason, advice = status_failure(status, headers, kind)
        return Reply(failure=Failure.HTTP, reason=reason, advice=advice, status=status)
    return _parsed(held, len(held), status, session, prefix=f"HTTP {status}: ")


def _parsed(
    data: bytes | bytearray, size: int, status: int | None, session: str, *, prefix: str = ""
) -> Reply:
    try:
        message, values = parse_message(data)
    except TooManyValues as error:
        return Reply(failure=Failure.TOO_LARGE, reason=str(error), status=status)
    except ValueError as error:
        return Reply(failure=Failure.MALFORMED, reason=f"{prefix}{error}", status=status)
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
            failure=Failure.CONNECTION, reason="the event stream ended without an answer", status=status
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
    return Reply(failure=Failure.TOO_LARGE, reason=f"more than {most:,} bytes: cut off", status=status)
