"""The store of approvals: shared by processes, private, never blocking, and refusing when it is damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import anyio
import pytest

from sample_entries import DEMO, OTHER, checked, skill_md
from simulator import Simulator, agree, opened
from skillwire.errors import ApprovalRequired, SkillwireError, SourceError
from skillwire.host.approvals.database import ApprovalDatabase
from skillwire.host.approvals.schema import Row
from skillwire.host.approvals.store import ApprovalStore
from skillwire.trust.approval import Grants, approve, seen_set
from skillwire.trust.verify import verify_file

pytestmark = pytest.mark.anyio

TESTS = str(Path(__file__).parents[1])
WRITER = """
import asyncio, sys
from pathlib import Path
from sample_entries import DEMO, checked
from skillwire.host.approvals.store import ApprovalStore
from skillwire.trust.approval import approve

async def write(store, name):
    for number in range(40):
        entry = checked(f"skill://{name}-{number}/SKILL.md")
        await store.put(approve(entry, DEMO), entry)
        shared = checked("skill://shared/SKILL.md")
        await store.put(approve(shared, DEMO), shared)

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(write(ApprovalStore(Path(sys.argv[1])), sys.argv[2]))
"""
LOCKER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute(f"BEGIN {sys.argv[2]}")
print("locked", flush=True)
sys.stdin.readline()
database.execute("ROLLBACK")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "approvals.sqlite"


async def reopened(path: Path) -> ApprovalStore:
    store = ApprovalStore(path)
    await store.open()
    return store


@contextmanager
def process(script: str, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that has said its first line. It goes on when it is sent one."""
    started = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with started:
        assert started.stdout is not None
        started.stdout.readline()
        try:
            yield started
        finally:
            _, errors = started.communicate(b"go\n", timeout=120)
            assert started.returncode == 0, errors


@asynccontextmanager
async def longest_hold() -> AsyncGenerator[list[float]]:
    """The longest time, in seconds, that nothing else could run on the event loop."""
    longest = [0.0]

    async def measure() -> None:
        while True:
            before = anyio.current_time()
            await anyio.sleep(0.005)
            longest[0] = max(longest[0], anyio.current_time() - before - 0.005)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(measure)
        yield longest
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("SEC-6", "ENT-4")
async def test_an_approval_comes_back_as_it_was_given_for_that_server_and_uri_alone(path: Path) -> None:
    entry = checked(files={"a.md": b"text"})
    approval = approve(entry, DEMO, grants=Grants(execute_code=True))
    await ApprovalStore(path).put(approval, entry)
    again = await reopened(path)
    assert again.get(DEMO, entry.uri) == await again.fetch(DEMO, entry.uri) == approval
    assert again.get(OTHER, entry.uri) is None
    assert again.get(DEMO, checked("skill://other/SKILL.md").uri) is None
    assert [stored.entry for stored in again.all()] == [entry]
    assert again.all(OTHER) == []


@pytest.mark.requirement("SEC-6")
async def test_of_a_dynamic_skill_only_what_was_seen_is_approved(path: Path) -> None:
    entry = checked(dynamic=True)
    store = ApprovalStore(path)
    with pytest.raises(ValueError, match="approval of no files"):
        await store.put(approve(entry, DEMO, seen=seen_set([])), entry)
    file = verify_file(entry, entry.uri, skill_md(), DEMO)
    await store.put(approve(entry, DEMO, seen=seen_set([file])), entry)
    kept = (await reopened(path)).get(DEMO, entry.uri)
    assert kept == approve(entry, DEMO, seen=seen_set([file]))
    assert kept is not None
    assert not kept.bound


async def test_removing_one_approval_or_those_of_a_server_leaves_the_rest(path: Path) -> None:
    store = ApprovalStore(path)
    entries = [checked(f"skill://{name}/SKILL.md") for name in ("a", "b", "c")]
    for entry in entries:
        await store.put(approve(entry, DEMO), entry)
    await store.put(approve(entries[0], OTHER), entries[0])
    assert await store.remove(DEMO, entries[0].uri)
    assert not await store.remove(DEMO, entries[0].uri)
    assert await store.remove_server(DEMO) == 2
    assert [stored.approval.origin for stored in store.all()] == [OTHER]
    assert [stored.approval.origin for stored in (await reopened(path)).all()] == [OTHER]


async def test_what_changed_is_remembered_and_approves_nothing(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    await store.put(approve(entry, DEMO), entry)
    store.withdraw(DEMO, entry.uri)
    assert store.get(DEMO, entry.uri) is None
    assert store.withdrawn(DEMO, entry.uri) == approve(entry, DEMO)
    assert await store.fetch(DEMO, entry.uri) is None
    assert (await reopened(path)).get(DEMO, entry.uri) is None
    assert (await reopened(path)).withdrawn(DEMO, entry.uri) == approve(entry, DEMO)
    await store.put(approve(entry, DEMO), entry)
    assert store.withdrawn(DEMO, entry.uri) is None
    assert store.get(DEMO, entry.uri) == approve(entry, DEMO)


async def test_a_revocation_that_cannot_be_stored_still_counts_and_spares_a_newer_approval(
    path: Path,
) -> None:
    store, entry = ApprovalStore(path), checked()
    await store.put(approve(entry, DEMO), entry)
    store.withdraw(DEMO, entry.uri)
    other = await reopened(path)
    await other.put(approve(entry, DEMO), entry)  # Given anew, elsewhere, after the change was seen.
    assert await store.fetch(DEMO, entry.uri) == approve(entry, DEMO)


@pytest.mark.process
async def test_two_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    with process(WRITER, str(path), "first"), process(WRITER, str(path), "second"):
        pass
    assert len((await reopened(path)).all()) == 81


@pytest.mark.process
async def test_threads_and_a_second_process_lose_no_approval_and_set_nothing_aside(path: Path) -> None:
    def write(name: str) -> None:
        # A store of its own for each approval, as when many hosts of one process come and go.
        for number in range(40):
            entry = checked(f"skill://{name}-{number}/SKILL.md")
            anyio.run(ApprovalStore(path).put, approve(entry, DEMO), entry)

    threads = [threading.Thread(target=write, args=(f"thread{number}",)) for number in range(3)]
    with process(WRITER, str(path), "process") as other:
        assert other.stdin is not None
        other.stdin.write(b"go\n")
        other.stdin.flush()
        for thread in threads:
            thread.start()
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
    assert len((await reopened(path)).all()) == 3 * 40 + 41
    assert list(path.parent.glob("*damaged*")) == []


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
async def test_opening_a_store_keeps_the_locks_that_this_process_holds(path: Path) -> None:
    await ApprovalStore(path).put(approve(checked(), DEMO), checked())
    with closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        await reopened(path)  # Closing the file outside SQLite would drop the lock here.
        script = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        taken = await anyio.run_process([sys.executable, "-c", script, str(path)], check=False)
        held.execute("ROLLBACK")
    assert b"database is locked" in taken.stderr


@pytest.mark.process
@pytest.mark.parametrize("kind", ["IMMEDIATE", "EXCLUSIVE"])
async def test_while_another_process_holds_the_lock_the_loop_runs_and_the_load_goes_through(
    tmp_path: Path, kind: str
) -> None:
    sim = Simulator()
    for number in range(4):
        sim.skill(f"refunds-{number}")
    holds: list[float] = []
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds-3")
        # A busy machine can hold up any process: once in three times the loop must have been free.
        for number in range(3):
            async with longest_hold() as longest:
                with process(LOCKER, str(tmp_path / "approvals.sqlite"), kind) as other:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(host.load, f"refunds-{number}")
                        await anyio.sleep(0.3)
                        assert f"refunds-{number}" not in {held.entry.name for held in host.active()}
                        assert other.stdin is not None
                        other.stdin.write(b"go\n")
                        other.stdin.flush()
            assert f"refunds-{number}" in {held.entry.name for held in host.active()}
            holds += longest
    assert min(holds) < 0.05


@pytest.mark.process
async def test_a_lock_that_is_never_released_ends_the_load_with_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillwire.host.approvals.sqlite_file.BUSY_SECONDS", 0.3)
    sim = Simulator()
    sim.skill("refunds")
    async with opened(tmp_path, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        host.release("refunds")
        with process(LOCKER, str(tmp_path / "approvals.sqlite"), "EXCLUSIVE"):
            async with longest_hold() as longest:
                with pytest.raises(SourceError, match="another process is writing to the file; try again"):
                    await host.load("refunds")
    assert longest[0] < 0.25  # The wait for the lock is longer.


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
async def test_the_file_and_what_sqlite_puts_beside_it_are_the_users_alone(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    await store.put(approve(entry, DEMO), entry)
    with closing(sqlite3.connect(path, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        held.execute("DELETE FROM skill_approvals")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        held.execute("ROLLBACK")
    assert len(modes) > 1
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_reading_creates_nothing(path: Path) -> None:
    store = await reopened(path)
    assert await store.fetch(DEMO, checked().uri) is None
    assert not await store.remove(DEMO, checked().uri)
    assert await store.remove_server(DEMO) == 0
    assert not path.parent.exists()


@pytest.mark.parametrize(
    "content", [b"no database at all, but more than a few bytes of it", b"SQLite format 3\0" * 90]
)
async def test_a_damaged_file_is_set_aside_and_nothing_is_approved(path: Path, content: bytes) -> None:
    entry = checked()
    await ApprovalStore(path).put(approve(entry, DEMO), entry)
    for number in (1, 2):
        await anyio.Path(path).write_bytes(content)
        store = await reopened(path)
        assert store.get(DEMO, entry.uri) is None
        assert "set aside" in store.remark
        assert len(list(path.parent.glob("*.damaged*"))) == number
        await store.put(approve(entry, DEMO), entry)


async def test_a_file_that_is_damaged_while_it_is_open_approves_nothing(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    await store.put(approve(entry, DEMO), entry)
    await anyio.Path(path).write_bytes(b"garbage in the middle of a session" * 10)
    assert await store.fetch(DEMO, entry.uri) is None
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
    database = ApprovalDatabase(path)
    rows = [
        Row("label:demo", f"skill://skill-{number}/SKILL.md", "demo", "[]" * 99, 0, 0, "{}" * 99, 1)
        for number in range(30)
    ]
    database.put(*rows)
    outcomes: set[str] = set()
    for damaged in damages(path.read_bytes()):
        path.write_bytes(damaged)
        database = ApprovalDatabase(path)
        message = ""
        try:
            database.open()
            database.put(rows[0])
        except SourceError as error:
            message = str(error)
        assert not message or "move the file away" in message
        outcomes.add("refused" if message else "set aside" if database.remark else "used")
        if not message:
            assert database.row("label:demo", "skill://skill-0/SKILL.md") == rows[0]
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
        await ApprovalStore(place).put(approve(checked(), DEMO), checked())


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
@pytest.mark.parametrize("journal", ["delete", "wal"])
async def test_approvals_on_a_read_only_disk_count_and_the_host_opens(
    private_folder: Path, journal: str
) -> None:
    sim = Simulator()
    sim.skill("refunds")
    sim.skill("returns")
    async with opened(private_folder, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
    with closing(sqlite3.connect(private_folder / "approvals.sqlite")) as database:
        database.execute(f"PRAGMA journal_mode = {journal}")
    (private_folder / "approvals.sqlite").chmod(0o400)
    await anyio.Path(private_folder).chmod(0o500)
    async with opened(private_folder, shop=sim, host_options={"ask": agree}) as host:
        await host.load("refunds")
        with pytest.raises(SourceError, match="check the permissions"):
            await host.load("returns")


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
        ("resources", "[]]"),
        ("resources", '[["skill://x/../y", "sha256:0"]]'),
        ("resources", "null"),
        ("resources", b"\xff\xfe"),
        ("entry", "{}"),
        ("entry", "[" * 100_000),
        ("label", "local"),
        ("is_current", "yes"),
    ],
)
async def test_a_row_that_we_did_not_write_approves_nothing(path: Path, column: str, value: object) -> None:
    entry = checked()
    await ApprovalStore(path).put(approve(entry, DEMO), entry)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE skill_approvals SET {column} = ?", (value,))
    store = await reopened(path)
    assert store.all() == []
    assert await store.fetch(DEMO, entry.uri) is None


async def test_grants_are_ones_and_nothing_else(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    await store.put(approve(entry, DEMO), entry)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE skill_approvals SET execute_code = 2, allowed_tools = 'yes'")
    found = await store.fetch(DEMO, entry.uri)
    assert found is not None
    assert found.grants == Grants()


async def test_a_row_says_who_approved_what_when_and_how(path: Path) -> None:
    store, entry = ApprovalStore(path), checked(files={"a.md": b"text"})
    await store.put(approve(entry, DEMO), entry, how="asked at load")
    [row] = ApprovalDatabase(path).rows()
    assert isinstance(row, Row)
    assert sorted(uri for uri, _ in json.loads(row.resources)) == sorted(
        file.uri
        for file in entry.resources  # type: ignore[union-attr]
    )
    assert (row.label, row.approved_how) == (DEMO.label, "asked at load")
    assert row.approved_by
    assert row.approved_at.startswith("20")


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


async def test_two_servers_of_one_label_do_not_share_approvals(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    store.bind({DEMO: "url:one"})
    await store.put(approve(entry, DEMO), entry)
    other = ApprovalStore(path)
    other.bind({DEMO: "url:two"})
    await other.open()
    assert other.get(DEMO, entry.uri) is None
    await other.put(approve(entry, DEMO, grants=Grants(execute_code=True)), entry)
    assert await other.remove_server(DEMO) == 1
    assert await store.fetch(DEMO, entry.uri) == approve(entry, DEMO)


async def test_a_server_keeps_its_approvals_under_another_label(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    store.bind({DEMO: "url:one"})
    await store.put(approve(entry, DEMO), entry)
    renamed = ApprovalStore(path)
    renamed.bind({OTHER: "url:one"})
    await renamed.open()
    assert renamed.get(OTHER, entry.uri) == approve(entry, OTHER)


VERSION_01 = """
CREATE TABLE approvals (server TEXT NOT NULL, uri TEXT NOT NULL, resources TEXT NOT NULL,
    allowed_tools INTEGER NOT NULL, execute_code INTEGER NOT NULL, entry TEXT NOT NULL,
    PRIMARY KEY (server, uri)) WITHOUT ROWID
"""


async def written_by_version_01(path: Path) -> None:
    """The file as version 0.1 left it: two tables keyed by the label, in WAL mode."""
    store, entry, gone = ApprovalStore(path), checked(), checked("skill://gone/SKILL.md")
    await store.put(approve(entry, DEMO, grants=Grants(execute_code=True)), entry)
    await store.put(approve(gone, DEMO), gone)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        columns = "label, uri, resources, allowed_tools, execute_code, entry FROM skill_approvals"
        for table, name in (("approvals", "refunds"), ("withdrawn", "gone")):
            database.execute(VERSION_01.replace("approvals", table))
            database.execute(f"INSERT INTO {table} SELECT {columns} WHERE uri LIKE '%{name}%'")
        database.execute("DROP TABLE skill_approvals")
        database.execute("PRAGMA user_version = 0")


async def test_approvals_of_version_01_are_migrated_once_with_a_log_line(path: Path) -> None:
    await written_by_version_01(path)
    entry, gone = checked(), checked("skill://gone/SKILL.md")
    store = ApprovalStore(path)
    store.bind({DEMO: "url:one"}, lambda: {"demo": frozenset({"url:one"})})
    await store.open()
    assert store.get(DEMO, entry.uri) == approve(entry, DEMO, grants=Grants(execute_code=True))
    assert store.get(DEMO, gone.uri) is None
    assert store.withdrawn(DEMO, gone.uri) is not None
    assert "2 approvals of version 0.1 were migrated" in store.remark
    again = ApprovalStore(path)
    again.bind({DEMO: "url:one"})
    await again.open()
    assert again.get(DEMO, entry.uri) is not None
    assert again.remark == ""
    other = ApprovalStore(path)
    other.bind({DEMO: "url:two"})
    await other.open()
    assert other.get(DEMO, entry.uri) is None


async def test_approvals_of_version_01_that_may_be_of_two_servers_are_named_and_asked_again(
    path: Path,
) -> None:
    await written_by_version_01(path)
    store = ApprovalStore(path)
    store.bind({DEMO: "url:one"}, lambda: {"demo": frozenset({"url:one", "url:two"})})
    await store.open()
    assert store.all() == []
    assert "1 approvals of version 0.1 for demo may be of another server" in store.remark
    assert len(ApprovalDatabase(path).rows()) == 2
