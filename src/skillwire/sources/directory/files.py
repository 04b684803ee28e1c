"""FileRecord: a file as it was when it was hashed, and the reading and hashing of files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import time
from dataclasses import dataclass
from typing import Final, NamedTuple, NewType

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
# The coarsest clock by which file systems stamp files ticks every two seconds. A file that changed within
# that time may change once more and show the same times.
_COARSEST_NS: Final = 2_000_000_000
# What the machine lacks for the moment says nothing about the file.
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})


_STAMP: Final = struct.Struct("<qqQ")

Stamp = NewType("Stamp", bytes)
"""When a file was modified and changed, and its inode, packed: tens of thousands of them are held."""
STAMP_BYTES: Final = _STAMP.size
UNSETTLED: Final = Stamp(bytes(STAMP_BYTES))
"""In place of a stamp: the file was hashed right after a change, and its times prove nothing."""


class FileRecord(NamedTuple):
    """A file that was hashed. The stamp tells whether it may be another one by now."""

    resource: SkillResource
    path: str
    stamp: Stamp

    @property
    def modified(self) -> int:
        return _STAMP.unpack(self.stamp)[0]

    @property
    def changed(self) -> int:
        return _STAMP.unpack(self.stamp)[1]

    def is_unchanged(self, status: os.stat_result) -> bool:
        return is_as_stamped(self.resource.size, self.stamp, status)


class HashedFile(NamedTuple):
    """The digest of the bytes that were read, their number, and the bytes themselves where they were kept."""

    digest: Digest
    size: int
    stamp: Stamp
    data: bytes | None

    def record(self, uri: SkillUri, path: str) -> FileRecord:
        """What to remember of it."""
        return FileRecord(SkillResource(uri, self.digest, self.size), path, self.stamp)


def stamp_of(status: os.stat_result) -> Stamp:
    """What the status of a file says about its times and its identity."""
    try:
        return Stamp(_STAMP.pack(status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    except struct.error:  # A time beyond the year 2262, or an inode of 128 bits.
        return UNSETTLED


def is_as_stamped(size: int, stamp: bytes, status: os.stat_result) -> bool:
    """Whether a file that had this size and stamp has them still."""
    return size == status.st_size and stamp != UNSETTLED and stamp == stamp_of(status)


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
        # One byte more than there should be: a file that did not grow is read in one go.
        wanted = min(status.st_size + 1, _CHUNK)
        chunk = os.read(descriptor, wanted)
        hasher = hashlib.sha256(chunk)
        size = len(chunk)
        kept = [chunk]
        # Of a regular file, a short read is the last.
        while len(chunk) == wanted and (at_most is None or size <= at_most):
            wanted = _CHUNK
            chunk = os.read(descriptor, wanted)
            hasher.update(chunk)
            size += len(chunk)
            if keep:
                kept.append(chunk)
    finally:
        os.close(descriptor)
    digest = Digest("sha256:" + hasher.hexdigest())
    stamp = stamp_of(status) if is_settled else UNSETTLED
    return HashedFile(digest, size, stamp, b"".join(kept) if keep else None)


def is_passing(error: OSError) -> bool:
    """Whether an error speaks of the machine at this moment, and not of the file."""
    return error.errno in _PASSING


@dataclass(frozen=True, slots=True)
class FileValidator:
    """Holds while the file has the size, the times and the identity that it had when it was hashed."""

    record: FileRecord

    def is_fresh(self) -> bool:
        record = self.record
        try:
            return record.is_unchanged(os.stat(record.path, follow_symlinks=False))
        except OSError:
            return False


def validator_for(record: FileRecord) -> FileValidator | None:
    """A validator for a file just read and hashed to its record; `None` if it was written a moment ago."""
    # Elsewhere no time tells of a change that somebody hides by setting the other one back.
    if os.name != "posix" or max(record.modified, record.changed) > time.time_ns() - _COARSEST_NS:
        return None
    return FileValidator(record)
