"""Limits of a start: a process that imports what an SDK server needs, does one part of the work and says so.

floor.py imports FOLDER     the imports alone
floor.py scan FOLDER        and walk, read, hash and parse the frontmatter
floor.py stat FOLDER        and walk with a stat of every file
floor.py hash FOLDER        walk and hash, without the imports
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator


def files(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from files(entry.path)
            else:
                yield entry


def walk_and_stat(folder: str) -> int:
    return sum(entry.stat(follow_symlinks=False).st_size for entry in files(folder))


def walk_and_hash(folder: str) -> Iterator[tuple[str, bytes]]:
    for entry in files(folder):
        with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123 - a limit takes the shortest way
            data = file.read()
        hashlib.sha256(data).hexdigest()
        yield entry.name, data


def walk_hash_and_parse(folder: str) -> int:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    parsed = 0
    for name, data in walk_and_hash(folder):
        if name == "SKILL.md":
            parsed += bool(yaml.load(data[3 : data.index(b"\n---", 3)], loader))
    return parsed


def main() -> None:
    mode, folder = sys.argv[1:]
    sys.stdin.buffer.readline()
    if mode != "hash":
        import mcp.server.lowlevel
        import mcp.server.stdio  # noqa: F401
    if mode == "scan":
        walk_hash_and_parse(folder)
    elif mode == "stat":
        walk_and_stat(folder)
    elif mode == "hash":
        for _ in walk_and_hash(folder):
            pass
    sys.stdout.write('{"jsonrpc":"2.0","id":1000000,"result":{"skills":[]}}\n')
    sys.stdout.flush()


if __name__ == "__main__":
    main()
