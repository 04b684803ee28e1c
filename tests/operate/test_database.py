"""The database of docs/operate: replicas follow it to its standby, and work behind Debian's PgBouncer."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2 as httpx
import psycopg
import pytest

from clients import modern_request
from operate.conftest import (
    PATIENCE,
    Database,
    configured,
    free_port,
    libraries,
    program,
    replica,
    set_up,
    started,
)
from postgres import Postgres
from registry.test_app import token
from skillwire.errors import SourceError
from skillwire.registry import Role, publish_over_http, read_skill
from trees import write_skill
from waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.peer, pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def pooled(database: Database) -> Iterator[str]:
    """The store's URL through PgBouncer, as the page has it."""
    place = Path(tempfile.mkdtemp(prefix="skillwire-pgbouncer-"))
    with psycopg.connect(database.server.uri("postgres")) as admin:
        found = admin.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'skillwire'").fetchone()
    assert found
    users = place / "userlist.txt"
    users.write_text(f'"skillwire" "{found[0]}"\n')
    port = free_port()
    file = place / "pgbouncer.ini"
    file.write_text(
        configured(
            "pgbouncer.ini",
            {
                "host=127.0.0.1 port=5432": f"host={database.server.folder}",
                "6432": port,
                "/etc/pgbouncer/userlist.txt": users,
                "logfile = /var/log/postgresql": f"logfile = {place}",
                "pidfile = /var/run/postgresql": f"pidfile = {place}",
                "unix_socket_dir = /var/run/postgresql": "unix_socket_dir =",
            },
        )
    )
    # Like PostgreSQL, it refuses to run as root: whoever both run as instead owns its files.
    user = database.server.system_user
    as_user = [] if user is None else ["-u", user]
    if user is not None:
        for each in (place, file, users):
            shutil.chown(each, user)
    with subprocess.Popen([program("pgbouncer"), "-q", *as_user, str(file)], env=libraries()) as process:
        try:
            yield f"postgresql://skillwire@127.0.0.1:{port}/skills?listen=off"
        finally:
            process.terminate()
            process.wait(PATIENCE)
            shutil.rmtree(place)


def _as_owner(database: Database, *command: object) -> None:
    """Run a program of PostgreSQL as whoever its server runs as."""
    server = database.server
    name, *rest = map(str, command)
    done = subprocess.run(
        [str(server.bin_path / name), *rest],
        user=server.system_user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, command


async def test_replicas_follow_the_database_to_its_standby(own_postgres: Postgres, tmp_path: Path):
    first = Database(own_postgres, tmp_path)
    standby = Path(tempfile.mkdtemp(prefix="skillwire-pg-"))
    if first.server.system_user is not None:
        shutil.chown(standby, first.server.system_user)
    options = f'-h "" -k {standby}'
    try:
        set_up(first)
        store = first.store()
        secret = token(store, "writer", "acme", Role.PUBLISH)
        store.close()
        _as_owner(
            first,
            "pg_basebackup",
            "-h",
            first.server.folder,
            "-U",
            "postgres",
            "-D",
            standby,
            "-R",
            "-c",
            "fast",
        )
        (standby / ".s.PGSQL.5432.lock").unlink()
        log = ("-l", standby / "log")
        _as_owner(first, "pg_ctl", "-w", "-D", standby, "-o", options, *log, "start")
        hosts = f"host={first.server.folder}&host={standby}"
        unit = replica(first, f"postgresql://skillwire@/skills?{hosts}&target_session_attrs=read-write")
        with started(unit):

            def publish(name: str) -> None:
                skill = read_skill(write_skill(tmp_path / name), version="1.0.0")
                publish_over_http(skill, unit.base, namespace="acme", token=secret)

            await anyio.to_thread.run_sync(publish, "before")
            with psycopg.connect(first.server.uri("postgres")) as admin:
                while True:  # Until the standby has what was published.
                    behind = admin.execute(
                        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) FROM pg_stat_replication"
                    ).fetchone()
                    if behind is not None and behind[0] == 0:
                        break
            first.server.kill()
            _as_owner(first, "pg_ctl", "-w", "-D", standby, "promote")

            def is_published() -> bool:
                with suppress(SourceError):
                    publish("after")
                    return True
                return False

            await anyio.to_thread.run_sync(eventually, is_published)
            headers = {"authorization": f"Bearer {secret}"}
            async with httpx.AsyncClient(base_url=unit.base, headers=headers, timeout=PATIENCE) as http:
                found = (await http.post("/mcp", **modern_request("skills/list"))).json()["result"]["skills"]
            assert [skill["frontmatter"]["name"] for skill in found] == ["after", "before"]
    finally:
        with suppress(Exception):
            _as_owner(first, "pg_ctl", "-D", standby, "-m", "immediate", "stop")
        shutil.rmtree(standby, ignore_errors=True)


@pytest.mark.peer
async def test_no_request_fails_behind_a_pooler_and_changes_are_seen(
    database: Database, pooled: str, tmp_path: Path
):
    store = database.store()
    secret = token(store, "writer", "acme", Role.PUBLISH)
    store.close()
    replicas = [replica(database, pooled), replica(database, pooled)]
    headers = {"authorization": f"Bearer {secret}"}
    asked = 0

    async def ask(http: httpx.AsyncClient, method: str, **params: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        answer = await http.post("/mcp", **modern_request(method, **params))
        assert answer.status_code == 200, answer.text
        assert "result" in answer.json(), answer.text
        return answer.json()["result"]

    async def use(http: httpx.AsyncClient, number: int) -> None:
        """All that a caller does, several times: with connections that others use in between."""
        nonlocal asked
        place = write_skill(tmp_path / f"skill-{number}", {"a.md": b"%d" % number})
        skill = read_skill(place, version="1.0.0")
        made = await anyio.to_thread.run_sync(
            lambda: publish_over_http(skill, str(http.base_url), namespace="acme", token=secret)
        )
        assert made.is_new
        for each in range(5):
            uri = f"skill://acme/skill-{number}/"
            await ask(http, "skills/list")
            await ask(http, "skills/get", uri=f"{uri}SKILL.md")
            await ask(http, "resources/read", uri=f"{uri}a.md")
            await ask(http, "resources/directory/read", uri=f"skill://acme/skill-{number}")
            await ask(http, "tools/call", name="search_skills", arguments={"query": f"thing {each}"})
            asked += 1
            assert (await http.get(f"/v2/acme/skill-{number}/manifests/1.0.0")).status_code == 200

    async def until_listed(http: httpx.AsyncClient, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                if len((await ask(http, "skills/list"))["skills"]) == count:
                    return

    with started(*replicas):
        clients = [
            httpx.AsyncClient(base_url=unit.base, headers=headers, timeout=PATIENCE) for unit in replicas
        ]
        try:
            # Four at once: a busy machine has five seconds for each call to the database.
            for first in range(0, 12, 4):
                async with asyncio.TaskGroup() as group:
                    for number in range(first, first + 4):
                        group.create_task(use(clients[number % 2], number))
            assert asked > 300
            # What was published at one replica is seen by the other, which receives no notifications.
            await until_listed(clients[0], 12)
            skill = read_skill(write_skill(tmp_path / "late"), version="1.0.0")
            await anyio.to_thread.run_sync(
                lambda: publish_over_http(skill, replicas[0].base, namespace="acme", token=secret)
            )
            await until_listed(clients[1], 13)
        finally:
            for client in clients:
                await client.aclose()
    with psycopg.connect(database.server.uri("skills")) as admin:
        counted = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'skillwire%'"
        ).fetchone()
    assert counted is not None
    assert counted[0] <= 40
