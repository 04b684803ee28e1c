"""What happens when a server cannot be reached, does not answer, or answers with something else than MCP."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.abc
import pytest

import skillwire
from conformance.clean_server import LEGACY, MODERN, CleanServer, Json
from conformance.defective_server import make_server
from skillwire.conformance.verify import parse_target
from skillwire.errors import SourceError
from skillwire.limits import DEFAULT_LIMITS
from timeless import without_waiting

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SEC-9")]

QUICK = replace(DEFAULT_LIMITS, call_seconds=0.3)


def silent_for(*methods: str) -> CleanServer:
    async def bend(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json | None:
        return None if method in methods else answer

    server = make_server()
    server.bend = bend
    return server


@without_waiting
@pytest.mark.parametrize(("method", "revision"), [("initialize", LEGACY), ("server/discover", MODERN)])
async def test_silence_on_one_revision_is_a_failure_to_verify_and_not_a_pass(
    method: str, revision: str
) -> None:
    with pytest.raises(SourceError) as caught:
        await skillwire.verify(silent_for(method), limits=QUICK)
    assert f"cannot be verified (protocol {revision}): {method}: no answer within 0.3 s" in str(caught.value)
    assert "--timeout" in str(caught.value)


@without_waiting
async def test_a_silent_revision_does_not_keep_the_other_one_from_being_verified_alone() -> None:
    report = await skillwire.verify(silent_for("server/discover"), revisions=[LEGACY], limits=QUICK)
    assert report.findings == ()


async def test_the_first_answer_may_take_as_long_as_any_other() -> None:
    """The server answers nothing until it is started, which happens while the first request waits."""
    started = anyio.Event()

    async def bend(_server: CleanServer, _method: str, _params: Json, answer: Json) -> Json:
        await started.wait()
        return answer

    server = make_server()
    server.bend = bend
    limits = replace(DEFAULT_LIMITS, connect_seconds=0, call_seconds=60)
    reports: list[skillwire.Report] = []

    async def run() -> None:
        reports.append(await skillwire.verify(server, limits=limits))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        started.set()
    assert reports[0].findings == ()


@asynccontextmanager
async def answering(response: bytes) -> AsyncGenerator[int]:
    """A server that sends these bytes to whoever connects; the port it listens on."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with anyio.move_on_after(5):
                await stream.receive()
                await stream.send(response)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


def http(status: str, body: str = "", **headers: str) -> bytes:
    given = {"Content_Type": "text/plain", "Connection": "close", **headers, "Content_Length": str(len(body))}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


@pytest.mark.parametrize(
    ("response", "what", "advice"),
    [
        (http("401 Unauthorized"), "HTTP 401", "--token-env"),
        (http("401 Unauthorized", WWW_Authenticate='Bearer resource_metadata="x"'), "HTTP 401", "OAuth"),
        (http("403 Forbidden"), "HTTP 403", "check the token"),
        (http("404 Not Found"), "HTTP 404", "most servers answer at /mcp"),
        (http("405 Method Not Allowed"), "HTTP 405", "does not accept POST"),
        (
            http("302 Found", Location="https://u:pw@other.example/mcp?key=abcdefgh"),
            "HTTP 302",
            "other.example/mcp",
        ),
        (http("421 Misdirected Request"), "HTTP 421", "--allow-host"),
        (http("429 Too Many Requests"), "HTTP 429", "try again later"),
        (http("500 Internal Server Error"), "HTTP 500", "look at its log"),
        (http("200 OK", "<html>", Content_Type="text/html"), "answers with text/html", "which is not MCP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "broke", "try https://"),
    ],
)
async def test_an_answer_that_is_not_mcp_is_named_with_advice(
    response: bytes, what: str, advice: str
) -> None:
    async with answering(response) as port:
        failed = await error_of(f"http://127.0.0.1:{port}/mcp")
    assert what in failed
    assert advice in failed
    assert "pw" not in failed
    assert "abcdefgh" not in failed
    assert "\n" not in failed


async def error_of(url: str) -> str:
    try:
        await skillwire.verify(url)
    except SourceError as error:
        return str(error)
    raise AssertionError("it was verified")


async def test_tls_against_plain_http_is_named() -> None:
    async with answering(http("400 Bad Request")) as port:
        failed = await error_of(f"https://127.0.0.1:{port}/mcp")
    assert "does not answer with TLS" in failed
    assert f"try http://127.0.0.1:{port}/mcp" in failed


async def test_a_name_that_does_not_exist_and_a_port_that_nobody_listens_on_are_named() -> None:
    assert "start the server" in await error_of("http://127.0.0.1:9/mcp")
    assert "no-such-host.invalid" in await error_of("http://no-such-host.invalid/mcp")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9?token=SECRET-9",
        "http://127.0.0.1:9/mcp?token=SECRET-9",
        "http://user:SECRET-9@127.0.0.1:9/mcp",
        "http://127.0.0.1:9/token/SECRET-9",
        "http://127.0.0.1:9#SECRET-9",
    ],
)
async def test_a_secret_in_a_url_is_never_shown(url: str) -> None:
    assert "SECRET-9" not in await error_of(url)
    assert "SECRET-9" not in repr(parse_target(url, headers={}, env={}))


async def test_a_secret_in_a_command_line_is_not_shown_and_the_rest_is() -> None:
    command = ["no-such-command-of-skillwire", "--verbose", "--api-key", "hush-hush", "DB_PASSWORD=hush-hush"]
    target = parse_target(command, headers={}, env={})
    assert target.name == "no-such-command-of-skillwire --verbose --api-key '***' 'DB_PASSWORD=***'".replace(
        "'", ""
    )


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("example.org", "https://example.org"),
        ("example.org/mcp", "https://example.org/mcp"),
        ("localhost:8000/mcp", "http://localhost:8000/mcp"),
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("skills:8000", "https://skills:8000"),
    ],
)
async def test_an_address_without_a_scheme_is_not_taken_for_a_command(word: str, instead: str) -> None:
    with pytest.raises(SourceError, match=re.escape(f"write {instead}")):
        await skillwire.verify([word])


async def test_a_trace_has_every_message_and_no_secret(tmp_path: Path) -> None:
    async def bend(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json:
        if method == "skills/list":
            answer["result"]["echo"] = "you sent Bearer hush-hush-hush"
        return answer

    server = make_server()
    server.bend = bend
    await skillwire.verify(server, token="hush-hush-hush", trace=tmp_path / "trace.jsonl")
    text = (tmp_path / "trace.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert "hush" not in text
    assert "you sent ***" in text
    assert {line["kind"] for line in lines} == {"sent", "received", "http"}
    assert [line["connection"] for line in lines][-1] == 4
    assert {line["revision"] for line in lines} == {LEGACY, MODERN}
    first = next(line for line in lines if line["kind"] == "sent")
    assert json.loads(first["text"])["method"] == "initialize"
    assert sum("skills/get" in line["text"] for line in lines) > 10


async def test_a_trace_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot write the trace"):
        await skillwire.verify(make_server(), trace=tmp_path / "no/such/trace.jsonl")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a file that is always full")
async def test_a_trace_on_a_full_disk_is_an_error_in_one_line() -> None:
    with pytest.raises(SourceError, match=r"^cannot write the trace /dev/full: No space left on device$"):
        await skillwire.verify(make_server(), trace=Path("/dev/full"))
