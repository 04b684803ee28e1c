"""Findings do not depend on the network, on the load of the machine, or on chance.

Each run goes through a relay that does, at every chance, what HTTP and TCP allow.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

import skillwire
from conformance.clean_server import REFUNDS, CleanServer, Json
from conformance.defective_server import make_server, serving_http
from skillwire.conformance import as_json, as_text, combine
from timeless import without_waiting

pytestmark = pytest.mark.anyio

TESTS = Path(__file__).parent.parent
ANSWERED = 2
MOST_TURNS = 30


@dataclass
class Relay:
    """One connection through a relay."""

    client: anyio.abc.SocketStream
    server: anyio.abc.SocketStream
    chance: random.Random
    answered: int = 0

    async def ask(self) -> None:
        """Pass on what the client sends."""
        while True:
            await self.server.send(await self.client.receive())

    async def answer(self) -> None:
        """Pass on what the server sends."""
        while True:
            await self.client.send(await self.server.receive())
            self.answered += 1


class Closing(Relay):
    """Closes a connection when a third request is on its way, as a server may that ends idle ones."""

    async def ask(self) -> None:
        while True:
            data = await self.client.receive()
            if self.answered >= ANSWERED:
                raise anyio.EndOfStream
            await self.server.send(data)


class Late(Relay):
    """Holds each answer for some turns of the event loop, so that answers come in another order, as from a
    machine that is busy."""

    async def answer(self) -> None:
        while True:
            data = await self.server.receive()
            for _ in range(self.chance.randrange(MOST_TURNS)):
                await anyio.lowlevel.checkpoint()
            await self.client.send(data)


class Splitting(Relay):
    """Sends each answer in three pieces."""

    async def answer(self) -> None:
        while True:
            data = await self.server.receive()
            third = max(1, len(data) // 3)
            for start in range(0, len(data), third):
                await self.client.send(data[start : start + third])
                await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def relayed(url: str, kind: Callable[..., Relay], seed: int) -> AsyncGenerator[str]:
    """The URL of a relay in front of a server."""
    parts = urlsplit(url)
    chance = random.Random(seed)

    async def one_way(way: Callable[[], object], scope: anyio.CancelScope) -> None:
        try:
            await way()  # type: ignore[misc]
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            scope.cancel()

    async def handle(client: anyio.abc.SocketStream) -> None:
        server = await anyio.connect_tcp(parts.hostname or "", parts.port or 0)
        async with client, server, anyio.create_task_group() as tasks:
            relay = kind(client, server, chance)
            tasks.start_soon(one_way, relay.ask, tasks.cancel_scope)
            tasks.start_soon(one_way, relay.answer, tasks.cancel_scope)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}{parts.path}"
        tasks.cancel_scope.cancel()


def findings(report: skillwire.Report) -> list[str]:
    return [str(finding) for finding in report.findings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name", "seed"),
    [(Closing, "clean", 0), (Closing, "digest-wrong", 0), (Splitting, "clean", 0)]
    + [(Late, "clean", seed) for seed in range(3)],
)
async def test_through_a_relay_the_report_is_the_same(
    kind: Callable[..., Relay], name: str, seed: int
) -> None:
    direct = await skillwire.verify(make_server(name))
    async with serving_http(make_server(name)) as url, relayed(url, kind, seed) as through:
        report = await skillwire.verify(through)
    assert bool(direct.findings) == (name != "clean")
    assert findings(report) == findings(direct)
    assert report.passing == ()


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


@without_waiting
@pytest.mark.parametrize("name", SPOILED)
async def test_what_fails_once_is_a_remark(name: str) -> None:
    how, says, _ = SPOILED[name]
    report = await skillwire.verify(fails_once(how))
    assert (report.findings, report.failures()) == ((), ())
    [remark] = report.passing
    assert says in remark
    assert "Could not be reproduced" in as_text(report)
    assert '"ok": true' in as_json(report)


@without_waiting
@pytest.mark.parametrize("name", SPOILED)
async def test_what_fails_again_is_a_finding(name: str) -> None:
    how, _, rule = SPOILED[name]
    report = await skillwire.verify(fails_once(how, always=True))
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
