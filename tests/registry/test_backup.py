"""Backup, restore and check, on both databases: whole, beside publications, and after interruptions."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from registry.conftest import Publish, both_databases, publish_to
from registry.test_store import catalog, listed, read
from skillwire.catalog import parse_query
from skillwire.errors import FormatError, SourceError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.registry import Publishing, Store
from skillwire.registry import upkeep as backups
from skillwire.registry.audit import first_broken, read_audit
from skillwire.registry.schema import blobs
from skillwire.skill import digest_of


@both_databases
@pytest.mark.process
def test_a_backup_restores_everything_into_the_other_database(
    store: Store, publish: Publish, tmp_path: Path, postgres: Any
):
    publish("pdf", "1.0.0", files={"a.bin": bytes(range(256))})
    publish("pdf", "1.1.0", files={"a.bin": b"new"})
    publish("rotate-keys", description="Rotate Kubernetes secrets safely.")
    file = tmp_path / "all.backup"
    backups.backup(store, file)
    other = Store(f"sqlite:///{tmp_path / 'other.db'}" if store.is_postgresql else postgres.empty())
    assert other.is_postgresql != store.is_postgresql
    other.create()

    backups.restore(other, file)

    assert listed(other) == listed(store)
    assert read(other, "skill://acme/@1.0.0/pdf/a.bin") == bytes(range(256))
    assert first_broken(other) is None
    assert list(backups.damage(other)) == []
    found = catalog(other).search(parse_query("kubernets", limits=DEFAULT_LIMITS), 5)
    assert [entry.name for entry in found] == ["rotate-keys"]
    assert publish_to(other)("pdf", "1.2.0").is_new
    with pytest.raises(SourceError, match="not empty"):
        backups.restore(other, file)
    other.close()


def test_a_backup_that_is_cut_off_restores_nothing(store: Store, publish: Publish, tmp_path: Path):
    publish("pdf")
    file = tmp_path / "all.backup"
    backups.backup(store, file)
    cut = tmp_path / "cut.backup"
    cut.write_bytes(file.read_bytes()[:-40])
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    other.create()

    with pytest.raises(FormatError, match="backup is not used"):
        backups.restore(other, cut)

    assert listed(other) == []


def test_damage_is_found_by_digest(store: Store, publish: Publish):
    publish("pdf", files={"a.md": b"right"})
    with store.writing() as connection:
        connection.execute(blobs.update().where(blobs.c.digest == digest_of(b"right")).values(data=b"wrong"))

    assert [digest_of(b"right") in line for line in backups.damage(store)] == [True]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "_BATCH", 2)


class Interrupted(Exception):
    """Where a person presses Ctrl-C, or the machine ends."""


def numbered(publish: Publish, first: int, last: int) -> None:
    for number in range(first, last):
        publish(f"skill-{number}", files={"a.md": f"file {number}".encode(), "LICENSE": b"shared"})


def restored(file: Path, place: Path) -> Store:
    store = Store(f"sqlite:///{place}")
    store.create()
    backups.restore(store, file)
    return store


def file_rows(file: Path) -> list[str]:
    """The digests of the files in a backup, in the order in which they were written."""
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    return [row["digest"] for row in rows if row.get("table") == "blobs"]


@both_databases
@pytest.mark.usefixtures("small_batches")
def test_publications_go_on_beside_a_backup_which_has_all_that_were_made_before_its_snapshot(
    store: Store, publish: Publish, tmp_path: Path
):
    numbered(publish, 0, 5)
    file = tmp_path / "all.backup"
    beside: list[str] = []
    steps = 0

    def publish_more(_rows: int) -> None:
        nonlocal steps
        steps += 1
        if steps % 8 != 1:
            return
        name = f"beside-{len(beside)}"
        assert publish(name, files={"a.md": name.encode()}).is_new
        beside.append(name)

    written = backups.backup(store, file, progress=publish_more)

    copy = restored(file, tmp_path / "copy.db")
    assert list(backups.damage(copy)) == []
    assert first_broken(copy) is None
    names = {entry.name for entry in catalog(copy).page(None, 1000)}
    assert {f"skill-{number}" for number in range(5)} <= names
    # Some were published while files were read, and are in the snapshot; the last ones are not.
    assert beside[0] in names
    assert beside[-1] not in names
    for name in names & set(beside):
        assert read(copy, f"skill://acme/{name}/a.md") == name.encode()
    assert len(file_rows(file)) == len(set(file_rows(file))) < written
    copy.close()


@both_databases
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("stop_after", [1, 3, 20])
def test_an_interrupted_backup_continues_with_the_files_that_it_has(
    store: Store, publish: Publish, tmp_path: Path, stop_after: int
):
    numbered(publish, 0, 8)
    file = tmp_path / "all.backup"
    steps = 0

    def stop(_rows: int) -> None:
        nonlocal steps
        steps += 1
        if steps == stop_after:
            raise Interrupted

    with pytest.raises(Interrupted):
        backups.backup(store, file, progress=stop)
    assert not file.exists()
    part = backups.part_of(file)
    # As if the machine had ended in the middle of the next batch.
    part.write_bytes(part.read_bytes() + gzip.compress(b"not whole")[:-3])
    publish("pdf", files={"a.md": b"since"})
    Publishing(store).prune(keep=1, by="test")
    counts: list[int] = []
    rows = backups.backup(store, file, progress=counts.append)

    assert not part.exists()
    assert counts == sorted(counts)
    assert counts[-1] == rows
    assert counts[0] > min(2 * stop_after, 16)  # It did not begin again.
    copy = restored(file, tmp_path / "copy.db")
    assert listed(copy) == listed(store)
    assert read(copy, "skill://acme/pdf/a.md") == b"since"
    assert list(backups.damage(copy)) == []
    assert [line.hash for line in read_audit(copy)] == [line.hash for line in read_audit(store)]
    copy.close()


def test_a_part_of_another_backup_is_not_continued(store: Store, publish: Publish, tmp_path: Path):
    publish("pdf")
    file = tmp_path / "all.backup"
    other = {"format": "skillwire-registry-backup-1", "store": "sqlite:///another.db"}
    backups.part_of(file).write_bytes(gzip.compress(json.dumps(other).encode() + b"\n"))
    with pytest.raises(SourceError, match="delete it"):
        backups.backup(store, file)


def test_a_backup_is_written_by_one_process_at_a_time(store: Store, publish: Publish, tmp_path: Path):
    publish("pdf")
    file = tmp_path / "all.backup"

    def again(_rows: int) -> None:
        with pytest.raises(SourceError, match="another backup writes"):
            backups.backup(store, file)

    assert backups.backup(store, file, progress=again)


@pytest.mark.process
def test_a_backup_on_a_full_disk_is_one_line_and_continues_elsewhere(
    store: Store, publish: Publish, tmp_path: Path, small_disk: Path
):
    for number in range(8):
        publish(f"skill-{number}", files={"a.bin": random.Random(number).randbytes(300_000)})
    (small_disk / "filler").write_bytes(b"x" * 2_500_000)
    with pytest.raises(SourceError, match="cannot be written: No space left"):
        backups.backup(store, small_disk / "all.backup")
    (small_disk / "filler").unlink()
    assert backups.backup(store, small_disk / "all.backup")
    copy = restored(small_disk / "all.backup", tmp_path / "copy.db")
    assert listed(copy) == listed(store)
    copy.close()


@both_databases
@pytest.mark.usefixtures("small_batches")
def test_a_check_finds_damage_beside_publications_and_continues_where_it_was(store: Store, publish: Publish):
    numbered(publish, 0, 6)
    bad = [digest_of(f"file {number}".encode()) for number in (1, 4)]
    with store.writing() as connection:
        connection.execute(blobs.update().where(blobs.c.digest.in_(bad)).values(data=b"wrong"))
    expected = {f"the file {digest} is damaged: restore it from a backup" for digest in bad}
    found: list[str] = []
    found_before: dict[str, list[str]] = {}
    counts: list[int] = []

    def note(count: int, position: str) -> None:
        counts.append(count)
        found_before[position] = found.copy()
        if len(counts) < 8:
            assert publish(f"beside-{len(counts)}").is_new

    for line in backups.damage(store, progress=note):
        found.append(line)
    assert set(found) == expected
    assert counts == sorted(set(counts))
    assert {position.partition(":")[0] for position in found_before} == {"sha256", "version"}
    for position, before in found_before.items():
        assert [*before, *backups.damage(store, after=position)] == found


@pytest.mark.process
def test_a_database_that_stops_ends_a_backup_and_the_next_call_continues(
    own_postgres: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backups, "_BATCH", 2)
    monkeypatch.setattr(backups, "_BATCH_SECONDS", 0.5)
    store = Store(own_postgres.new())
    Publishing(store).set_namespace("acme", by="test")
    numbered(publish_to(store), 0, 5)
    file = tmp_path / "all.backup"

    def stop(_rows: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        backups.backup(store, file, progress=stop)
    with own_postgres.stopped(), pytest.raises(SourceError):
        backups.backup(store, file)
    store.close()
    again = Store(own_postgres.uri(store.url.database))
    assert backups.backup(again, file)
    copy = restored(file, tmp_path / "copy.db")
    assert listed(copy) == listed(again)
    copy.close()
    again.close()
