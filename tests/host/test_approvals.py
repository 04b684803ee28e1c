"""The store of approvals: shared by processes, private, and closed when it is damaged."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sample_entries import DEMO, OTHER, checked
from skillwire.errors import SourceError
from skillwire.host.approvals.store import ApprovalStore
from skillwire.trust.approval import Grants, approve, seen_set

WRITER = """
import sys
from pathlib import Path
from sample_entries import DEMO, checked
from skillwire.host.approvals.store import ApprovalStore
from skillwire.trust.approval import approve

store, name = ApprovalStore(Path(sys.argv[1])), sys.argv[2]
sys.stdin.readline()
for number in range(40):
    entry = checked(f"skill://{name}-{number}/SKILL.md")
    store.put(approve(entry, DEMO), entry)
    shared = checked("skill://shared/SKILL.md")
    store.put(approve(shared, DEMO), shared)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "approvals.sqlite"


@pytest.mark.requirement("SEC-6", "ENT-4")
def test_an_approval_comes_back_as_it_was_given_for_that_server_and_uri_alone(path: Path) -> None:
    entry = checked(files={"a.md": b"text"})
    approval = approve(entry, DEMO, grants=Grants(execute_code=True))
    ApprovalStore(path).put(approval, entry)
    again = ApprovalStore(path)
    assert again.get(DEMO, entry.uri) == approval
    assert again.get(OTHER, entry.uri) is None
    assert again.get(DEMO, checked("skill://other/SKILL.md").uri) is None
    assert [stored.entry for stored in again.all()] == [entry]
    assert again.all(OTHER) == []


@pytest.mark.requirement("SEC-6")
def test_an_approval_of_a_dynamic_skill_is_not_kept(path: Path) -> None:
    entry = checked(dynamic=True)
    with pytest.raises(ValueError, match="not bound"):
        ApprovalStore(path).put(approve(entry, DEMO, seen=seen_set([])), entry)


def test_removing_one_approval_or_those_of_a_server_leaves_the_rest(path: Path) -> None:
    store = ApprovalStore(path)
    entries = [checked(f"skill://{name}/SKILL.md") for name in ("a", "b", "c")]
    for entry in entries:
        store.put(approve(entry, DEMO), entry)
    store.put(approve(entries[0], OTHER), entries[0])
    assert store.remove(DEMO, entries[0].uri)
    assert not store.remove(DEMO, entries[0].uri)
    assert store.remove_server(DEMO) == 2
    assert [stored.approval.origin for stored in store.all()] == [OTHER]


def test_what_changed_is_remembered_and_approves_nothing(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    store.put(approve(entry, DEMO), entry)
    store.withdraw(DEMO, entry.uri)
    assert store.get(DEMO, entry.uri) is None
    assert store.withdrawn(DEMO, entry.uri) == approve(entry, DEMO)
    store.put(approve(entry, DEMO), entry)
    assert store.withdrawn(DEMO, entry.uri) is None


def test_two_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [
        subprocess.Popen([*command, name], cwd=tests, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("first", "second")
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    assert len(ApprovalStore(path).all()) == 81


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_file_and_what_sqlite_puts_beside_it_are_the_users_alone(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    held = sqlite3.connect(path)
    try:
        held.execute("SELECT * FROM approvals").fetchall()
        store.put(approve(entry, DEMO), entry)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        held.close()
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "content", [b"no database at all, but more than a few bytes of it", b"SQLite format 3\0" * 90]
)
def test_a_damaged_file_is_set_aside_and_nothing_is_approved(path: Path, content: bytes) -> None:
    entry = checked()
    ApprovalStore(path).put(approve(entry, DEMO), entry)
    for number in (1, 2):
        path.write_bytes(content)
        store = ApprovalStore(path)
        assert store.get(DEMO, entry.uri) is None
        assert "set aside" in store.remark
        assert len(list(path.parent.glob("*.damaged*"))) == number


def test_a_file_that_is_damaged_while_it_is_open_is_an_error_and_no_approval(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    store.put(approve(entry, DEMO), entry)
    for file in path.parent.iterdir():
        file.write_bytes(b"garbage in the middle of a session" * 10)
    with pytest.raises(SourceError, match="cannot be used"):
        store.get(DEMO, entry.uri)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="cannot be used"):
        ApprovalStore(tmp_path / "file" / "approvals.sqlite")
    (tmp_path / "folder").mkdir()
    with pytest.raises(SourceError, match="cannot be used"):
        ApprovalStore(tmp_path / "folder")


@pytest.mark.requirement("SEC-6")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("resources", "[]]"),
        ("resources", '[["skill://x/../y", "sha256:0"]]'),
        ("resources", "null"),
        ("entry", "{}"),
        ("entry", "[" * 100_000),
        ("server", "local"),
    ],
)
def test_a_row_that_we_did_not_write_approves_nothing(path: Path, column: str, value: str) -> None:
    store, entry = ApprovalStore(path), checked()
    store.put(approve(entry, DEMO), entry)
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE approvals SET {column} = ?", (value,))
    database.close()
    assert store.all() == []
    assert store.get(DEMO, entry.uri) is None


def test_grants_are_ones_and_nothing_else(path: Path) -> None:
    store, entry = ApprovalStore(path), checked()
    store.put(approve(entry, DEMO), entry)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE approvals SET execute_code = 2, allowed_tools = 'yes'")
    database.close()
    found = store.get(DEMO, entry.uri)
    assert found is not None
    assert found.grants == Grants()


def test_the_resources_are_kept_as_plain_json(path: Path) -> None:
    store, entry = ApprovalStore(path), checked(files={"a.md": b"text"})
    store.put(approve(entry, DEMO), entry)
    with sqlite3.connect(path) as database:
        (resources,) = database.execute("SELECT resources FROM approvals").fetchone()
    database.close()
    assert sorted(uri for uri, _ in json.loads(resources)) == sorted(file.uri for file in entry.resources)  # type: ignore[union-attr]
