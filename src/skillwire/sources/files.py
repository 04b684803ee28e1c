"""FileRecord: a file as it was when it was hashed, and the reading and hashing of files."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import Final

from skillwire.skill.digests import Digest
from skillwire.skill.entries import SkillResource

_CHUNK: Final = 1 << 20
# A link or a pipe put in a file's place must neither lead the reader elsewhere nor hold it.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file that was hashed. `modified`, `changed` and `inode` tell whether it may be another one by now."""

    resource: SkillResource
    path: str
    modified: int
    changed: int
    inode: int

    def is_unchanged(self, status: os.stat_result) -> bool:
        return (self.resource.size, self.modified, self.changed, self.inode) == (
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
        )


@dataclass(frozen=True, slots=True)
class HashedFile:
    """The digest of the bytes that were read, their number, and the bytes themselves where they were kept."""

    digest: Digest
    size: int
    status: os.stat_result
    data: bytes | None


def hash_file(path: str, *, keep: bool) -> HashedFile:
    """Read a regular file once and hash what was read; with `keep`, give the bytes too."""
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "not a regular file", path)
        chunk = os.read(descriptor, max(status.st_size, 1) + 1 if status.st_size < _CHUNK else _CHUNK)
        hasher = hashlib.sha256(chunk)
        size = len(chunk)
        kept = [chunk]
        while chunk:
            chunk = os.read(descriptor, _CHUNK)
            hasher.update(chunk)
            size += len(chunk)
            if keep:
                kept.append(chunk)
    finally:
        os.close(descriptor)
    return HashedFile(Digest("sha256:" + hasher.hexdigest()), size, status, b"".join(kept) if keep else None)
