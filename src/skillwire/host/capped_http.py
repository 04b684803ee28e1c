"""HTTP for connections: a client whose answers have a limit while they arrive (SEC-9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

from skillwire.errors import LimitExceeded


class _CappedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._stream:
            taken += len(chunk)
            if taken > self._limit:
                raise LimitExceeded(f"an answer of more than {self._limit:,} bytes: it is cut off")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def capped_client(
    headers: Mapping[str, str], token: str, *, limit: int, seconds: float
) -> httpx2.AsyncClient:
    """An HTTP client for one server, with its headers and its token."""

    async def cap(response: httpx2.Response) -> None:
        # An encoding could unpack to far more than arrives.
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise LimitExceeded("a compressed answer, which was not asked for: it is refused")
        # Of an event stream the SDK counts each event; as a whole it may go on for days.
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _CappedStream(response.stream, limit)

    sent = {**headers, "Accept-Encoding": "identity"}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    # Reads may wait longer than a call: event streams are silent most of the time.
    timeout = httpx2.Timeout(seconds, read=None)
    return httpx2.AsyncClient(headers=sent, timeout=timeout, event_hooks={"response": [cap]})
