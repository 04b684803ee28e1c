"""Fetching from web sites, within limits in size and time while an answer arrives, by the rules of
`net.addresses`.

`open_client` connects only to addresses that reach as far as the first one: a public site cannot lead to this
machine, not even by a name whose address changes in between.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Generator, Iterable
from functools import cache
from ipaddress import ip_address
from typing import Any, Final, cast

import anyio
import httpcore2
import httpx2

from skillwire.errors import LimitExceeded, SourceError
from skillwire.limits import Limits
from skillwire.net.addresses import Reachability, is_loopback, is_same_host, reach_of_address, redirect_target
from skillwire.net.failures import connect_failure
from skillwire.text import redact_url

_MOST_REDIRECTS: Final = 5


class StatusError(SourceError):
    """A site answered with another status than 200."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{redact_url(url)} answers with status {status}")
        self.status = status


def open_client(
    limits: Limits, *, reach: Reachability | None = None, site: str = "", token: str = ""
) -> httpx2.AsyncClient:
    """A client for one site and what it names. `reach` is what its addresses must have at least; without it,
    that of the first address that is connected to. The `token` is sent to the scheme, host and port of `site`
    and nowhere else.
    """
    return _GuardedClient(
        reach,
        timeout=limits.call_seconds,
        headers={"Accept-Encoding": "identity"},
        verify=ssl_trust(),
        auth=_SiteToken(site, token) if token else None,
    )


class _SiteToken(httpx2.Auth):
    """A bearer token for one site. What it names elsewhere, or redirects to, does not get it."""

    def __init__(self, site: str, token: str) -> None:
        self._site = site
        self._token = token
        if not token.isascii() or not token.isprintable():
            raise SourceError("the token has characters that a header cannot hold: check its variable")
        if not _is_private(site):
            raise SourceError(f"{redact_url(site)} would get the token in the clear: use https://")

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        url = str(request.url)
        if is_same_host(self._site, url) and _is_private(url):
            request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


def _is_private(url: str) -> bool:
    """Whether nobody on the way can read what is sent."""
    return url.startswith("https://") or is_loopback(url)


async def fetch(
    client: httpx2.AsyncClient, url: str, *, most: int, seconds: float, is_pinned: bool = False
) -> bytes:
    """The body at a URL, or a `SourceError`; a `LimitExceeded` when it has more than `most` bytes.

    `is_pinned` says that its digest is known, so that a redirect may go to another public host.
    """
    shown_url = redact_url(url)
    try:
        with anyio.fail_after(seconds):
            for _ in range(_MOST_REDIRECTS + 1):
                async with client.stream("GET", url, follow_redirects=False) as response:
                    if response.is_redirect:
                        location = response.headers.get("location", "")
                        url = redirect_target(url, location, is_pinned=is_pinned)
                        continue
                    if response.status_code != 200:
                        raise StatusError(url, response.status_code)
                    return await _body(response, shown_url, most)
    except TimeoutError:
        raise SourceError(f"{shown_url} did not answer within {seconds:g} seconds") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise SourceError(f"{shown_url} cannot be reached", said=str(connect_failure(error))) from None
    raise SourceError(f"{shown_url} redirects more than {_MOST_REDIRECTS} times")


async def _body(response: httpx2.Response, url: str, most: int) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        # An encoding could unpack to far more than arrives.
        raise SourceError(f"{url} sends a compressed answer, which was not asked for: it is refused")
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > most:
            raise LimitExceeded(f"{url} has more than {most:,} bytes: it is cut off")
    return bytes(body)


class CappedBody(httpx2.AsyncByteStream):
    """The body of an answer for a program that reads it whole: an error beyond `most` bytes."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int) -> None:
        self._inner = inner
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._inner:
            taken += len(chunk)
            if taken > self._most:
                raise SourceError(f"an answer of more than {self._most:,} bytes: it is cut off")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _GuardedClient(httpx2.AsyncClient):
    def __init__(self, reach: Reachability | None, **options: Any) -> None:
        self._reach = reach
        super().__init__(follow_redirects=False, **options)

    def _init_transport(self, *args: Any, **options: Any) -> httpx2.AsyncBaseTransport:
        # Only without a proxy: a proxy resolves names itself.
        return GuardedTransport(self._reach)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """Connects only to addresses that reach as far as the first one, or as far as `reach`."""

    def __init__(self, reach: Reachability | None = None) -> None:
        super().__init__(verify=ssl_trust())
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_trust(),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5,
            network_backend=_GuardedBackend(reach),
        )


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Looks at the address of a connection before anything is sent over it."""

    def __init__(self, reach: Reachability | None) -> None:
        # Typed by the base class: the package types it as a class without methods.
        self._inner: httpcore2.AsyncNetworkBackend = cast("Any", httpcore2.AnyIOBackend)()
        self._reach = reach

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature of httpcore
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        reach = reach_of_address(ip_address(str(stream.get_extra_info("server_addr")[0]).partition("%")[0]))
        if self._reach is None:
            self._reach = reach
        if reach < self._reach:
            await stream.aclose()
            raise SourceError(
                f"{host} is an address of this machine or of a private network, which a public address led "
                "to: it is not followed"
            )
        return stream

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def ssl_trust() -> ssl.SSLContext:
    """The certificates that are trusted here."""
    return _trusted(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))


@cache
def _trusted(file: str, directory: str) -> ssl.SSLContext:
    """The certificates that the system, or the user by these two variables, trusts. Read once: it is slow."""
    return httpx2.create_ssl_context()
