"""Findings do not depend on the network, on the load of the machine, or on chance.

Each run goes through a relay that does what HTTP and TCP allow. `SKILLWIRE_LONG_TESTS=1` makes 50 runs of 5.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.abc
import pytest

import skillwire
from conformance.clean_server import REFUNDS, CleanServer, Json
from conformance.defective_server import make_server
from interop.processes import listening
from skillwire.conformance import as_json, as_text, combine
from skillwire.limits import DEFAULT_LIMITS

pytestmark = pytest.mark.anyio

RUNS = 50 if os.environ.get("SKILLWIRE_LONG_TESTS") else 5
TESTS = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "conformance.defective_server"]
Pass = Callable[[anyio.abc.ByteReceiveStream, anyio.abc.ByteSendStream], Awaitable[None]]


async def closes_when_idle(source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream) -> None:
    """Closes a connection on which nothing was sent for 20 ms after an answer."""
    answered = False
    while True:
        data = b""
        with anyio.move_on_after(0.02 if answered else None):
            data = await source.receive()
        if not data:
            raise anyio.EndOfStream
        answered = True
        await target.send(data)


async def delays(source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream) -> None:
    while True:
        data = await source.receive()
        await anyio.sleep(0.01)
        await target.send(data)


async def splits(source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream) -> None:
    while True:
        data = await source.receive()
        third = max(1, len(data) // 3)
        for start in range(0, len(data), third):
            await target.send(data[start : start + third])
            await anyio.lowlevel.checkpoint()


async def passes(source: anyio.abc.ByteReceiveStream, target: anyio.abc.ByteSendStream) -> None:
    while True:
        await target.send(await source.receive())


@asynccontextmanager
async def relay(url: str, back: Pass) -> AsyncGenerator[str]:
    """A relay in front of a server; `back` passes on what the server sends."""
    parts = urlsplit(url)

    async def one_way(
        way: Pass,
        source: anyio.abc.ByteReceiveStream,
        target: anyio.abc.ByteSendStream,
        scope: anyio.CancelScope,
    ) -> None:
        try:
            await way(source, target)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel()

    async def handle(client: anyio.abc.SocketStream) -> None:
        async with (
            client,
            await anyio.connect_tcp(parts.hostname or "", parts.port or 0) as server,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(one_way, passes, client, server, tasks.cancel_scope)
            tasks.start_soon(one_way, back, server, client, tasks.cancel_scope)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}{parts.path}"
        tasks.cancel_scope.cancel()


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Processes that use all the processor time they get."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def findings(report: skillwire.Report) -> list[str]:
    return [str(finding) for finding in report.findings]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    ("back", "server"),
    [(closes_when_idle, "clean"), (closes_when_idle, "digest-wrong"), (delays, "clean"), (splits, "clean")],
)
async def test_every_run_through_a_relay_gives_the_same_report(
    back: Pass, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    with listening([*COMMAND, server, "--http"]) as url:
        direct = await skillwire.verify(url)
        async with relay(url, back) as through:
            reports = [await skillwire.verify(through) for _ in range(RUNS)]
    assert bool(direct.findings) == (server != "clean")
    assert all(findings(report) == findings(direct) for report in reports)
    assert all(report.passing == () for report in reports)


@pytest.mark.slow
@pytest.mark.process
async def test_every_run_on_a_busy_machine_gives_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    with busy(2), listening([*COMMAND, "clean", "--http"]) as url:
        for _ in range(RUNS):
            assert findings(await skillwire.verify(url)) == []
        assert findings(await skillwire.verify([*COMMAND, "clean"], env={"PYTHONPATH": str(TESTS)})) == []


def fails_once(how: Callable[[Json], Json | None], *, always: bool = False) -> CleanServer:
    """A server whose first answer about one file is spoiled; or every one."""

    async def bend(server: CleanServer, method: str, params: Json, answer: Json) -> Json | None:
        if method == "resources/read" and params.get("uri") == f"{REFUNDS}/examples/email.md":
            server.counts["spoiled"] += 1
            if always or server.counts["spoiled"] == 1:
                return how(answer)
        return answer

    server = make_server()
    server.bend = bend
    return server


def internal(answer: Json) -> Json:
    return {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": -32603, "message": "overloaded"}}


SPOILED: dict[str, tuple[Callable[[Json], Json | None], str, str]] = {
    "silence": (lambda _answer: None, "no answer within", "MCP/no-answer"),
    "gateway time-out": (
        lambda answer: {**answer, "http": {"status": 504, "kind": "text/html", "body": b""}},
        "HTTP 504",
        "MCP/http-body",
    ),
    "internal error": (internal, "-32603", "RD-1/listed"),
    "stream that ends": (
        lambda answer: {**answer, "http": {"kind": "text/event-stream", "body": b": hello\n\n"}},
        "ended without an answer",
        "MCP/connection",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
async def test_what_fails_once_is_a_remark(name: str) -> None:
    how, says, _ = SPOILED[name]
    report = await skillwire.verify(fails_once(how), limits=replace(DEFAULT_LIMITS, call_seconds=2))
    assert (report.findings, report.failures()) == ((), ())
    [remark] = report.passing
    assert says in remark
    assert "Could not be reproduced" in as_text(report)
    assert '"ok": true' in as_json(report)


@pytest.mark.parametrize("name", SPOILED)
async def test_what_fails_again_is_a_finding(name: str) -> None:
    how, _, rule = SPOILED[name]
    limits = replace(DEFAULT_LIMITS, call_seconds=1)
    report = await skillwire.verify(fails_once(how, always=True), limits=limits)
    assert rule in {finding.rule for finding in report.findings}
    assert report.passing == ()


def lists_fewer(while_starting: Callable[[int], bool]) -> CleanServer:
    """A server that leaves its first skill out of some listings: `while_starting` gets their number."""

    async def bend(server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        if method == "skills/list" and "result" in answer and not params.get("cursor"):
            server.counts["listings"] += 1
            if while_starting(server.counts["listings"]):
                del answer["result"]["skills"][0]
        return answer

    server = make_server()
    server.bend = bend
    return server


async def test_a_listing_that_grew_once_while_it_was_checked_is_a_remark() -> None:
    report = await skillwire.verify(lists_fewer(lambda number: number == 1))
    assert findings(report) == []
    [remark] = report.passing
    assert remark.startswith("skills/list: the listing changed while it was checked")


async def test_a_listing_that_changes_each_time_is_a_finding() -> None:
    report = await skillwire.verify(lists_fewer(lambda number: number % 2 == 1))
    assert "LST-1/changing" in {finding.rule for finding in report.findings}
    assert report.passing == ()


@pytest.mark.process
async def test_a_server_that_crashed_once_is_started_again(tmp_path: Path) -> None:
    mark = tmp_path / "crashed"
    program = tmp_path / "server.py"
    program.write_text(
        "import pathlib, sys, anyio\n"
        "from conformance.defective_server import make_server, serve_stdio\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "server = make_server()\n"
        "async def bend(_server, method, params, answer):\n"
        "    if method == 'skills/get' and not mark.exists():\n"
        "        mark.touch()\n"
        "        sys.exit(1)\n"
        "    return answer\n"
        "server.bend = bend\n"
        "anyio.run(serve_stdio, server)\n"
    )
    report = await skillwire.verify([sys.executable, str(program)], env={"PYTHONPATH": str(TESTS)})
    assert report.findings == (), findings(report)
    assert "skills/get" in report.passing[0]


async def test_several_runs_say_how_often_each_finding_was_seen() -> None:
    steady = await skillwire.verify(make_server("size-wrong"))
    clean = await skillwire.verify(make_server())
    both = combine([clean, steady, steady])
    [finding] = both.findings
    assert (finding.rule, finding.runs, both.runs) == ("ENT-3/size", 2, 3)
    text = as_text(both)
    assert "[in 2 of 3 runs]" in text
    assert "3 runs, 1 finding not in all of them" in text
    assert both.failures() == (finding,)
