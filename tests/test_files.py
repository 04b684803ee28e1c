"""A file is replaced completely or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from skillwire.files import atomic_writer, write_atomic


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_is_replaced_and_gets_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "state"
    write_atomic(file, b"old", mode=0o640)
    write_atomic(file, b"new", mode=mode)
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_while_writing_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_atomic(file, b"old")

    def write_half() -> None:
        with atomic_writer(file) as stream:
            stream.write(b"half of ")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"mine")
    link.symlink_to(target)
    write_atomic(link, b"new")
    assert target.read_bytes() == b"mine"
    assert not link.is_symlink()
