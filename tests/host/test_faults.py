"""Faults: nothing lost, nothing unverified used, one line that says what happened."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import anyio
import pytest

from folder_server import FolderServer
from served import serving
from simulator import Simulator, agree, make_host
from skillwire.errors import ApprovalRequired, SourceError
from skillwire.host import EventKind, ServerConfig, SkillHost
from terminals import Terminal
from trees import write, write_skill
from waiting import PATIENCE, pass_time

pytestmark = pytest.mark.anyio


async def wait_for(host: SkillHost, kind: EventKind, handle: str = "") -> None:
    with anyio.fail_after(PATIENCE):
        async for event in host.log.events():
            if event.kind is kind and handle in ("", event.handle):
                return


@pytest.mark.process
async def test_a_server_that_is_killed_and_started_again_is_found_again_and_caught_up_with(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path / "skills/notes", {"a.md": b"# A\n", "b.md": b"# B\n"})
    write_skill(tmp_path / "skills/orders")
    with serving(str(tmp_path / "skills"), "--http", "127.0.0.1:0") as first:
        url = first.wait_until_it_says(r"(http://\S+)")[1]
        async with make_host(tmp_path, servers={"shop": url}, ask=agree) as host:
            await host.load("notes")
            await host.read("notes", "a.md")
            await host.load("orders")
            first.process.kill()
            first.process.wait()
            # What was verified and approved is still there; what was not fetched is not made up.
            assert "# A" in await host.read("notes", "a.md")
            with pytest.raises(SourceError, match="shop"):
                await host.read("notes", "b.md")
            write_skill(tmp_path / "skills/later")
            write(tmp_path / "skills/orders/new.md", b"# New\n")
            address = re.sub(r"http://|/mcp", "", url)
            with serving(str(tmp_path / "skills"), "--http", address) as second:
                second.wait_until_it_says(r"http://")
                await wait_for(host, EventKind.RECOVERED)
                await wait_for(host, EventKind.ADDED, "later")
                await wait_for(host, EventKind.OUTDATED, "orders")
                assert "# B" in await host.read("notes", "b.md")


async def test_an_answer_that_comes_after_its_deadline_is_used_for_nothing(tmp_path: Path) -> None:
    simulator = Simulator()
    simulator.skill("notes")
    may_answer = anyio.Event()
    simulator.hold("resources/read", may_answer)
    config = ServerConfig(instance=simulator.server, call_seconds=60)
    async with (
        make_host(tmp_path, servers={"slow": config}, ask=agree) as host,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: pass_time(60, once=lambda: simulator.asked("resources/read")))
        with pytest.raises(SourceError, match="did not answer resources/read within 60 s"):
            await host.load("notes")
        assert (host.active(), list(host.cache.files())) == ((), [])
        may_answer.set()
        assert (await host.load("notes")).skill.handle == "notes"


@pytest.mark.process
async def test_of_fifty_servers_ten_dead_ones_affect_only_themselves(tmp_path: Path) -> None:
    servers: dict[str, object] = {}
    for number in range(40):
        simulator = Simulator()
        simulator.skill(f"skill-{number}")
        servers[f"good-{number}"] = simulator.server
    for number in range(5):
        servers[f"closed-{number}"] = "http://127.0.0.1:9/mcp"
        servers[f"missing-{number}"] = ServerConfig(command=("no-such-program",))
    async with make_host(tmp_path, servers=servers, ask=agree) as host:
        assert {skill.handle for skill in host.skills()} == {f"skill-{number}" for number in range(40)}
        failures = [event for event in host.log.events_so_far() if event.kind is EventKind.FAILURE]
        assert sorted({event.origin.label for event in failures if event.origin}) == sorted(
            label for label in servers if not label.startswith("good")
        )
        assert all(re.search("nothing listens|is not installed", event.message) for event in failures)
        await host.load("skill-39")


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="this system has no limit on the size of files")
async def test_a_full_disk_stores_no_approval_and_says_so_on_one_line(
    tmp_path: Path, folders: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    write_skill(tmp_path / "skills/notes")
    url = folders.at(tmp_path / "skills")
    # A limit on the size of files is what a full disk looks like to a program: a write that fails. It would
    # also cut off the bytecode of modules that are imported under it.
    program = (
        "import resource, sys; from skillwire.cli import main; sys.dont_write_bytecode = True; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); main()"
    )
    words = ("approve", "notes", "--no-default-directories", "--server", f"shop={url}")
    terminal = Terminal("-c", program, *words, program=sys.executable, cwd=tmp_path)
    terminal.answer("[N]o", "y\n")
    assert terminal.end() == 4
    assert "skillwire: the approvals in " in terminal.screen
    assert "Traceback" not in terminal.screen
    async with SkillHost(servers={"shop": url}) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("notes")
        await host.decide.approve(await host.find("notes"))
        assert "# notes" in (await host.load("notes")).text
