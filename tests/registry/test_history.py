"""A random history of a registry under faults, and what must be true of it afterwards.

Publishers, readers and administrators work through a relay on three replicas of one PostgreSQL: replicas
are killed or stopped, the database is stopped, killed or full, and connections are dropped. Whatever was
acknowledged must hold at the end. `HISTORY_SECONDS=3600` runs for an hour, as `make history` does,
`HISTORY_SEED` repeats the choices of a run, and with `HISTORY_VISIBLE_SECONDS=2`, for a machine that does
nothing else, the test fails if a version takes longer until every replica serves it.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psycopg
import pytest
import sqlalchemy as sa

from clients import META
from postgres import Postgres
from registry.conftest import skill_md
from registry.test_app import token
from served import SKILLWIRE, Relay, Served
from skillwire.errors import SkillwireError
from skillwire.registry import LintedSkill, Publishing, Role, Store, publish_over_http
from skillwire.registry import client as registry_client
from skillwire.registry import upkeep as backups
from skillwire.registry.audit import first_broken, read_audit
from skillwire.registry.client import administrate
from skillwire.registry.schema import (
    blobs,
    deleted_versions,
    files,
    namespace_files,
    namespaces,
    skills,
    versions,
)
from skillwire.registry.source import is_before
from skillwire.skill import digest_of
from waiting import PATIENCE, eventually

SECONDS = float(os.environ.get("HISTORY_SECONDS", "120"))
SEED = int(os.environ.get("HISTORY_SEED", str(time.time_ns() % 1_000_000)))
VISIBLE_SECONDS = float(os.environ.get("HISTORY_VISIBLE_SECONDS", "inf"))
FORWARD, MOVED, TINY = "forward", "moved", "tiny"
"""Where channels only move forward, where they are moved and yanked, and a namespace with a small quota."""
NAMES = ("alpha", "beta", "gamma")
QUOTA = 6_000
STALE_SECONDS = 60.0


class Replica:
    """A replica at a fixed port, which can be killed and started again."""

    def __init__(self, store: str, port: int) -> None:
        self._store = store
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.starts = 0
        self.start()

    def start(self) -> None:
        self.starts += 1
        place = f"127.0.0.1:{self.port}"
        # Everybody has one address here: those who were revoked would be refused for another reason.
        unlimited = ("--rate", "0", "--max-failed-tokens", "0")
        self._process = subprocess.Popen(
            [SKILLWIRE, "serve", "--store", self._store, "--http", place, *unlimited],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._served = Served(self._process)

    def wait(self) -> None:
        """Return when it listens."""
        eventually(lambda: self.is_listening, patience=4 * PATIENCE)

    @property
    def is_listening(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self, seconds: float) -> None:
        """It neither answers nor closes a connection for a while."""
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)
        assert self._process.stderr is not None
        self._process.stderr.close()


@dataclass
class History:
    """What was acknowledged, and what was seen that must not be."""

    published: dict[tuple[str, str, str], dict[str, bytes]] = field(default_factory=dict)
    attempted: set[tuple[str, str, str]] = field(default_factory=set)
    yanked: set[tuple[str, str, str]] = field(default_factory=set)
    access: set[tuple[str, str]] = field(default_factory=set)
    """What was done to tokens and permissions, as the audit log names it."""
    revoked: dict[str, float] = field(default_factory=dict)
    """When the revocation of a token was acknowledged, by the token."""
    refused: int = 0
    reads: int = 0
    visible: list[float] = field(default_factory=list)
    """The seconds from the acknowledgement of a version until every replica served it, where no fault came
    between."""
    wrong: list[str] = field(default_factory=list)


def rpc(url: str, secret: str, method: str, uri: str, http: httpx.Client) -> dict[str, Any]:
    headers = {
        "authorization": f"Bearer {secret}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "mcp-name": uri,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": uri, "_meta": META}}
    answer = http.post(f"{url}/mcp", json=body, headers=headers)
    return answer.json() if answer.status_code == 200 else {"status": answer.status_code}


class Cluster:
    """Three replicas behind a relay, and everybody who uses them."""

    def __init__(self, postgres: Postgres, disk: Path | None) -> None:
        self.postgres = postgres
        self.disk = disk
        self.url = postgres.new()
        if disk is not None:
            with psycopg.connect(self.url, autocommit=True) as admin:
                admin.execute(f"CREATE TABLESPACE small LOCATION '{disk}'".encode())
                admin.execute("ALTER TABLE blobs SET TABLESPACE small")
        self.store = Store(self.url)
        publishing = Publishing(self.store)
        for namespace in (FORWARD, MOVED):
            publishing.set_namespace(namespace, by="test")
        publishing.set_namespace(TINY, quota_bytes=QUOTA, by="test")
        self.admin = token(self.store, "admin", "*", Role.ADMIN)
        self.publisher = token(self.store, "publisher", "*", Role.PUBLISH)
        self.reader = token(self.store, "reader", "*", Role.READ)
        self.replicas = [Replica(self.url, port) for port in free_ports(3)]
        for replica in self.replicas:
            replica.wait()
        self.relay = Relay([replica.port for replica in self.replicas])
        self.relay.start()
        self.relay.wait()
        self.history = History()
        self.chance = random.Random(SEED)
        self.ending = threading.Event()
        self.acknowledged: queue.Queue[tuple[str, str, dict[str, bytes], float]] = queue.Queue(1)
        self.faults = 0
        self._numbers = iter(range(1, 1_000_000))
        self._lock = threading.Lock()

    # Who uses it

    def publish(self, chance: random.Random) -> None:
        namespace = chance.choice((FORWARD, FORWARD, MOVED, TINY))
        name = chance.choice(NAMES)
        with self._lock:
            version = f"1.{next(self._numbers)}.0"
        key = namespace, name, version
        contents = {
            "SKILL.md": skill_md(name, "Does one thing.", f"Release {version} of {namespace}."),
            "LICENSE": b"the same for all",
            "own.bin": chance.randbytes(chance.randrange(10, 800)),
        }
        self.history.attempted.add(key)
        try:
            publish_over_http(
                LintedSkill(name, version, contents),
                self.relay.url,
                namespace=namespace,
                token=self.publisher,
            )
        except SkillwireError:
            self.history.refused += 1
            return
        self.history.published[key] = contents
        if namespace == FORWARD:
            with suppress(queue.Full):
                self.acknowledged.put_nowait((name, version, contents, time.monotonic()))
        if chance.random() < 0.2:
            other = LintedSkill(name, version, {**contents, "own.bin": b"other"})
            with suppress(SkillwireError):
                publish_over_http(other, self.relay.url, namespace=namespace, token=self.publisher)
                self.history.wrong.append(f"{key} was published twice with different files")

    def administrate(self, chance: random.Random) -> None:
        mine = [key for key in list(self.history.published) if key[0] == MOVED]
        act = chance.choice(("yank", "promote", "prune", "revoke", "reduce"))
        ask = self._ask
        with suppress(SkillwireError):
            if act in ("yank", "promote") and mine:
                key = chance.choice(mine)
                ask(act, {"namespace": key[0], "name": key[1], "version": key[2]})
                if act == "yank":
                    self.history.yanked.add(key)
            elif act == "prune":
                ask("prune", {"keep": 5})
            elif act in ("revoke", "reduce"):
                name = f"guest-{next(self._numbers)}"
                secret = ask("tokens-add", {"name": name, "role": "read"})["token"]
                self.history.access.add(("token-add", name))
                with httpx.Client(timeout=10, verify=False) as http, suppress(httpx.HTTPError):
                    rpc(self.relay.url, secret, "skills/get", f"skill://{FORWARD}/alpha/SKILL.md", http)
                if act == "revoke":
                    ask("tokens-revoke", {"name": name})
                    self.history.access.add(("token-revoke", name))
                else:
                    ask("grant", {"subject": f"token:{name}", "role": "none"})
                    self.history.access.add(("grant", f"token:{name}"))
                self.history.revoked[secret] = time.monotonic()

    def _ask(self, command: str, arguments: dict[str, object]) -> dict[str, Any]:
        return administrate(self.relay.url, command, arguments, token=self.admin)

    def read(self, chance: random.Random) -> None:
        """One reader at one replica: a listed version has all its files, and none before it comes again."""
        replica = chance.choice(self.replicas)
        starts, name, last = replica.starts, chance.choice(NAMES), ""
        uri = f"skill://{FORWARD}/{name}/SKILL.md"
        with httpx.Client(timeout=10, verify=False) as http:
            for _ in range(20):
                entry = rpc(replica.url, self.reader, "skills/get", uri, http).get("result", {}).get("skill")
                if entry is None or replica.starts != starts:
                    return
                version = entry["_meta"]["dev.skillwire/version"]
                if last and is_before(version, last):
                    self.history.wrong.append(f"{uri} went from {last} back to {version} at {replica.port}")
                last = version
                self._read_files(f"skill://{FORWARD}/@{version}/{name}", entry, replica, http)

    def _read_files(self, root: str, entry: Any, replica: Replica, http: httpx.Client) -> None:
        for file in entry["resources"]:
            path = file["uri"].rpartition("/")[2]
            answer = rpc(replica.url, self.reader, "resources/read", f"{root}/{path}", http)
            self.history.reads += "result" in answer
            if "result" in answer and digest_of(_data(answer)) != file["digest"]:
                self.history.wrong.append(f"{root}/{path} has other bytes than its entry says")
            if answer.get("error", {}).get("code") == -32602 and not self._is_deleted(root):
                self.history.wrong.append(f"{root}/{path} is listed and cannot be read")

    def _is_deleted(self, root: str) -> bool:
        version = root.partition("@")[2].partition("/")[0]
        with self.store.reading() as connection:
            found = connection.execute(
                sa.select(deleted_versions.c.version).where(deleted_versions.c.version == version)
            )
            return found.first() is not None

    def watch_revoked(self, chance: random.Random) -> None:
        """Whoever was revoked longer ago than answers may be stale is not served, whatever happens."""
        now = time.monotonic()
        old = [one for one, at in list(self.history.revoked.items()) if now - at > STALE_SECONDS + 5]
        replica = chance.choice(self.replicas)
        with httpx.Client(timeout=10, verify=False) as http:
            for secret in old[-5:]:
                uri = f"skill://{FORWARD}/alpha/SKILL.md"
                if "result" in rpc(replica.url, secret, "skills/get", uri, http):
                    self.history.wrong.append("a token was served long after it was revoked")
        self.ending.wait(0.5)

    def watch_visible(self, chance: random.Random) -> None:
        """What was acknowledged is served by every replica as soon as it has seen that change."""
        try:
            name, version, contents, since = self.acknowledged.get(timeout=0.5)
        except queue.Empty:
            return
        faults = self.faults
        with self.store.reading() as connection:
            last = connection.execute(sa.text("SELECT max(number) FROM changes")).scalar() or 0
        is_well = time.monotonic() - since < 0.5  # Otherwise it waited here, not at a replica.
        with httpx.Client(timeout=10, verify=False) as http:
            for replica in self.replicas:
                while (health := self.health(replica, http)).get("change", -1) < last:
                    is_well = is_well and health.get("status") == "ok"
                    if self.ending.wait(0.01):
                        return
                entry = rpc(
                    replica.url, self.reader, "skills/get", f"skill://{FORWARD}/{name}/SKILL.md", http
                )
                if "result" not in entry:
                    return  # Something is away, and it said so.
                listed = entry["result"]["skill"]["_meta"]["dev.skillwire/version"]
                if is_before(listed, version):
                    self.history.wrong.append(f"{name}@{version} is not served at {replica.port}: {listed}")
                uri = f"skill://{FORWARD}/@{version}/{name}/own.bin"
                answer = rpc(replica.url, self.reader, "resources/read", uri, http)
                if "result" in answer and _data(answer) != contents["own.bin"]:
                    self.history.wrong.append(f"{uri} has other bytes than were published")
                if answer.get("error", {}).get("code") == -32602 and not self._is_deleted(
                    f"@{version}/{name}"
                ):
                    self.history.wrong.append(f"{uri} cannot be read at {replica.port}")
        if is_well and faults == self.faults:
            self.history.visible.append(time.monotonic() - since)

    def health(self, replica: Replica, http: httpx.Client) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.admin}"}
        return http.get(f"{replica.url}/readyz?detail", headers=headers).json()

    def run(self, act: Callable[[random.Random], None], number: int) -> None:
        chance = random.Random(SEED + number)
        while not self.ending.is_set():
            try:
                act(chance)
            except (httpx.HTTPError, SkillwireError, ValueError):
                self.ending.wait(0.05)  # A replica is away.

    # What goes wrong

    def fault(self) -> str:
        self.faults += 1
        kind = self.chance.choice(("kill", "kill", "freeze", "stop", "drop", "terminate", "crash", "full"))
        if kind == "kill" and not all(replica.is_listening for replica in self.replicas):
            kind = "drop"  # One at a time, as in a rolling restart: otherwise nothing would be served at all.
        if kind == "kill":
            replica = self.chance.choice(self.replicas)
            replica.kill()
            replica.start()  # It is away until it listens; nobody waits for it.
        elif kind == "freeze":
            self.chance.choice(self.replicas).stop(self.chance.uniform(0.5, 2))
        elif kind == "stop":
            with self.postgres.stopped():
                time.sleep(self.chance.uniform(0.5, 2))
        elif kind == "drop":
            self.relay.drop()
        elif kind == "terminate":
            with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        elif kind == "crash":
            self.postgres.kill()
            self.postgres.start()
        elif self.disk is not None:
            ballast = self.disk / "ballast"
            with suppress(OSError), ballast.open("wb", buffering=0) as stream:
                while stream.write(bytes(1 << 16)):
                    pass
            time.sleep(0.5)
            ballast.unlink()
        return kind

    def close(self) -> None:
        self.ending.set()
        self.relay.stop()
        for replica in self.replicas:
            replica.kill()
        self.store.close()


def _data(answer: Any) -> bytes:
    import base64

    [content] = answer["result"]["contents"]
    return content["text"].encode() if "text" in content else base64.b64decode(content["blob"])


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture
def disk() -> Iterator[Path | None]:
    """A file system of sixteen megabytes that PostgreSQL can write to, where one can be mounted."""
    # Not below pytest's folder, which is private to its user.
    place = Path(tempfile.mkdtemp(prefix="skillwire-disk-"))
    place.chmod(0o755)
    options = "size=16m,mode=0777"
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False
    )
    subprocess.run(["chown", "pgserver", str(place)], check=False, capture_output=True)
    yield None if made.returncode else place
    subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)
    place.rmdir()


@contextmanager
def cluster_of(postgres: Postgres, disk: Path | None) -> Iterator[Cluster]:
    cluster = Cluster(postgres, disk)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.mark.peer
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.peer
def test_what_was_acknowledged_holds_after_everything_went_wrong(
    own_postgres: Postgres, disk: Path | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry_client, "_BUSY_ATTEMPTS", 2)
    with cluster_of(own_postgres, disk) as cluster:
        acts = (
            *(cluster.publish,) * 3,
            *(cluster.read,) * 2,
            cluster.administrate,
            cluster.watch_revoked,
            cluster.watch_visible,
        )
        threads = [
            threading.Thread(target=cluster.run, args=(act, number), daemon=True)
            for number, act in enumerate(acts)
        ]
        for thread in threads:
            thread.start()
        faults: list[str] = []
        until = time.monotonic() + SECONDS
        # At least some work and some faults, however slow the machine is.
        while time.monotonic() < until or len(faults) < 4 or len(cluster.history.published) < 10:
            # Between two faults, something is done: also on a slow machine, but not for ever.
            enough = len(cluster.history.published) + cluster.chance.randrange(5)
            patience = time.monotonic() + PATIENCE / 2
            while len(cluster.history.published) < enough and time.monotonic() < patience:
                time.sleep(0.05)
            faults.append(cluster.fault())
        cluster.ending.set()
        for thread in threads:
            thread.join(PATIENCE * 2)
            assert not thread.is_alive()
        visible = cluster.history.visible
        print(
            f"seed {SEED}: {len(cluster.history.published)} published, {cluster.history.refused} refused, "
            f"{len(cluster.history.yanked)} yanked, {len(cluster.history.revoked)} revoked, "
            f"{cluster.history.reads} files read, {len(visible)} versions served everywhere after "
            f"{statistics.median(visible or [0]):.3f} s (median), {max(visible, default=0):.3f} s (worst), "
            f"{len(faults)} faults: {json.dumps(Counter(faults))}"
        )
        assert cluster.history.wrong == [], SEED
        assert max(visible, default=0) <= VISIBLE_SECONDS, SEED
        check(cluster)


def check(cluster: Cluster) -> None:
    """What must be true of a history when all is well again."""
    history, store = cluster.history, cluster.store
    wait_until_ready(cluster)
    # Whatever is stored is whole, and nobody changed the log.
    assert list(backups.damage(store)) == []
    assert first_broken(store) is None
    with store.snapshot() as connection:
        there = {
            (row.namespace, row.name, row.version): row.yanked
            for row in connection.execute(
                sa.select(skills.c.namespace, skills.c.name, versions.c.version, versions.c.yanked).join(
                    versions, versions.c.skill_id == skills.c.id
                )
            )
        }
        deleted = {
            (row.namespace, row.name, row.version)
            for row in connection.execute(
                sa.select(skills.c.namespace, skills.c.name, deleted_versions.c.version).join(
                    deleted_versions, deleted_versions.c.skill_id == skills.c.id
                )
            )
        }
        check_totals(connection)
    assert set(history.published) <= there.keys() | deleted, SEED
    assert there.keys() <= history.attempted, SEED
    assert all(there[key] is not None for key in history.yanked), SEED
    # The log has a line for each.
    audit = list(read_audit(store))
    lines = {(line.action, line.what) for line in audit}
    assert history.access <= lines, SEED
    pruned = [json.loads(line.details).get("versions", 0) for line in audit if line.action == "prune"]
    assert sum(pruned) == len(deleted), SEED
    assert {("publish", f"{a}/{b}@{c}") for a, b, c in history.published} <= lines, SEED
    assert {("yank", f"{a}/{b}@{c}") for a, b, c in history.yanked} <= lines, SEED
    newest: dict[str, str] = {}
    for namespace, name, version in history.published:
        if namespace == FORWARD and (name not in newest or is_before(newest[name], version)):
            newest[name] = version
    with httpx.Client(timeout=PATIENCE, verify=False) as http:
        for replica in cluster.replicas:
            for (namespace, name, version), contents in history.published.items():
                if (namespace, name, version) in there:
                    for path, data in contents.items():
                        uri = f"skill://{namespace}/@{version}/{name}/{path}"
                        assert _data(rpc(replica.url, cluster.reader, "resources/read", uri, http)) == data
            for name, version in newest.items():
                uri = f"skill://{FORWARD}/{name}/SKILL.md"
                entry = rpc(replica.url, cluster.reader, "skills/get", uri, http)["result"]["skill"]
                assert not is_before(entry["_meta"]["dev.skillwire/version"], version), SEED
            for secret, at in history.revoked.items():
                uri = f"skill://{FORWARD}/alpha/SKILL.md"
                # While the database is slow to answer, who is known may be served for a while.
                while rpc(replica.url, secret, "skills/get", uri, http).get("status") != 401:
                    assert time.monotonic() - at < STALE_SECONDS + 5, SEED
                    time.sleep(0.1)


def check_totals(connection: sa.Connection) -> None:
    """The running totals are those of the files that are there, and within the quota."""
    counted = (
        sa.select(
            skills.c.namespace,
            files.c.digest,
            sa.func.count(sa.distinct(files.c.version_id)).label("versions"),
        )
        .join(versions, versions.c.id == files.c.version_id)
        .join(skills, skills.c.id == versions.c.skill_id)
        .group_by(skills.c.namespace, files.c.digest)
    )
    stored = sa.select(namespace_files.c.namespace, namespace_files.c.digest, namespace_files.c.versions)
    assert {tuple(row) for row in connection.execute(counted)} == {
        tuple(row) for row in connection.execute(stored)
    }, SEED
    summed = (
        sa.select(namespace_files.c.namespace, sa.func.sum(blobs.c.size).label("size"))
        .join(blobs, blobs.c.digest == namespace_files.c.digest)
        .group_by(namespace_files.c.namespace)
    )
    sizes = {row.namespace: int(row.size) for row in connection.execute(summed)}
    for row in connection.execute(sa.select(namespaces)):
        assert row.published_bytes == sizes.get(row.name, 0), SEED
        assert row.quota_bytes is None or row.published_bytes <= row.quota_bytes, SEED


def wait_until_ready(cluster: Cluster) -> None:
    """Every replica has seen the last change."""
    deadline = time.monotonic() + PATIENCE * 4
    with httpx.Client(timeout=PATIENCE, verify=False) as http:
        for replica in cluster.replicas:
            while True:
                with suppress(httpx.HTTPError, ValueError, SkillwireError, KeyError):
                    health = cluster.health(replica, http)
                    with cluster.store.reading() as connection:
                        last = connection.execute(sa.text("SELECT max(number) FROM changes")).scalar()
                    if health["status"] == "ok" and health["change"] >= (last or 0):
                        break
                assert time.monotonic() < deadline, SEED
                time.sleep(0.1)
