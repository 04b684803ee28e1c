"""The store of approvals: shared by processes, private, never blocking, and refusing when it is damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from consent_contract import ConsentContract, ConsentFaults, MakeBackend, Place, fetched, got, put, writer
from sample_entries import DEMO, checked
from simulator import Simulator, agree, opened
from skillwire.consent import ConsentStore, Key, Record, SqliteConsent
from skillwire.errors import ApprovalRequired, SkillwireError, SourceError
from skillwire.trust import Grants, approve, shown_digest

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "approvals.sqlite"


class TestSqliteConsent(ConsentContract):
    @pytest.fixture
    def make(self, path: Path) -> MakeBackend:
        return lambda: SqliteConsent(path)


@contextmanager
def locked(path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield
        database.execute("ROLLBACK")


class TestSqliteFaults(ConsentFaults):
    @pytest.fixture
    def place(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
        return Place(
            name=str(path),
            make=lambda: SqliteConsent(path),
            hurry=lambda _: monkeypatch.setattr("skillwire.consent.sqlite.BUSY_SECONDS", 0.3),
            locked=lambda: locked(path),
            busy="another process is writing to the file; try again",
        )

    @pytest.fixture
    def full_make(self, small_disk: Path) -> MakeBackend:
        (small_disk / "other").write_bytes(bytes(3_500_000))
        return lambda: SqliteConsent(small_disk / "approvals.sqlite")

    async def test_nothing_is_set_aside_when_threads_and_processes_write_at_once(self, place: Place) -> None:
        def write(name: str) -> None:
            # A store of its own for each approval, as when many hosts of one process come and go.
            for number in range(20):
                entry = checked(f"skill://{name}-{number}/SKILL.md")
                anyio.run(put, ConsentStore(Path(place.name)), approve(entry, DEMO), entry)

        threads = [threading.Thread(target=write, args=(f"thread{number}",)) for number in range(3)]
        with writer(place, "process", 20) as other:
            for thread in threads:
                thread.start()
            _, errors = other.communicate(b"go\n", timeout=120)
            assert other.returncode == 0, errors
            for thread in threads:
                await anyio.to_thread.run_sync(thread.join)
        assert len((await reopened(Path(place.name))).approved()) == 3 * 20 + 21
        assert list(Path(place.name).parent.glob("*damaged*")) == []


async def reopened(path: Path) -> ConsentStore:
    store = ConsentStore(path)
    await store.open()
    return store


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
async def test_opening_a_store_keeps_the_locks_that_this_process_holds(path: Path) -> None:
    await put(ConsentStore(path), approve(checked(), DEMO), checked())
    with closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        await reopened(path)  # Closing the file outside SQLite would drop the lock here.
        script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        taken = await anyio.run_process([sys.executable, "-c", script, str(path)], check=False)
        held.execute("ROLLBACK")
    assert b"database is locked" in taken.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_the_file_and_what_sqlite_puts_beside_it_are_the_users_alone(path: Path) -> None:
    store, entry = ConsentStore(path), checked()
    await put(store, approve(entry, DEMO), entry)
    with closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        held.execute("DELETE FROM consent")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        held.execute("ROLLBACK")
    assert len(modes) > 1
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_reading_creates_nothing(path: Path) -> None:
    store = await reopened(path)
    assert await fetched(store, DEMO, checked().uri) is None
    assert not await store.revoke(store.key(DEMO, checked().uri))
    assert await store.remove_server(DEMO) == 0
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "content", [b"no database at all, but more than a few bytes of it", b"SQLite format 3\0" * 90]
)
async def test_a_damaged_file_is_set_aside_and_nothing_is_approved(path: Path, content: bytes) -> None:
    entry = checked()
    await put(ConsentStore(path), approve(entry, DEMO), entry)
    for number in (1, 2):
        await anyio.Path(path).write_bytes(content)
        store = await reopened(path)
        assert got(store, DEMO, entry.uri) is None
        assert "set aside" in store.remark
        assert len(list(path.parent.glob("*.damaged*"))) == number
        await put(store, approve(entry, DEMO), entry)


async def test_a_file_that_is_damaged_while_it_is_open_approves_nothing(path: Path) -> None:
    store, entry = ConsentStore(path), checked()
    await put(store, approve(entry, DEMO), entry)
    await anyio.Path(path).write_bytes(b"garbage in the middle of a session" * 10)
    assert await fetched(store, DEMO, entry.uri) is None
    assert "set aside" in store.remark


def damages(good: bytes) -> Generator[bytes]:
    """The file, damaged in a different way each time and in the same ways in every run."""
    chance = random.Random(20261116)
    for number in range(160):
        damaged = bytearray(good)
        match number % 4:
            case 0:  # The header decides what SQLite takes the file for.
                damaged[chance.randrange(100)] = chance.randrange(256)
            case 1:
                for _ in range(20):
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            case 2:
                del damaged[chance.randrange(len(damaged)) :]
            case _:
                start = chance.randrange(len(damaged))
                damaged[start : start + 600] = chance.randbytes(600)
        yield bytes(damaged)


@pytest.mark.slow
def test_no_damage_ends_in_a_traceback_or_without_a_way_out(path: Path) -> None:
    keys = [Key("label:demo", f"skill://skill-{number}/SKILL.md") for number in range(20)]

    def write(record: Record) -> Record:
        return replace(record, files="[]" * 99, entry="{}" * 99)

    SqliteConsent(path).update(dict.fromkeys(keys, write))
    outcomes: set[str] = set()
    for damaged in damages(path.read_bytes()):
        path.write_bytes(damaged)
        backend = SqliteConsent(path)
        message = ""
        try:
            backend.read()
            backend.update({keys[0]: write})
        except SourceError as error:
            message = str(error)
        assert not message or "move the file away" in message
        outcomes.add("refused" if message else "set aside" if backend.remark else "used")
        if not message:
            assert backend.read(keys[0]) == [write(Record(key=keys[0]))]
    assert {"set aside", "used"} <= outcomes


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are POSIX")
@pytest.mark.parametrize("kind", ["folder", "pipe", "below a file"])
async def test_a_place_that_cannot_be_a_database_is_named_when_it_is_written(
    tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "place"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.write_text("")
        place = place / "approvals.sqlite"
    with anyio.fail_after(30), pytest.raises(SourceError, match="cannot be used: "):
        await put(ConsentStore(place), approve(checked(), DEMO), checked())


@pytest.fixture
def private_folder() -> Generator[Path]:
    """A folder of a user who is not root, as whom the test runs: root may write everywhere."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_approvals_on_a_read_only_disk_count_and_the_host_opens(private_folder: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    sim.skill("returns")
    async with opened(private_folder, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
    (private_folder / "approvals.sqlite").chmod(0o400)
    await anyio.Path(private_folder).chmod(0o500)
    async with opened(private_folder, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        with pytest.raises(SourceError, match="check the permissions"):
            await host.load("returns")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_a_change_that_was_cut_off_is_undone_and_on_a_read_only_disk_nothing_is_read_past_it(
    private_folder: Path,
) -> None:
    before, entry = private_folder / "before" / "approvals.sqlite", checked()
    await put(ConsentStore(before), approve(entry, DEMO), entry)
    folder = anyio.Path(private_folder, "after")
    await folder.mkdir()
    with closing(sqlite3.connect(before, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE consent SET decision = 'revoked'")
        database.execute("UPDATE consent_history SET decided_how = hex(randomblob(1000000))")
        for name in ("approvals.sqlite", "approvals.sqlite-journal"):  # As it is when the power fails here.
            shutil.copy(before.with_name(name), Path(folder) / name)
        database.execute("ROLLBACK")
    path = Path(folder, "approvals.sqlite")
    await anyio.Path(path).chmod(0o400)
    await folder.chmod(0o500)
    with pytest.raises(SourceError, match="an unfinished change cannot be completed on this disk"):
        await reopened(path)
    await folder.chmod(0o700)
    await anyio.Path(path).chmod(0o600)
    assert got(await reopened(path), DEMO, entry.uri) == approve(entry, DEMO)


async def test_a_host_opens_where_approvals_cannot_be_read_and_says_so(tmp_path: Path) -> None:
    sim = Simulator()
    sim.skill("refunds")
    (tmp_path / "approvals.sqlite").mkdir()
    async with opened(tmp_path, shop=sim) as host:
        assert any("cannot be used: it is not a file" in event.message for event in host.log.events_so_far())
        with pytest.raises(SkillwireError):
            await host.load("refunds")


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("files", "[]]"),
        ("files", '[["skill://x/../y", "sha256:0"]]'),
        ("files", "null"),
        ("files", b"\xff\xfe"),
        ("entry", "{}"),
        ("entry", "[" * 100_000),
        ("label", "local"),
        ("decision", "yes"),
    ],
)
async def test_a_row_that_we_did_not_write_approves_nothing(path: Path, column: str, value: object) -> None:
    entry = checked()
    await put(ConsentStore(path), approve(entry, DEMO), entry)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE consent SET {column} = ?", (value,))
    store = await reopened(path)
    assert store.approved() == []
    assert await fetched(store, DEMO, entry.uri) is None


async def test_grants_are_ones_and_nothing_else(path: Path) -> None:
    store, entry = ConsentStore(path), checked()
    await put(store, approve(entry, DEMO), entry)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE consent SET execute_code = 2, allowed_tools = 'yes'")
    found = await fetched(store, DEMO, entry.uri)
    assert found is not None
    assert found.grants == Grants()


async def test_a_record_says_who_approved_what_when_and_how(path: Path) -> None:
    store, entry = ConsentStore(path), checked(files={"a.md": b"text"})
    await put(store, approve(entry, DEMO), entry, how="asked at load")
    [record] = SqliteConsent(path).read()
    assert sorted(uri for uri, _ in json.loads(record.files)) == sorted(
        file.uri
        for file in entry.resources  # type: ignore[union-attr]
    )
    assert (record.label, record.last.decided_how) == (DEMO.label, "asked at load")
    assert record.last.decided_by
    assert record.last.decided_at.startswith("20")
    assert record.last.digest == shown_digest(entry)


async def test_a_skill_that_changed_and_changed_back_is_asked_about_after_a_restart(tmp_path: Path) -> None:
    sim = Simulator()
    skill = sim.skill("refunds")
    before = dict(skill.files)
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        skill.change_body("Other text.")
        await host.refresh()
        skill.files = before
    async with opened(tmp_path, shop=sim) as host:
        with pytest.raises(ApprovalRequired):
            await host.load("refunds")
