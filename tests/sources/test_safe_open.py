"""S4: a directory that is swapped for a link, at any moment, leads no read and no scan out of its root."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skillwire.errors import SkillwireError
from skillwire.skill import DYNAMIC, SkillUri, digest_of
from skillwire.sources.directory.files import OpenDirectory, hash_file, read_head
from trees import scanned, write, write_skill

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="no relative opening there"),
]

SECRET = b"what lies outside the root"


@contextmanager
def swapping(directory: Path, target: Path) -> Generator[None]:
    """Meanwhile, a directory is its own self and a link to another one in turn, as fast as can be."""
    aside = directory.with_name(f"{directory.name}.aside")
    link = directory.with_name(f"{directory.name}.link")
    link.symlink_to(target)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            directory.rename(aside)
            link.rename(directory)
            directory.rename(link)
            aside.rename(directory)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def plant(tmp_path: Path) -> tuple[Path, Path]:
    """A skill whose directory `sub` has a twin outside the root, with other bytes of the same length."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    write_skill(root / "a", {"sub/file.txt": b"x" * len(SECRET), "sub/deep/file.txt": b"x"})
    write(outside / "file.txt", SECRET)
    write(outside / "deep/file.txt", b"y")
    return root / "a/sub", outside


@pytest.mark.slow
def test_no_scan_reads_what_lies_outside(tmp_path: Path) -> None:
    directory, outside = plant(tmp_path)
    secrets = {digest_of(SECRET), digest_of(b"y")}
    with swapping(directory, outside):
        for _ in range(400):
            try:
                entries = scanned([tmp_path / "root"]).snapshot.entries
            except SkillwireError:
                continue
            for entry in entries:
                assert entry.resources is not DYNAMIC
                assert not secrets & {file.digest for file in entry.resources}


async def test_no_read_gives_what_lies_outside(tmp_path: Path) -> None:
    directory, outside = plant(tmp_path)
    source = scanned([tmp_path / "root"])
    with swapping(directory, outside):
        for _ in range(400):
            for name in ("sub/file.txt", "sub/deep/file.txt"):
                try:
                    data = (await source.read(SkillUri(f"skill://a/{name}"))).data
                except SkillwireError:
                    continue
                assert data not in (SECRET, b"y")


@pytest.mark.parametrize("swapped", ["a", "a/sub", "a/sub/file.txt"])
async def test_a_link_put_in_place_of_any_part_of_the_way_is_not_followed(
    tmp_path: Path, swapped: str
) -> None:
    root = tmp_path / "root"
    write_skill(root / "a", {"sub/file.txt": b"x" * len(SECRET)})
    # Outside lies the same tree, and the file in it has the very bytes, so that no digest tells it apart.
    write_skill(tmp_path / "outside/a", {"sub/file.txt": b"x" * len(SECRET)})
    place, target = root / swapped, tmp_path / "outside" / swapped
    place.rename(place.with_name("aside"))
    place.symlink_to(target)
    for base in (str(root), OpenDirectory.open(str(root))):
        with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
            hash_file(str(root / "a/sub/file.txt"), keep=True, base=base)
        with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
            read_head(str(root / "a/sub/file.txt"), base=base, limit=10)
        if isinstance(base, OpenDirectory):
            base.close()


async def test_a_path_outside_its_base_is_never_opened(tmp_path: Path) -> None:
    write(tmp_path / "base/x", b"x")
    write(tmp_path / "base-2/x", b"x")
    with pytest.raises(OSError, match="outside"):
        hash_file(str(tmp_path / "base-2/x"), keep=True, base=str(tmp_path / "base"))


async def test_a_pipe_in_place_of_a_file_neither_blocks_nor_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        hash_file(str(tmp_path / "pipe"), keep=True, base=str(tmp_path))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", {"x/y/z.txt": b"z"})
    (tmp_path / "a/link.txt").symlink_to("x/y/z.txt")
    (tmp_path / "b").symlink_to("a")
    lowest = os.dup(0)
    os.close(lowest)
    scanned([tmp_path])
    again = os.dup(0)
    os.close(again)
    assert again == lowest


def test_a_directory_inside_a_skill_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(tmp_path / "a", {"x/1.txt": b"1", "x/2.txt": b"2", "x/y/3.txt": b"3"})
    opened: list[str] = []
    real = os.open

    def note(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(Path(path).name)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", note)
    scanned([tmp_path])
    assert sorted(opened) == sorted([tmp_path.name, "a", "SKILL.md", "x", "y", "1.txt", "2.txt", "3.txt"])


def test_a_skill_of_many_directories_holds_few_of_them_open(tmp_path: Path) -> None:
    import resource

    files = {f"d{number:03}/in/file.txt": str(number).encode() for number in range(100)}
    write_skill(tmp_path / "a", files)
    write_skill(tmp_path / "a/d000/nested", {"more/file.txt": b"more"})
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 50, limit[1]))
    try:
        entries = {entry.name: entry for entry in scanned([tmp_path]).snapshot.entries}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert entries.keys() == {"a", "nested"}
    resources = entries["a"].resources
    assert resources is not DYNAMIC
    digests = {file.uri.removeprefix("skill://a/"): file.digest for file in resources}
    assert {name: digests[name] for name in files} == {name: digest_of(data) for name, data in files.items()}
    again = os.dup(0)
    os.close(again)
    assert again == lowest
