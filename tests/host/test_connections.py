"""Connections: reconnecting with growing pauses, deadlines, and failures that stay inside."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

import wild_stdio
from simulator import Simulator, agree, make_host, opened
from skillwire.errors import RequestRefused, SourceError
from skillwire.host import ConnectionStatus, ServerConfig
from skillwire.host.connection import Connection
from skillwire.limits import DEFAULT_LIMITS
from skillwire.trust import Origin

pytestmark = pytest.mark.anyio

SHOP = Origin.mcp("shop")


class Pauses:
    """Takes the place of sleeping: notes the pauses, and ends the test's patience after some."""

    def __init__(self, most: int) -> None:
        self.taken: list[float] = []
        self.enough = anyio.Event()
        self._most = most

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        if len(self.taken) == self._most:
            self.enough.set()
        if len(self.taken) >= self._most:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()


async def ignore(connection: Connection) -> None:
    pass


@asynccontextmanager
async def tried(config: ServerConfig, pauses: Pauses) -> AsyncGenerator[Connection]:
    """A connection that took as many pauses between its tries as it may."""
    connection = Connection(SHOP, config, limits=DEFAULT_LIMITS, on_change=ignore, sleep=pauses)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await pauses.enough.wait()
        yield connection
        tasks.cancel_scope.cancel()


def crashing(*arguments: str) -> ServerConfig:
    return ServerConfig(command=(sys.executable, "-S", "-c", "raise SystemExit('no licence')", *arguments))


async def test_a_server_that_is_down_is_retried_with_growing_pauses() -> None:
    pauses = Pauses(9)
    async with tried(ServerConfig(url="http://127.0.0.1:9/mcp"), pauses) as connection:
        assert connection.status is ConnectionStatus.FAILED
        assert connection.reason.startswith("nothing listens there")
    assert pauses.taken == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.process
async def test_a_server_that_dies_right_after_each_start_is_retried_less_and_less_often() -> None:
    pauses = Pauses(3)
    async with tried(crashing(), pauses) as connection:
        assert connection.reason == "it exited; last output: no licence"
    assert pauses.taken == [1, 2, 4]


@pytest.mark.process
async def test_requests_to_a_server_that_is_not_there_say_why() -> None:
    untried = Connection(SHOP, crashing(), limits=DEFAULT_LIMITS, on_change=ignore)
    with pytest.raises(SourceError, match="shop is not connected: it has not answered yet"):
        await untried.request("skills/list", {})
    async with tried(crashing(), Pauses(1)) as connection:
        with pytest.raises(SourceError, match="no licence") as caught:
            await connection.request("skills/list", {})
        assert caught.value.plain == "shop is not connected"


async def test_an_error_of_the_servers_own_does_not_end_the_connection() -> None:
    sim = Simulator()
    sim.refuse("skills/list", "busy", code=-32000)
    changes: list[ConnectionStatus] = []
    ready = anyio.Event()

    async def note(connection: Connection) -> None:
        changes.append(connection.status)
        ready.set()

    config = ServerConfig(instance=sim.server, era="legacy")
    connection = Connection(SHOP, config, limits=DEFAULT_LIMITS, on_change=note)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await ready.wait()
        with pytest.raises(RequestRefused, match="shop refused skills/list: busy") as caught:
            await connection.request("skills/list", {})
        assert caught.value.code == -32000
        sim.behave("skills/list")
        await connection.request("skills/list", {})
        tasks.cancel_scope.cancel()
    assert changes == [ConnectionStatus.READY]
    assert connection.status is ConnectionStatus.CLOSED


async def test_a_secret_in_a_refusal_is_not_repeated() -> None:
    sim = Simulator()
    sim.refuse("skills/list", "the key sk-12345678 is not known", code=-32000)
    ready = anyio.Event()

    async def note(connection: Connection) -> None:
        ready.set()

    config = ServerConfig(instance=sim.server, token="sk-12345678")
    connection = Connection(SHOP, config, limits=DEFAULT_LIMITS, on_change=note)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await ready.wait()
        with pytest.raises(RequestRefused) as caught:
            await connection.request("skills/list", {})
        assert caught.value.said == "the key *** is not known"
        tasks.cancel_scope.cancel()


@pytest.mark.process
async def test_a_server_that_comes_back_is_listed_again_and_reported(tmp_path: Path) -> None:
    command = (sys.executable, "-S", "-E", wild_stdio.__file__, "crash while reading")
    host = make_host(tmp_path, servers={"shop": ServerConfig(command=command, connect_seconds=20)}, ask=agree)
    async with host:
        with pytest.raises(SourceError):
            await host.load("refunds")
        kinds: list[str] = []
        async for event in host.log.events():
            kinds.append(event.kind)
            if event.kind == "recovered":
                break
        assert kinds == ["added", "failure", "recovered"]
        assert [state.status for state in host.places.servers()] == [ConnectionStatus.READY]
        assert [skill.handle for skill in host.skills()] == ["refunds"]


async def test_a_failure_is_reported_once_while_its_reason_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(4)
    monkeypatch.setattr(Connection.__init__, "__kwdefaults__", {"sleep": pauses})
    async with opened(tmp_path, shop="http://127.0.0.1:9/mcp") as host:
        await pauses.enough.wait()
        assert [event.kind for event in host.log.events_so_far()] == ["failure"]


@pytest.mark.process
@pytest.mark.parametrize("arguments", [("--token", "sk-12345678"), ("--api-key=sk-12345678",)])
async def test_a_secret_among_the_arguments_is_not_repeated(arguments: tuple[str, ...]) -> None:
    script = "import sys; sys.exit('I do not like ' + sys.argv[-1].rpartition('=')[2])"
    pauses = Pauses(1)
    config = ServerConfig(command=(sys.executable, "-S", "-c", script, *arguments))
    connection = Connection(SHOP, config, limits=DEFAULT_LIMITS, on_change=ignore, sleep=pauses)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await pauses.enough.wait()
        assert connection.reason == "it exited; last output: I do not like ***"
        tasks.cancel_scope.cancel()


@pytest.mark.process
async def test_a_process_gets_the_environment_it_is_given_and_none_of_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", "sk-12345678")
    out = tmp_path / "environment"
    script = "import os, sys, json; open(sys.argv[1], 'w').write(json.dumps(dict(os.environ)))"
    command = (sys.executable, "-S", "-c", script, str(out))
    async with opened(tmp_path, shop=ServerConfig(command=command, env={"GIVEN": "yes"})):
        pass
    assert "GIVEN" in out.read_text()
    assert "SOME_SECRET" not in out.read_text()


async def test_certificates_that_the_environment_names_count_for_every_later_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reason() -> str:
        async with tried(ServerConfig(url="https://127.0.0.1:9/mcp"), Pauses(1)) as connection:
            return connection.reason

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert (await reason()).startswith("nothing listens there")
    none = tmp_path / "none.pem"
    none.write_bytes(b"no certificate\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(none))
    assert "certificate" in (await reason()).lower()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert (await reason()).startswith("nothing listens there")
