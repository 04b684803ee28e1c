"""The use of skills, counted in a file of this machine if its user wants that."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateways import joined, make_gateway
from simulator import Simulator, agree, call, make_host
from skillwire.errors import SkillwireError, SourceError
from skillwire.gateway import GatewayOptions
from skillwire.host import SkillUsage, SkillUse, Usage, UsageFile

pytestmark = pytest.mark.anyio


def shop() -> Simulator:
    sim = Simulator()
    sim.skill("refunds", files={"references/a.md": b"More.\n"})
    sim.skill("orders", description="Looks up an order.")
    return sim


def counts(file: UsageFile) -> dict[str, tuple[int, ...]]:
    return {
        one.name: (one.offered, one.found, one.loaded, one.read, one.refused) for one in file.read().skills
    }


def usage_file(folder: Path, most: int = 100) -> UsageFile:
    return UsageFile(folder / "state" / "usage.sqlite", most=most)


async def test_what_a_model_is_offered_finds_loads_and_reads_is_counted(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    seen: list[SkillUse] = []
    host = make_host(
        tmp_path, servers={"shop": shop().server}, ask=agree, usage_file=file.path, on_use=seen.append
    )
    async with host:
        text, _, _ = (host.catalog() for _ in range(3))
        await call(host, "load_skill", name="refunds")
        await call(host, "read_skill_file", name="refunds", path="references/a.md")
        await call(host, "read_skill_file", name="refunds", path="references/none.md")
        search = next(tool for tool in host.tools(search=True) if tool.name == "search_skills")
        assert "orders" in (await search.handler({"query": "order"})).text
    assert counts(file) == {"refunds": (3, 0, 1, 1, 1), "orders": (3, 1, 0, 0, 0)}
    usage = file.read()
    assert (usage.turns, usage.chars) == (3, 3 * len(text))
    chars = {one.name: one.chars for one in usage.skills}
    assert chars["orders"] == len("orders") + len("Looks up an order.")
    assert [(use.kind, use.skill.entry.name, use.path) for use in seen] == [
        ("loaded", "refunds", "SKILL.md"),
        ("read", "refunds", "references/a.md"),
        ("refused", "refunds", "references/none.md"),
        ("found", "orders", ""),
    ]


async def test_a_load_that_nobody_approves_is_a_refusal(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    async with make_host(tmp_path, servers={"shop": shop().server}, usage_file=file.path) as host:
        with pytest.raises(SkillwireError):
            await host.load("refunds")
    assert counts(file) == {"refunds": (0, 0, 0, 0, 1)}


async def test_nothing_is_written_unless_it_is_turned_on(tmp_path: Path) -> None:
    async with make_host(tmp_path, servers={"shop": shop().server}, ask=agree) as host:
        host.catalog()
        await host.load("refunds")
    assert list(tmp_path.rglob("usage*")) == []  # noqa: ASYNC240


@pytest.mark.skipif(os.name == "nt", reason="modes of files are those of POSIX")
async def test_only_its_owner_can_read_the_file(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    before = os.umask(0)
    try:
        file.add(Usage((SkillUsage(origin="o", uri="skill://a/SKILL.md", name="a", loaded=1),)))
    finally:
        os.umask(before)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


def test_the_skills_that_were_not_used_for_the_longest_time_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = usage_file(tmp_path, most=3)
    for number in range(6):
        monkeypatch.setattr("time.time", lambda now=number: float(now))
        skill = SkillUsage(origin="o", uri=f"skill://s{number}/SKILL.md", name=f"s{number}", loaded=1)
        file.add(Usage((skill,), 1, 10))
    assert sorted(counts(file)) == ["s3", "s4", "s5"]
    assert file.read().turns == 6


WRITER = """
import sys
from pathlib import Path
from skillwire.errors import SourceError
from skillwire.host import SkillUsage, Usage, UsageFile
file = UsageFile(Path(sys.argv[1]), most=100)
skill = SkillUsage(origin="o", uri="skill://a/SKILL.md", name="a", loaded=1, offered=2)
done = 0
while done < 100:
    try:
        file.add(Usage((skill,), turns=1, chars=10))
        done += 1
    except SourceError as error:  # On a busy machine the other has the lock for long: as a host, try again.
        if "locked" not in str(error):
            raise
"""


@pytest.mark.process
def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file.path)]) for _ in range(2)]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    assert counts(file) == {"a": (400, 0, 200, 0, 0)}
    assert (file.read().turns, file.read().chars) == (200, 2000)


HOLDER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="a process is stopped")
async def test_a_stopped_process_with_the_lock_delays_no_load_and_loses_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = usage_file(tmp_path)
    monkeypatch.setattr("skillwire.host.storage.WRITE_SECONDS", 0.1)
    failed = anyio.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failed.set()

    handler = Handler(logging.WARNING)
    logging.getLogger("skillwire.host").addHandler(handler)
    file.add(Usage())
    holder = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOLDER, str(file.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        host = make_host(tmp_path, servers={"shop": shop().server}, ask=agree, usage_file=file.path)
        async with host:
            await host.load("refunds")
            with anyio.fail_after(60):
                await failed.wait()  # The write was tried, and given up.
            await host.load("orders")
            holder.send_signal(signal.SIGCONT)
            holder.kill()
            holder.wait()
    finally:
        logging.getLogger("skillwire.host").removeHandler(handler)
        holder.kill()
        holder.communicate()
    assert counts(file) == {"refunds": (0, 0, 1, 0, 0), "orders": (0, 0, 1, 0, 0)}


def test_a_damaged_file_is_named_and_can_be_deleted(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    file.path.parent.mkdir()
    file.path.write_bytes(b"nonsense" * 200)
    with pytest.raises(SourceError, match="--usage --clear"):
        file.read()
    with pytest.raises(SourceError):
        file.add(Usage())
    assert file.clear()
    assert not file.clear()
    assert file.read() == Usage()


async def test_the_texts_of_a_server_are_not_stored_and_its_names_are_bounded(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    sim = Simulator()
    sim.skill("evil" + "x" * 3000, description="\x1b\u202eSecret." * 3000)
    async with make_host(tmp_path, servers={"shop": sim.server}, ask=agree, usage_file=file.path) as host:
        host.catalog()
        for skill in host.skills():
            with pytest.raises(SkillwireError):
                await host.load(skill.uri)
    with closing(sqlite3.connect(file.path)) as database:
        rows: list[Any] = database.execute("SELECT * FROM skills").fetchall()
    assert len(repr(rows)) < 3000
    assert "Secret" not in repr(rows)
    assert "x1b" not in repr(rows)


async def test_a_gateway_counts_for_its_clients(tmp_path: Path) -> None:
    file = usage_file(tmp_path)
    options = GatewayOptions(approval="listed")
    gateway = make_gateway(tmp_path, options, host_options={"usage_file": file.path}, shop=shop())
    async with gateway, joined(gateway) as client:
        await client.read_resource("skill://shop/refunds/SKILL.md")
        await client.read_resource("skill://shop/refunds/references/a.md")
        await client.call_tool("search_skills", {"query": "order"})
    found = counts(file)
    assert found["refunds"][2:] == (1, 1, 0)
    assert found["orders"] == (1, 1, 0, 0, 0)
