"""What is stored is the user's alone, however wide the umask is; and no log is written through a link."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from install.workspaces import write_skill
from skillwire.errors import SourceError
from skillwire.gateway import AuditLog
from terminals import SKILLWIRE

pytestmark = [pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")]


def run(folder: Path, *words: str) -> None:
    home = folder / "home"
    names = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    done = subprocess.run(
        [str(SKILLWIRE), *words],
        cwd=folder / "work",
        env={"PATH": os.environ["PATH"], "HOME": str(home), **{name: str(home / name) for name in names}},
        umask=0,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def too_wide(folder: Path, allowed: int) -> list[str]:
    """The files and folders that others may do more with than `allowed`."""
    return [
        f"{stat.S_IMODE(path.lstat().st_mode):o} {path.relative_to(folder)}"
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink() and stat.S_IMODE(path.lstat().st_mode) & ~allowed
    ]


@pytest.mark.process
def test_every_file_and_folder_of_state_is_the_users_alone_without_a_umask(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o755)
    (tmp_path / "home").mkdir(mode=0o755)
    write_skill(tmp_path / "work/from", "pdf", {"scripts/run.sh": "#!/bin/sh\n"})
    run(tmp_path, "add", "./from", "--yes", "--allow-code")
    run(tmp_path, "add", "./from", "--yes", "--allow-code", "--user")
    run(tmp_path, "servers", "add", "--no-check", "docs", "https://docs.example.org/mcp", "--user")
    run(tmp_path, "list")
    home = tmp_path / "home"
    state = {path.name for path in home.iterdir()}
    assert {"XDG_CONFIG_HOME", "XDG_DATA_HOME"} <= state
    for name in state - {".agents", ".claude"}:
        # A lock has no secrets, and is shared by those who share a project.
        assert [row for row in too_wide(home / name, 0o700) if not row.endswith("skillwire.lock")] == []
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o700
    assert too_wide(home / ".agents", 0o755) == []
    assert too_wide(tmp_path / "work/.agents", 0o755) == []


@pytest.mark.process
def test_the_database_of_a_registry_is_the_users_alone_without_a_umask(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir(mode=0o755)
    (tmp_path / "home").mkdir(mode=0o755)
    run(tmp_path, "registry", "init", "--store", "sqlite:///registry.db")
    assert (tmp_path / "work/registry.db").is_file()
    assert too_wide(tmp_path / "work", 0o600) == []


def test_the_companions_of_a_database_take_its_mode(tmp_path: Path) -> None:
    from skillwire.registry import Store

    before = os.umask(0)
    try:
        store = Store("sqlite:///" + str(tmp_path / "registry.db"))
        store.create()
        with store.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE x (y)")
            assert {path.name for path in tmp_path.iterdir()} >= {"registry.db", "registry.db-wal"}
            assert too_wide(tmp_path, 0o600) == []
    finally:
        os.umask(before)


def test_an_audit_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "audit.jsonl").symlink_to(target)
    with pytest.raises(SourceError, match="cannot be opened"):
        AuditLog(tmp_path / "audit.jsonl")
    assert target.read_bytes() == b"mine"


def test_an_audit_log_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        AuditLog(tmp_path / "audit.jsonl").close()
    finally:
        os.umask(before)
    assert too_wide(tmp_path, 0o600) == []
