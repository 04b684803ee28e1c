"""What goes wrong around a registry: killed replicas and databases, lost connections, clocks, full disks."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest

from interop.processes import SKILLWIRE
from registry.conftest import Postgres, publish_to, skill_md
from registry.test_app import names, reader, token
from served import Served
from skillwire.errors import SourceError
from skillwire.registry import backup as backups
from skillwire.registry.access import Role
from skillwire.registry.audit import first_broken
from skillwire.registry.catalog import StoreCatalog, View
from skillwire.registry.client import Folder, publish_over_http
from skillwire.registry.publishing import Publishing
from skillwire.registry.source import Feed
from skillwire.registry.store import Store
from skillwire.skill.digests import digest_of
from skillwire.skill.uris import parse_uri

pytestmark = [pytest.mark.anyio, pytest.mark.process]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL that this test alone uses, and may kill."""
    server = Postgres()
    yield server
    server.remove()


@contextmanager
def replica(url: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server over the store in a process of its own, and its URL."""
    with subprocess.Popen(
        [*SKILLWIRE, "serve", "--store", url, "--http", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process, Served(process).wait_until_it_says(r"(http://\S+/mcp)").group(1)
        finally:
            process.terminate()
            process.wait(20)


def visible(store: Store) -> list[str]:
    return [entry.uri for entry in StoreCatalog(store, View()).page(None, 100)]


async def test_a_killed_database_leaves_what_is_in_memory_and_comes_back(own_postgres: Postgres):
    url = own_postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish_to(store)("pdf", files={"a.md": b"known", "b.md": b"unknown"})
    secret = token(store, "mine", "*", Role.READ)
    store.close()
    with replica(url) as (_, place):
        async with reader(place, secret) as client:
            read: dict[str, Any] = {"method": "resources/read", "params": {"uri": "skill://acme/pdf/a.md"}}

            async def ask(uri: str) -> dict[str, Any]:
                head = {
                    "authorization": f"Bearer {secret}",
                    "accept": "application/json, text/event-stream",
                    "mcp-protocol-version": "2026-07-28",
                    "mcp-method": "resources/read",
                    "mcp-name": uri,
                }
                meta = {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
                body = {"jsonrpc": "2.0", "id": 1, **read, "params": {"uri": uri, "_meta": meta}}
                async with httpx.AsyncClient(timeout=30) as http:
                    return (await http.post(place, json=body, headers=head)).json()

            first = await ask("skill://acme/pdf/a.md")
            assert first["result"]["contents"][0]["text"] == "known", first

            own_postgres.kill()

            assert (await ask("skill://acme/pdf/a.md"))["result"]["contents"][0]["text"] == "known"
            refused = await ask("skill://acme/pdf/b.md")
            assert refused["error"]["code"] == -32603
            assert "try again later" in refused["error"]["message"]
            async with httpx.AsyncClient(timeout=30) as http:
                assert (await http.get(place.removesuffix("/mcp") + "/healthz")).status_code == 503

            own_postgres.start()

            assert (await ask("skill://acme/pdf/b.md"))["result"]["contents"][0]["text"] == "unknown"
            publish_to(store)("docx")
            async with asyncio.timeout(20):
                while len(await names(client)) != 2:
                    pass
    store.close()


def test_a_database_killed_during_publications_shows_each_version_whole_or_not_at_all(own_postgres: Postgres):
    url = own_postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    done: list[str] = []
    started = threading.Event()

    def run() -> None:
        with suppress(SourceError):
            for number in range(10_000):
                publish(f"skill-{number}", files={"a.bin": bytes(200_000), "b.md": b"%d" % number})
                done.append(f"skill://acme/skill-{number}/SKILL.md")
                if number == 5:
                    started.set()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait(30)
    own_postgres.kill()
    thread.join(30)
    own_postgres.start()

    seen = visible(store)
    assert set(done) <= set(seen)
    assert len(seen) <= len(done) + 1
    assert list(backups.damage(store)) == []
    assert first_broken(store) is None
    store.close()


def test_a_replica_killed_during_a_publication_loses_nothing_and_the_next_goes_on(postgres: Postgres):
    url = postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    secret = token(store, "ci", "acme", Role.PUBLISH)
    contents = {
        "SKILL.md": skill_md("pdf", "Does one thing."),
        "a.bin": b"a" * 100_000,
        "b.bin": b"b" * 100_000,
    }
    folder = Folder("pdf", "1.0.0", contents)
    manifest = {
        "namespace": "acme",
        "version": "1.0.0",
        "channel": "stable",
        "files": [{"path": row.path, "digest": row.digest, "size": row.size} for row in folder.rows],
    }
    with replica(url) as (process, place):
        answer = httpx.post(
            place.removesuffix("/mcp") + "/registry/v1/publish",
            files=[("manifest", (None, json.dumps(manifest))), ("file", ("a", contents["a.bin"]))],
            headers={"authorization": f"Bearer {secret}"},
        )
        assert answer.status_code == 202
        process.kill()

    assert visible(store) == []
    with pytest.raises(SourceError, match="publish again"):
        publish_over_http(folder, place, token=secret)

    with replica(url) as (_, place):
        assert (
            digest_of(contents["a.bin"])
            not in httpx.post(
                place.removesuffix("/mcp") + "/registry/v1/publish",
                files=[("manifest", (None, json.dumps(manifest)))],
                headers={"authorization": f"Bearer {secret}"},
            ).json()["missing"]
        )
        assert publish_over_http(folder, place, token=secret).is_new
        assert visible(store) == ["skill://acme/pdf/SKILL.md"]
    store.close()


async def test_dropped_connections_are_replaced_and_the_feed_misses_nothing(postgres: Postgres):
    url = postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    feed = Feed(store)
    await feed.start()
    try:
        await asyncio.to_thread(publish, "first")
        async with asyncio.timeout(10):
            await feed.wait(0)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await asyncio.to_thread(publish, "second")
        async with asyncio.timeout(10):
            while len(feed.changes) < 2:
                await feed.wait(feed.number)
        assert [row.name for row in feed.changes] == ["first", "second"]
    finally:
        await feed.stop()
        store.close()


def test_a_clock_that_goes_backwards_changes_no_order(store: Store, monkeypatch: pytest.MonkeyPatch):
    publish = publish_to(store)
    publish("pdf", "1.0.0")
    for module in ("publishing", "channels", "audit"):
        monkeypatch.setattr(f"skillwire.registry.{module}.now", lambda: 1_000)
    publish("pdf", "1.1.0")
    publishing = Publishing(store)

    assert [row.version for row in publishing.versions("acme", "pdf")] == ["1.1.0", "1.0.0"]
    assert publishing.prune(keep=1, by="test")[0] == 1
    assert [row.version for row in publishing.versions("acme", "pdf")] == ["1.1.0"]
    assert first_broken(store) is None
    entry = StoreCatalog(store, View()).entry(parse_uri("skill://acme/pdf/SKILL.md"))
    assert entry.meta["dev.skillwire/version"] == "1.1.0"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of four megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0777", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_refuses_what_does_not_fit_and_keeps_the_rest(small_disk: Path):
    store = Store(f"sqlite:///{small_disk / 'registry.db'}")
    store.create()
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    publish("small")

    with pytest.raises(SourceError, match="full"):
        publish("large", files={"a.bin": bytes(6_000_000)})

    assert visible(store) == ["skill://acme/small/SKILL.md"]
    assert publish("another").is_new
    assert list(backups.damage(store)) == []
    store.close()


def test_a_full_disk_of_postgresql_refuses_what_does_not_fit_and_keeps_the_rest(
    own_postgres: Postgres, small_disk: Path
):
    url = own_postgres.new()
    for folder in (small_disk, *small_disk.parents):
        with suppress(PermissionError):
            folder.chmod(folder.stat().st_mode | 0o055)
    subprocess.run(["chown", "pgserver", str(small_disk)], check=False)
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'".encode())
        admin.execute("ALTER TABLE blobs SET TABLESPACE small")
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    publish("small")
    import random

    with pytest.raises(SourceError, match="No space left"):
        publish("large", files={"a.bin": random.Random(1).randbytes(8_000_000)})

    assert visible(store) == ["skill://acme/small/SKILL.md"]
    assert publish("another").is_new
    assert list(backups.damage(store)) == []
    store.close()
