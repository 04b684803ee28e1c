"""The audit log of gateways in a shared store: nothing is lost, whatever the database does."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clients import modern_request
from postgres import Postgres
from registry.conftest import both_databases, publish_to
from served import SKILLWIRE, Served, environment, wait_until_ready
from skillwire.errors import SourceError
from skillwire.registry import AuditLine, Publishing, Store, StoreAudit, audit
from skillwire.registry.audit import first_broken, last_numbers, read_gateways
from trees import write_skill
from waiting import PATIENCE, eventually


class Reader(threading.Thread):
    """Reads one file over one connection, again and again. `answers` counts those that had the file."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(daemon=True)
        place = urlsplit(url)
        uri = f"skill://shop/{name}/SKILL.md"
        request = modern_request("resources/read", uri=uri)["json"]
        body = json.dumps(request, separators=(",", ":"))
        self._request = (
            f"POST /mcp HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: resources/read\r\nMcp-Name: {uri}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
        self._socket = socket.create_connection((place.hostname or "", place.port or 0), PATIENCE)
        self.answers = 0
        self.ending = threading.Event()

    def run(self) -> None:
        with self._socket:
            self._read()

    def _read(self) -> None:
        while not self.ending.is_set():
            self._socket.sendall(self._request)
            head, _, data = self._receive().partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            while len(data) < length:
                data += self._receive()
            self.answers += b'"contents":' in data

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError
        return data


class Machine:
    """A folder of skills, and a home for gateways that serve it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for number in range(4):
            write_skill(folder / "shop" / f"skill-{number}")
        names = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
        self.env = environment({name: str(folder / name.lower()) for name in names})

    @contextmanager
    def gateway(self, store: str) -> Iterator[tuple[str, Served]]:
        """The URL of a gateway, which the block may end."""
        words = ("--no-config", "--dir", "shop", "--http", "127.0.0.1:0", "--rate", "0", "--store", store)
        with subprocess.Popen(
            [SKILLWIRE, "gateway", *words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                served = Served(process)
                url = served.wait_until_it_says(r"Gateway to .* at (http://\S+)")[1]
                wait_until_ready(url)
                yield url, served
            finally:
                process.kill()

    def waiting(self) -> list[Path]:
        """The files with lines that are not in the database."""
        return [path for path in self.folder.rglob("*.jsonl") if path.stat().st_size]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def loads(store: Store) -> list[AuditLine]:
    return [line for line in read_gateways(store) if line.action == "load"]


def ended(served: Served) -> int:
    served.process.send_signal(signal.SIGTERM)
    return served.process.wait(PATIENCE)


def read_until(answers: int, urls: list[str]) -> list[Reader]:
    """Readers that go on, as soon as each had so many answers."""
    readers = [Reader(url, f"skill-{number % 4}") for number, url in enumerate(urls * 4)]
    for reader in readers:
        reader.start()
    read_on(readers, answers)
    return readers


def read_on(readers: list[Reader], answers: int) -> None:
    """Return when each had so many more answers."""
    enough = [reader.answers + answers for reader in readers]

    def had_enough() -> bool:
        assert all(reader.is_alive() for reader in readers)
        return all(reader.answers >= most for reader, most in zip(readers, enough, strict=True))

    eventually(had_enough)


def stop(readers: list[Reader]) -> int:
    for reader in readers:
        reader.ending.set()
    for reader in readers:
        reader.join(PATIENCE)
        assert not reader.is_alive()
    return sum(reader.answers for reader in readers)


@pytest.mark.process
@pytest.mark.slow
def test_every_read_of_two_gateways_is_in_the_store_also_when_it_did_not_answer_for_a_while(
    own_postgres: Postgres, machine: Machine
):
    url = own_postgres.new()
    store = Store(url, call_seconds=PATIENCE)
    Publishing(store).set_namespace("acme", by="test")
    publish = publish_to(store)
    with machine.gateway(url) as (first, one), machine.gateway(url) as (second, other):
        readers = read_until(20, [first, second])
        # Whoever publishes beside it waits for nobody's lines.
        for number in range(10):
            assert publish(f"skill-{number}").is_new
        with own_postgres.stopped():
            read_on(readers, 20)
        answers = stop(readers)
        assert (ended(one), ended(other)) == (0, 0), (one.said, other.said)

    lines = loads(store)
    assert len(lines) == answers > 100
    assert {line.what for line in lines} == {f"skill://shop/skill-{number}/SKILL.md" for number in range(4)}
    assert len(last_numbers(store)) == 3
    assert first_broken(store) is None
    assert machine.waiting() == []
    store.close()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_gateway_could_not_send_is_sent_by_the_next_one(
    how: signal.Signals, own_postgres: Postgres, machine: Machine
):
    url = own_postgres.new()
    store = Store(url)
    with machine.gateway(url) as (place, served):
        readers = read_until(50, [place])
        with own_postgres.stopped():
            read_on(readers, 5)
            answers = stop(readers)
            eventually(machine.waiting)
            served.process.send_signal(how)
            code = served.process.wait(PATIENCE)
    if how == signal.SIGTERM:
        assert code == 4
        assert "lines of the audit log are not in the database yet" in " ".join(served.said)
    assert machine.waiting()

    with machine.gateway(url) as (_, served):
        served.wait_until_it_says("are in the database now")
        assert ended(served) == 0
    if how == signal.SIGTERM:
        assert len(loads(store)) == answers
    assert len(last_numbers(store)) == 1
    assert first_broken(store) is None
    assert machine.waiting() == []
    store.close()


@both_databases
def test_gateways_write_chains_of_their_own_into_one_log(store: Store, tmp_path: Path):
    logs = [StoreAudit(store, tmp_path / "spool", drain_seconds=PATIENCE) for _ in range(2)]
    for number in range(50):
        logs[number % 2].write("load", caller="ada", skill=f"skill://a/{number}/SKILL.md", digest="sha256:0")
    for log in logs:
        log.close()
        assert (log.problem, log.lost, log.waiting) == ("", 0, 0)

    lines = loads(store)
    assert {line.what for line in lines} == {f"skill://a/{number}/SKILL.md" for number in range(50)}
    assert {line.who for line in lines} == {"caller:ada"}
    assert json.loads(lines[0].details) == {"client": "stdio", "digest": "sha256:0"}
    assert {writer: last for writer, last in last_numbers(store).items() if writer != "registry"} == {
        log.writer: 25 for log in logs
    }
    assert first_broken(store) is None
    assert not list((tmp_path / "spool").rglob("*.jsonl"))


def test_a_gateway_that_starts_beside_another_keeps_its_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lock = audit.try_lock

    def start_another_first(descriptor: int) -> bool:
        monkeypatch.setattr(audit, "try_lock", lock)
        # Before it is locked, the file looks like one whose gateway has ended.
        other = StoreAudit(store, tmp_path / "spool", drain_seconds=PATIENCE)
        other.write("load", caller="ada", skill="skill://a/1/SKILL.md")
        other.close()
        return lock(descriptor)

    monkeypatch.setattr(audit, "try_lock", start_another_first)
    log = StoreAudit(store, tmp_path / "spool", drain_seconds=PATIENCE)
    [file] = (tmp_path / "spool").rglob("*.jsonl")
    assert file.stem == log.writer.replace(":", "_")
    log.write("load", caller="ada", skill="skill://a/2/SKILL.md")
    log.close()
    assert [line.what for line in loads(store)] == ["skill://a/1/SKILL.md", "skill://a/2/SKILL.md"]


@pytest.mark.process
def test_lines_that_cannot_be_written_anywhere_are_counted_and_reported(
    small_disk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
    store.create()
    log = StoreAudit(store, small_disk / "spool")
    with suppress(OSError), (small_disk / "ballast").open("wb", buffering=0) as ballast:
        while ballast.write(bytes(4096)):
            pass
    for number in range(3):
        log.write("load", caller="ada", skill=f"skill://a/{number}/SKILL.md")
    eventually(lambda: log.problem)
    assert "No space left" in log.problem
    log.close()
    assert log.lost == 3
    assert "3 lines of the audit log were lost" in log.problem
    assert "cannot be written" in caplog.text

    with pytest.raises(SourceError, match="the audit log needs the folder"):
        StoreAudit(store, tmp_path / "registry.db")
    store.close()
