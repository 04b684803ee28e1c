"""No approval is lost or invented when a gateway is killed, the store is locked, or the disk is full."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import textwrap
from pathlib import Path

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from clients import refusal
from gateways import User, joined, make_gateway, text_of
from simulator import Simulator
from skillwire.access import Caller
from skillwire.consent import sqlite
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

URI = "skill://shop/refunds/SKILL.md"
ALICE = Caller(name="alice")


def shop() -> Simulator:
    simulator = Simulator()
    simulator.skill("refunds")
    return simulator


@pytest.mark.slow
async def test_a_store_that_another_process_holds_approves_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    async with make_gateway(tmp_path, shop=shop()) as gateway:
        async with joined(gateway, user=User(), caller=ALICE) as client:
            await client.read_resource(URI)
        held = sqlite3.connect(tmp_path / "approvals.sqlite", isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
        bob = Caller(name="bob")
        async with joined(gateway, user=User(), caller=bob) as client:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(URI)
            assert refused.value.error.code in (-32603, -32010)
            held.execute("ROLLBACK")
            held.close()
            # Nothing was approved by the question that could not be kept.
            user = User()
        async with joined(gateway, caller=bob) as client:
            assert (await refusal(client, "resources/read", uri=URI)).code == -32010
        async with joined(gateway, user=user, caller=ALICE) as client:
            assert "Do it" in text_of(await client.read_resource(URI))
        assert user.asked == []


async def test_a_full_disk_stores_no_approval_and_the_caller_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_gateway(tmp_path, shop=shop()) as gateway:
        store = gateway.host.consent

        async def full(*given: object, **options: object) -> None:
            from skillwire.errors import SourceError

            raise SourceError(
                f"the approvals in {store.path} cannot be used: the disk is full; free some space"
            )

        monkeypatch.setattr(store, "approve", full)
        async with joined(gateway, user=User(), caller=ALICE) as client:
            with pytest.raises(MCPError, match="the disk is full"):
                await client.read_resource(URI)
        monkeypatch.undo()
        async with joined(gateway, caller=ALICE) as client:
            assert (await refusal(client, "resources/read", uri=URI)).code == -32010


APPROVE = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = {path!r}
from gateways import make_gateway
from simulator import Simulator
from skillwire.access import Caller
from skillwire.gateway.records import CallerQuestion

async def main():
    simulator = Simulator()
    for number in range(200):
        simulator.skill(f"skill-{{number}}")
    async with make_gateway(Path({folder!r}), shop=simulator) as gateway:
        server = gateway.server(Caller(name="alice"))
        async with server.open() as library:
            await library.entries()
        source = library.sources[0]
        for offer in source.offers():
            question = CallerQuestion(offer, offer.digest, tuple(offer.skill.entry.resources))
            await source.decider(offer).keep(offer.skill, seen=question.seen, how="test")
            print(offer.skill.uri, flush=True)

asyncio.run(main())
"""


@pytest.mark.process
async def test_a_gateway_that_is_killed_while_approving_keeps_every_yes_that_it_gave(tmp_path: Path) -> None:
    code = textwrap.dedent(APPROVE).format(path=[p for p in sys.path if p], folder=str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    with anyio.fail_after(PATIENCE):
        while len(said) < 20:
            line = (await process.stdout.readline()).decode()
            assert line, (await process.stderr.read()).decode()
            said.append(line.strip())
    os.kill(process.pid, signal.SIGKILL)
    said += [line.strip() for line in (await process.stdout.read()).decode().splitlines()]
    await process.wait()
    simulator = Simulator()
    for number in range(200):
        simulator.skill(f"skill-{number}")
    async with make_gateway(tmp_path, shop=simulator) as gateway:
        async with gateway.server(ALICE).open() as library:
            waiting = {entry.uri for entry in await library.entries() if entry.meta}
        async with gateway.server(Caller(name="bob")).open() as library:
            assert all(entry.meta for entry in await library.entries())
    approved = {f"skill://{n}/SKILL.md" for n in (f"skill-{i}" for i in range(200))} - {
        uri.replace("skill://shop/", "skill://") for uri in waiting
    }
    # Every yes that was said is there, and at most the one that was being written besides.
    assert set(said) <= approved
    assert len(approved) <= len(said) + 1
