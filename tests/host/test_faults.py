"""Faults: nothing lost, nothing unverified used, one line that says what happened."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from folder_server import FolderServer
from served import serving
from simulator import Simulator, agree, make_host
from skillwire.errors import SourceError
from skillwire.host import EventKind, ServerConfig, SkillHost
from terminals import Terminal
from trees import write_skill

pytestmark = pytest.mark.anyio


async def wait_for(host: SkillHost, kind: EventKind) -> None:
    with anyio.fail_after(30):
        async for event in host.log.events():
            if event.kind is kind:
                return


@pytest.mark.process
async def test_a_server_that_is_killed_and_started_again_is_found_again(tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/notes", {"a.md": b"# A\n", "b.md": b"# B\n"})
    with serving(str(tmp_path / "skills"), "--http", "127.0.0.1:0") as first:
        url = first.wait_until_it_says(r"(http://\S+)")[1]
        async with make_host(tmp_path, servers={"shop": url}, ask=agree) as host:
            await host.load("notes")
            await host.read("notes", "a.md")
            first.process.kill()
            first.process.wait()
            # What was verified and approved is still there; what was not fetched is not made up.
            assert "# A" in await host.read("notes", "a.md")
            with pytest.raises(SourceError, match="shop"):
                await host.read("notes", "b.md")
            address = re.sub(r"http://|/mcp", "", url)
            with serving(str(tmp_path / "skills"), "--http", address) as second:
                second.wait_until_it_says(r"http://")
                await wait_for(host, EventKind.RECOVERED)
                assert "# B" in await host.read("notes", "b.md")


async def test_an_answer_that_comes_after_its_deadline_is_used_for_nothing(tmp_path: Path) -> None:
    simulator = Simulator()
    simulator.skill("notes")
    may_answer = anyio.Event()
    simulator.hold("resources/read", may_answer)
    config = ServerConfig(instance=simulator.server, call_seconds=0.2)
    async with make_host(tmp_path, servers={"slow": config}, ask=agree) as host:
        with pytest.raises(SourceError, match=r"did not answer resources/read within 0\.2 s"):
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
def test_a_full_disk_stores_no_approval_and_says_so_on_one_line(
    tmp_path: Path, folders: FolderServer
) -> None:
    write_skill(tmp_path / "skills/notes")
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")}
    # A limit on file size would cut off the bytecode of modules that are imported under it.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    server = f"shop={folders.at(tmp_path / 'skills')}"

    host = ("--no-default-directories", "--server", server)

    def program(limit: int | None) -> tuple[str, str]:
        # A limit on the size of files is what a full disk looks like to a program: a write that fails.
        text = "import resource, sys; from skillwire.cli import main; "
        if limit is not None:
            text += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
        return "-c", text + "main()"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *program(None), *words, *host],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def approve(*, limit: int | None = None) -> Terminal:
        terminal = Terminal(
            *program(limit), "approve", "notes", *host, program=sys.executable, env=environment
        )
        terminal.answer("[N]o", "y\n")
        return terminal

    refused = approve(limit=100)
    assert refused.end() == 4
    assert "skillwire: the approvals in " in refused.screen
    assert "Traceback" not in refused.screen
    assert run("load", "notes").returncode == 7
    assert approve().end() == 0
    loaded = run("load", "notes")
    assert (loaded.returncode, "# notes" in loaded.stdout) == (0, True), loaded.stderr
