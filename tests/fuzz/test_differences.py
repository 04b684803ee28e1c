"""Two readers of the same input agree: what we unpack, `tar` and `unzip` unpack to the same tree; and what a
registry accepts, every reader of ours can install.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from install.samples import skill_md
from skillwire.errors import SkillwireError
from skillwire.install import Lock, Pin, format_lock, parse_lock
from skillwire.install.candidates import make_candidate
from skillwire.net import ArchiveFile, read_archive, write_tar_gz
from skillwire.registry import FileRow
from skillwire.registry.publications import publication_of
from skillwire.skill import digest_of
from skillwire.skill.files import clashes

RUNS = 200
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0")) / 8
WORDS = (
    "a",
    "B",
    "b",
    "SKILL.md",
    "skill.md",
    "..",
    ".",
    "",
    "a b",
    "é",
    "e\u0301",
    "aux",
    "x.",
    "x:y",
    "-n",
)
WORDS += ("a\\b", "C:", "\u202e", "*", "[a]", "n\nl", "d/", "./a", "\ud800"[:0] or "z")


def paths(rng: random.Random, most: int) -> list[str]:
    return [
        "/".join(rng.choices(WORDS, k=rng.choice((1, 1, 2, 3)))) for _ in range(rng.randrange(1, most + 1))
    ]


def some_tar(rng: random.Random) -> bytes:
    form = rng.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for path in paths(rng, 4):
            info = tarfile.TarInfo(path if rng.random() < 0.9 else path * 60)
            info.type = rng.choice((tarfile.REGTYPE,) * 8 + (tarfile.DIRTYPE, tarfile.AREGTYPE, b"7", b"2"))
            data = rng.randbytes(rng.choice((0, 1, 511, 512, 600)))
            info.size = len(data) if info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else 0
            info.mode = rng.choice((0o644, 0o755))
            if rng.random() < 0.2:
                info.pax_headers = {rng.choice(("comment", "path", "size", "mtime")): rng.choice(("1", path))}
            try:
                tar.addfile(info, io.BytesIO(data))
            except (ValueError, UnicodeError):
                continue
    data = bytearray(buffer.getvalue())
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        block = 512 * rng.randrange(len(data) // 512)
        data[block + rng.randrange(512)] = rng.choice((0, 32, 47, 49, 120, 255))
        if rng.random() < 0.8:  # A header whose checksum is right again.
            data[block + 148 : block + 156] = b" " * 8
            data[block + 148 : block + 156] = b"%06o\0 " % sum(data[block : block + 512])
    return gzip.compress(bytes(data)) if rng.random() < 0.5 else bytes(data)


def some_zip(rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in paths(rng, 4):
            info = zipfile.ZipInfo(path)
            info.filename = path
            info.external_attr = rng.choice((0, 0o100644, 0o100755, 0o040755, 0o120777)) << 16
            info.create_system = rng.choice((0, 3, 3))
            info.compress_type = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            try:
                archive.writestr(info, b"" if path.endswith("/") else rng.randbytes(rng.choice((0, 3, 900))))
            except (ValueError, UnicodeError, UserWarning):
                continue
    data = bytearray(buffer.getvalue())
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def tree_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unpacked(data: bytes, folder: Path) -> dict[str, bytes]:
    archive = folder / "archive"
    archive.write_bytes(data)
    (folder / "tree").mkdir()
    if data.startswith(b"PK"):
        command = ["unzip", "-q", "-o", str(archive), "-d", str(folder / "tree")]
    else:
        command = ["tar", "--extract", "--file", str(archive), "--directory", str(folder / "tree")]
        command += ["--gzip"] if data.startswith(b"\x1f\x8b") else []
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return tree_of(folder / "tree")


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("make", [some_tar, some_zip])
def test_what_we_unpack_other_programs_unpack_alike(make: Callable[[random.Random], bytes]) -> None:
    for program in ("tar", "unzip"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    start = random.SystemRandom().randrange(1 << 40) if SECONDS else 0
    until = time.monotonic() + SECONDS
    number, accepted = start, 0
    while number < start + RUNS or time.monotonic() < until:
        data = make(random.Random(number))
        number += 1
        try:
            files = read_archive(data)
        except SkillwireError:
            continue
        accepted += 1
        with tempfile.TemporaryDirectory() as folder:
            theirs = unpacked(data, Path(folder))
        assert {file.path: file.data for file in files} == theirs, f"input {number - 1}: {data!r}"
    assert accepted > RUNS / 20


def test_what_a_registry_accepts_every_reader_of_ours_installs(tmp_path: Path) -> None:
    """Archives, locks, entries and the file system: with every set of paths that a draft may have."""
    accepted = 0
    for number in range(5 * RUNS):
        rng = random.Random(number)
        contents = {**dict.fromkeys(paths(rng, 4), b"x"), "SKILL.md": skill_md("pdf")}
        rows = [FileRow(path, digest_of(data), len(data)) for path, data in contents.items()]
        try:
            publication_of("acme", "1.0.0", "stable", rows)
        except SkillwireError:
            continue
        accepted += 1
        files = [ArchiveFile(path, data) for path, data in contents.items()]
        read = read_archive(write_tar_gz(files))
        assert {file.path: file.data for file in read} == contents
        skill = make_candidate(read, source="./x", pin=Pin.make("archive", path="./x")).skill
        assert parse_lock(format_lock(Lock((skill,)))).skills == (skill,)
        assert not clashes(contents)
        folder = tmp_path / str(number)
        for path, data in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        assert tree_of(folder) == contents
    assert accepted > RUNS / 20
