"""What goes wrong around a registry: killed replicas and databases, lost connections, clocks, full disks."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest

from clients import modern_request
from interop.processes import SKILLWIRE
from postgres import Postgres
from registry.conftest import publish_to, skill_md
from registry.test_app import names, reader, token
from served import Served
from skillwire.errors import SourceError
from skillwire.registry import Feed, LintedSkill, Publishing, Role, Store, View, publish_over_http
from skillwire.registry import upkeep as backups
from skillwire.registry.audit import first_broken
from skillwire.registry.queries import SkillQueries
from skillwire.skill import digest_of, parse_uri
from waiting import PATIENCE, eventually, until

pytestmark = [pytest.mark.anyio, pytest.mark.process]


@contextmanager
def replica(url: str, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server over the store in a process of its own, and its URL."""
    with subprocess.Popen(
        [*SKILLWIRE, "serve", "--store", url, "--http", "127.0.0.1:0", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process, Served(process).wait_until_it_says(r"(http://\S+/mcp)").group(1)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def visible(store: Store) -> list[str]:
    return [entry.uri for entry in SkillQueries(store, View()).page(None, 100)]


async def read_over_http(place: str, secret: str, path: str) -> dict[str, Any]:
    """What a replica answers to a read of a file of the skill `acme/pdf`."""
    request = modern_request("resources/read", uri=f"skill://acme/pdf/{path}")
    async with httpx.AsyncClient(timeout=PATIENCE, headers={"Authorization": f"Bearer {secret}"}) as http:
        return (await http.post(place, **request)).json()


def wait_until_it_reports(base: str, status: int, report: str) -> None:
    """Return when a replica reports this of itself."""
    with httpx.Client(timeout=PATIENCE, verify=False) as http:

        def reports() -> bool:
            answer = http.get(f"{base}/readyz")
            return (answer.status_code, answer.json()["status"]) == (status, report)

        eventually(reports)


def with_a_skill(database: Postgres) -> tuple[str, str]:
    """The URL of a new registry with the skill `acme/pdf`, and a token to read it."""
    url = database.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish_to(store)("pdf", files={"a.md": b"known", "b.md": b"unknown"})
    secret = token(store, "mine", "*", Role.READ)
    store.close()
    return url, secret


async def test_a_killed_database_leaves_what_is_in_memory_and_comes_back(own_postgres: Postgres):
    url, secret = with_a_skill(own_postgres)
    with replica(url) as (_, place):
        async with reader(place, secret) as client:

            async def ask(uri: str) -> dict[str, Any]:
                return await read_over_http(place, secret, uri.removeprefix("skill://acme/pdf/"))

            first = await ask("skill://acme/pdf/a.md")
            assert first["result"]["contents"][0]["text"] == "known", first

            own_postgres.kill()

            assert (await ask("skill://acme/pdf/a.md"))["result"]["contents"][0]["text"] == "known"
            refused = await ask("skill://acme/pdf/b.md")
            assert refused["error"]["code"] == -32603
            assert "try again later" in refused["error"]["message"]
            async with httpx.AsyncClient(timeout=PATIENCE) as http:
                # What is in memory is served: for a minute, the replica is ready, and a restart never helps.
                for path in ("/readyz", "/livez"):
                    assert (await http.get(place.removesuffix("/mcp") + path)).status_code == 200

            own_postgres.start()

            assert (await ask("skill://acme/pdf/b.md"))["result"]["contents"][0]["text"] == "unknown"
            store = Store(url)
            publish_to(store)("docx")
            store.close()
            async with asyncio.timeout(PATIENCE):
                while len(await names(client)) != 2:
                    pass


def test_a_database_that_does_not_answer_costs_each_call_a_bounded_time_and_is_used_again_after_that(
    own_postgres: Postgres,
):
    store = Store(own_postgres.new(), call_seconds=2)
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    publish("pdf")

    with own_postgres.stopped():
        # All of these return while nothing of the database runs.
        for call in (partial(visible, store), partial(publish, "docx"), store.check_tables):
            with pytest.raises(SourceError, match=r"answer|cannot be used"):
                call()
        assert store.abandoned

    def is_published() -> bool:
        with suppress(SourceError):
            publish("docx")
            return True
        return False

    eventually(is_published)
    assert len(visible(store)) == 2
    assert list(backups.damage(store)) == []
    store.close()


@pytest.mark.slow
async def test_a_replica_serves_what_it_knows_while_its_database_does_not_answer(own_postgres: Postgres):
    url, secret = with_a_skill(own_postgres)
    with replica(url) as (_, place):
        base = place.removesuffix("/mcp")
        async with httpx.AsyncClient(timeout=PATIENCE) as http:

            async def health(path: str) -> tuple[int, str]:
                answer = await http.get(base + path)
                return answer.status_code, answer.json()["status"]

            assert (await read_over_http(place, secret, "a.md"))["result"]["contents"][0]["text"] == "known"
            assert await health("/readyz") == (200, "ok")

            with own_postgres.stopped():
                # All of these are answered while nothing of the database runs.
                for _ in range(3):
                    answer = await read_over_http(place, secret, "a.md")
                    assert answer["result"]["contents"][0]["text"] == "known"
                assert await health("/livez") == (200, "ok")
                refused = await read_over_http(place, secret, "b.md")
                assert refused["error"]["code"] == -32603
                wait_until_it_reports(base, 200, "degraded")
                answer = await read_over_http(place, secret, "a.md")
                assert answer["result"]["contents"][0]["text"] == "known"

            wait_until_it_reports(base, 200, "ok")
            answer = await read_over_http(place, secret, "b.md")
            assert answer["result"]["contents"][0]["text"] == "unknown"


async def test_a_replica_that_starts_before_its_database_waits_for_it(own_postgres: Postgres):
    url, secret = with_a_skill(own_postgres)
    own_postgres.kill()
    with replica(url) as (_, place):
        base = place.removesuffix("/mcp")
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            assert (await http.get(base + "/livez")).status_code == 200
            assert (await http.get(base + "/readyz")).status_code == 503
            own_postgres.start()
        wait_until_it_reports(base, 200, "ok")
        assert (await read_over_http(place, secret, "a.md"))["result"]["contents"][0]["text"] == "known"


async def test_the_feed_goes_on_after_a_database_that_did_not_answer(own_postgres: Postgres):
    store = Store(own_postgres.new(), call_seconds=2)
    Publishing(store).set_namespace("acme", by="test")
    feed = Feed(store)
    await feed.start()
    try:
        with own_postgres.stopped():
            await until(lambda: feed.lag_seconds > 0.5)
        await until(lambda: not feed.lag_seconds)
        await asyncio.to_thread(publish_to(store), "pdf")
        async with asyncio.timeout(PATIENCE):
            await feed.wait(0)
    finally:
        await feed.stop()
        store.close()


async def test_a_feed_that_starts_before_its_database_begins_when_that_is_there(own_postgres: Postgres):
    store = Store(own_postgres.new(), call_seconds=2)
    Publishing(store).set_namespace("acme", by="test")
    publish_to(store)("pdf")
    store.close()
    own_postgres.kill()
    feed = Feed(store)
    await feed.start()
    try:
        assert not feed.has_read
        own_postgres.start()
        await until(lambda: feed.has_read)
        await asyncio.to_thread(publish_to(store), "docx")
        async with asyncio.timeout(PATIENCE):
            while not feed.changes:
                await feed.wait(feed.number)
        assert [row.name for row in feed.changes] == ["docx"]
    finally:
        await feed.stop()
        store.close()


@pytest.mark.parametrize("setting", ["listen=off", "application_name=x"])
async def test_changes_are_seen_where_notifications_cannot_be_received(
    postgres: Postgres, setting: str, monkeypatch: pytest.MonkeyPatch
):
    url = postgres.new()
    store = Store(f"{url}{'&' if '?' in url else '?'}{setting}")
    if store.listens:
        nowhere = {**store.connection_settings(), "host": "127.0.0.1", "port": 1}
        monkeypatch.setattr(store, "connection_settings", lambda: nowhere)
    Publishing(store).set_namespace("acme", by="test")
    feed = Feed(store)
    await feed.start()
    try:
        await asyncio.to_thread(publish_to(store), "pdf")
        async with asyncio.timeout(PATIENCE):
            await feed.wait(0)
        assert not feed.is_listening
    finally:
        await feed.stop()
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
    assert started.wait(PATIENCE)
    own_postgres.kill()
    thread.join(PATIENCE)
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
    folder = LintedSkill("pdf", "1.0.0", contents)
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
            timeout=PATIENCE,
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
                timeout=PATIENCE,
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
        async with asyncio.timeout(PATIENCE):
            await feed.wait(0)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        await asyncio.to_thread(publish, "second")
        async with asyncio.timeout(PATIENCE):
            while len(feed.changes) < 2:
                await feed.wait(feed.number)
        assert [row.name for row in feed.changes] == ["first", "second"]
    finally:
        await feed.stop()
        store.close()


def test_a_clock_that_goes_backwards_changes_no_order(store: Store, monkeypatch: pytest.MonkeyPatch):
    publish = publish_to(store)
    publish("pdf", "1.0.0")
    for module in ("publishing", "source", "audit"):
        monkeypatch.setattr(f"skillwire.registry.{module}.now", lambda: 1_000)
    publish("pdf", "1.1.0")
    publishing = Publishing(store)

    assert [row.version for row in publishing.versions("acme", "pdf")] == ["1.1.0", "1.0.0"]
    assert publishing.prune(keep=1, by="test")[0] == 1
    assert [row.version for row in publishing.versions("acme", "pdf")] == ["1.1.0"]
    assert first_broken(store) is None
    entry = SkillQueries(store, View()).entry(parse_uri("skill://acme/pdf/SKILL.md"))
    assert entry.meta["dev.skillwire/version"] == "1.1.0"


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
    own_postgres.move(url, ["blobs"], small_disk)
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
