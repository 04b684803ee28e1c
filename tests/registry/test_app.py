"""A registry over HTTP: what callers see, publish and cannot see. Replicas are real processes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from mcp.client.streamable_http import streamable_http_client

from clients import ERAS, both_eras, call, connected, refusal
from folder_server import in_task
from interop.processes import SKILLWIRE, listening
from postgres import Postgres
from registry.conftest import Publish, both_databases, publish_to, skill_md
from server.test_notifications import Heard, legacy, modern, subscribe
from skillwire.access import OAuthSettings
from skillwire.errors import VersionConflict
from skillwire.limits import Limits
from skillwire.net import read_archive
from skillwire.registry import Access, Publishing, RegistryApp, Role, Store, publish_over_http, read_skill
from skillwire.registry.schema import blobs
from skillwire.server import ServerOptions
from skillwire.skill import digest_of
from waiting import PATIENCE

pytestmark = pytest.mark.anyio


def token(store: Store, name: str, namespace: str, role: Role, channel: str = "stable") -> str:
    access = Access(store)
    made = access.add_token(name, channel=channel, by="test")
    access.grant(f"token:{name}", namespace, role, by="test")
    return made


@asynccontextmanager
async def running(store: Store, **options: Any) -> AsyncGenerator[str]:
    """The URL of a replica in this process, on a real socket."""
    async with in_task(RegistryApp(store, **options)) as server:
        yield server.url


@asynccontextmanager
async def reader(url: str, secret: str, version: str = "2026-07-28") -> AsyncGenerator[Any]:

    async with (
        httpx.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=PATIENCE) as http,
        connected(streamable_http_client(url, http_client=http), version) as client,
    ):
        yield client


@asynccontextmanager
async def subscriber(url: str, secret: str, version: str, *uris: str) -> AsyncGenerator[tuple[Any, Heard]]:
    """A client, and what it hears of listings and of these URIs."""
    heard = Heard()
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=PATIENCE) as http:
        target = streamable_http_client(url, http_client=http)
        if version == "2026-07-28":
            async with modern(target, *uris) as heard, reader(url, secret) as client:
                yield client, heard
            return
        opened = asyncio.Event()

        async def note(response: httpx.Response) -> None:
            if response.request.method == "GET" and response.status_code == 200:
                opened.set()

        http.event_hooks["response"].append(note)
        async with legacy(target) as (client, heard):
            await subscribe(client, *uris)
            await opened.wait()  # The stream that notifications arrive on.
            yield client, heard


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
STREAM_HEADERS = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def event_stream(url: str, secret: str, version: str) -> AsyncGenerator[httpx.Response]:
    """An event stream that is open and has no end of its own."""
    async with httpx.AsyncClient(
        headers={"authorization": f"Bearer {secret}", **STREAM_HEADERS}, timeout=PATIENCE
    ) as http:
        if version == "2026-07-28":
            method = "subscriptions/listen"
            params = {
                "notifications": {"resourcesListChanged": True},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": version,
                    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            headers = {"mcp-protocol-version": version, "mcp-method": method}
            request = http.stream("POST", url, json=body, headers=headers)
        else:
            session = (await http.post(url, json=INITIALIZE)).headers["mcp-session-id"]
            request = http.stream(
                "GET", url, headers={"mcp-session-id": session, "mcp-protocol-version": version}
            )
        async with request as response:
            assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
            yield response


async def names(client: Any) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await call(client, "skills/list", **cursor)
        found += [skill["uri"] for skill in page["skills"]]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


@both_databases
@both_eras
async def test_each_caller_has_a_catalog_of_their_own(store: Store, publish: Publish, version: str):
    Publishing(store).set_namespace("secret", by="test")
    publish("pdf")
    publish("plans", namespace="secret")
    mine = token(store, "mine", "acme", Role.READ)
    everything = token(store, "all", "*", Role.READ)

    async with running(store) as url:
        async with reader(url, mine, version) as client:
            assert await names(client) == ["skill://acme/pdf/SKILL.md"]
            error = await refusal(client, "skills/get", uri="skill://secret/plans/SKILL.md")
            missing = await refusal(client, "skills/get", uri="skill://secret/nothing/SKILL.md")
            assert error.code == missing.code == -32602
            assert error.message.replace("plans", "nothing") == missing.message
            await refusal(client, "resources/read", uri="skill://secret/plans/SKILL.md")
        async with reader(url, everything, version) as client:
            assert await names(client) == ["skill://acme/pdf/SKILL.md", "skill://secret/plans/SKILL.md"]
            found = await call(client, "resources/read", uri="skill://secret/plans/SKILL.md")
            assert found["contents"][0]["text"].startswith("---\nname: plans")


async def test_pages_come_in_order_and_carry_a_private_scope(store: Store, publish: Publish):
    for number in range(7):
        publish(f"skill-{number}")
    secret = token(store, "mine", "*", Role.READ)
    async with running(store, options=ServerOptions(page_size=3)) as url, reader(url, secret) as client:
        page = await call(client, "skills/list")
        assert page["cacheScope"] == "private"
        assert len(page["skills"]) == 3
        assert len(await names(client)) == 7
        assert (await refusal(client, "skills/list", cursor="bm9uc2Vuc2U")).code == -32602
        resources = await call(client, "resources/list")
        assert len(resources["resources"]) == 3


async def test_without_a_valid_token_a_response_only_says_how_to_sign_in(store: Store, publish: Publish):
    publish("pdf")
    Access(store).add_token("idle", by="test")
    revoked = token(store, "old", "*", Role.READ)
    Access(store).revoke_token("old", by="test")
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        for secret in (None, "wrong", revoked):
            headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
            for path in (
                "/mcp",
                "/registry/v1/publish",
                "/.well-known/agent-skills/index.json",
                "/v2/",
                "/x",
            ):
                answer = await client.post(url.removesuffix("/mcp") + path, headers=headers)
                assert answer.status_code == 401, (secret, path)
                assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_what_anyone_was_granted_needs_no_token(store: Store, publish: Publish):
    publish("pdf")
    Access(store).grant("anyone", "acme", Role.READ, by="test")
    async with running(store) as url, connected(url, "2026-07-28") as client:
        assert await names(client) == ["skill://acme/pdf/SKILL.md"]


@pytest.mark.parametrize("path", ["publish", "admin"])
async def test_what_anyone_was_granted_is_read_and_not_written_without_a_token(
    store: Store, publish: Publish, path: str
):
    publish("pdf")
    Access(store).grant("anyone", "acme", Role.READ, by="test")
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.post(f"{url.removesuffix('/mcp')}/registry/v1/{path}", content=b"{}")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_revoked_token_ends_within_seconds(store: Store, publish: Publish):
    publish("pdf")
    secret = token(store, "mine", "*", Role.READ)
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        headers = {"authorization": f"Bearer {secret}"}
        place = url.removesuffix("/mcp") + "/v2/"
        assert (await client.get(place, headers=headers)).status_code == 200
        Access(store).revoke_token("mine", by="test")
        async with asyncio.timeout(PATIENCE):
            while (await client.get(place, headers=headers)).status_code != 401:
                pass


def folder(tmp_path: Path, name: str, files: dict[str, bytes], version: str = "1.0.0") -> Path:
    place = tmp_path / name
    place.mkdir(parents=True, exist_ok=True)
    head = f"---\nname: {name}\ndescription: Does one thing.\nmetadata:\n  version: '{version}'\n---\nx\n"
    for path, data in {"SKILL.md": head.encode(), **files}.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)
    return place


def manifest(version: str, contents: Mapping[str, bytes]) -> str:
    """What a publisher sends first: the files of a version, without their bytes."""
    files = [{"path": path, "digest": digest_of(data), "size": len(data)} for path, data in contents.items()]
    return json.dumps({"namespace": "acme", "version": version, "channel": "stable", "files": files})


async def test_a_folder_is_published_over_http_and_only_missing_files_are_sent(store: Store, tmp_path: Path):
    import anyio.to_thread

    secret = token(store, "ci", "acme", Role.PUBLISH)
    first = read_skill(folder(tmp_path / "1", "pdf", {"big.bin": bytes(100_000), "a.md": b"one"}))
    second = read_skill(folder(tmp_path / "2", "pdf", {"big.bin": bytes(100_000), "a.md": b"two"}, "1.1.0"))
    other = read_skill(folder(tmp_path / "3", "pdf", {"a.md": b"three"}, "1.1.0"))
    async with running(store) as url:

        async def send(skill: Any) -> Any:
            return await anyio.to_thread.run_sync(lambda: publish_over_http(skill, url, token=secret))

        done = await send(first)
        assert (done.namespace, done.name, done.version, done.is_new) == ("acme", "pdf", "1.0.0", True)
        assert not (await send(first)).is_new
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            place = url.removesuffix("/mcp") + "/registry/v1/publish"
            answer = await client.post(
                place,
                files=[("manifest", (None, manifest("1.1.0", second.contents)))],
                headers={"authorization": f"Bearer {secret}"},
            )
            assert answer.status_code == 202
            assert set(answer.json()["missing"]) == {
                digest_of(second.contents["a.md"]),
                digest_of(second.contents["SKILL.md"]),
            }
        assert (await send(second)).is_new
        with pytest.raises(VersionConflict):
            await send(other)
        async with reader(url, secret) as client:
            found = await call(client, "resources/read", uri="skill://acme/pdf/a.md")
            assert found["contents"][0]["text"] == "two"


@pytest.mark.parametrize(
    ("role", "namespace", "status"),
    [(Role.READ, "acme", 403), (Role.PUBLISH, "other", 404), (Role.PUBLISH, "acme", 202)],
)
async def test_who_may_publish_where(store: Store, role: Role, namespace: str, status: int):
    Publishing(store).set_namespace("other", by="test")
    secret = token(store, "ci", namespace, role)
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.post(
            url.removesuffix("/mcp") + "/registry/v1/publish",
            files=[("manifest", (None, manifest("1", {"SKILL.md": skill_md("pdf", "x")})))],
            headers={"authorization": f"Bearer {secret}"},
        )
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("says_its_length", [True, False])
async def test_a_request_to_publish_is_measured_before_it_is_read(store: Store, says_its_length: bool):
    secret = token(store, "ci", "acme", Role.PUBLISH)
    options = ServerOptions(limits=Limits(bytes_per_skill=1000))
    data = bytes(1_200_000)

    async def chunks() -> AsyncGenerator[bytes]:
        yield data[:100]

    headers = {"authorization": f"Bearer {secret}", "content-type": "multipart/form-data; boundary=x"}
    async with (
        running(store, options=options) as url,
        httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client,
    ):
        answer = await client.post(
            url.removesuffix("/mcp") + "/registry/v1/publish",
            content=data if says_its_length else chunks(),
        )
    assert answer.status_code == 413, answer.text


async def test_a_file_that_is_not_in_the_manifest_is_not_stored(store: Store):
    secret = token(store, "ci", "acme", Role.PUBLISH)
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        answer = await client.post(
            url.removesuffix("/mcp") + "/registry/v1/publish",
            files=[
                ("manifest", (None, manifest("1", {"SKILL.md": skill_md("pdf", "x")}))),
                ("file", ("a.md", b"something else")),
            ],
            headers={"authorization": f"Bearer {secret}"},
        )
    assert answer.status_code == 422, answer.text
    with store.reading() as connection:
        assert connection.execute(blobs.select()).all() == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"nothing": (None, "x")}, 422),
        ({"manifest": (None, "not json")}, 422),
        ({"manifest": (None, "[]")}, 422),
        ({"manifest": (None, "{}")}, 422),
        ({"manifest": (None, "[" * 100_000)}, 422),
    ],
)
async def test_a_bad_request_to_publish_is_refused_in_one_line(store: Store, fields: Any, status: int):
    secret = token(store, "ci", "acme", Role.PUBLISH)
    async with running(store) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        place = url.removesuffix("/mcp") + "/registry/v1/publish"
        headers = {"authorization": f"Bearer {secret}"}
        answer = await client.post(place, files=fields, headers=headers)
        assert answer.status_code == status
        assert answer.json()["error"]
        wrong = await client.post(
            place, content=b"--x\r\n", headers={**headers, "content-type": "multipart/form-data"}
        )
        assert wrong.status_code == 422


@both_databases
@both_eras
async def test_a_subscriber_is_notified_of_a_new_version_and_can_read_it(
    store: Store, publish: Publish, version: str
):
    publish("pdf", "1.0.0", files={"a.md": b"one"})
    publish("docx", "1.0.0", files={"a.md": b"one"})
    secret = token(store, "mine", "*", Role.READ)
    file = "skill://acme/pdf/a.md"
    async with running(store) as url, subscriber(url, secret, version, file) as (client, heard):
        assert (await call(client, "resources/read", uri=file))["contents"][0]["text"] == "one"
        await asyncio.to_thread(publish, "docx", "1.1.0", files={"a.md": b"two"})
        await asyncio.to_thread(publish, "pdf", "1.1.0", files={"a.md": b"two"})
        async with asyncio.timeout(PATIENCE):
            while f"updated {file}" not in heard.words:
                await heard.more()
        assert (await call(client, "resources/read", uri=file))["contents"][0]["text"] == "two"
        assert not [word for word in heard.words if "docx" in word]


async def test_a_read_stays_cached_while_other_skills_are_published(store: Store, publish: Publish):
    publish("pdf", "1.0.0", files={"a.md": b"one"})
    secret = token(store, "mine", "*", Role.READ)
    current, pinned = "skill://acme/pdf/a.md", "skill://acme/@1.0.0/pdf/a.md"
    async with running(store) as url, subscriber(url, secret, "2026-07-28", current) as (client, heard):

        async def read(uri: str) -> str:
            return (await call(client, "resources/read", uri=uri))["contents"][0]["text"]

        assert (await read(current), await read(pinned)) == ("one", "one")
        # Whoever asks the database now gets an error.
        with store.writing() as connection:
            connection.execute(blobs.update().where(blobs.c.digest == digest_of(b"one")).values(data=b"x"))
        await asyncio.to_thread(publish, "docx")
        async with asyncio.timeout(PATIENCE):
            while "resources/list_changed" not in heard.words:
                await heard.more()
        assert await read(current) == "one"
        # Not every change of a version that no channel points to is announced, so this one is read again.
        with pytest.raises(Exception, match="right now"):
            await read(pinned)
        await asyncio.to_thread(publish, "pdf", "1.1.0", files={"a.md": b"two"})
        async with asyncio.timeout(PATIENCE):
            while f"updated {current}" not in heard.words:
                await heard.more()
        assert await read(current) == "two"


@both_databases
@both_eras
async def test_a_subscriber_is_notified_of_a_new_skill(store: Store, publish: Publish, version: str):
    publish("pdf")
    secret = token(store, "mine", "*", Role.READ)
    async with running(store) as url, subscriber(url, secret, version) as (client, heard):
        assert await names(client) == ["skill://acme/pdf/SKILL.md"]
        await asyncio.to_thread(publish, "docx")
        async with asyncio.timeout(PATIENCE):
            while "resources/list_changed" not in heard.words:
                await heard.more()
        assert await names(client) == ["skill://acme/docx/SKILL.md", "skill://acme/pdf/SKILL.md"]


@both_databases
@both_eras
@pytest.mark.parametrize("how", ["token", "grant"])
async def test_the_open_stream_of_a_revoked_caller_ends_and_others_stay(
    store: Store, publish: Publish, version: str, how: str
):
    publish("pdf")
    access = Access(store)
    mine, other = (token(store, name, "acme", Role.READ) for name in ("mine", "other"))
    async with running(store) as url, subscriber(url, other, version) as (_, heard):
        async with asyncio.timeout(PATIENCE), event_stream(url, mine, version) as stream:
            if how == "token":
                await asyncio.to_thread(access.revoke_token, "mine", by="test")
            else:
                await asyncio.to_thread(access.grant, "token:mine", "acme", None, by="test")
            async for _ in stream.aiter_bytes():
                pass
        await asyncio.to_thread(publish, "docx")
        async with asyncio.timeout(PATIENCE):
            while "resources/list_changed" not in heard.words:
                await heard.more()


@pytest.mark.process
async def test_a_change_is_seen_although_its_notification_was_lost(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Store, "announce", lambda *_: None)
    store = Store(postgres.new())
    Publishing(store).set_namespace("acme", by="test")
    secret = token(store, "mine", "*", Role.READ)
    async with running(store) as url, subscriber(url, secret, "2026-07-28") as (_, heard):
        await asyncio.to_thread(publish_to(store), "pdf")
        async with asyncio.timeout(PATIENCE):
            while "resources/list_changed" not in heard.words:
                await heard.more()
    store.close()


PATHS = ["/mcp", "/registry/v1/publish", "/.well-known/agent-skills/index.json", "/v2/", "/x"]


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_answers_under_a_foreign_host_name(store: Store, path: str):
    secret = token(store, "mine", "*", Role.READ)
    headers = {"authorization": f"Bearer {secret}"}
    async with (
        running(store, allowed_hosts=["skills.example"]) as url,
        httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client,
    ):
        place = url.removesuffix("/mcp") + path
        for host in ("evil.example", "evil.example:80", "skills.example.evil"):
            answer = await client.get(place, headers={"host": host})
            assert answer.status_code == 421, host
            assert "--allow-host" in answer.text
        for host in ("skills.example", "skills.example:8000", "localhost"):
            assert (await client.get(place, headers={"host": host})).status_code != 421, host


async def test_no_response_says_where_a_lost_database_was(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
    store.create()
    secret = token(store, "mine", "*", Role.READ)
    headers = {"authorization": f"Bearer {secret}"}
    options = ServerOptions(limits=Limits(registry_stale_seconds=0.1))
    async with running(store, options=options) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
        base = url.removesuffix("/mcp")
        assert (await client.get(f"{base}/v2/", headers=headers)).status_code == 200
        with store.writing() as connection:
            for table in ("channels", "tokens", "grants", "changes"):
                connection.exec_driver_sql(f"DROP TABLE {table}")
        known = await client.get(f"{base}/.well-known/agent-skills/index.json", headers=headers)
        stranger = await client.get(f"{base}/v2/", headers={"authorization": f"Bearer skr_{'x' * 43}"})
        async with asyncio.timeout(PATIENCE):  # After a while without an answer, a replica is not ready.
            while (health := await client.get(f"{base}/healthz")).status_code == 200:
                pass
        for answer in (known, stranger, health):
            assert answer.status_code == 503
            assert "sqlite" not in answer.text
    assert str(tmp_path) in caplog.text


async def test_health_is_public_and_metrics_are_for_administrators(store: Store, publish: Publish):
    publish("pdf")
    secret = token(store, "mine", "*", Role.ADMIN)
    reading = {"authorization": f"Bearer {token(store, 'reader', '*', Role.READ)}"}
    headers = {"authorization": f"Bearer {secret}"}
    async with (
        running(store) as url,
        reader(url, secret) as session,
        httpx.AsyncClient(timeout=PATIENCE) as client,
    ):
        await names(session)
        base = url.removesuffix("/mcp")
        assert (await client.get(f"{base}/healthz")).json() == {"status": "ok"}
        assert (await client.post(f"{base}/healthz")).status_code == 405
        assert (await client.get(f"{base}/metrics")).status_code == 401
        assert (await client.post(f"{base}/metrics", headers=headers)).status_code == 405
        assert (await client.get(f"{base}/metrics", headers=reading)).status_code == 403
        elsewhere = await client.get(f"{base}/metrics", headers={**headers, "host": "10.0.0.7:8000"})
        assert elsewhere.status_code == 421
        metrics = await client.get(f"{base}/metrics", headers=headers)
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        values = dict(line.rsplit(" ", 1) for line in metrics.text.splitlines() if line[:1] != "#")
        assert values["skillwire_views"] == "1"
        assert int(values["skillwire_change"]) > 0
        assert int(values['skillwire_http_requests_total{method="skills/list",status="200"}']) == 1


@pytest.mark.parametrize("stateless", [False, True])
async def test_a_stateless_replica_keeps_no_sessions(store: Store, stateless: bool):
    secret = token(store, "mine", "*", Role.READ)
    headers = {"authorization": f"Bearer {secret}"}
    async with (
        running(store, stateless=stateless) as url,
        httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client,
    ):
        answer = await client.post(url, json=INITIALIZE, headers=STREAM_HEADERS)
        assert answer.status_code == 200
        assert ("mcp-session-id" in answer.headers) != stateless


async def test_tools_find_load_and_read_for_clients_without_the_extension(store: Store, publish: Publish):
    from mcp import Client

    publish("pdf", description="Fill in PDF forms.", files={"a.md": b"more"})
    secret = token(store, "mine", "*", Role.READ)
    async with (
        running(store) as url,
        httpx.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"load_skill", "read_skill_file", "search_skills"}

        async def text(tool: str, **arguments: str) -> str:
            found: Any = await client.call_tool(tool, arguments)
            return found.content[0].text

        assert "acme/pdf" in await text("search_skills", query="pdf form")
        assert "name: pdf" in await text("load_skill", name="pdf")
        assert "name: pdf" in await text("load_skill", name="acme/pdf")
        assert await text("read_skill_file", name="pdf", path="a.md") == "more"
        assert "There is no skill" in await text("load_skill", name="nothing")


async def test_a_site_index_names_archives_that_match_their_digests(store: Store, publish: Publish):
    publish("pdf", files={"a.md": b"more", "run.sh": b"#!/bin/sh\n"})
    publish("docx")
    secret = token(store, "mine", "*", Role.READ)
    headers = {"authorization": f"Bearer {secret}"}
    async with running(store) as url, httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        base = url.removesuffix("mcp") + ".well-known/agent-skills/"
        index = (await client.get(base + "index.json")).json()
        assert [skill["name"] for skill in index["skills"]] == ["docx", "pdf"]
        archives = {
            skill["name"]: (await client.get(base + skill["url"])).content for skill in index["skills"]
        }
        assert {name: digest_of(data) for name, data in archives.items()} == {
            skill["name"]: skill["digest"] for skill in index["skills"]
        }
        files = {file.path: file for file in read_archive(archives["pdf"])}
        assert files["run.sh"].executable
        assert (await client.get(base + "acme/pdf@9.9.9.tar.gz")).status_code == 404


async def test_a_version_is_pulled_as_an_oci_artifact(store: Store, publish: Publish):
    publish("pdf", "1.0.0", files={"a.md": b"more"})
    secret = token(store, "mine", "*", Role.READ)
    headers = {"authorization": f"Bearer {secret}"}
    async with running(store) as url, httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        base = url.removesuffix("mcp") + "v2/acme/pdf/"
        by_version = await client.get(base + "manifests/1.0.0")
        by_channel = await client.get(base + "manifests/stable")
        digest = by_version.headers["docker-content-digest"]
        by_digest = await client.get(base + f"manifests/{digest}")
        assert by_version.content == by_channel.content == by_digest.content
        manifest = by_version.json()
        assert manifest["artifactType"] == "application/vnd.agentskills.skill.v1"
        layer = await client.get(base + f"blobs/{manifest['layers'][0]['digest']}")
        assert digest_of(layer.content) == manifest["layers"][0]["digest"]
        assert {file.path for file in read_archive(layer.content)} == {"pdf/SKILL.md", "pdf/a.md"}
        assert (await client.get(base + "manifests/9.9.9")).status_code == 404


class Issuer:
    """A small authorization server on loopback: metadata, keys, and tokens of any kind."""

    def __init__(self) -> None:
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body: Any = None
                if self.path == "/.well-known/oauth-authorization-server":
                    body = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                elif self.path == "/keys":
                    body = {"keys": [issuer.public(name) for name in issuer.keys]}
                data = json.dumps(body).encode()
                self.send_response(404 if body is None else 200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def rotate(self, name: str) -> None:
        self.keys = {name: rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def public(self, name: str) -> dict[str, Any]:
        public = RSAAlgorithm.to_jwk(self.keys[name].public_key(), as_dict=True)
        return {**public, "kid": name, "alg": "RS256", "use": "sig"}

    def token(self, **changes: Any) -> str:
        import time

        claims = {
            "iss": self.url,
            "aud": "https://skills.example/mcp",
            "sub": "ada",
            "groups": ["readers"],
            "exp": int(time.time()) + 600,
            **changes,
        }
        name, key = next(iter(self.keys.items()))
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, key, algorithm="RS256", headers={"kid": name})


@contextmanager
def issuing() -> Iterator[Issuer]:
    issuer = Issuer()
    try:
        yield issuer
    finally:
        issuer.server.shutdown()
        issuer.server.server_close()
        issuer.thread.join()


async def test_signed_in_users_have_what_their_groups_were_granted(
    store: Store, publish: Publish, monkeypatch: pytest.MonkeyPatch
):
    import time

    monkeypatch.setattr("skillwire.access.identity._ASK_AGAIN_SECONDS", 0.0)
    # A token is checked again with every request.
    monkeypatch.setattr("skillwire.registry.app._FRESH_SECONDS", 0.0)
    publish("pdf")
    Access(store).grant("group:readers", "acme", Role.READ, by="test")
    with issuing() as issuer:
        oauth = OAuthSettings(issuer=issuer.url, audience="https://skills.example/mcp")
        forged = jwt.encode({"sub": "ada"}, "x" * 32, algorithm="HS256", headers={"kid": "first"})
        refused = {
            "expired": issuer.token(exp=int(time.time()) - 3600),
            "another audience": issuer.token(aud="https://other.example"),
            "another issuer": issuer.token(iss="https://evil.example"),
            "no subject": issuer.token(sub=None),
            "no expiry": issuer.token(exp=None),
            "a shared secret": forged,
            "another group": issuer.token(groups=["others"]),
            "groups as text": issuer.token(groups="readers"),
        }
        async with running(store, oauth=oauth) as url, httpx.AsyncClient(timeout=PATIENCE) as client:
            place = url.removesuffix("/mcp") + "/v2/"

            async def status(secret: str) -> int:
                return (await client.get(place, headers={"authorization": f"Bearer {secret}"})).status_code

            assert await status(issuer.token()) == 200
            for kind, secret in refused.items():
                assert await status(secret) == 401, kind
            async with reader(url, issuer.token()) as session:
                assert await names(session) == ["skill://acme/pdf/SKILL.md"]
            old = issuer.token()
            issuer.rotate("second")
            assert await status(issuer.token()) == 200
            assert await status(old) == 401

            answer = await client.get(place)
            challenge = answer.headers["www-authenticate"]
            path = "/.well-known/oauth-protected-resource/mcp"
            assert f'resource_metadata="https://skills.example{path}"' in challenge
            metadata = await client.get(url.removesuffix("/mcp") + path)
            assert metadata.json()["authorization_servers"] == [issuer.url]


@pytest.mark.process
async def test_three_replicas_notify_of_a_publication_and_serve_it(postgres: Postgres):
    url = postgres.new()
    store = Store(url)
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    publish("first")
    secret = token(store, "mine", "*", Role.READ)
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(listening([*SKILLWIRE, "serve", "--store", url, "--http", "127.0.0.1:0"]))
            for _ in range(3)
        ]
        async with AsyncExitStack() as clients:
            listening_to = [
                await clients.enter_async_context(subscriber(one, secret, version))
                for one in replicas
                for version in ERAS
            ]
            for client, _ in listening_to:
                assert await names(client) == ["skill://acme/first/SKILL.md"]
            publish("second")
            async with asyncio.timeout(PATIENCE):
                for client, heard in listening_to:
                    while "resources/list_changed" not in heard.words:
                        await heard.more()
                    assert len(await names(client)) == 2
    store.close()


async def test_a_registry_conforms_to_the_extension(store: Store, publish: Publish):
    from skillwire import verify

    for number in range(5):
        publish(f"skill-{number}", files={"references/a b.md": b"more", "data.bin": b"\x00\xff"})
    Access(store).grant("anyone", "*", Role.READ, by="test")
    async with running(store) as url:
        report = await verify(url)

    assert [str(finding) for finding in report.violations] == []
