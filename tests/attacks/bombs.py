"""Inputs that look cheap and are not: for every way in, a bomb of each kind, of any size.

`WAYS` has what reads an input, something small that it reads, and its bombs. A bomb is made for a
number of bytes: its own, or those that it unpacks to.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillwire.errors import SkillwireError

MIB = 1024 * 1024
WIDE = "\U0001f600"


class Bomb:
    """An input of any size, and the sizes at which it costs the most."""

    def __init__(self, make: Callable[[int], bytes], *full: int) -> None:
        self.make = make
        self.full = full


@dataclass(frozen=True, slots=True)
class Way:
    read: Callable[[bytes], object]
    small: bytes
    bombs: Mapping[str, Bomb]

    def answer(self, data: bytes) -> str:
        """Read an input: why it is refused, if it is."""
        try:
            self.read(data)
        except (SkillwireError, ValueError) as error:
            return str(error)
        return "accepted"


# The ways in. Each imports what it needs: a process that measures one imports no other.


def archive(data: bytes) -> None:
    from skillwire.net import read_archive

    read_archive(data)


def site(data: bytes) -> None:
    from skillwire.sources.wellknown import parse_site_index

    parse_site_index(data, "https://example.org/.well-known/agent-skills/index.json")


def index(data: bytes) -> None:
    from skillwire.wire.legacy import parse_index

    parse_index(data)


def manifest(data: bytes) -> None:
    from skillwire.skill.entries import DYNAMIC, SkillEntry, SkillUri
    from skillwire.wire.legacy import bind_to_manifest

    bind_to_manifest(SkillEntry(SkillUri("skill://a/SKILL.md"), {}, DYNAMIC), data)


def lock(data: bytes) -> None:
    from skillwire.install.lock import parse_lock

    parse_lock(data.decode())


def config(data: bytes) -> None:
    from skillwire.host.config.text import parse_config

    parse_config(data.decode(), Path("skillwire.toml"))


def callers(data: bytes) -> None:
    from skillwire.access.callers import parse_callers

    parse_callers(data.decode(), "callers.toml")


def client(data: bytes) -> None:
    from skillwire.host.importers.base import parse_text

    parse_text(data, ".json")


def client_yaml(data: bytes) -> None:
    from skillwire.host.importers.base import parse_text

    parse_text(data, ".yaml")


def foreign(data: bytes) -> None:
    from skillwire.install.foreign import parse_foreign_lock

    parse_foreign_lock(data.decode(), "skills-lock.json")


def signature(data: bytes) -> None:
    from skillwire.trust.publishers import InvalidSignatureFile, parse_bundle

    try:
        parse_bundle(data)
    except InvalidSignatureFile as error:
        raise ValueError(str(error)) from None


def frontmatter(data: bytes) -> None:
    from skillwire.skill.files import parse_skill_md

    parse_skill_md(data)


# JSON, TOML, YAML


def times(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def listed(unit: bytes, size: int) -> bytes:
    return b'{"skills":[' + times(unit + b",", size) + unit + b"]}"


def wide(size: int) -> str:
    return WIDE + "a" * size


def numbered(row: str, size: int) -> bytes:
    """A row again and again, each with another number."""
    return "".join(row % n for n in range(size // len(row % 0x10000))).encode()


def mostly_spaces(size: int) -> bytes:
    objects = times(b'{"a":1,"b":2},', size // 6)
    return b'{"skills":[' + objects + b" " * (size - len(objects)) + b"{}]}"


def aliases(size: int) -> bytes:
    """Each list is ten times the one before."""
    rows = [b"a0: &a0 [x]\n"]
    for n in range(1, size // 70):
        rows.append(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 10)))
    return b"".join(rows)


JSON_BOMBS = {
    "empty objects": Bomb(lambda size: listed(b"{}", size), 15 * MIB, 6 * MIB),
    "as many objects as pass": Bomb(mostly_spaces, 7 * MIB + MIB // 4),
    "keys": Bomb(lambda size: json.dumps({f"{n:07x}": n for n in range(size // 22)}).encode(), 6 * MIB),
    "nesting": Bomb(lambda size: b"[" * size, 15 * MIB),
    "digits": Bomb(lambda size: b'{"skills":[' + b"9" * size + b"]}", 7 * MIB),
    "many long numbers": Bomb(lambda size: listed(b"9" * 390, size), 4 * MIB),
    "wide text": Bomb(lambda size: f'{{"skills":["{wide(size)}"]}}'.encode(), 7 * MIB),
    "wide keys": Bomb(lambda size: f'{{"{wide(size)}":1}}'.encode(), 7 * MIB),
    "escapes": Bomb(lambda size: b'{"skills":["' + times(rb"\ud83d\ude00", size) + b'"]}', 7 * MIB),
}
COMMENT_BOMBS = {
    "comments": Bomb(lambda size: times(b",/*", size), 3 * MIB),
    "quotes": Bomb(lambda size: times(b'"\\"', size), 3 * MIB),
    "short strings": Bomb(lambda size: times(b'""', size), 3 * MIB),
    "short comments": Bomb(lambda size: times(b"ab/**/", size), 8 * MIB),
    "wide text with a comment": Bomb(lambda size: f'["{wide(size)}"]//'.encode(), 7 * MIB),
}
TOML_BOMBS = {
    "tables": Bomb(lambda size: numbered("[%x]\n", size), 14 * MIB),
    "as many tables as pass": Bomb(
        lambda size: numbered("[%06x]\n", size // 16) + b"#" * (size - size // 16), 5 * MIB + MIB // 3
    ),
    "lists of tables": Bomb(lambda size: times(b"[[a]]\n", size), 12 * MIB),
    "keys": Bomb(lambda size: numbered("a%x=1\n", size), 4 * MIB),
    "dotted keys": Bomb(lambda size: times(b"a.", size) + b"a=1", 7 * MIB),
    "keys of 32 parts": Bomb(lambda size: numbered("k%x." + "a." * 30 + "a=1\n", size), 4 * MIB),
    "nesting": Bomb(lambda size: b"a=" + b"[" * size, 7 * MIB),
    "digits": Bomb(lambda size: b"a=" + b"9" * size, 7 * MIB),
    "wide text": Bomb(lambda size: f"a='{wide(size)}'".encode(), 7 * MIB),
    "wide and bare": Bomb(lambda size: wide(size).encode(), 7 * MIB),
    "inline tables": Bomb(
        lambda size: b"a=[" + times(b"{a=1},", size // 7) + b"]" + b"#" * (size - size // 7), 4 * MIB
    ),
    "short strings": Bomb(lambda size: times(b"''ab", size), 8 * MIB),
    "unclosed": Bomb(lambda size: b'a="""' + times(b'\\"', size), 6 * MIB),
}
YAML_BOMBS = {
    "items": Bomb(lambda size: times(b"- a\n", size), 8 * MIB),
    "mappings": Bomb(lambda size: times(b"- {}\n", size), 5 * MIB),
    "nesting": Bomb(lambda size: b"[" * size, 7 * MIB),
    "aliases": Bomb(aliases, 840),
    "wide text": Bomb(lambda size: f"a: '{wide(size)}'".encode(), 7 * MIB),
}


def fenced(unit: bytes, head: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: b"---\n" + head + times(unit, size) + b"---\n"


FRONTMATTER_BOMBS = {
    "long": Bomb(fenced(b"x: [1,2]\n", b"name: a\n"), 9 * MIB),
    "unquoted": Bomb(fenced(b"x: a: b\n", b"name: a\n"), 8 * MIB),
    "conflicts": Bomb(fenced(b"=======\n"), 8 * MIB, 64_000),
    "fields": Bomb(lambda size: b"---\n" + numbered("a%x: b: c\n", size) + b"---\n", 60_000),
    "nesting": Bomb(lambda size: b"---\nname: " + b"[" * size + b"\n---\n", 15 * MIB),
    "aliases": Bomb(lambda size: b"---\n" + aliases(size) + b"---\n", 840),
    "wide": Bomb(lambda size: f"---\nname: a\ndescription: b\n---\n{wide(size)}".encode(), 7 * MIB),
}


# Archives. Their sizes are those of what they unpack to.


def zipped(method: int, *members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=1) as made:
        for name, data in members:
            made.writestr(name, data)
    return buffer.getvalue()


def zip_of_rows(size: int) -> bytes:
    """A zip whose directory is nothing but rows."""
    data = zipped(zipfile.ZIP_STORED, ("a", b""))
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    return data[:start] + data[start:end] * (size // (end - start)) + data[end:]


def tarred(*members: tuple[str, Mapping[str, str]], common: Mapping[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=common) as made:
        for name, headers in members:
            info = tarfile.TarInfo(name)
            info.pax_headers = dict(headers)
            made.addfile(info)
    return gzip.compress(buffer.getvalue(), 1)


def numbers(count: int, headers: Mapping[str, str]) -> list[tuple[str, Mapping[str, str]]]:
    return [(str(number), headers) for number in range(count)]


def tar_size(size: int) -> bytes:
    info = tarfile.TarInfo("SKILL.md")
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT) + bytes(10_240)


def zip_of_many(size: int) -> bytes:
    return zipped(zipfile.ZIP_DEFLATED, *((f"{n}", bytes(26_000)) for n in range(size // 26_000)))


ARCHIVE_BOMBS = {
    "zip with bz2": Bomb(lambda size: zipped(zipfile.ZIP_BZIP2, ("SKILL.md", bytes(size))), 96 * MIB),
    "zip with LZMA": Bomb(lambda size: zipped(zipfile.ZIP_LZMA, ("SKILL.md", bytes(size))), 96 * MIB),
    "zip with deflate": Bomb(lambda size: zipped(zipfile.ZIP_DEFLATED, ("SKILL.md", bytes(size))), 192 * MIB),
    "zip of many": Bomb(zip_of_many, 26_000_000),
    "zip of rows": Bomb(zip_of_rows, 9 * MIB),
    "tar.gz": Bomb(lambda size: gzip.compress(bytes(size), 1), 400 * MIB),
    "tar with a global header": Bomb(
        lambda size: tarred(*numbers(size // 70_000, {}), common={"comment": "x" * size}), 60_000_000
    ),
    "tar with long headers": Bomb(
        lambda size: tarred(*numbers(size // 60_000, {"comment": "x" * 60_000})), 54_000_000
    ),
    "tar with a long name": Bomb(
        lambda size: tarred(("a", {"path": "a/" * (size // 2)}), ("b", {})), 6_000_000
    ),
    "a huge size": Bomb(tar_size, 8 * 1024 * MIB - 1),
    "bz2": Bomb(lambda size: bz2.compress(bytes(size), 1), 96 * MIB),
}


# All bombs of a kind go through one parser: elsewhere, those that cost the most are enough.
DEAREST = ("as many objects as pass", "keys", "wide text", "as many tables as pass", "digits")


def dearest(bombs: Mapping[str, Bomb]) -> dict[str, Bomb]:
    return {name: bomb for name, bomb in bombs.items() if name in DEAREST}


WAYS = {
    "archive": Way(archive, zipped(zipfile.ZIP_DEFLATED, ("SKILL.md", b"x")), ARCHIVE_BOMBS),
    "site": Way(site, b'{"skills": [{}]}', JSON_BOMBS),
    "index": Way(index, b'{"skills": [{}]}', dearest(JSON_BOMBS)),
    "manifest": Way(manifest, b'{"files": []}', dearest(JSON_BOMBS)),
    "foreign": Way(foreign, b'{"version": 1, "skills": {}}', dearest(JSON_BOMBS)),
    "client": Way(client, b"{}", {**JSON_BOMBS, **COMMENT_BOMBS}),
    "client_yaml": Way(client_yaml, b"a: 1", YAML_BOMBS),
    "lock": Way(lock, b"version = 1\n", TOML_BOMBS),
    "config": Way(config, b"style = 'spec'\n", dearest(TOML_BOMBS)),
    "callers": Way(callers, b"[callers.a]\n", dearest(TOML_BOMBS)),
    "signature": Way(signature, b"{}", dearest(JSON_BOMBS)),
    "frontmatter": Way(frontmatter, b"---\nname: a\ndescription: b\n---\n", FRONTMATTER_BOMBS),
}
