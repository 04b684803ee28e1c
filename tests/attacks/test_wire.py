"""Servers that are hostile on the wire itself: real processes, and raw bytes over HTTP."""

from __future__ import annotations

import gzip
import json
import logging
import math
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import wild_stdio
from simulator import Simulator, agree, call, opened
from skillwire.errors import LimitExceeded, SkillwireError, SourceError
from skillwire.host import ConnectionStatus, ServerConfig, SkillHost
from skillwire.limits import Limits
from skillwire.trust import Origin
from waiting import pass_time
from wild_http import Call, Respond, at, wild_http

pytestmark = pytest.mark.anyio

SECONDS = 20
SMALL = {"ask": agree, "limits": Limits(answer_bytes=200_000)}


def wild(misdeed: str, **options: object) -> ServerConfig:
    command = (sys.executable, "-S", "-E", wild_stdio.__file__, misdeed)
    seconds = {"connect_seconds": SECONDS, "call_seconds": SECONDS}
    return ServerConfig(command=command, **{**seconds, **options})  # type: ignore[arg-type]


def http(url: str, **options: object) -> ServerConfig:
    seconds = {"connect_seconds": SECONDS, "call_seconds": SECONDS}
    return ServerConfig(url=url, **{**seconds, **options})  # type: ignore[arg-type]


def honest() -> Simulator:
    shop = Simulator()
    shop.skill("honest")
    return shop


def state(host: SkillHost, label: str = "evil") -> tuple[ConnectionStatus, str]:
    return next((known.status, known.reason) for known in host.places.servers() if known.label == label)


@asynccontextmanager
async def visiting(
    folder: Path, respond: Respond, *, host_options: Any = None, **config: Any
) -> AsyncGenerator[SkillHost]:
    """A host at a server over HTTP that answers so, with this configuration of the server."""
    async with (
        wild_http(respond) as (url, _),
        opened(folder, evil=http(url, **config), host_options=host_options) as host,
    ):
        yield host


def told(host: SkillHost) -> str:
    return " | ".join(
        event.message for event in host.log.events_so_far() if event.origin == Origin.mcp("evil")
    )


@pytest.mark.process
@pytest.mark.requirement("SEC-9")
async def test_a_line_without_end_is_cut_off_while_it_arrives(tmp_path: Path) -> None:
    async with opened(tmp_path, evil=wild("endless line"), shop=honest(), host_options=SMALL) as host:
        assert [skill.handle for skill in host.skills()] == ["honest"]
        assert "more than 200,000 bytes" in told(host)


@pytest.mark.process
@pytest.mark.requirement("SEC-9")
async def test_a_silent_process_affects_only_itself(tmp_path: Path) -> None:
    evil = wild("mute", connect_seconds=0.5)
    async with opened(tmp_path, evil=evil, shop=honest()) as host:
        assert [skill.handle for skill in host.skills()] == ["honest"]
        assert state(host) == (ConnectionStatus.FAILED, "no answer within 0.5 s")


@pytest.mark.process
@pytest.mark.requirement("SEC-9")
async def test_a_process_that_dies_during_a_read_ends_that_read_with_its_reason(tmp_path: Path) -> None:
    async with opened(tmp_path, evil=wild("crash while reading"), host_options=SMALL) as host:
        with pytest.raises(SourceError, match="evil went away during resources/read"):
            await host.load("refunds")
        async for event in host.log.events():
            if event.kind == "failure":
                break
        assert "out of memory" in state(host)[1]
        assert "\x1b" not in state(host)[1]
        assert host.active() == ()


@pytest.mark.process
@pytest.mark.requirement("SEC-9", "SEC-11")
@pytest.mark.parametrize("misdeed", ["garbage", "chatter"])
async def test_garbage_between_the_answers_does_no_harm(
    tmp_path: Path, misdeed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, evil=wild(misdeed), host_options=SMALL) as host:
        assert "# Refunds" in (await host.load("refunds")).text
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
    assert "owned" not in out + err


@pytest.mark.process
async def test_a_secret_that_a_server_was_given_is_not_repeated_in_its_reason(tmp_path: Path) -> None:
    evil = wild("tell secrets", env={"API_TOKEN": "sk-12345678"})
    async with opened(tmp_path, evil=evil) as host:
        assert state(host)[0] is ConnectionStatus.FAILED
        assert "bad token *** given" in state(host)[1]
        assert 'it wrote "using ***" to standard output' in state(host)[1]
        (known,) = host.places.servers()
        assert known.last_output == ("bad token *** given",)
        assert "sk-12345678" not in told(host)


@pytest.mark.process
@pytest.mark.requirement("SEC-9")
async def test_a_process_that_does_not_exit_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(pass_time, SECONDS, once=lambda: pid.exists() and pid.read_text()))
        async with opened(tmp_path, evil=wild("stay", env={"PID": str(pid)})) as host:
            assert state(host)[0] is ConnectionStatus.FAILED
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("kind", ["declared", "chunked", "event stream"])
async def test_a_huge_http_answer_is_cut_off_and_fails_one_request_alone(tmp_path: Path, kind: str) -> None:
    sent = 0

    @at("resources/read")
    async def respond(request: Call) -> None:
        nonlocal sent
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        if kind == "event stream":
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        head += (
            b"content-length: 99999999999\r\n" if kind == "declared" else b"transfer-encoding: chunked\r\n"
        )
        await request.stream.send(head + b"\r\n")
        block = b"data: " + b"x" * 65530
        while True:
            await request.stream.send(block if kind == "declared" else b"10000\r\n" + block + b"\r\n")
            sent += len(block)

    async with visiting(tmp_path, respond, host_options=SMALL) as host:
        with pytest.raises(LimitExceeded, match="more than 200,000 bytes"):
            await host.load("refunds")
        assert state(host)[0] is ConnectionStatus.READY
        await host.refresh()
        assert [skill.handle for skill in host.skills()] == ["refunds"]
    assert sent < 50_000_000


@pytest.mark.requirement("SEC-9")
async def test_a_compressed_answer_is_refused_unopened(tmp_path: Path) -> None:
    async def respond(request: Call) -> None:
        assert request.headers["accept-encoding"] == "identity"
        if request.method != "resources/read":
            await request.behave()
            return
        bomb = gzip.compress(b" " * 50_000_000)
        await request.send("200 OK", bomb, content_type="application/json", content_encoding="gzip")

    async with visiting(tmp_path, respond, host_options=SMALL) as host:
        with pytest.raises(LimitExceeded, match="compressed"):
            await host.load("refunds")
        assert state(host)[0] is ConnectionStatus.READY


@pytest.mark.requirement("SEC-3")
async def test_a_redirect_to_another_host_is_not_followed_and_takes_no_token_along(tmp_path: Path) -> None:
    async def thief(request: Call) -> None:
        await request.behave()

    async with wild_http(thief) as (elsewhere, stolen):

        async def respond(request: Call) -> None:
            await request.send("307 Temporary Redirect", location=elsewhere)

        async with visiting(tmp_path, respond, token="sk-12345678") as host:
            assert state(host)[0] is ConnectionStatus.FAILED
            assert "edirect" in state(host)[1]
        assert stolen == []


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "the server wants a token (HTTP 401)"),
        ("sk-12345678", "the server does not accept the token it was given (HTTP 401)"),
    ],
)
async def test_a_server_that_requires_a_token_is_reported_as_such(
    tmp_path: Path, token: str, reason: str
) -> None:
    async def respond(request: Call) -> None:
        await request.send("401 Unauthorized", b"{}", content_type="application/json")

    async with (
        wild_http(respond) as (url, calls),
        opened(tmp_path, evil=http(url + "?key=sk-87654321", token=token)) as host,
    ):
        assert state(host)[0] is ConnectionStatus.FAILED
        assert state(host)[1].startswith(f"{reason}: ")
        assert "sk-" not in told(host)
    assert {request.headers.get("authorization") for request in calls} == {
        f"Bearer {token}" if token else None
    }


async def test_a_web_page_instead_of_an_answer_is_reported_once(tmp_path: Path) -> None:
    async def respond(request: Call) -> None:
        await request.send("200 OK", b"<p>Welcome", content_type="text/html; charset=utf-8")

    async with visiting(tmp_path, respond) as host:
        assert state(host)[1] == (
            "it answers with text/html, which is not MCP: check the path of the URL, often /mcp"
        )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("403 Forbidden", "does not let us in (HTTP 403)"),
        ("404 Not Found", "no MCP server at that URL (HTTP 404)"),
        ("500 Oops", "HTTP 500"),
    ],
)
async def test_an_http_status_is_reported_as_the_reason(tmp_path: Path, status: str, reason: str) -> None:
    async def respond(request: Call) -> None:
        await request.send(status, b"<html>\x1b[2J", content_type="text/html")

    async with visiting(tmp_path, respond) as host:
        assert state(host)[0] is ConnectionStatus.FAILED
        assert reason in state(host)[1]


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("kind", ["no head", "no body", "dripping", "event stream"])
async def test_an_http_answer_that_never_ends_times_out(tmp_path: Path, kind: str) -> None:
    asked = anyio.Event()
    drip, dripping = anyio.create_memory_object_stream[None](math.inf)

    @at("resources/read")
    async def respond(request: Call) -> None:
        if kind != "no head":
            media = "text/event-stream" if kind == "event stream" else "application/json"
            head = f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n"
            await request.stream.send(head.encode())
        asked.set()
        async for _ in dripping:
            if kind in ("dripping", "event stream"):
                await request.stream.send(b"2\r\n: \r\n" if kind == "event stream" else b"1\r\n \r\n")
        await anyio.sleep_forever()

    async def let_time_pass() -> None:
        """The whole time of a call, but in parts, with something in between."""
        await asked.wait()
        for _ in range(6):
            drip.send_nowait(None)
            await pass_time(SECONDS / 5, once=lambda: not dripping.statistics().current_buffer_used)

    with drip, dripping:
        async with (
            visiting(tmp_path, respond, host_options=SMALL) as host,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(let_time_pass)
            with pytest.raises(SkillwireError, match=f"{SECONDS} s"):
                await host.load("refunds")
            assert state(host)[0] is ConnectionStatus.READY


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize("body", [b"\x1b[2J\x00 not json", b'{"jsonrpc": "2.0", "id": 1}', b"[]", b""])
async def test_nonsense_over_http_fails_one_request_and_writes_nothing_to_the_terminal(
    tmp_path: Path, body: bytes, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def respond(request: Call) -> None:
        if request.method == "resources/read":
            await request.send("200 OK", body, content_type="application/json")
        else:
            await request.behave()

    async with visiting(tmp_path, respond, host_options=SMALL, call_seconds=1) as host:
        result = await call(host, "load_skill", name="refunds")
        assert result.is_error
        assert "\x1b" not in result.text
        await host.refresh()
        assert [skill.handle for skill in host.skills()] == ["refunds"]
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert [
        record for record in caplog.records if record.exc_info and record.name.startswith("mcp.client")
    ] == []


@pytest.mark.requirement("SEC-11")
async def test_what_the_sdk_logs_about_a_server_is_one_clean_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def respond(request: Call) -> None:
        await request.send("200 OK", b"x", content_type="text/\x1b[2Jowned")

    with caplog.at_level(logging.DEBUG, logger="mcp"):
        async with visiting(tmp_path, respond) as host:
            assert state(host)[0] is ConnectionStatus.FAILED
    for record in caplog.records:
        if record.name.startswith("mcp."):
            assert "\x1b" not in record.getMessage()
            assert record.exc_info is None


@pytest.mark.requirement("SEC-9")
async def test_a_stream_is_not_resumed_forever(tmp_path: Path) -> None:
    async def respond(request: Call) -> None:
        if request.method == "resources/read" or request.verb == "GET":
            event = b"id: 1\r\nretry: 0\r\ndata:\r\n\r\n"
            await request.send("200 OK", event, content_type="text/event-stream")
        else:
            await request.behave()

    async with (
        wild_http(respond) as (url, calls),
        opened(tmp_path, evil=http(url, call_seconds=2), host_options=SMALL) as host,
    ):
        with pytest.raises(SourceError):
            await host.load("refunds")
    assert len([request for request in calls if request.verb == "GET"]) <= 1


async def test_one_slow_request_does_not_delay_or_end_the_others(tmp_path: Path) -> None:
    arrived = anyio.Event()
    let_go = anyio.Event()

    async def respond(request: Call) -> None:
        if request.message.get("params", {}).get("uri") == "data://slow/one":
            arrived.set()
            await let_go.wait()
            content = {"contents": [{"uri": "data://slow/one", "text": "late"}]}
            reply = {
                "jsonrpc": "2.0",
                "id": request.message["id"],
                "result": {**content, **wild_stdio.CACHED},
            }
            await request.send("200 OK", json.dumps(reply).encode(), content_type="application/json")
        elif request.method == "resources/read":
            await request.send("500 Oops", b"no", content_type="text/plain")
        else:
            await request.behave()

    async with visiting(tmp_path, respond, host_options=SMALL) as host:
        answers: list[str] = []

        async def slow() -> None:
            answers.append(await host.read_resource("evil", "data://slow/one"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(slow)
            await arrived.wait()
            with pytest.raises(SourceError, match="HTTP 500"):
                await host.load("refunds")
            let_go.set()
        assert "late" in answers[0]


@pytest.mark.slow
async def test_a_server_that_forgot_the_session_is_connected_again(tmp_path: Path) -> None:
    sessions = 0

    async def respond(request: Call) -> None:
        nonlocal sessions
        if request.method == "initialize":
            sessions += 1
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": wild_stdio.CAPABILITIES,
                "serverInfo": {"name": "wild", "version": "1"},
            }
            reply = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
            session = f"session-{sessions}"
            await request.send("200 OK", reply, content_type="application/json", mcp_session_id=session)
        elif request.method == "resources/read" and request.headers["mcp-session-id"] == "session-1":
            await request.send("404 Not Found", b"gone", content_type="text/plain")
        else:
            await request.behave()

    async with visiting(tmp_path, respond, host_options=SMALL, era="legacy") as host:
        with pytest.raises(SourceError, match="forgotten the session"):
            await host.load("refunds")
        async for event in host.log.events():
            if event.kind == "recovered":
                break
        assert "# Refunds" in (await host.load("refunds")).text


@pytest.mark.requirement("SEC-9")
async def test_a_stream_that_ends_at_once_is_not_reopened_forever(tmp_path: Path) -> None:
    async def respond(request: Call) -> None:
        if request.method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": wild_stdio.CAPABILITIES,
                "serverInfo": {"name": "wild", "version": "1"},
            }
            reply = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()
            await request.send("200 OK", reply, content_type="application/json", mcp_session_id="1")
        elif request.verb == "GET":
            await request.send("200 OK", b"retry: 0\r\n\r\n", content_type="text/event-stream")
        else:
            await request.behave()

    async with (
        wild_http(respond) as (url, calls),
        opened(tmp_path, evil=http(url, era="legacy"), host_options=SMALL) as host,
    ):
        for _ in range(20):
            await host.refresh()
        assert "# Refunds" in (await host.load("refunds")).text
    assert len([request for request in calls if request.verb == "GET"]) == 1


async def test_an_open_stream_outlasts_the_timeout_of_a_call(tmp_path: Path) -> None:
    listened, outlasted = anyio.Event(), anyio.Event()
    skills = [wild_stdio.ENTRY]

    async def respond(request: Call) -> None:
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": request.message.get("id")}
        if request.method == "server/discover":
            changing = {**wild_stdio.CAPABILITIES, "resources": {"listChanged": True}}
            found = {"supportedVersions": ["2026-07-28"], "capabilities": changing, **wild_stdio.CACHED}
            body = json.dumps({**reply, "result": found}).encode()
            await request.send("200 OK", body, content_type="application/json")
        elif request.method == "skills/list":
            body = json.dumps({**reply, "result": {"skills": skills, **wild_stdio.CACHED}}).encode()
            await request.send("200 OK", body, content_type="application/json")
        elif request.method == "subscriptions/listen":
            meta = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
            acknowledged = {"notifications": {"resourcesListChanged": True}, "_meta": meta}
            changed = {"_meta": meta}
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
            await request.stream.send(
                head.encode() + _event("notifications/subscriptions/acknowledged", acknowledged)
            )
            listened.set()
            await outlasted.wait()
            skills.clear()
            await request.stream.send(_event("notifications/resources/list_changed", changed))
            await anyio.sleep_forever()
        else:
            await request.behave()

    options = {"limits": Limits(min_ttl_seconds=0.05)}
    async with visiting(tmp_path, respond, host_options=options) as host:
        await listened.wait()
        await pass_time(2 * SECONDS)
        outlasted.set()
        with anyio.fail_after(30):
            async for event in host.log.events():
                if event.kind == "removed":
                    break
        assert host.skills() == ()


def _event(method: str, params: Mapping[str, object]) -> bytes:
    message = json.dumps({"jsonrpc": "2.0", "method": method, "params": params})
    return f"event: message\r\ndata: {message}\r\n\r\n".encode()


@pytest.mark.requirement("SEC-9")
@pytest.mark.parametrize("kind", ["notifications", "requests"])
async def test_unsolicited_messages_over_http_are_counted_and_cut_off(tmp_path: Path, kind: str) -> None:
    """S7: over HTTP they come on the stream of an answer, and on the one that stays open."""
    sent = 0
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    if kind == "requests":
        message = {"jsonrpc": "2.0", "id": "a", "method": "sampling/createMessage", "params": {}}

    @at("skills/list")
    async def respond(request: Call) -> None:
        nonlocal sent
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        await request.stream.send(head)
        block = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
        while True:
            await request.stream.send(b"%x\r\n%s\r\n" % (len(block), block))
            sent += 1

    limits = {"limits": Limits(unasked_messages=50, unasked_messages_per_second=1)}
    async with visiting(tmp_path, respond, host_options=limits) as host:
        with anyio.fail_after(20):
            async for event in host.log.events():
                if "more than 50 unsolicited messages" in event.message:
                    break
    assert sent < 20_000
