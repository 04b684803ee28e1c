"""The transport of HTTP clients: httpx's own, and aiohttp's for connections that carry many requests.

httpx parses HTTP in Python, and a request costs it a millisecond of the processor. aiohttp has a parser in
C and takes a sixth of that. It comes with the extra `fast`, and to import it takes as long as a hundred
requests save, so a connection changes over after so many.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.request import getproxies

import anyio.to_thread
import httpx2

if TYPE_CHECKING:
    import aiohttp

FEW = 100
"""How many requests of a connection go over httpx."""
_CONNECTIONS: Final = 100
_IDLE_SECONDS: Final = 5.0
# What aiohttp would send of its own accord; all headers come from the request.
_OWN_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


def faster_transport(context: ssl.SSLContext) -> httpx2.AsyncBaseTransport | None:
    """A transport that changes over to aiohttp; `None`, for httpx's own, without aiohttp or with proxies.

    How proxies are taken from the environment is left to httpx.
    """
    if find_spec("aiohttp") is None or any(kind != "no" for kind in getproxies()):
        return None
    return GrowingTransport(context)


class GrowingTransport(httpx2.AsyncBaseTransport):
    """Sends the first requests over httpx, and over aiohttp what comes after."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._sent = 0
        self._slow = httpx2.AsyncHTTPTransport(verify=context)
        self._fast: AiohttpTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._sent += 1
        if self._sent <= FEW:
            return await self._slow.handle_async_request(request)
        if self._fast is None:
            await anyio.to_thread.run_sync(_import_aiohttp)
            self._fast = self._fast or AiohttpTransport(self._context)
        return await self._fast.handle_async_request(request)

    async def aclose(self) -> None:
        await self._slow.aclose()
        if self._fast is not None:
            await self._fast.aclose()


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Requests of httpx over aiohttp: no redirects, no cookies, nothing unpacked.

    How long a request may take is for the caller to say, by canceling it.
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

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        from yarl import URL

        async with _httpx_errors(request):
            response = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=request.content or None,
                allow_redirects=False,
            )
        return httpx2.Response(
            response.status, headers=list(response.raw_headers), stream=_Body(response, request)
        )

    async def aclose(self) -> None:
        await self._session.close()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with _httpx_errors(self._request):
            while chunk := await self._response.content.readany():
                yield chunk

    async def aclose(self) -> None:
        # A connection whose answer was not read to its end is closed; any other is used again.
        self._response.close()


@asynccontextmanager
async def _httpx_errors(request: httpx2.Request) -> AsyncGenerator[None]:
    import aiohttp

    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error), request=request) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise httpx2.ReadError(str(error), request=request) from None


def _import_aiohttp() -> None:
    import aiohttp as _aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport]
