"""A gateway with a lock serves exactly what the lock names, from the moment that the file says so."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
import pytest

from clients import call, refusal
from fast_path_calls import body
from gateways import joined, make_gateway, serving, text_of
from install.samples import locked
from simulator import Simulator
from skillwire.files import write_atomic
from skillwire.gateway import GatewayOptions, LockedSkills
from skillwire.install import Lock, LockedSkill, Pin, format_lock
from waiting import PATIENCE, until

pytestmark = pytest.mark.anyio

REFUNDS = "skill://shop/refunds/SKILL.md"
NOT_FOUND = -32602


def shop() -> Simulator:
    simulator = Simulator()
    simulator.skill("refunds", files={"a.md": b"hello\n"})
    simulator.skill("returns")
    return simulator


def pinned(upstream: Simulator, name: str) -> LockedSkill:
    skill = upstream.skills[f"skill://{name}/SKILL.md"]
    pin = Pin.make("mcp", server="shop", uri=f"skill://{name}/SKILL.md")
    return replace(locked(name, skill.files), pin=pin)


def write(file: Path, *skills: LockedSkill) -> None:
    write_atomic(file, format_lock(Lock(skills=skills)).encode())


def with_lock(folder: Path, upstream: Simulator, *skills: LockedSkill) -> Any:
    write(folder / "skillwire.lock", *skills)
    options = GatewayOptions(approval="locked", locked=LockedSkills(folder / "skillwire.lock"))
    return make_gateway(folder, options, shop=upstream)


async def ask(http: httpx.AsyncClient, url: str, method: str, **params: str) -> dict[str, Any]:
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        **({"Mcp-Name": params["uri"]} if params else {}),
    }
    return (await http.post(url, json=body(method, **params), headers=headers)).json()


async def test_what_is_removed_from_the_lock_is_refused_at_once_however_often_it_was_read(
    tmp_path: Path,
) -> None:
    upstream = shop()
    gateway = with_lock(tmp_path, upstream, pinned(upstream, "refunds"), pinned(upstream, "returns"))
    async with serving(gateway) as url, httpx.AsyncClient(timeout=PATIENCE) as http:

        async def listed() -> list[str]:
            return [entry["uri"] for entry in (await ask(http, url, "skills/list"))["result"]["skills"]]

        for _ in range(3):  # From the second on, the response is cached.
            assert "result" in await ask(http, url, "resources/read", uri=REFUNDS)
        assert await listed() == [REFUNDS, "skill://shop/returns/SKILL.md"]
        write(tmp_path / "skillwire.lock")
        # Before anybody lists anything, and after.
        assert (await ask(http, url, "resources/read", uri=REFUNDS))["error"]["code"] == NOT_FOUND
        assert await listed() == []
        assert (await ask(http, url, "resources/read", uri=REFUNDS))["error"]["code"] == NOT_FOUND
        assert (await ask(http, url, "skills/get", uri=REFUNDS))["error"]["code"] == NOT_FOUND
        write(tmp_path / "skillwire.lock", pinned(upstream, "refunds"))
        assert await listed() == [REFUNDS]
        assert "result" in await ask(http, url, "resources/read", uri=REFUNDS)


async def test_a_skill_that_is_removed_from_the_lock_while_it_is_fetched_is_refused(tmp_path: Path) -> None:
    upstream, arrives = shop(), anyio.Event()
    upstream.hold("resources/read", arrives)
    gateway = with_lock(tmp_path, upstream, pinned(upstream, "refunds"))
    async with gateway, joined(gateway) as client:
        refused: list[Any] = []

        async def read() -> None:
            refused.append(await refusal(client, "resources/read", uri=REFUNDS))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await until(upstream.read_uris)
            write(tmp_path / "skillwire.lock")
            assert (await call(client, "skills/list"))["skills"] == []
            arrives.set()
    assert [error.code for error in refused] == [NOT_FOUND]


async def test_a_lock_that_cannot_be_read_leaves_the_last_one_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upstream = shop()
    async with (
        with_lock(tmp_path, upstream, pinned(upstream, "refunds")) as gateway,
        joined(gateway) as client,
    ):
        with caplog.at_level(logging.ERROR):
            write_atomic(tmp_path / "skillwire.lock", b"{ no lock")
            for _ in range(3):
                assert len((await call(client, "skills/list"))["skills"]) == 1
        assert [text.partition(":")[0] for text in caplog.messages] == ["the lock in use is unchanged"]
        assert text_of(await client.read_resource(REFUNDS)).startswith("---")
        error = await refusal(client, "resources/read", uri="skill://shop/returns/SKILL.md")
    assert error.code == NOT_FOUND


async def test_the_lock_pins_the_server_the_uri_the_name_and_every_byte(tmp_path: Path) -> None:
    upstream = shop()
    right = pinned(upstream, "refunds")
    others = [
        replace(right, pin=Pin.make("mcp", server="other", uri="skill://refunds/SKILL.md")),
        replace(right, pin=Pin.make("mcp", server="shop", uri="skill://returns/SKILL.md")),
        replace(right, name=pinned(upstream, "returns").name),
        replace(locked("refunds", {"a.md": b"hello"}), pin=right.pin),
    ]
    async with with_lock(tmp_path, upstream, right) as gateway, joined(gateway) as client:
        assert len((await call(client, "skills/list"))["skills"]) == 1
        for other in others:
            write(tmp_path / "skillwire.lock", other)
            assert (await call(client, "skills/list"))["skills"] == []
