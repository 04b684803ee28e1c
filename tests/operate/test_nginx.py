"""Two replicas behind Debian's nginx with TLS: everything works through it, also if one of them stops."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2 as httpx
import pytest
from mcp.client.streamable_http import streamable_http_client

from clients import both_eras, call, connected, modern_request
from operate.conftest import BIN, HOST, PATIENCE, Database, Nginx, Unit, hearing, replica, started, wait_for
from registry.test_app import names, token
from server.test_notifications import SOON_SECONDS
from skillwire.limits import DEFAULT_LIMITS
from skillwire.registry import Role, publish_over_http, read_skill
from trees import write_skill

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.slow, pytest.mark.peer]


@dataclass
class Site:
    """A registry as its users see it."""

    url: str
    nginx: Nginx
    replicas: list[Unit]
    database: Database
    secret: str
    """The token of somebody who may read and publish."""
    admin: str

    def client(self, **options: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        return httpx.AsyncClient(
            base_url=self.url, verify=self.nginx.trust, timeout=PATIENCE, headers=headers, **options
        )

    def run(self, *words: object, code: int = 0) -> str:
        """What a command prints that reaches the registry through nginx."""
        environment = {
            **os.environ,
            "SSL_CERT_FILE": str(self.nginx.certificate),
            "SKILLWIRE_REGISTRY_TOKEN": self.admin,
            "SKILLWIRE_TOKEN": self.secret,
        }
        done = subprocess.run(
            [BIN / "skillwire", *map(str, words)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def publish(self, folder: Path, version: str = "1.0.0", *, to: str = "") -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", str(self.nginx.certificate))
            skill = read_skill(folder, version=version)
            assert publish_over_http(skill, to or self.url, namespace="acme", token=self.secret).is_new


@pytest.fixture(scope="module")
def site(folder: Path, database: Database) -> Iterator[Site]:
    store = database.store()
    secret = token(store, "writer", "acme", Role.PUBLISH)
    admin = token(store, "root", "*", Role.ADMIN)
    store.close()
    replicas = [replica(database), replica(database)]
    proxy = Nginx(folder)
    url = proxy.add(
        "nginx.conf",
        {
            "127.0.0.1:8001": f"127.0.0.1:{replicas[0].port}",
            "127.0.0.1:8002": f"127.0.0.1:{replicas[1].port}",
        },
    )
    with started(*replicas), proxy.serving(url):
        made = Site(url, proxy, replicas, database, secret, admin)
        made.publish(write_skill(folder / "pdf", {"references/a.md": b"known"}))
        yield made


async def test_every_path_of_a_registry_is_reached(site: Site):
    async with site.client() as http:

        async def get(path: str, status: int = 200, **options: Any) -> httpx.Response:
            answer = await http.get(path, **options)
            assert answer.status_code == status, (path, answer.text)
            return answer

        assert (await get("/livez")).json() == {"status": "ok"}
        assert (await get("/readyz")).json() == {"status": "ok"}
        operator = {"authorization": f"Bearer {site.admin}"}
        assert (await get("/healthz?detail", headers=operator)).json()["notifications"] is True
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            assert (await get(path)).json()["resource"] == f"https://{HOST}/mcp"
        refused = await get("/v2/", 401, headers={"authorization": "Bearer wrong"})
        assert f"https://{HOST}/.well-known/oauth-protected-resource" in refused.headers["www-authenticate"]
        index = (await get("/.well-known/agent-skills/index.json")).json()
        assert [skill["name"] for skill in index["skills"]] == ["pdf"]
        # As an OCI client pulls: the manifest by its tag, then each of its blobs by digest.
        pulled = (await get("/v2/acme/pdf/manifests/1.0.0")).json()
        for blob in (pulled["config"], *pulled["layers"]):
            data = (await get(f"/v2/acme/pdf/blobs/{blob['digest']}")).content
            assert len(data) == blob["size"]
        # What is for nobody outside, and what does not exist.
        for path in ("/metrics", "/mcp/stream", "/registry/v1/unknown", "/"):
            await get(path, 404)


async def test_a_request_has_the_name_that_users_type_and_may_be_http_2(site: Site):
    trust = site.nginx.trust
    trust.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("localhost", int(site.url.rpartition(":")[2]))) as plain,
        trust.wrap_socket(plain, server_hostname=HOST) as secure,
    ):
        assert secure.selected_alpn_protocol() == "h2"
    async with httpx.AsyncClient(verify=site.nginx.trust) as http:
        request = http.build_request(
            "GET", f"{site.url}/v2/", headers={"host": HOST, "authorization": f"Bearer {site.secret}"}
        )
        request.extensions["sni_hostname"] = HOST
        assert (await http.send(request)).status_code == 200


def test_verify_finds_nothing_wrong_through_nginx(site: Site):
    report = json.loads(site.run("verify", f"{site.url}/mcp", "--token-env", "SKILLWIRE_TOKEN", "--json"))
    assert report["findings"] == []


@both_eras
async def test_a_stream_hears_of_a_publication_at_the_other_replica(site: Site, version: str, tmp_path: Path):
    fresh = [f"news-{number}-{version}" for number in range(len(site.replicas))]
    async with site.client() as http, hearing(http, site.url, version) as heard:
        # To both replicas: at least one of them is not the one with the stream.
        for name, unit in zip(fresh, site.replicas, strict=True):
            place = write_skill(tmp_path / name)
            await anyio.to_thread.run_sync(partial(site.publish, place, to=unit.base))
            async with asyncio.timeout(SOON_SECONDS):
                while "resources/list_changed" not in heard.words:
                    await heard.more()
            heard.words.clear()
    async with (
        site.client() as http,
        connected(streamable_http_client(f"{site.url}/mcp", http_client=http), version) as client,
    ):
        uris = [f"skill://acme/{name}/SKILL.md" for name in fresh]
        assert {*uris} <= {*await names(client)}
        for uri in uris:
            read = await call(client, "resources/read", uri=uri)
            assert read["contents"][0]["text"].startswith("---\nname: news-")


def test_the_largest_skill_is_published_and_a_larger_one_is_refused_in_words(site: Site, tmp_path: Path):
    limit = DEFAULT_LIMITS.bytes_per_skill
    data = random.Random(1).randbytes(limit - 1000)
    site.publish(write_skill(tmp_path / "large", {"a.bin": data}))
    body = b"x" * (limit + (1 << 20) + 1)
    answer = httpx.post(
        f"{site.url}/registry/v1/publish",
        content=body,
        headers={"authorization": f"Bearer {site.secret}", "content-type": "multipart/form-data; boundary=x"},
        verify=site.nginx.trust,
        timeout=PATIENCE,
    )
    assert answer.status_code == 413
    assert "at most" in answer.json()["error"]


def test_an_administrator_needs_no_database(site: Site):
    assert "acme" in site.run("registry", "list", "--to", site.url)
    assert "writer" in site.run("registry", "grants", "--to", site.url)


async def test_a_replica_that_stops_answering_is_passed_over(site: Site, tmp_path: Path):
    async with site.client() as http:
        for unit in site.replicas:
            # Each caller has a replica: ask as somebody of either.
            with unit.stopped():
                for _ in range(3):
                    assert (await http.get("/v2/")).status_code == 200
                assert (await http.post("/mcp", **modern_request("skills/list"))).json()["result"]["skills"]
                place = write_skill(tmp_path / str(unit.port) / "after")
                await anyio.to_thread.run_sync(site.publish, place, f"1.0.{unit.port}")
            wait_for(f"{unit.base}/readyz")


async def test_replicas_are_restarted_one_after_the_other_and_no_request_fails(site: Site):
    done = asyncio.Event()
    statuses: list[int] = []

    async def ask(secret: str) -> None:
        async with site.client(headers={"authorization": f"Bearer {secret}"}) as http:
            while not done.is_set():
                answer = await http.post("/mcp", **modern_request("skills/list"))
                statuses.append(answer.status_code)
                assert answer.status_code == 200, answer.text
                assert "result" in answer.json(), answer.text
                await asyncio.sleep(0.05)  # A steady load that leaves the machine to those who start.

    async with asyncio.TaskGroup() as group:
        for secret in (site.secret, site.admin):
            group.create_task(ask(secret))
        try:
            for unit in site.replicas:
                assert await anyio.to_thread.run_sync(unit.stop) == 0
                await anyio.to_thread.run_sync(unit.start)
        finally:
            done.set()
    assert set(statuses) == {200}
    assert len(statuses) > 20
