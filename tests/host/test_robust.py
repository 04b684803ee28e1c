"""What servers and callers get wrong: oversized JSON, odd numbers, odd objects, the wrong scheme."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from simulator import Simulator, agree, make_host, opened
from skillwire.host import ServerConfig, SkillHost
from skillwire.limits import Limits
from waiting import pass_time

pytestmark = pytest.mark.anyio


async def test_a_size_that_is_written_with_a_decimal_point_is_a_size(tmp_path: Path) -> None:
    sim = Simulator()
    skill = sim.skill("refunds")
    skill.resources = [{**file, "size": float(file["size"])} for file in skill.entry()["resources"]]
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        assert (await host.load("refunds")).skill.handle == "refunds"


@pytest.mark.parametrize("given", [42, object(), ["url"]])
def test_what_is_no_server_is_refused_when_the_host_is_made(given: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="is not an MCP server: give a URL"):
        make_host(tmp_path, servers={"x": given})


async def test_a_fastmcp_server_object_is_a_server(tmp_path: Path) -> None:
    class FastServer:
        def __init__(self, inner: object) -> None:
            self._mcp_server = inner

    sim = Simulator()
    sim.skill("refunds")
    async with make_host(tmp_path, servers={"shop": FastServer(sim.server)}, ask=agree) as host:
        assert [skill.handle for skill in host.skills()] == ["refunds"]


async def test_https_to_a_plain_server_is_reported_as_such(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def answer() -> None:
            with suppress(OSError):  # The listener is closed at the end.
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with make_host(tmp_path, servers={"shop": ServerConfig(url=url, connect_seconds=120)}) as host:
            assert "it does not answer with TLS: try http://" in host.log.failures()[0].message


def script(text: str, **options: Any) -> ServerConfig:
    return ServerConfig(command=(sys.executable, "-S", "-c", text), **options)


@pytest.mark.process
async def test_a_start_that_fails_shows_the_last_lines_of_standard_error(tmp_path: Path) -> None:
    text = "import sys\nfor n in range(12): print(f'\\x1b]0;line {n}', file=sys.stderr)\nsys.exit(1)"
    async with make_host(tmp_path, servers={"shop": script(text)}) as host:
        [state] = host.places.servers()
        assert state.last_output == tuple(rf"\u001b]0;line {number}" for number in range(4, 12))
        assert r"last output: \u001b]0;line 4 | " in state.reason
        # SEC-11: a terminal would obey an escape sequence.
        assert "\x1b" not in "".join((state.reason, *state.last_output))


@pytest.mark.process
async def test_a_stray_line_on_standard_output_is_named(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    text = (
        "import sys\nprint('Starting server', flush=True)\nsys.stdin.readline()\n"
        f"open({str(asked)!r}, 'w').close()\nsys.stdin.read()"
    )
    config = script(text, connect_seconds=600)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: pass_time(600, once=asked.exists))
        async with make_host(tmp_path, servers={"shop": config}) as host:
            assert 'it wrote "Starting server" to standard output' in host.log.failures()[0].message


@pytest.mark.process
@pytest.mark.requirement("SEC-9")
async def test_a_server_that_keeps_sending_unasked_messages_is_cut_off(tmp_path: Path) -> None:
    text = (
        "import sys\n"
        'line = \'{"jsonrpc":"2.0","method":"notifications/message",'
        '"params":{"level":"info","data":"x"}}\\n\'\n'
        "while True: sys.stdout.write(line)"
    )
    limits = Limits(unasked_messages=50, unasked_messages_per_second=1)
    config = script(text, connect_seconds=120)
    async with make_host(tmp_path, servers={"shop": config}, limits=limits) as host:
        assert "more than 50 unsolicited messages" in host.log.failures()[0].message


@pytest.mark.process
async def test_json_that_is_nested_too_deeply_is_reported_as_such(tmp_path: Path) -> None:
    text = "import sys\nprint('[' * 5000 + ']' * 5000, flush=True)\nsys.stdin.read()"
    async with make_host(tmp_path, servers={"shop": script(text, connect_seconds=120)}) as host:
        assert "nested too deeply" in host.log.failures()[0].message


async def test_pages_that_came_are_kept_when_a_listing_stops(tmp_path: Path) -> None:
    sim = Simulator(page_size=10)
    for number in range(30):
        sim.skill(f"skill-{number}")
    first = sim._honest["skills/list"]  # pyright: ignore[reportPrivateUsage]

    async def one_page(params: Any) -> Any:
        if params.get("cursor"):
            await anyio.sleep_forever()
        return first(params)

    sim._answers["skills/list"] = one_page  # pyright: ignore[reportPrivateUsage]
    config = {"connect_seconds": 60, "call_seconds": 600}

    async def wait_in_vain() -> None:
        await pass_time(60, once=lambda: len(sim.asked("skills/list")) == 2)
        await pass_time(60)  # The first page came within the first minute.

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait_in_vain)
        async with opened(tmp_path, shop=sim, config=config) as host:
            assert len(host.skills()) == 10
            assert "10 of its skills have arrived so far" in host.log.failures()[0].message


async def test_a_host_can_be_limited_to_the_servers_that_are_needed(tmp_path: Path) -> None:
    one, two = Simulator(), Simulator()
    one.skill("refunds")
    servers = {"one": ServerConfig(instance=one.server), "two": ServerConfig(instance=two.server)}
    async with make_host(tmp_path, servers=servers, only=["one"], timeout=60) as host:
        assert [state.label for state in host.places.servers()] == ["one"]
    assert two.requests == []


async def test_without_discovery_a_uri_costs_one_request_and_no_listing(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, shop=sim, host_options={"discover": False, "ask": agree}) as host:
        assert host.skills() == ()
        await host.load("skill://refunds/SKILL.md", server="shop")
    assert (len(sim.asked("skills/list")), len(sim.asked("skills/get"))) == (0, 1)


def test_a_signature_does_not_print_every_limit() -> None:
    assert repr(Limits()) == "Limits()"
    assert repr(Limits(pages=7)) == "Limits(pages=7)"
    assert "files_per_skill" not in str(SkillHost.__init__.__kwdefaults__)


async def test_the_catalog_can_be_given_to_a_framework_as_it_is(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, shop=sim) as host:
        assert host.catalog() == host.catalog(object())
