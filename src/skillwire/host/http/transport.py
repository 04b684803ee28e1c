"""The transport of HTTP clients: httpx's own, and aiohttp's for connections that carry many requests.

httpx parses HTTP in Python, and a request costs it a millisecond of the processor. aiohttp has a parser in
C and takes a sixth of that. It comes with the extra `fast`, and to import it takes as long as a hundred
requests save, so a connection changes over after so many.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2

from skillwire.collector import collector_paused

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

AIOHTTP_AFTER = 100
"""How many requests of a connection go over httpx."""
_CONNECTIONS: Final = 100
_IDLE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.5
_ROUNDS: Final = 5
# What aiohttp would send of its own accord; all headers come from the request.
_OWN_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


def adaptive_transport(context: ssl.SSLContext) -> AdaptiveTransport | None:
    """A transport that changes over to aiohttp; `None`, for httpx's own, without aiohttp or with proxies.

    How proxies are taken from the environment is left to httpx.
    """
    if find_spec("aiohttp") is None or any(kind != "no" for kind in getproxies()):
        return None
    return AdaptiveTransport(context)


class AdaptiveTransport(httpx2.AsyncBaseTransport):
    """Sends the first requests over httpx, and over aiohttp what comes after."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._sent = 0
        self._httpx = httpx2.AsyncHTTPTransport(verify=context)
        self._later: AiohttpTransport | httpx2.AsyncHTTPTransport | None = None
        self._importing = anyio.Lock()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await (await self.next()).handle_async_request(request)

    async def next(self) -> httpx2.AsyncHTTPTransport | AiohttpTransport:
        """The transport for a request that is about to be sent, which is counted."""
        self._sent += 1
        if self._sent <= AIOHTTP_AFTER:
            return self._httpx
        if self._later is None:
            async with self._importing:  # One thread imports it; the others wait for that.
                if self._later is None:
                    can_import = await anyio.to_thread.run_sync(_import_aiohttp)
                    self._later = AiohttpTransport(self._context) if can_import else self._httpx
        return self._later

    async def aclose(self) -> None:
        try:
            await self._httpx.aclose()
        finally:
            if self._later is not None:
                await self._later.aclose()


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Requests over aiohttp: no redirects, no cookies, nothing decompressed.

    There is no time limit here: the caller cancels a request that takes too long.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_IDLE_SECONDS, ssl=context),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_OWN_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        )
        self._last_sent = anyio.current_time()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self.send(
            request.method, str(request.url), request.headers.multi_items(), request.content
        )
        return response.for_httpx()

    async def send(
        self, method: str, url: str, headers: Mapping[str, str] | Sequence[tuple[str, str]], body: bytes
    ) -> AiohttpResponse:
        """Send a request without the objects of httpx, which take longer to make than it takes to send."""
        import aiohttp

        if anyio.current_time() - self._last_sent > _PAUSE_SECONDS:
            # If the event loop was blocked, it has not noticed yet which connections the server has closed.
            for _ in range(_ROUNDS):
                await anyio.lowlevel.checkpoint()
        self._last_sent = anyio.current_time()
        try:
            response = await self._session.request(
                method, _url(url), headers=headers, data=body or None, allow_redirects=False
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _httpx_error(error) from None
        return AiohttpResponse(response)

    async def aclose(self) -> None:
        await self._session.close()


class AiohttpResponse(httpx2.AsyncByteStream):
    """A response whose body has not been read, with what the client uses of a response of httpx."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status_code = response.status
        self.headers: Mapping[str, str] = response.headers

    def for_httpx(self) -> httpx2.Response:
        return httpx2.Response(self.status_code, headers=list(self._response.raw_headers), stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        import aiohttp

        content = self._response.content
        try:
            while chunk := await content.readany():
                yield chunk
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _httpx_error(error) from None

    aiter_raw = __aiter__

    async def aclose(self) -> None:
        # A connection whose response was not read to its end is closed; any other is used again.
        self._response.close()


def _httpx_error(error: Exception) -> httpx2.TransportError:
    import aiohttp

    kind = httpx2.ConnectError if isinstance(error, aiohttp.ClientConnectorError) else httpx2.ReadError
    return kind(str(error))


@lru_cache(maxsize=16)
def _url(text: str) -> URL:
    from yarl import URL

    # The headers have the user and password of a URL, and aiohttp refuses to be given them twice.
    return URL(text, encoded=True).with_user(None)


def _import_aiohttp() -> bool:
    """Whether aiohttp can be imported: an installation may be broken."""
    try:
        with collector_paused():
            import aiohttp as _aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        return False
    return True
