"""A server over HTTP bounds what strangers can hold: connections, time, sessions, memory (SEC-9)."""

from __future__ import annotations

import resource
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from fast_path_calls import READ, Talk, body, request
from folder_server import in_task, port_of
from served import INITIALIZE
from skillwire import Limits, SkillServer
from skillwire.server import HttpServer, ServerOptions
from trees import write_skill
from waiting import pass_time, until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SEC-9")]

ACCEPT = {"Accept": "application/json, text/event-stream"}
MANY = 2_500


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "acme/refunds", {"large.bin": bytes(4 << 20)})
    return tmp_path


@asynccontextmanager
async def running(folder: Path, **caps: Any) -> AsyncGenerator[tuple[int, HttpServer]]:
    limits = Limits(**caps)
    app = SkillServer(folder, options=ServerOptions(limits=limits, watch=False)).http_app()
    async with in_task(app, limits=limits) as http:
        yield port_of(http), http


async def test_a_connection_that_says_nothing_is_closed(folder: Path) -> None:
    async with running(folder, http_head_seconds=60) as (port, http):
        talk = await Talk.open(port)
        await pass_time(60, once=lambda: http.connections)
        assert (await talk.rest()).startswith(b"HTTP/1.1 408 ")


async def test_bytes_of_a_head_one_by_one_do_not_extend_its_time(folder: Path) -> None:
    async with running(folder, http_head_seconds=60) as (port, http):
        talk = await Talk.open(port)
        for byte in request(READ)[:3]:
            talk.writer.write(bytes([byte]))
            await pass_time(20, once=lambda: http.connections)
        assert (await talk.rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_head_cut_off_after_a_first_request_is_closed_too(folder: Path) -> None:
    async with running(folder, http_head_seconds=60) as (port, _):
        talk = await Talk.open(port)
        status, _, _ = await talk.ask(request(READ))
        assert status == b"http/1.1 200 ok"
        talk.writer.write(request(READ)[:40])
        await pass_time(60)
        await pass_time(60)  # Its time begins with its first byte, which may have come meanwhile.
        assert (await talk.rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_does_not_come_is_not_waited_for(folder: Path) -> None:
    async with running(folder, http_head_seconds=1000, http_body_seconds=60) as (port, http):
        talk = await Talk.open(port)
        talk.writer.write(request(READ)[:-10])
        await pass_time(0, once=lambda: http.connections)
        await pass_time(60)
        assert (await talk.rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_between_requests_stays_for_its_time_and_no_longer(folder: Path) -> None:
    async with running(folder, http_idle_seconds=200, http_head_seconds=50) as (port, _):
        talk = await Talk.open(port)
        await talk.ask(request(READ))
        await pass_time(199)
        status, _, _ = await talk.ask(request(READ))
        assert status == b"http/1.1 200 ok"
        await pass_time(200)
        assert await talk.rest() == b""
    assert Limits().http_idle_seconds >= 60


async def test_who_does_not_read_the_response_is_cut_off(folder: Path) -> None:
    large = body("resources/read", uri="skill://acme/refunds/large.bin")
    async with running(folder, http_write_seconds=60) as (port, http):
        talk = await Talk.open(port)
        talk.writer.write(request(large))
        await talk.reader.readexactly(10)  # The answer has begun, and fills the pipe.
        await pass_time(60)
        await until(lambda: not http.connections)
        talk.close()


async def test_one_address_has_its_share_of_connections_and_no_more(folder: Path) -> None:
    async with running(folder, http_connections_per_address=3) as (port, http):
        held = [await Talk.open(port) for _ in range(3)]
        for talk in held:
            status, _, _ = await talk.ask(request(READ))
            assert status == b"http/1.1 200 ok"
        assert (await (await Talk.open(port)).rest()).startswith(b"HTTP/1.1 503 ")
        held.pop().close()
        await until(lambda: http.connections < 3)
        again = await Talk.open(port)
        assert (await again.ask(request(READ)))[0] == b"http/1.1 200 ok"
        for talk in [*held, again]:
            talk.close()


@pytest.mark.slow
async def test_thousands_of_connections_meet_the_limit_and_the_server_goes_on(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3 * MANY:
        pytest.skip("this system allows too few descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        async with running(
            folder, http_connections=1000, http_connections_per_address=10_000, http_head_seconds=60
        ) as (port, http):
            first = await Talk.open(port)
            await first.ask(request(READ))
            talks = [await Talk.open(port) for _ in range(MANY)]
            for talk in talks[1000:]:
                assert (await talk.rest()).startswith(b"HTTP/1.1 503 ")
            for talk in talks[:1000]:
                talk.close()
            assert (await first.ask(request(READ)))[0] == b"http/1.1 200 ok"
            first.close()
            await until(lambda: not http.connections)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_more_sessions_than_it_may_have_are_refused(folder: Path) -> None:
    async with running(folder, sessions=100) as (port, _), client_of(port) as client:
        statuses = [(await client.post("/mcp", json=INITIALIZE)).status_code for _ in range(110)]
    assert statuses == [200] * 100 + [503] * 10


async def test_a_session_that_is_not_used_ends_and_makes_room(folder: Path) -> None:
    async with running(folder, sessions=1, session_idle_seconds=60) as (port, _), client_of(port) as client:
        opened = await client.post("/mcp", json=INITIALIZE)
        assert opened.status_code == 200
        assert (await client.post("/mcp", json=INITIALIZE)).status_code == 503
        await pass_time(60)
        assert (await client.post("/mcp", json=INITIALIZE)).status_code == 200
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        ended = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=session)
        assert ended.status_code == 404


def client_of(port: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=ACCEPT, timeout=60)
