"""Fetching over real connections: cut off at the limits, and never from a public site to this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from skillwire.errors import LimitExceeded, SourceError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.net import open_client
from skillwire.net.addresses import Reachability
from skillwire.net.http import CappedBody, StatusError, fetch

pytestmark = pytest.mark.anyio


class Site:
    """A web server on this machine: each path has a status, headers and a body."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append(self.path)
                status, headers, body = site.pages.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def start() -> Iterator[Callable[[], Site]]:
    started: list[Site] = []

    def start_one() -> Site:
        site = Site()
        threading.Thread(target=site.server.serve_forever, daemon=True).start()
        started.append(site)
        return site

    yield start_one
    for site in started:
        site.server.shutdown()
        site.server.server_close()


async def get(
    url: str, *, most: int = 100, is_pinned: bool = False, reach: Reachability | None = None
) -> bytes:
    async with open_client(DEFAULT_LIMITS, reach=reach) as client:
        return await fetch(client, url, most=most, seconds=10, is_pinned=is_pinned)


async def test_a_body_within_the_limit_is_read_and_a_longer_one_cut_off(start: Callable[[], Site]) -> None:
    site = start()
    site.pages = {"/a": (200, {}, b"x" * 100), "/b": (200, {}, b"x" * 101)}
    assert await get(f"{site.url}/a") == b"x" * 100
    with pytest.raises(LimitExceeded, match="more than 100 bytes: it is cut off"):
        await get(f"{site.url}/b")


async def test_a_compressed_body_is_refused_unread(start: Callable[[], Site]) -> None:
    site = start()
    site.pages = {"/a": (200, {"content-encoding": "gzip"}, b"x")}
    with pytest.raises(SourceError, match="compressed answer"):
        await get(f"{site.url}/a")


async def test_another_status_is_an_error_with_that_status(start: Callable[[], Site]) -> None:
    with pytest.raises(StatusError, match="answers with status 404"):
        await get(f"{start().url}/a")


async def test_a_redirect_to_another_server_is_followed_only_for_pinned_bytes(
    start: Callable[[], Site],
) -> None:
    site, other = start(), start()
    other.pages = {"/b": (200, {}, b"b")}
    site.pages = {"/a": (302, {"location": f"{other.url}/b"}, b""), "/same": (302, {"location": "/c"}, b"")}
    site.pages["/c"] = (200, {}, b"c")
    assert await get(f"{site.url}/same") == b"c"
    with pytest.raises(SourceError, match="another host"):
        await get(f"{site.url}/a")
    assert other.requests == []
    assert await get(f"{site.url}/a", is_pinned=True) == b"b"


async def test_redirects_without_end_are_refused(start: Callable[[], Site]) -> None:
    site = start()
    site.pages = {"/a": (302, {"location": "/a"}, b"")}
    with pytest.raises(SourceError, match="redirects more than 5 times"):
        await get(f"{site.url}/a")


@pytest.mark.parametrize("location", ["http://[x", "http://\udc00", "x:y", "//", "http://a:b/"])
async def test_a_location_that_is_no_url_is_one_clear_error(location: str) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(302, headers=[(b"location", location.encode("utf-8", "surrogateescape"))])

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        with pytest.raises(SourceError):
            await fetch(client, "https://example.org/a", most=1, seconds=10, is_pinned=True)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "127.1"])
async def test_nothing_is_sent_to_this_machine_for_a_public_site(
    name: str, start: Callable[[], Site]
) -> None:
    """By the address of the connection, so that no name and no spelling gets around it."""
    site = start()
    site.pages = {"/a": (200, {}, b"secret")}
    url = f"http://{name}:{site.server.server_address[1]}/a"
    with pytest.raises(SourceError, match="which a public address led to"):
        await get(url, reach=Reachability.PUBLIC)
    assert site.requests == []
    assert await get(url) == b"secret"


async def test_the_first_address_decides_what_may_follow(start: Callable[[], Site]) -> None:
    site = start()
    site.pages = {"/a": (200, {}, b"a")}
    async with open_client(DEFAULT_LIMITS) as client:
        backend = client._transport._pool._network_backend  # pyright: ignore
        assert backend._reach is None
        assert await fetch(client, f"{site.url}/a", most=9, seconds=10) == b"a"
        assert backend._reach is Reachability.MACHINE


async def test_a_body_for_another_reader_ends_with_an_error_beyond_the_limit() -> None:
    class Stream(httpx2.AsyncByteStream):
        async def __aiter__(self):  # pyright: ignore
            yield b"x" * 6
            yield b"x" * 6

    with pytest.raises(SourceError, match="more than 10 bytes"):
        async for _ in CappedBody(Stream(), 10):
            pass


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://example.org/.well-known/agent-skills/index.json", True),
        ("https://EXAMPLE.org:443/a.tar.gz", True),
        ("https://example.org.evil.example/a.tar.gz", False),
        ("https://cdn.example.org/a.tar.gz", False),
        ("https://example.org:8443/a.tar.gz", False),
        ("http://example.org:443/a.tar.gz", False),
    ],
)
def test_a_token_goes_to_its_site_and_nowhere_else(url: str, is_sent: bool) -> None:
    auth = open_client(DEFAULT_LIMITS, site="https://example.org", token="secret").auth
    assert auth is not None
    request = next(auth.auth_flow(httpx2.Request("GET", url)))
    assert ("authorization" in request.headers) is is_sent


def test_a_token_is_never_sent_in_the_clear_except_on_this_machine() -> None:
    with pytest.raises(SourceError, match="in the clear"):
        open_client(DEFAULT_LIMITS, site="http://example.org", token="secret")
    with pytest.raises(SourceError, match="characters"):
        open_client(DEFAULT_LIMITS, site="https://example.org", token="a\r\nHost: b")
    assert open_client(DEFAULT_LIMITS, site="http://127.0.0.1:8000", token="secret").auth is not None
