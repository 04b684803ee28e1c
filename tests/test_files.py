"""A file is replaced completely or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillwire.files import atomic_writer, make_folder, write_atomic


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


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_folder_and_its_parents_get_their_mode_whatever_the_umask_is(tmp_path: Path, mode: int) -> None:
    make_folder(tmp_path / "a/b/c", mode)
    make_folder(tmp_path / "a/b/c", 0o711)  # What is there is left as it is.
    for folder in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == mode


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/below"):
        with pytest.raises(OSError, match="Not a directory"):
            make_folder(tmp_path / path)
