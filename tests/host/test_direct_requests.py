"""Requests over HTTP that do without the SDK's session."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client import advertise
from mcp.client.streamable_http import streamable_http_client

from skillwire.errors import LimitExceeded, RequestRefused, SourceError
from skillwire.host import ServerConfig
from skillwire.host.connection import Connection
from skillwire.host.http_client import CappedClient, HttpAnswer
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.trust import Origin
from skillwire.version import VERSION
from skillwire.wire import EXTENSION_ID
from waiting import PATIENCE, pass_time
from wild_http import Call, Respond, at, wild_http
from wild_stdio import URI

pytestmark = pytest.mark.anyio


async def ignore(_: Connection) -> None:
    """Nobody is told."""


@asynccontextmanager
async def connected(
    respond: Respond, *, limits: Limits = DEFAULT_LIMITS, **options: Any
) -> AsyncGenerator[tuple[Connection, list[Call]]]:
    async with wild_http(respond) as (url, calls), anyio.create_task_group() as tasks:
        config = ServerConfig(**{"url": url, "call_seconds": 60, **options})
        connection = Connection(Origin.mcp("shop"), config, limits=limits, on_change=ignore)
        tasks.start_soon(connection.run)
        await connection.settled()
        yield connection, calls
        tasks.cancel_scope.cancel()


def reads(calls: list[Call]) -> list[Call]:
    return [one for one in calls if one.method == "resources/read"]


async def honest(request: Call) -> None:
    await request.behave()


async def streamed(request: Call, *messages: object, end: bool = True) -> None:
    """Answer with a stream of events that hold these messages."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    await request.stream.send(head)
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        await request.stream.send(b"event: message\ndata: " + data + b"\n\n")
    if not end:
        await anyio.sleep_forever()


async def test_a_direct_request_is_the_one_that_the_sdk_would_send() -> None:
    async with wild_http(honest) as (url, calls):
        async with Client(
            streamable_http_client(url),
            mode="2026-07-28",
            client_info=types.Implementation(name="skillwire", version=VERSION),
            extensions=[advertise(EXTENSION_ID)],
        ) as client:
            await client.session.send_discover("2026-07-28")
            await client.read_resource(URI)
        by_sdk = reads(calls)[0]
    async with connected(honest) as (connection, calls):
        await connection.request("resources/read", {"uri": URI})
        direct = reads(calls)[0]
    assert {**direct.message, "id": 0} == {**by_sdk.message, "id": 0}
    # What httpx adds, and the host's refusal of compressed answers.
    of_client = {"host", "user-agent", "connection", "content-length", "accept-encoding"}
    assert {name: value for name, value in direct.headers.items() if name not in of_client} == {
        name: value for name, value in by_sdk.headers.items() if name not in of_client
    }


async def test_the_headers_and_the_token_of_a_server_go_with_direct_requests() -> None:
    async with connected(honest, headers={"X-Team": "docs"}, token="sk-12345678") as (connection, calls):
        await connection.request("resources/read", {"uri": URI})
    sent = reads(calls)[0].headers
    assert (sent["x-team"], sent["authorization"]) == ("docs", "Bearer sk-12345678")
    assert (sent["accept"], sent["accept-encoding"]) == ("application/json, text/event-stream", "identity")


@pytest.mark.parametrize("end", [True, False], ids=["that ends", "that stays open"])
async def test_an_answer_may_come_in_a_stream_after_other_messages(end: bool) -> None:
    @at("resources/read")
    async def respond(request: Call) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
        await streamed(request, b"", note, json.loads(request.result()), end=end)

    async with connected(respond) as (connection, calls):
        result = await connection.request("resources/read", {"uri": URI})
    assert isinstance(result, dict)
    assert "contents" in result
    assert len(reads(calls)) == 1


@pytest.mark.requirement("SEC-9")
async def test_a_stream_of_messages_that_nobody_asked_for_ends_the_connection() -> None:
    @at("resources/read")
    async def respond(request: Call) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
        await streamed(request, *[note] * 30, json.loads(request.result()))

    limits = Limits(unasked_messages=20, unasked_messages_per_second=1)
    async with connected(respond, limits=limits) as (connection, _):
        with pytest.raises(LimitExceeded, match="unsolicited messages"):
            await connection.request("resources/read", {"uri": URI})


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("in_stream", [False, True], ids=["in a body", "in a stream"])
async def test_an_answer_of_very_many_small_values_is_refused_before_it_is_parsed(in_stream: bool) -> None:
    @at("resources/read")
    async def respond(request: Call) -> None:
        result = {"contents": [{}] * 100_000}
        body = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        if in_stream:
            await streamed(request, body)
        else:
            await request.send("200 OK", json.dumps(body).encode(), content_type="application/json")

    async with connected(respond) as (connection, _):
        with pytest.raises(LimitExceeded, match="values: it is refused"):
            await connection.request("resources/read", {"uri": URI})
        assert await connection.request("skills/list", {})


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"nothing",
        b'{"jsonrpc": "2.0", "id": "other", "result": {}}',
        b'{"jsonrpc": "2.0", "id": "other", "error": {"code": -32602, "message": "no"}}',
        b'{"jsonrpc": "2.0", "result": {}}',
        b'{"jsonrpc": "1.0", "id": ID, "result": {}}',
        b'{"jsonrpc": "2.0", "id": ID, "result": []}',
        b'{"jsonrpc": "2.0", "id": ID, "error": {"code": "x"}}',
        b"[" * 5000,
    ],
)
@pytest.mark.parametrize("in_stream", [False, True])
async def test_an_answer_that_is_not_that_of_the_request_is_not_taken(body: bytes, in_stream: bool) -> None:
    async def respond(request: Call) -> None:
        sent = body.replace(b"ID", str(request.message.get("id")).encode())
        if request.method != "resources/read":
            await request.behave()
        elif in_stream:
            await streamed(request, sent)
        else:
            await request.send("200 OK", sent, content_type="application/json")

    async with connected(respond) as (connection, _):
        with pytest.raises(SourceError, match="answered resources/read with something that is not MCP"):
            await connection.request("resources/read", {"uri": URI})


async def test_a_stream_that_ends_without_an_answer_is_a_refusal_of_that_request_alone() -> None:
    async def respond(request: Call) -> None:
        if request.method == "resources/read":
            await streamed(request)
        else:
            await request.behave()

    async with connected(respond) as (connection, _):
        with pytest.raises(RequestRefused, match="ended without an answer"):
            await connection.request("resources/read", {"uri": URI})
        assert await connection.request("skills/list", {})


@pytest.mark.parametrize("id_of", ["the request", "nobody"])
async def test_an_error_answer_with_a_status_keeps_its_code(id_of: str) -> None:
    @at("resources/read")
    async def respond(request: Call) -> None:
        identity = request.message["id"] if id_of == "the request" else None
        body = {"jsonrpc": "2.0", "id": identity, "error": {"code": -32602, "message": "no such file"}}
        await request.send("400 Bad Request", json.dumps(body).encode(), content_type="application/json")

    async with connected(respond) as (connection, calls):
        with pytest.raises(RequestRefused) as refused:
            await connection.request("resources/read", {"uri": URI})
    assert refused.value.code == -32602
    assert len(reads(calls)) == 1


async def test_a_redirect_on_the_same_server_is_followed_by_the_sdk() -> None:
    async def respond(request: Call) -> None:
        if request.method == "resources/read" and len(reads(calls)) < 3:
            await request.send("307 Temporary Redirect", location="/mcp/")
        else:
            await request.behave()

    async with connected(respond) as (connection, calls):
        result = await connection.request("resources/read", {"uri": URI})
    assert isinstance(result, dict)
    assert "contents" in result


async def test_a_request_that_is_given_up_closes_its_connection() -> None:
    closed = anyio.Event()

    @at("resources/read")
    async def respond(request: Call) -> None:
        with pytest.raises(anyio.EndOfStream):
            await request.stream.receive()
        closed.set()

    async with connected(respond) as (connection, _):
        with anyio.move_on_after(0.2):
            await connection.request("resources/read", {"uri": URI})
        with anyio.fail_after(30):
            await closed.wait()


async def test_cookies_of_a_server_are_not_sent_back() -> None:
    async def respond(request: Call) -> None:
        await request.send("200 OK", request.result(), content_type="application/json", set_cookie="a=b")

    async with connected(respond) as (connection, calls):
        for _ in range(2):
            await connection.request("resources/read", {"uri": URI})
    assert [one.headers.get("cookie") for one in reads(calls)] == [None, None]


@pytest.mark.requirement("SEC-9")
async def test_an_answer_that_arrives_too_slowly_times_out() -> None:
    @at("resources/read")
    async def respond(request: Call) -> None:
        await request.stream.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
        )
        while True:
            await request.stream.send(b" ")
            await pass_time(10)

    async with connected(respond, call_seconds=60) as (connection, _):
        with pytest.raises(SourceError, match=r"did not answer .* within 60 s"):
            await connection.request("resources/read", {"uri": URI})


async def test_the_user_and_password_of_a_url_go_with_every_request() -> None:
    async with wild_http(honest) as (url, calls), anyio.create_task_group() as tasks:
        place = url.replace("http://", "http://ann:p%40ss@")
        connection = Connection(
            Origin.mcp("shop"),
            ServerConfig(url=place, token="sk-12345678", call_seconds=60),
            limits=DEFAULT_LIMITS,
            on_change=ignore,
        )
        tasks.start_soon(connection.run)
        await connection.settled()
        await connection.request("resources/read", {"uri": URI})
        tasks.cancel_scope.cancel()
    assert {one.method for one in calls} >= {"server/discover", "resources/read"}
    assert {one.headers["authorization"] for one in calls} == {"Basic YW5uOnBAc3M="}


def answer_and_close_when_told(
    listener: socket.socket, close: threading.Event, closed: threading.Event
) -> None:
    """Answer one request on each of two connections, and close the first when told."""
    body = b"{}"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
    for _ in range(2):
        stream, _address = listener.accept()
        with stream:
            while not stream.recv(65536).endswith(b"{}"):
                pass
            stream.sendall(head + body)
            close.wait(PATIENCE)
        closed.set()


async def test_a_connection_that_was_closed_while_the_event_loop_was_blocked_is_not_used() -> None:
    close, closed = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server = threading.Thread(target=answer_and_close_when_told, args=(listener, close, closed))
        server.start()
        async with CappedClient({}, "", limit=1000, seconds=60) as http:
            assert isinstance(await http.post_message(url, {}, b"{}"), HttpAnswer)
            close.set()
            assert closed.wait(PATIENCE)  # It blocks the event loop, as a program that uses a host may.
            assert isinstance(await http.post_message(url, {}, b"{}"), HttpAnswer)
        server.join(10)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
async def test_a_process_that_can_open_no_more_files_is_told_so() -> None:
    import resource

    async with wild_http(honest) as (url, _), CappedClient({}, "", limit=1000, seconds=60) as http:
        assert isinstance(await http.post_message(url, {}, b"{}"), HttpAnswer)
        await anyio.wait_all_tasks_blocked()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            answer = await http.post_message(url, {}, b"{}")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert isinstance(answer, httpx2.Response)
    problem = http.problem_in(answer.json()["error"]["message"])
    assert problem is not None
    assert problem.words == "too many files are open here: allow more with `ulimit -n`"
