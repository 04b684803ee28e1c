"""FileRecord: a file as it was when it was hashed, and the reading and hashing of files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from dataclasses import dataclass
from typing import Final

from skillwire.skill.digests import Digest
from skillwire.skill.entries import SkillResource
from skillwire.skill.uris import SkillUri

_CHUNK: Final = 1 << 20
# A link or a pipe put in a file's place must neither lead the reader elsewhere nor hold it.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
# Kernels stamp files by a clock that ticks: a second change within one tick leaves the same times.
_TICK_NS: Final = 50_000_000
# What the machine lacks for the moment says nothing about the file.
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file that was hashed. `modified`, `changed` and `inode` tell whether it may be another one by now.

    `is_settled` is false for a file that was hashed right after a change: its times prove nothing.
    """

    resource: SkillResource
    path: str
    modified: int
    changed: int
    inode: int
    is_settled: bool

    def is_unchanged(self, status: os.stat_result) -> bool:
        return self.is_settled and (self.resource.size, self.modified, self.changed, self.inode) == (
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
    is_settled: bool
    data: bytes | None

    def record(self, uri: SkillUri, path: str) -> FileRecord:
        """What to remember of it."""
        seen = self.status
        return FileRecord(
            SkillResource(uri, self.digest, self.size),
            path,
            seen.st_mtime_ns,
            seen.st_ctime_ns,
            seen.st_ino,
            self.is_settled,
        )


def hash_file(path: str, *, keep: bool, at_most: int | None = None) -> HashedFile:
    """Read a regular file once and hash what was read; with `keep`, give the bytes too.

    A file longer than `at_most` is not read to its end: its `size` is then larger than that, and its digest
    that of no whole file.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "not a regular file", path)
        is_settled = max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _TICK_NS
        hasher = hashlib.sha256()
        size = 0
        kept: list[bytes] = []
        # One byte more than there should be: a file that did not grow is read in one go.
        wanted = min(status.st_size + 1, _CHUNK)
        while chunk := os.read(descriptor, wanted):
            hasher.update(chunk)
            size += len(chunk)
            if keep:
                kept.append(chunk)
            if at_most is not None and size > at_most:
                break
            if len(chunk) < wanted:
                break  # Of a regular file, a short read is the last.
            wanted = _CHUNK
    finally:
        os.close(descriptor)
    digest = Digest("sha256:" + hasher.hexdigest())
    return HashedFile(digest, size, status, is_settled, b"".join(kept) if keep else None)


def is_passing(error: OSError) -> bool:
    """Whether an error speaks of the machine at this moment, and not of the file."""
    return error.errno in _PASSING
