"""Many publishers and many subscribers on one replica."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from clients import modern_request
from postgres import Postgres
from registry.conftest import publish_to, skill_md
from registry.test_app import manifest, running, token
from registry.test_faults import replica
from skillwire.limits import Limits
from skillwire.registry import LintedSkill, Publishing, Role, Store, publish_over_http
from skillwire.registry import upkeep as backups
from skillwire.registry.store import StoreBusy
from skillwire.server import ServerOptions
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

PUBLISHERS = 50
SUBSCRIBERS = 1000


@pytest.mark.process
@pytest.mark.slow
async def test_fifty_publishers_on_one_replica_are_all_served(postgres: Postgres):
    url = postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    secret = token(store, "ci", "acme", Role.PUBLISH)
    seen: Counter[int] = Counter()

    async def publish(http: httpx.AsyncClient, number: int, place: str) -> None:
        contents = {
            "SKILL.md": skill_md(f"skill-{number}", "Does one thing."),
            "LICENSE": b"the same for all",
        }
        parts = [("file", (path, data)) for path, data in contents.items()]
        form = [("manifest", (None, manifest("1.0.0", contents))), *parts]
        headers = {"authorization": f"Bearer {secret}"}
        answer = await http.post(f"{place}/registry/v1/publish", files=form, headers=headers)
        seen[answer.status_code] += 1

    with replica(url) as (_, place):
        base = place.removesuffix("/mcp")
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            await asyncio.gather(*(publish(http, number, base) for number in range(PUBLISHERS)))
            metrics = await http.get(f"{base}/metrics", headers={"authorization": f"Bearer {secret}"})
            assert metrics.status_code == 403
    assert seen == {201: PUBLISHERS}
    assert list(backups.damage(store)) == []
    store.close()


async def test_a_full_queue_of_publishers_is_said_at_once_and_the_client_tries_again(store: Store):
    secret = token(store, "ci", "acme", Role.PUBLISH)
    contents = {"SKILL.md": skill_md("pdf", "Does one thing.")}
    full = ServerOptions(limits=Limits(registry_queue=0))
    async with running(store, options=full) as url, httpx.AsyncClient(timeout=PATIENCE) as http:
        answer = await http.post(
            url.removesuffix("/mcp") + "/registry/v1/publish",
            files=[("manifest", (None, manifest("1.0.0", contents)))],
            headers={"authorization": f"Bearer {secret}"},
        )
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert answer.json()["error"] == str(StoreBusy())


def test_a_client_waits_for_a_registry_that_is_busy_and_publishes_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pauses: list[float] = []
    monkeypatch.setattr("skillwire.registry.client.time.sleep", pauses.append)
    done = {"namespace": "acme", "name": "pdf", "version": "1.0.0", "set_digest": "sha256:0", "is_new": True}
    answers = [
        httpx.Response(503, headers={"retry-after": "2"}, json={"error": "busy"}),
        httpx.Response(429, headers={"retry-after": "4"}, text="Too many requests"),
        httpx.Response(201, json=done),
    ]
    monkeypatch.setattr(httpx.Client, "post", lambda *_given, **_named: answers.pop(0))
    folder = LintedSkill("pdf", "1.0.0", {"SKILL.md": skill_md("pdf", "Does one thing.")})
    assert publish_over_http(folder, "https://registry.example", token="t").is_new
    first, second = pauses
    assert 1.6 <= first <= 2.4
    assert 4.8 <= second <= 7.2


@pytest.mark.process
@pytest.mark.slow
async def test_a_thousand_subscribers_hear_a_publication(postgres: Postgres):
    url = postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    secrets = [token(store, f"reader-{number}", "*", Role.READ) for number in range(4)]
    with replica(url, "--max-connections-per-address", "2000") as (_, place):
        target = urlsplit(place)
        opened = asyncio.Semaphore(50)

        async def subscribe(number: int) -> asyncio.StreamReader:
            async with opened:
                stream, sending = await asyncio.open_connection(target.hostname, target.port)
                sending.write(_listen(target.netloc, secrets[number % len(secrets)]))
                head = await stream.readuntil(b"\r\n\r\n")
                assert b" 200 " in head.splitlines()[0], head
                await stream.readuntil(b"acknowledged")
                writers.append(sending)
                return stream

        writers: list[asyncio.StreamWriter] = []
        async with asyncio.timeout(5 * PATIENCE):
            streams = await asyncio.gather(*map(subscribe, range(SUBSCRIBERS)))
            publishing = threading.Thread(target=publish_to(store), args=("pdf",))
            publishing.start()
            await asyncio.gather(*(stream.readuntil(b"list_changed") for stream in streams))
            publishing.join()
        for sending in writers:
            sending.close()
    store.close()


def _listen(host: str, secret: str) -> bytes:
    heard = {"resourcesListChanged": True}
    body = json.dumps(modern_request("subscriptions/listen", notifications=heard)["json"])
    return (
        f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {secret}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
