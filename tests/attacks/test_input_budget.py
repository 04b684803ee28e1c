"""What any input from outside costs: at most four times its size plus 64 MiB of memory, and two seconds plus
two per MiB of processor time (SEC-9). Every way in, with a bomb of each kind.

Each case runs in a process of its own, which first reads something small the same way: what the bomb costs is
what comes on top of that. Before and after, it times a fixed piece of work: on a slower or busy machine,
a second of the budget is as much longer as that takes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skillwire.sources.git import git_environment

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.requirement("SEC-9")]

MIB = 1024 * 1024
PROGRAM = """
    import resource, sys, time
    from pathlib import Path
    from skillwire.errors import SkillwireError

    def archive(data):
        from skillwire.net import read_archive
        read_archive(data)
    def site(data):
        from skillwire.sources.wellknown import parse_site_index
        parse_site_index(data, "https://example.org/.well-known/agent-skills/index.json")
    def index(data):
        from skillwire.wire.legacy import parse_index
        parse_index(data)
    def manifest(data):
        from skillwire.skill.entries import DYNAMIC, SkillEntry
        from skillwire.skill.entries import SkillUri
        from skillwire.wire.legacy import bind_to_manifest
        bind_to_manifest(SkillEntry(SkillUri("skill://a/SKILL.md"), {}, DYNAMIC), data)
    def lock(data):
        from skillwire.install.lock import parse_lock
        parse_lock(data.decode())
    def config(data):
        from skillwire.host.config.text import parse_config
        parse_config(data.decode(), Path("skillwire.toml"))
    def callers(data):
        from skillwire.access.callers import parse_callers
        parse_callers(data.decode(), "callers.toml")
    def client(data):
        from skillwire.host.importers.base import parse_text
        parse_text(data.decode(), ".json")
    def client_yaml(data):
        from skillwire.host.importers.base import parse_text
        parse_text(data.decode(), ".yaml")
    def foreign(data):
        from skillwire.install.foreign import parse_foreign_lock
        parse_foreign_lock(data.decode(), "skills-lock.json")
    def signature(data):
        from skillwire.trust.publishers import InvalidSignatureFile, parse_bundle
        try:
            parse_bundle(data)
        except InvalidSignatureFile as error:
            raise ValueError(str(error)) from None
    def frontmatter(data):
        from skillwire.skill.files import parse_skill_md
        parse_skill_md(data)
    def git(data):
        from skillwire.net import split_skills
        from skillwire.sources.git import fetch_tree
        from skillwire.sources.reference import parse_reference
        tree = fetch_tree(parse_reference("git+file://" + data.decode()))
        split_skills(tree.files, nested=True)

    way, small, file = globals()[sys.argv[1]], Path(sys.argv[2]).read_bytes(), Path(sys.argv[3])
    def read(data):
        try:
            way(data)
        except (SkillwireError, ValueError) as error:
            return str(error)
        return "accepted"
    def pace():
        start = time.process_time()
        for _ in range(12):
            rows = {f"{n}/{n}": (n, str(n)) for n in range(20_000)}
            sorted(rows, key=len)
        return time.process_time() - start
    read(small)
    paces = [pace()]
    used = resource.getrusage(resource.RUSAGE_SELF)
    said = read(file.read_bytes())
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    paces.append(pace())
    seconds /= max(1, sum(paces) / 2 / 0.1)
    print(f"{(after.ru_maxrss - used.ru_maxrss) / 1024:.1f} {seconds:.2f} {said[:300]!r}")
"""


def cost(way: str, bomb: bytes, small: bytes, folder: Path) -> tuple[float, float, str]:
    """What a bomb takes: MiB of memory, seconds of processor time, and the answer to it."""
    (folder / "bomb").write_bytes(bomb)
    (folder / "small").write_bytes(small)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), way, str(folder / "small"), str(folder / "bomb")],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    memory, seconds, said = done.stdout.split(" ", 2)
    return float(memory), float(seconds), said


def zipped(method: int, *members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def many_rows() -> bytes:
    """A zip of 16 MiB whose directory is nothing but rows."""
    data = zipped(zipfile.ZIP_STORED, ("a", b""))
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    return data[:start] + data[start:end] * (9 * MIB // (end - start)) + data[end:]


def tar_with(headers: dict[str, str], *, is_global: bool, members: int) -> bytes:
    buffer = io.BytesIO()
    common = headers if is_global else {}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=common) as tar:
        for number in range(members):
            info = tarfile.TarInfo(f"{number}")
            info.pax_headers = {} if is_global else headers
            tar.addfile(info)
    return gzip.compress(buffer.getvalue())


WIDE = "\U0001f600" + "a" * (7 * MIB)
JSON_BOMBS: dict[str, Callable[[], bytes]] = {
    "empty objects": lambda: b'{"skills":[' + b"{}," * (15 * MIB // 3) + b"{}]}",
    "empty objects within the size": lambda: b'{"skills":[' + b"{}," * (2 * MIB) + b"{}]}",
    "as many objects as pass": lambda: b'{"skills":[' + b'{"a":1,"b":2},' * 90_000 + b" " * 6 * MIB + b"{}]}",
    "keys": lambda: json.dumps({f"{n:07x}": n for n in range(290_000)}).encode() + b" " * MIB,
    "nesting": lambda: b"[" * (15 * MIB),
    "digits": lambda: b'{"skills":[' + b"9" * (7 * MIB) + b"]}",
    "many long numbers": lambda: b'{"skills":[' + b",".join([b"9" * 390] * 20_000) + b"]}",
    "wide text": lambda: json.dumps({"skills": [WIDE]}, ensure_ascii=False).encode(),
    "wide keys": lambda: json.dumps({WIDE: 1}, ensure_ascii=False).encode(),
    "escapes": lambda: b'{"skills":["' + rb"\ud83d\ude00" * (7 * MIB // 12) + b'"]}',
}
TOML_BOMBS: dict[str, Callable[[], bytes]] = {
    "tables": lambda: b"".join(b"[%x]\n" % n for n in range(1_800_000)),
    "as many tables as pass": lambda: b"".join(b"[%06x]\n" % n for n in range(39_000)) + b"#" * 5 * MIB,
    "lists of tables": lambda: b"[[a]]\n" * (2 * MIB),
    "keys": lambda: b"".join(b"a%x=1\n" % n for n in range(500_000)),
    "dotted keys": lambda: b"a." * (7 * MIB // 2) + b"a=1",
    "keys of 32 parts": lambda: b"".join(b"k%x." % n + b"a." * 30 + b"a=1\n" for n in range(60_000)),
    "nesting": lambda: b"a=" + b"[" * (7 * MIB),
    "digits": lambda: b"a=" + b"9" * (7 * MIB),
    "wide text": lambda: f"a='{WIDE}'".encode(),
    "inline tables": lambda: b"a=[" + b"{a=1}," * 110_000 + b"]" + b"#" * 3 * MIB,
    "unclosed": lambda: b'a="""' + b'\\"' * (3 * MIB),
}
YAML_BOMBS: dict[str, Callable[[], bytes]] = {
    "items": lambda: b"- a\n" * (2 * MIB),
    "mappings": lambda: b"- {}\n" * MIB,
    "nesting": lambda: b"[" * (7 * MIB),
    "aliases": lambda: (
        b"a0: &a0 [x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12))
    ),
    "wide text": lambda: f"a: '{WIDE}'".encode(),
}
ARCHIVE_BOMBS: dict[str, Callable[[], bytes]] = {
    "zip with bz2": lambda: zipped(zipfile.ZIP_BZIP2, ("SKILL.md", bytes(1_000_000_000 // 4))),
    "zip with LZMA": lambda: zipped(zipfile.ZIP_LZMA, ("SKILL.md", bytes(100_000_000))),
    "zip with deflate": lambda: zipped(zipfile.ZIP_DEFLATED, ("SKILL.md", bytes(200_000_000))),
    "zip of many": lambda: zipped(zipfile.ZIP_DEFLATED, *((f"{n}", bytes(26_000)) for n in range(1_000))),
    "zip of rows": many_rows,
    "tar.gz": lambda: gzip.compress(bytes(500_000_000)),
    "tar with a global header": lambda: tar_with({"comment": "x" * 60_000_000}, is_global=True, members=900),
    "tar with long headers": lambda: tar_with({"comment": "x" * 60_000}, is_global=False, members=900),
    "tar with a long name": lambda: tar_with({"path": "a/" * 3_000_000}, is_global=False, members=2),
    "a huge size": lambda: tar_size(8 * 1024 * MIB - 1),
    "bz2": lambda: bz2.compress(bytes(100_000_000)),
}
FRONTMATTER_BOMBS: dict[str, Callable[[], bytes]] = {
    "long": lambda: b"---\nname: a\n" + b"x: [1,2]\n" * MIB + b"---\n",
    "unquoted": lambda: b"---\nname: a\n" + b"x: a: b\n" * MIB + b"---\n",
    "conflicts": lambda: b"---\n" + b"=======\n" * MIB + b"---\n",
    "conflicts within the size": lambda: b"---\n" + b"=======\n" * 8_000 + b"---\n",
    "fields within the size": lambda: (
        b"---\n" + b"".join(b"a%x: b: c\n" % n for n in range(5_000)) + b"---\n"
    ),
    "nesting": lambda: b"---\nname: " + b"[" * (15 * MIB) + b"\n---\n",
    "aliases": lambda: b"---\n" + YAML_BOMBS["aliases"]() + b"---\n",
    "wide": lambda: b"---\nname: a\ndescription: b\n---\n" + WIDE.encode(),
}


def tar_size(size: int) -> bytes:
    info = tarfile.TarInfo("SKILL.md")
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT) + bytes(10_240)


WAYS: dict[str, tuple[dict[str, Callable[[], bytes]], bytes]] = {
    "archive": (ARCHIVE_BOMBS, zipped(zipfile.ZIP_DEFLATED, ("SKILL.md", b"x"))),
    "site": (JSON_BOMBS, b'{"skills": [{}]}'),
    "index": (JSON_BOMBS, b'{"skills": [{}]}'),
    "manifest": (JSON_BOMBS, b'{"files": []}'),
    "foreign": (JSON_BOMBS, b'{"version": 1, "skills": {}}'),
    "client": ({**JSON_BOMBS, "comments": lambda: b",/*" * MIB, "quotes": lambda: b'"\\"' * MIB}, b"{}"),
    "client_yaml": (YAML_BOMBS, b"a: 1"),
    "lock": (TOML_BOMBS, b"version = 1\n"),
    "config": (TOML_BOMBS, b"style = 'spec'\n"),
    "callers": (TOML_BOMBS, b"[callers.a]\n"),
    "signature": (JSON_BOMBS, b"{}"),
    "frontmatter": (FRONTMATTER_BOMBS, b"---\nname: a\ndescription: b\n---\n"),
}
# All bombs of a kind go through one parser, so each other way gets the three that cost the most.
DEAREST = frozenset({"as many objects as pass", "keys", "wide text", "as many tables as pass", "digits"})
THOROUGH = frozenset({"archive", "site", "lock", "client_yaml", "client", "frontmatter"})


@pytest.mark.parametrize(
    ("way", "bomb"),
    [
        pytest.param(way, bomb, id=f"{way}-{bomb}")
        for way, (bombs, _) in WAYS.items()
        for bomb in bombs
        if way in THOROUGH or bomb in DEAREST
    ],
)
def test_an_input_costs_no_more_than_its_size_allows(way: str, bomb: str, tmp_path: Path) -> None:
    bombs, small = WAYS[way]
    data = bombs[bomb]()
    size = len(data) / MIB
    assert size < 16
    memory, seconds, said = cost(way, data, small, tmp_path)
    assert memory <= 4 * size + 64, f"{memory} MiB for {size:.2f} MiB: {said}"
    assert seconds <= 2 + 2 * size, f"{seconds} s for {size:.2f} MiB: {said}"


def git_in(folder: Path, *words: str, given: bytes = b"") -> str:
    return (
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
            cwd=folder,
            env={**os.environ, **git_environment(os.environ)},
            input=given,
            check=True,
            capture_output=True,
        )
        .stdout.decode()
        .strip()
    )


def repository_of(folder: Path, tree: str) -> None:
    commit = git_in(folder, "commit-tree", tree, "-m", "x")
    git_in(folder, "update-ref", "refs/heads/main", commit)


def tree_bomb(folder: Path) -> None:
    """Ten folders in each folder, ten deep, all the same object."""
    blob = git_in(folder, "hash-object", "-w", "--stdin", given=b"x")
    tree = git_in(folder, "mktree", given=f"100644 blob {blob}\tSKILL.md\n".encode())
    for _ in range(10):
        rows = "".join(f"040000 tree {tree}\td{number}\n" for number in range(10))
        tree = git_in(folder, "mktree", given=rows.encode())
    repository_of(folder, tree)


def many_skills(folder: Path) -> None:
    blob = git_in(folder, "hash-object", "-w", "--stdin", given=b"---\nname: a\n---\n")
    skill = git_in(folder, "mktree", given=f"100644 blob {blob}\tSKILL.md\n".encode())
    rows = "".join(f"040000 tree {skill}\tskill-{number:05}\n" for number in range(14_400))
    repository_of(folder, git_in(folder, "mktree", given=rows.encode()))


def zeros(folder: Path) -> None:
    blob = git_in(folder, "hash-object", "-w", "--stdin", given=bytes(150_000_000))
    repository_of(folder, git_in(folder, "mktree", given=f"100644 blob {blob}\tSKILL.md\n".encode()))


def nested_skills(folder: Path) -> None:
    """A skill in a skill, sixty deep, hundreds of times."""
    blob = git_in(folder, "hash-object", "-w", "--stdin", given=b"x")
    tree = git_in(folder, "mktree", given=f"100644 blob {blob}\tSKILL.md\n".encode())
    for _ in range(60):
        tree = git_in(
            folder, "mktree", given=f"100644 blob {blob}\tSKILL.md\n040000 tree {tree}\td\n".encode()
        )
    rows = "".join(f"040000 tree {tree}\td{number:03}\n" for number in range(700))
    repository_of(folder, git_in(folder, "mktree", given=rows.encode()))


@pytest.mark.parametrize("make", [tree_bomb, many_skills, zeros, nested_skills])
def test_a_repository_costs_no_more_than_its_size_allows(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    for name in ("bomb-repository", "small-repository"):
        (tmp_path / name).mkdir()
        git_in(tmp_path / name, "init", "--quiet", "--bare", "--initial-branch=main")
    make(tmp_path / "bomb-repository")
    small = tmp_path / "small-repository"
    blob = git_in(small, "hash-object", "-w", "--stdin", given=b"x")
    repository_of(small, git_in(small, "mktree", given=f"100644 blob {blob}\tSKILL.md\n".encode()))
    size = sum(file.stat().st_size for file in (tmp_path / "bomb-repository").rglob("*")) / MIB
    assert size < 16
    memory, seconds, said = cost(
        "git", str(tmp_path / "bomb-repository").encode(), str(small).encode(), tmp_path
    )
    assert memory <= 4 * size + 64, f"{memory} MiB for {size:.2f} MiB: {said}"
    assert seconds <= 2 + 2 * size, f"{seconds} s for {size:.2f} MiB: {said}"
