"""Two gateways behind Debian's nginx: callers, questions, streams, the shared audit log; and one ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2 as httpx
import pytest
import yaml
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client

from clients import ERAS, both_eras, modern_request, refusal
from gateways import User, text_of, write_callers
from operate.conftest import (
    FILES,
    PAGE,
    PATIENCE,
    ROLES,
    Database,
    Nginx,
    Unit,
    environment_of,
    free_port,
    hearing,
    replica,
    started,
)
from registry.test_app import token
from skillwire.registry import Role, publish_over_http, read_skill
from skillwire.registry.audit import first_broken, read_gateways
from skillwire.wire import EXTENSION_ID
from trees import write_skill

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.slow, pytest.mark.peer]


@dataclass
class Site:
    """Two gateways to a registry, as their users see them."""

    url: str
    nginx: Nginx
    gateways: list[Unit]
    registry: Unit
    database: Database
    callers: dict[str, str]
    writer: str

    def http(self, caller: str) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.callers[caller]}"}
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, verify=self.nginx.trust, timeout=PATIENCE
        )

    @asynccontextmanager
    async def client(self, caller: str, version: str, user: User | None = None) -> AsyncGenerator[Client]:
        mode: Any = ERAS[version]
        async with (
            self.http(caller) as http,
            Client(
                streamable_http_client(f"{self.url}/mcp", http_client=http),
                mode=mode,
                extensions=[advertise(EXTENSION_ID)],
                elicitation_callback=None if user is None else user.answer,
            ) as client,
        ):
            yield client

    def publish(self, folder: Path) -> None:
        skill = read_skill(folder, version="1.0.0")
        assert publish_over_http(skill, self.registry.base, namespace="acme", token=self.writer).is_new


@pytest.fixture(scope="module")
def site(folder: Path, database: Database) -> Iterator[Site]:
    store = database.store()
    writer = token(store, "writer", "acme", Role.PUBLISH)
    store.close()
    registry = replica(database)
    server = f'url = "{registry.base}/mcp"\ntoken_env = "DOCS_TOKEN"'
    (folder / "gateway.toml").write_text(f"default_directories = false\n[servers.docs]\n{server}\n")
    callers = write_callers(folder / "callers.toml", alice={}, bob={}, carol={}, none={"labels": ["other"]})
    environment = environment_of(
        "gateway.env",
        {
            "postgresql://skillwire@127.0.0.1/skills": f"'{database.url('skillwire')}'",
            "/etc/skillwire/pgpass": database.passwords,
        },
    )
    gateways: list[Unit] = []
    for number in range(2):
        home = str(folder / f"gateway-{number}")
        own = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), home)
        files = {
            "/etc/skillwire/gateway.toml": f"{folder}/gateway.toml",
            "/etc/skillwire/callers.toml": f"{folder}/callers.toml",
        }
        variables = {**environment, **own, "DOCS_TOKEN": writer}
        gateways.append(Unit("skillwire-gateway@.service", free_port(), variables, files))
    proxy = Nginx(folder)
    url = proxy.add(
        "nginx-gateway.conf",
        {f"127.0.0.1:{8101 + number}": f"127.0.0.1:{unit.port}" for number, unit in enumerate(gateways)},
    )
    with started(registry):
        made = Site(url, proxy, gateways, registry, database, callers, writer)
        made.publish(write_skill(folder / "refunds", {"a.md": b"known", "b.md": b"unknown"}))
        with started(*gateways), proxy.serving(url):
            yield made


URI = "skill://docs/acme/refunds/SKILL.md"


@both_eras
async def test_a_caller_is_asked_through_nginx_and_both_gateways_know_the_answer(site: Site, version: str):
    caller = {"2025-11-25": "alice", "2026-07-28": "bob"}[version]
    user = User()
    async with site.client(caller, version, user) as client:
        assert "refunds" in text_of(await client.read_resource(URI))
    assert len(user.asked) == 1
    # Whichever gateway it was: the other one knows within a second or so.
    for unit in site.gateways:
        async with (
            httpx.AsyncClient(
                headers={"authorization": f"Bearer {site.callers[caller]}"}, timeout=PATIENCE
            ) as http,
            asyncio.timeout(PATIENCE),
        ):
            while True:
                answer = await http.post(f"{unit.base}/mcp", **modern_request("resources/read", uri=URI))
                if "result" in answer.json():
                    break
    async with site.client("none", version) as client:
        assert (await refusal(client, "resources/read", uri=URI)).code == -32602


@both_eras
async def test_a_stream_hears_what_was_published_behind_the_gateway(site: Site, version: str, tmp_path: Path):
    async with site.http("alice") as http, hearing(http, site.url, version) as heard:
        place = write_skill(tmp_path / f"news-{version}")
        await anyio.to_thread.run_sync(site.publish, place)
        async with asyncio.timeout(PATIENCE):
            while "resources/list_changed" not in heard.words:
                await heard.more()


async def test_only_what_is_for_callers_passes_nginx(site: Site):
    async with site.http("alice") as http:
        for path in ("/livez", "/readyz", "/healthz"):
            assert (await http.get(path)).status_code == 200
        for path in ("/metrics", "/"):
            assert (await http.get(path)).status_code == 404
        assert (await http.post("/mcp", headers={"authorization": "Bearer wrong"})).status_code == 401


def test_every_metric_that_operators_are_told_of_exists(site: Site):
    shown = {line.split()[2] for unit in (site.registry, *site.gateways) for line in _help(unit)}
    rules = yaml.safe_load((FILES / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
    page = PAGE.read_text("utf-8")
    in_rules = {name for rule in rules for name in re.findall(r"skillwire_\w+", rule["expr"])}
    assert in_rules <= shown
    assert set(re.findall(r"`(skillwire_[a-z_]+)`", page)) - set(ROLES) <= shown


def _help(unit: Unit) -> list[str]:
    return [line for line in unit.metrics.splitlines() if line.startswith("# HELP")]


async def test_what_was_done_through_nginx_is_in_the_shared_audit_log(site: Site):
    store = site.database.store()
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                lines = await anyio.to_thread.run_sync(lambda: [*read_gateways(store)])
                if {("caller:alice", "approve"), ("caller:bob", "approve")} <= {
                    (line.who, line.action) for line in lines
                }:
                    break
                await asyncio.sleep(0.2)
        assert first_broken(store) is None
    finally:
        store.close()


async def test_a_gateway_that_ends_leaves_its_callers_to_the_other_one(site: Site):
    assert await anyio.to_thread.run_sync(site.gateways[0].stop) == 0
    for caller in ("alice", "bob", "carol"):
        async with site.http(caller) as http:
            answer = await http.post("/mcp", **modern_request("skills/list"))
            assert answer.json()["result"]["skills"], answer.text
