"""Files on disk: opened without following links, read once, hashed, and remembered as a `FileRecord`.

Whatever is opened is opened relative to a directory that is held open, one path component at a time, and no
component may be a link. So a directory that somebody swaps for a link, at any moment, leads nowhere (S4).
"""

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
_EXACT: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | _EXACT
# A link or a pipe put in a file's place must neither lead the reader elsewhere nor block it.
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# On the way to a file a directory is only passed through, which needs no right to list it.
_PASSED: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_HAS_DESCRIPTORS: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
# Kernels stamp files by a clock that ticks: a second change within one tick leaves the same times.
_TICK_NS: Final = 50_000_000
# The coarsest clock by which file systems stamp files ticks every two seconds. A file that changed within
# that time may change once more and show the same times.
_COARSEST_NS: Final = 2_000_000_000
# Shortages of the machine say nothing about the file.
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


class OpenDirectory:
    """A directory that is held open, and the way to what lies in it.

    `path` is its real path. What is reached through it lies in the directory that was opened, wherever the
    path leads by now. Where the system has no relative opening (Windows), paths are checked before and after.
    """

    __slots__ = ("_descriptor", "_inner", "_inner_name", "inside", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.inside = path if path.endswith(os.sep) else path + os.sep
        """What the path of everything below it starts with."""
        self._descriptor = descriptor
        # The directory below that was used last: files are mostly read directory by directory.
        self._inner: OpenDirectory | None = None
        self._inner_name = ""

    @classmethod
    def open(cls, path: str, *, listed: bool = False) -> OpenDirectory:
        """Open a directory that the operator named; `listed` when its children are wanted."""
        if not _HAS_DESCRIPTORS:
            return cls(path, -1)
        return cls(path, os.open(path, (_DIRECTORY if listed else _PASSED) | _EXACT))

    def __enter__(self) -> OpenDirectory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
            self._inner = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def child(self, name: str, *, listed: bool = True) -> OpenDirectory:
        """Open a directory in this one; an `OSError` when it is none, or is a link."""
        path = self.inside + name
        if not _HAS_DESCRIPTORS:
            _refuse_links(path)
            return OpenDirectory(path, -1)
        flags = (_DIRECTORY if listed else _PASSED) | _NO_LINK
        return OpenDirectory(path, os.open(name, flags, dir_fd=self._descriptor))

    def below(self, relative: str, *, listed: bool = True) -> OpenDirectory:
        """Open a directory at any depth below this one, where no part of the way is a link."""
        at = self
        names = relative.split(os.sep)
        for number, name in enumerate(names, 1):
            try:
                inner = at.child(name, listed=listed and number == len(names))
            finally:
                if at is not self:
                    at.close()
            at = inner
        return at

    def children(self) -> list[os.DirEntry[str]]:
        """What lies in it. Ask the entries only while the directory is open."""
        with os.scandir(self._descriptor if self._descriptor >= 0 else self.path) as entries:
            return list(entries)

    def status(self, name: str = "") -> os.stat_result:
        """The status of a child, links not followed; without a name, of the directory itself."""
        if self._descriptor < 0:
            return os.stat(os.path.join(self.path, name) if name else self.path, follow_symlinks=False)
        if not name:
            return os.fstat(self._descriptor)
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def open_file(self, relative: str) -> int:
        """The descriptor of a file below the directory; an `OSError` when any part of the way is a link."""
        parent, _, name = relative.rpartition(os.sep)
        if self._descriptor < 0:
            path = os.path.join(self.path, relative)
            _refuse_links(path)
            descriptor = os.open(path, _FILE)
            try:
                _refuse_links(path)
            except OSError:
                os.close(descriptor)
                raise
            return descriptor
        if not parent:  # Most files lie in the very directory that is open.
            return os.open(name, _FILE, dir_fd=self._descriptor)
        if self._inner is None or self._inner_name != parent:
            inner = self.below(parent, listed=False)
            if self._inner is not None:
                self._inner.close()
            self._inner, self._inner_name = inner, parent
        return os.open(name, _FILE, dir_fd=self._inner._descriptor)


def _refuse_links(path: str) -> None:
    if os.path.realpath(path) != path:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def hash_file(path: str, *, keep: bool, base: OpenDirectory | str, at_most: int | None = None) -> HashedFile:
    """Read a regular file once and hash what was read; with `keep`, give the bytes too.

    `path` lies below `base`, the directory that its way starts from; no part of it may be a link. A file
    longer than `at_most` is not read to its end: its `size` is then larger than that, and its digest that of
    no whole file.
    """
    descriptor = _open(path, base)
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


def read_head(path: str, *, base: OpenDirectory | str, limit: int) -> bytes:
    """The first bytes of a regular file, at most `limit` of them."""
    descriptor = _open(path, base)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "not a regular file", path)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def _open(path: str, base: OpenDirectory | str) -> int:
    if isinstance(base, OpenDirectory):
        if not path.startswith(base.inside):
            raise OSError(errno.EXDEV, "outside the directory", path)
        return base.open_file(path[len(base.inside) :])
    with OpenDirectory.open(base) as directory:
        return directory.open_file(relative_path(path, base))


def relative_path(path: str, base: str) -> str:
    """The way from a directory down to a path below it; both real paths."""
    start = os.path.join(base, "")
    if not path.startswith(start):
        raise OSError(errno.EXDEV, "outside the directory", path)
    return path[len(start) :]


def is_passing(error: OSError) -> bool:
    """Whether an error is about the state of the machine, and not about the file."""
    return error.errno in _PASSING


@dataclass(frozen=True, slots=True)
class FileValidator:
    """Fresh while the file has the size, the times and the identity that it had when it was hashed."""

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
