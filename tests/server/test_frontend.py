"""Attacks over HTTP on server, gateway and registry: one frontend, so one set of tests for all three."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from clients import call
from fast_path_calls import Talk, body, request
from folder_server import port_of
from gateways import connected_to, make_gateway, write_callers
from registry.conftest import publish_to
from served import INITIALIZE, INITIALIZED
from server.test_pool import Place
from simulator import Simulator
from skillwire import Limits, SkillServer, verify
from skillwire.access import CallerFile, OpenIdentity, TokenFile
from skillwire.documents import read_json
from skillwire.gateway import GatewayOptions
from skillwire.registry import Access, Publishing, RegistryApp, Role, Store
from skillwire.server import (
    Address,
    HttpFrontend,
    HttpServer,
    OperatorApp,
    ServerOptions,
    ServiceStatus,
    ViewPool,
)
from trees import write_skill
from waiting import pass_time, until_answered

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SEC-9")]

ACCEPT = {"accept": "application/json, text/event-stream"}
PRODUCTS = ("server", "gateway", "registry")
NAMES = ("ada", "bob", "olga")
LISTEN = body("subscriptions/listen", notifications={"resourcesListChanged": True})


@dataclass
class Product:
    """One of the three, on a socket. `olga` is its operator."""

    kind: str
    folder: Path
    frontend: HttpFrontend[Any, Any]
    tokens: dict[str, str]
    revoke: Callable[[str], None]
    reduce: Callable[[str], None] | None
    change: Callable[[], None]
    """Adds a skill that everybody sees."""
    close: Callable[[], None] = lambda: None
    port: int = 0
    http: HttpServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def bearer(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[name]}"}

    def client(self, name: str | None = None, **headers: str) -> httpx.AsyncClient:
        sent = {**ACCEPT, **(self.bearer(name) if name else {}), **headers}
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", headers=sent, timeout=60)

    async def ask(self, name: str, message: Any, **changes: str | None) -> int:
        """The status of a request of 2026-07-28."""
        talk = await Talk.open(self.port)
        try:
            status, _, _ = await talk.ask(request(message, {**self.bearer(name), **changes}))
        finally:
            talk.close()
        return int(status.split()[1])

    @asynccontextmanager
    async def stream(self, name: str, version: str = "2026-07-28") -> AsyncGenerator[Stream]:
        """An event stream that is open."""
        async with self.client(name) as client:
            if version == "2026-07-28":
                headers = {"mcp-protocol-version": version, "mcp-method": "subscriptions/listen"}
                opening = client.stream("POST", "/mcp", json=LISTEN, headers=headers)
            else:
                opened = await client.post("/mcp", json=INITIALIZE)
                headers = {
                    "mcp-session-id": opened.headers["mcp-session-id"],
                    "mcp-protocol-version": version,
                }
                await client.post("/mcp", json=INITIALIZED, headers=headers)
                opening = client.stream("GET", "/mcp", headers=headers)
            async with opening as response:
                assert response.status_code == 200, await response.aread()
                stream = Stream(response)
                if version == "2026-07-28":
                    await stream.hear("acknowledged")
                yield stream


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def hear(self, word: str) -> None:
        """Wait for an event with this word."""
        async with asyncio.timeout(60):
            async for line in self._lines:
                if word in line:
                    return
        raise AssertionError(f"the stream ended before {word}")

    async def end(self) -> list[str]:
        """Wait for a proper end of the stream; what else was in it."""
        async with asyncio.timeout(60):
            return [line async for line in self._lines if line.startswith("data")]


def make_server(folder: Path, limits: Limits, **_: Any) -> Product:
    write_skill(folder / "skills/intro")
    tokens = {name: f"token-of-{name}" for name in NAMES}
    file = folder / "tokens"

    def write(*names: str) -> None:
        rows = (f"{name} {tokens[name]}{' operator' if name == 'olga' else ''}" for name in names)
        file.write_text("\n".join(rows))

    write(*NAMES)
    server = SkillServer(folder / "skills", options=ServerOptions(limits=limits))
    app = server.http_app(identity=TokenFile(file, limits=limits))
    return Product(
        "server",
        folder,
        app,
        tokens,
        revoke=lambda name: write(*(one for one in NAMES if one != name)),
        reduce=None,
        change=lambda: write_skill(folder / "skills/another") and None,
    )


def make_gateway_product(folder: Path, limits: Limits, **_: Any) -> Product:
    simulator = Simulator()
    simulator.skill("intro")
    file = folder / "callers.toml"
    tokens = write_callers(file, **{name: {"include": ["docs/*"]} for name in NAMES})
    file.write_text(file.read_text().replace("[callers.olga]", "[callers.olga]\noperator = true"))
    options = GatewayOptions(approval="listed", callers=CallerFile(file, limits=limits))
    gateway = make_gateway(folder, options, ServerOptions(limits=limits), docs=simulator)

    def revoke(name: str) -> None:
        file.write_text(re.sub(rf"\[callers\.{name}\]\n(?:[^\[\n].*\n)*", "", file.read_text()))

    def reduce(name: str) -> None:
        head, mark, rest = file.read_text().partition(f"[callers.{name}]")
        file.write_text(head + mark + rest.replace("docs/*", "docs/none", 1))

    refreshing: set[asyncio.Future[None]] = set()

    def change() -> None:
        simulator.skill("another")
        refreshing.add(asyncio.ensure_future(gateway.host.refresh()))

    return Product("gateway", folder, gateway.http_app(), tokens, revoke, reduce, change)


def make_registry(folder: Path, limits: Limits, **options: Any) -> Product:
    store = Store(f"sqlite:///{folder / 'registry.db'}")
    store.create()
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    publish("intro")
    access = Access(store)
    tokens: dict[str, str] = {}
    for name in NAMES:
        tokens[name] = access.add_token(name, by="test")
        access.grant(f"token:{name}", "acme", Role.READ, by="test")
        access.grant(f"token:{name}", "other", Role.READ, by="test")
    access.grant("token:olga", "*", Role.ADMIN, by="test")
    app = RegistryApp(store, options=ServerOptions(limits=limits), **options)

    def reduce(name: str) -> None:
        # One change: after the first of two, a stream would have ended with a view that may still see it.
        access.grant(f"token:{name}", "acme", None, by="test")

    return Product(
        "registry",
        folder,
        app,
        tokens,
        revoke=lambda name: access.revoke_token(name, by="test"),
        reduce=reduce,
        change=lambda: publish("another") and None,
        close=store.close,
    )


MAKERS = {"server": make_server, "gateway": make_gateway_product, "registry": make_registry}


@asynccontextmanager
async def serving(kind: str, folder: Path, *, caps: Any = None, **options: Any) -> AsyncGenerator[Product]:
    """A product that serves, with `caps` for its limits."""
    limits = Limits(**{"http_revoke_seconds": 0.05, **(caps or {})})
    product = MAKERS[kind](folder, limits, **options)
    product.http = HttpServer(product.frontend, Address("127.0.0.1", 0), limits=limits)
    product.port = port_of(product.http)
    task = asyncio.ensure_future(product.http.serve())
    try:
        async with product.client() as client:

            async def is_ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await until_answered(is_ready)
        yield product
    finally:
        product.http.stop()
        await task
        product.close()


all_products = pytest.mark.parametrize("kind", PRODUCTS)


@all_products
async def test_host_and_origin_come_before_anything_that_is_about_somebody(kind: str, tmp_path: Path) -> None:
    async with serving(kind, tmp_path) as product, product.client("olga") as client:
        paths = ("/mcp", "/metrics", "/healthz?detail", "/nothing")
        for path in paths:
            for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", ""):
                assert (await client.get(path, headers={"host": host})).status_code in (400, 421), (
                    path,
                    host,
                )
            for origin in ("https://evil.example", "null", "http://localhost.evil.example", "file://"):
                assert (await client.get(path, headers={"origin": origin})).status_code == 403, (path, origin)
        own = await client.get("/metrics", headers={"origin": f"http://localhost:{product.port}"})
        assert own.status_code == 200
        for path in ("/livez", "/readyz", "/healthz"):
            probe = await client.get(path, headers={"host": "10.0.0.7:8000"})
            assert (probe.status_code, probe.json()) == (200, {"status": "ok"})
        twice = await Talk.open(product.port)
        status, _, _ = await twice.ask(
            request(body("skills/list"), product.bearer("ada") | {}, extra="Host: evil.example")
        )
        twice.close()
        assert int(status.split()[1]) in (400, 421)


@all_products
async def test_metrics_and_health_in_detail_are_for_operators(kind: str, tmp_path: Path) -> None:
    async with serving(kind, tmp_path) as product:
        own = HttpServer(OperatorApp(product.frontend), Address("127.0.0.1", 0), path="")
        task = asyncio.ensure_future(own.serve())
        for path in ("/metrics", "/healthz?detail"):
            for name, status in ((None, 401), ("ada", 403), ("olga", 200)):
                async with product.client(name) as client:
                    assert (await client.get(path)).status_code == status, (path, name)
        async with httpx.AsyncClient(timeout=60) as client:
            assert "skillwire_views" in (await client.get(f"{own.url}/metrics")).text
            assert (await client.get(f"{own.url}/healthz")).json()["status"] == "ok"
            elsewhere = await client.get(f"{own.url}/metrics", headers={"host": "10.1.2.3:9100"})
            assert elsewhere.status_code == 200
            for host in ("evil.example", "10.1.2.3.evil.example:9100"):
                rebound = await client.get(f"{own.url}/metrics", headers={"host": host})
                assert rebound.status_code == 421
            assert (await client.get(f"{own.url}/mcp")).status_code == 404
        own.stop()
        await task


@all_products
async def test_a_token_is_a_header_and_nothing_else(kind: str, tmp_path: Path) -> None:
    async with serving(kind, tmp_path) as product:
        token = product.tokens["ada"]
        listing = body("skills/list")
        good = await product.ask("ada", listing)
        assert good == 200
        for given in ("", " ", "Bearer", "Bearer ", f"Basic {token}", token, f"Bearer {token} x", "Bearer x"):
            assert await product.ask("ada", listing, authorization=given) == 401, given
        assert await product.ask("ada", listing, authorization=None) == 401
        async with product.client() as client:
            for query in (f"access_token={token}", f"token={token}"):
                assert (await client.post(f"/mcp?{query}", json=listing)).status_code == 401
            client.cookies.set("authorization", f"Bearer {token}")
            assert (await client.post("/mcp", json=listing)).status_code == 401
            answer = await client.post("/mcp", json=listing)
        assert answer.headers["www-authenticate"].startswith('Bearer realm="skillwire"')
        double = await Talk.open(product.port)
        status, _, _ = await double.ask(
            request(listing, product.bearer("ada") | {}, extra=f"Authorization: Bearer {token}")
        )
        double.close()
        assert b"401" in status


@all_products
async def test_whoever_guesses_tokens_is_slowed_down_and_stops_nobody_else(kind: str, tmp_path: Path) -> None:
    async with serving(kind, tmp_path, caps={"http_failed_credentials_per_minute": 6}) as product:
        listing = body("skills/list")
        assert await product.ask("ada", listing) == 200
        statuses: list[int] = []
        for number in range(25):
            guess = f"Bearer skr_{number:043d}"
            statuses.append(await product.ask("ada", listing, authorization=guess))
        assert statuses[0] == 401
        assert statuses.count(429) >= 10
        # From the same address, as behind a proxy.
        assert await product.ask("ada", listing) == 200
        async with product.client() as client:
            guess = {"authorization": f"Bearer skr_{99:043d}"}
            refused = await client.post("/mcp", json=listing, headers=guess)
            # A malformed token is not a guess, and costs nobody anything.
            empty = await client.post("/mcp", json=listing, headers={"authorization": "Bearer"})
        assert int(refused.headers["retry-after"]) >= 1
        assert empty.status_code == 401


@all_products
async def test_a_session_works_only_for_the_caller_that_opened_it(kind: str, tmp_path: Path) -> None:
    async with serving(kind, tmp_path) as product, product.client("ada") as ada, product.client("bob") as bob:
        opened = await ada.post("/mcp", json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await ada.post("/mcp", json=INITIALIZED, headers=session)
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await ada.post("/mcp", json=ping, headers=session)).status_code == 200
        assert (await bob.post("/mcp", json=ping, headers=session)).status_code == 404
        assert (await bob.get("/mcp", headers=session)).status_code == 404
        assert (await bob.delete("/mcp", headers=session)).status_code == 404
        assert (await ada.post("/mcp", json=ping, headers=session)).status_code == 200


@all_products
async def test_two_requests_in_one_are_not_two_answers(kind: str, tmp_path: Path) -> None:
    """Request smuggling: a proxy and the server must never disagree about where a request ends."""
    async with serving(kind, tmp_path) as product:
        token = product.tokens["ada"]
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        inner = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        tricks = (
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Content-Length: 4\r\nContent-Length: 60\r\n\r\nabcd",
            "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            "Content-Length: +4\r\n\r\nabcd",
            "Content-Length: 4, 4\r\n\r\nabcd",
        )
        for trick in tricks:
            talk = await Talk.open(product.port)
            talk.writer.write((head + trick).encode() + inner)
            talk.writer.write_eof()
            async with asyncio.timeout(60):
                answer = await talk.reader.read()
            talk.close()
            assert b"skillwire_" not in answer
            # What follows an ambiguous request on its connection is never served with its permissions.
            assert answer.count(b"HTTP/1.1 200") == 0, trick


@all_products
async def test_bodies_are_bounded_before_they_are_parsed(kind: str, tmp_path: Path) -> None:
    async with (
        serving(kind, tmp_path, caps={"http_large_bodies": 1}) as product,
        product.client("ada") as client,
    ):
        headers = {"content-type": "application/json", "mcp-protocol-version": "2025-11-25"}

        async def post(data: bytes) -> int:
            return (await client.post("/mcp", content=data, headers=headers)).status_code

        async def chunks(size: int) -> AsyncGenerator[bytes]:
            for _ in range(size // 50_000 + 1):
                yield b"x" * 50_000

        assert await post(b"x" * (1 << 20) + b"x") == 413
        assert await post(b"[" + b"{}," * 300_000) == 413
        assert await post(b"[" + b"{}," * 15_000) == 413
        chunked = await client.post("/mcp", content=chunks(2 << 20), headers=headers)
        assert chunked.status_code == 413
        # A body without an end is refused while it is still being sent: nothing is held until it is over.
        endless = await Talk.open(product.port)
        head = {**product.bearer("ada"), "Mcp-Method": None}
        first = request(b"", head).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        assert b"chunked" in first
        endless.writer.write(first + b"c350\r\n" + b"x" * 50_000 + b"\r\n")
        endless.writer.write((b"c350\r\n" + b"x" * 50_000 + b"\r\n") * 21)
        async with asyncio.timeout(40):
            assert (await endless.answer())[0].startswith(b"http/1.1 413")
        endless.close()
        # One that takes long to send a large body holds up nobody who sends a small one.
        slow = await Talk.open(product.port)
        slow.writer.write(request(b"x" * 200_000, {**product.bearer("ada"), "Mcp-Method": None})[:150_000])

        async def is_refused() -> bool:
            return await post(b'{"x": "' + b"x" * 100_000 + b'"}') == 503

        await until_answered(is_refused)
        assert await product.ask("ada", body("skills/list")) == 200
        slow.close()


async def test_commands_and_manifests_are_bounded_and_parsed_off_the_loop_if_they_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[int, bool]] = []

    def noted(data: bytes | str, **options: Any) -> Any:
        threads.append((len(data), threading.get_ident() == loop))
        return read_json(data, **options)

    loop = threading.get_ident()
    monkeypatch.setattr("skillwire.server.http.asgi.read_json", noted)
    async with serving("registry", tmp_path) as product, product.client("olga") as client:
        long = b" " * 100_000
        for text, status in (
            (b"{}", 422),
            (b"{" + long + b"}", 422),
            (b"{", 422),
            (b"[" + b"{}," * 50_000, 413),
        ):
            assert (await client.post("/registry/v1/admin", content=text)).status_code == status
            form = {"manifest": (None, text)}
            assert (await client.post("/registry/v1/publish", files=form)).status_code == status
    assert {on_loop for size, on_loop in threads if size < 100_000} == {True}
    assert {on_loop for size, on_loop in threads if size >= 100_000} == {False}


@all_products
async def test_slow_heads_slow_bodies_and_too_many_connections(kind: str, tmp_path: Path) -> None:
    caps = {"http_head_seconds": 4, "http_body_seconds": 4, "http_connections_per_address": 6}
    async with serving(kind, tmp_path, caps=caps) as product:
        http = product.http
        assert http is not None
        silent = await Talk.open(product.port)
        half = await Talk.open(product.port)
        half.writer.write(request(body("skills/list"), {**product.bearer("ada")})[:-5])
        await pass_time(0, once=lambda: http.connections == 2)
        await pass_time(4)
        assert (await silent.rest()).startswith(b"HTTP/1.1 408 ")
        assert (await half.rest()).startswith(b"HTTP/1.1 408 ")
        held = [await Talk.open(product.port) for _ in range(12)]
        answers = [asyncio.ensure_future(talk.rest()) for talk in held]
        await pass_time(4, once=lambda: sum(answer.done() for answer in answers) >= 6)
        refused = [data for data in await asyncio.gather(*answers) if data.startswith(b"HTTP/1.1 503 ")]
        assert len(refused) >= 6
        assert b"retry-after:" in refused[0].lower()
        assert await product.ask("ada", body("skills/list")) == 200


@all_products
async def test_a_caller_who_floods_is_told_to_wait_and_others_are_not(kind: str, tmp_path: Path) -> None:
    caps = {"http_requests_per_minute": 60, "http_requests_at_once": 2}
    async with serving(kind, tmp_path, caps=caps) as product:
        statuses = [await product.ask("ada", body("skills/list")) for _ in range(30)]
        assert statuses.count(429) >= 10
        assert await product.ask("bob", body("skills/list")) == 200
        async with product.stream("olga"), product.stream("olga"):
            assert await product.ask("olga", body("skills/list")) == 429
            assert await product.ask("bob", body("skills/list")) == 200

        async def is_answered() -> bool:
            return await product.ask("olga", body("skills/list")) == 200

        await until_answered(is_answered)


@all_products
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_streams_end_with_the_token_that_opened_them_and_others_go_on(
    kind: str, version: str, tmp_path: Path
) -> None:
    async with serving(kind, tmp_path) as product:
        async with product.stream("ada", version) as gone, product.stream("bob", version) as stays:
            product.revoke("ada")
            assert await gone.end() == []
            product.change()
            await stays.hear("list_changed")
        assert await product.ask("ada", body("skills/list")) == 401
        assert await product.ask("bob", body("skills/list")) == 200


@pytest.mark.parametrize("kind", ["gateway", "registry"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_streams_end_when_a_caller_may_see_less_and_others_go_on(
    kind: str, version: str, tmp_path: Path
) -> None:
    async with serving(kind, tmp_path) as product:
        assert product.reduce is not None
        async with product.stream("ada", version) as gone, product.stream("bob", version) as stays:
            product.reduce("ada")
            assert await gone.end() == []
            product.change()
            await stays.hear("list_changed")
        async with product.client("ada") as client:
            headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "skills/list"}
            answer = await client.post("/mcp", json=body("skills/list"), headers=headers)
            assert answer.json()["result"]["skills"] == []


@all_products
async def test_a_request_that_comes_while_its_caller_is_revoked_is_refused_and_not_an_error(
    kind: str, tmp_path: Path
) -> None:
    async with serving(kind, tmp_path) as product:
        statuses: set[int] = set()
        answered = asyncio.Event()

        async def keep_asking() -> None:
            headers = {"mcp-protocol-version": "2025-11-25"}
            async with product.client("ada", **headers) as client:
                while 401 not in statuses:
                    answer = await client.post("/mcp", json=INITIALIZE)
                    statuses.add(answer.status_code)
                    answered.set()

        asking = [asyncio.ensure_future(keep_asking()) for _ in range(4)]
        await answered.wait()
        product.revoke("ada")
        async with asyncio.timeout(60):
            await asyncio.gather(*asking)
        assert statuses == {200, 401}


class SlowPlace(Place):
    """An endpoint that is started by the test."""

    def __init__(self) -> None:
        super().__init__("ada")
        self.may_start, self.begins = asyncio.Event(), asyncio.Event()

    async def run(self, stopping: asyncio.Event, started: asyncio.Event) -> None:
        self.begins.set()
        await self.may_start.wait()
        await super().run(stopping, started)


async def test_a_view_that_is_revoked_while_it_starts_serves_nobody() -> None:
    place = SlowPlace()
    pool: ViewPool[str] = ViewPool(lambda _key: (place, None))
    frontend = HttpFrontend(
        OpenIdentity(),
        pool,
        view_of=lambda _caller, _headers: "ada",
        status=ServiceStatus(state=_ok, health=_nothing, gauges=_nothing),
        running=nullcontext,
    )
    transport = httpx.ASGITransport(app=frontend)  # pyright: ignore[reportArgumentType]
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        asking = asyncio.ensure_future(client.post("/mcp", json=INITIALIZE))
        async with asyncio.timeout(60):
            await place.begins.wait()
            pool.revoke(next(iter(pool._all())))  # pyright: ignore[reportPrivateUsage]
            place.may_start.set()
            # The endpoint itself would fail: see `Place`.
            assert (await asking).status_code == 401
            await place.stopped.wait()
    assert pool.streams == 0


async def _ok() -> Any:
    return "ok"


async def _nothing() -> dict[str, Any]:
    return {}


@all_products
async def test_both_eras_work_and_the_extension_is_conformed_to(kind: str, tmp_path: Path) -> None:
    async with serving(kind, tmp_path) as product:
        for version in ("2025-11-25", "2026-07-28"):
            async with connected_to(product.url, product.tokens["ada"], version) as client:
                [entry] = (await call(client, "skills/list"))["skills"]
                assert await client.read_resource(entry["uri"])
        report = await verify(product.url, headers=product.bearer("ada"))
        assert [str(finding) for finding in report.violations] == []


@pytest.mark.slow
async def test_a_hundred_made_up_values_of_a_passed_header_leave_no_descriptors(tmp_path: Path) -> None:
    upstream = SkillServer(tmp_path / "skills", options=ServerOptions(watch=False))
    write_skill(tmp_path / "skills/intro")
    behind = HttpServer(upstream.http_app(), Address("127.0.0.1", 0))
    task = asyncio.ensure_future(behind.serve())
    file = tmp_path / "callers.toml"
    token = write_callers(file, ada={})["ada"]
    file.write_text(file.read_text() + '\n[callers.ada.credentials.up]\npass_header = "x-up"\n')
    limits = Limits(http_views_per_caller=4, http_revoke_seconds=0.05)
    options = GatewayOptions(approval="listed", callers=CallerFile(file))
    gateway = make_gateway(tmp_path, options, ServerOptions(limits=limits), up=behind.url)
    http = HttpServer(gateway.http_app(), Address("127.0.0.1", 0))
    serving_gateway = asyncio.ensure_future(http.serve())
    port = port_of(http)
    counts: list[int] = []
    stack = AsyncExitStack()
    try:
        talk = await stack.enter_async_context(talking(port))
        for number in range(100):
            headers: dict[str, str | None] = {"authorization": f"Bearer {token}", "x-up": f"made-up-{number}"}
            status, _, _ = await talk.ask(request(body("server/discover"), headers))
            assert status.split()[1] == b"200"
            if number % 10 == 9:
                counts.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
    finally:
        await stack.aclose()
        http.stop()
        behind.stop()
        await asyncio.gather(serving_gateway, task)
    assert max(counts) - min(counts) < 40, counts
    assert counts[-1] < counts[0] + 30, counts


@asynccontextmanager
async def talking(port: int) -> AsyncGenerator[Talk]:
    talk = await Talk.open(port)
    try:
        yield talk
    finally:
        talk.close()


@asynccontextmanager
async def many(folder: Path, count: int, **caps: Any) -> AsyncGenerator[tuple[Product, Store, list[str]]]:
    """A registry with callers whose permissions all differ."""
    async with serving("registry", folder, caps={**caps}) as product:
        store = Store(f"sqlite:///{folder / 'registry.db'}")
        access = Access(store)
        names = [f"caller-{number}" for number in range(count)]
        for name in names:
            product.tokens[name] = access.add_token(name, by="test")
            access.grant(f"token:{name}", "acme", Role.READ, by="test")
            access.grant(f"token:{name}", f"own-{name}", Role.READ, by="test")
        yield product, store, names
        store.close()


async def test_a_hundred_callers_list_while_one_streams_and_that_one_hears_everything(
    tmp_path: Path,
) -> None:
    """More views than are kept: a stream is never evicted, and ends with its permissions."""
    async with many(tmp_path, 100, http_views=20) as (product, store, names):
        access = Access(store)
        first, second, *others = names
        async with product.stream(first) as reduced, product.stream(second) as revoked:
            for name in others:
                assert await product.ask(name, body("skills/list")) == 200
            assert len(product.frontend._pool) <= 20  # pyright: ignore[reportPrivateUsage]
            product.change()
            await reduced.hear("list_changed")
            await revoked.hear("list_changed")
            access.grant(f"token:{first}", "acme", None, by="test")
            assert await reduced.end() == []
            publish_to(store)("third")
            await revoked.hear("list_changed")
            access.revoke_token(second, by="test")
            assert await revoked.end() == []
        assert await product.ask(second, body("skills/list")) == 401


async def test_past_the_limit_a_new_stream_is_refused_and_the_open_ones_go_on(tmp_path: Path) -> None:
    async with many(tmp_path, 4, http_views=3) as (product, _, names), AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(product.stream(name)) for name in names[:3]]
        async with product.client(names[3]) as client:
            headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
            refused = await client.post("/mcp", json=LISTEN, headers=headers)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        product.change()
        for stream in streams:
            await stream.hear("list_changed")


@pytest.mark.slow
async def test_a_hundred_sets_of_permissions_with_a_stream_each_hear_of_a_publication(
    tmp_path: Path,
) -> None:
    count = 100
    async with many(tmp_path, count, http_connections_per_address=2 * count) as (product, _, names):
        talks: list[Talk] = []

        async def listen(name: str) -> None:
            talk = await Talk.open(product.port)
            talk.writer.write(request(LISTEN, {**product.bearer(name)}))
            while b"acknowledged" not in await talk.reader.readline():
                pass
            talks.append(talk)

        async def hear(talk: Talk) -> None:
            while b"list_changed" not in await talk.reader.readline():
                pass

        async with asyncio.timeout(600):
            for name in names:
                await listen(name)
            product.change()
            await asyncio.gather(*map(hear, talks))
        assert len(product.frontend._pool) == count  # pyright: ignore[reportPrivateUsage]
        for talk in talks:
            talk.close()


async def test_where_anyone_may_read_something_clients_still_learn_how_to_sign_in(tmp_path: Path) -> None:
    from skillwire.access import OAuthSettings

    oauth = OAuthSettings(issuer="https://login.example", audience="https://skills.example/mcp")
    async with serving("registry", tmp_path, oauth=oauth) as product, product.client() as client:
        store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
        Publishing(store).set_namespace("secret", by="test")
        publish_to(store)("plans", namespace="secret")
        Access(store).grant("anyone", "acme", Role.READ, by="test")
        store.close()

        async def ask(version: str, message: dict[str, Any]) -> httpx.Response:
            headers = {"mcp-protocol-version": version}
            if version == "2026-07-28":
                headers["mcp-method"] = message["method"]
                if "uri" in message["params"]:
                    headers["mcp-name"] = message["params"]["uri"]
            return await client.post("/mcp", json=message, headers=headers)

        async def is_readable() -> bool:
            return (await ask("2026-07-28", body("skills/list"))).status_code == 200

        await until_answered(is_readable)
        for version in ("2026-07-28", "2025-11-25"):
            for method in ("skills/get", "resources/read", "resources/directory/read"):
                # Hidden and missing are the same: only the URI decides.
                for uri in ("skill://secret/plans/SKILL.md", "skill://none/x/SKILL.md"):
                    refused = await ask(version, body(method, uri=uri))
                    assert refused.status_code == 401, (version, method, uri)
                    assert "oauth-protected-resource/mcp" in refused.headers["www-authenticate"]
        tool = body("tools/call", name="load_skill", arguments={"name": "secret/plans"})
        assert (await ask("2026-07-28", tool)).status_code == 401
        opened = await ask("2026-07-28", body("resources/read", uri="skill://acme/intro/SKILL.md"))
        assert "intro" in opened.text
        for path in ("/v2/secret/plans/manifests/1.0.0", "/.well-known/agent-skills/secret/plans@1.tar.gz"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/v2/acme/none/manifests/1.0.0")).status_code == 404
        assert (await client.post("/registry/v1/publish")).status_code == 401
        metadata = await client.get("/.well-known/oauth-protected-resource/mcp")
        assert metadata.json()["authorization_servers"] == ["https://login.example"]
        assert (await client.get("/.well-known/oauth-protected-resource/other")).status_code == 404
