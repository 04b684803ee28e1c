"""Files on disk: opened without following links, read once, hashed, and remembered as a `FileRecord`.

Everything is opened relative to an open directory, one path component at a time, and no component may be a
link. So replacing a directory with a link, at any moment, has no effect (S4).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, NewType

from skillwire.errors import FormatError, SourceError
from skillwire.files import expand_user
from skillwire.skill import Digest, SkillResource, SkillUri, is_linkable, make_uri, shown_uri
from skillwire.text import shown

# The directories below the home in which agents keep a user's skills.
_HOME_FOLDERS: Final = (
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".config/agents/skills",
    ".config/goose/skills",
    ".config/opencode/skills",
    ".copilot/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".goose/skills",
    ".skills",
)


@dataclass(frozen=True, slots=True)
class Root:
    """A resolved directory, and the path segments that precede its skills."""

    path: Path
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkScope:
    """The directories that links may lead into; all other targets are never opened.

    `bases` are real paths. With `everywhere`, a link may lead anywhere except to credentials.
    """

    bases: tuple[str, ...]
    everywhere: bool = False

    def base_of(self, path: str) -> str | None:
        """The base directory from which a real path is opened; `None` if it is out of reach."""
        best = None
        for base in self.bases:
            if (path == base or path.startswith(os.path.join(base, ""))) and len(base) > len(best or ""):
                best = base
        if best is None and self.everywhere:
            best = Path(path).anchor
        return best

    def allows(self, path: str) -> bool:
        """Whether a link may lead to this real path: within reach, not into `.git` or to credentials."""
        base = self.base_of(path)
        return base is not None and all(map(is_linkable, path[len(base) :].split(os.sep)))


def find_reach(roots: Iterable[Root], *, everywhere: bool = False, home: Path | None = None) -> LinkScope:
    """Where the links of these roots may lead: into any of them, the user's skill folders, or the repository
    or project around a root.
    """
    home = Path.home() if home is None else home
    bases = {str(root.path): None for root in roots}
    for root in list(bases):
        project = _project_of(Path(root), home)
        if project is not None:
            bases[str(project)] = None
    for folder in _HOME_FOLDERS:
        path = os.path.realpath(home / folder)
        if os.path.isdir(path):
            bases[path] = None
    return LinkScope(tuple(bases), everywhere)


def _project_of(path: Path, home: Path) -> Path | None:
    """The repository or project around a directory. A home directory is neither."""
    repository = repository_around(path, home)
    if repository is not None or path in (home, *home.parents):
        return repository
    # `.claude/skills` and similar folders are directly in a project.
    if path.name == "skills" and path.parent.name.startswith("."):
        project = path.parent.parent
        return None if project in (home, *home.parents) else project
    return None


def repository_around(path: Path, home: Path) -> Path | None:
    """The repository that a directory is in, if any. A home directory is none."""
    for at in (path, *path.parents):
        if at in (home, *home.parents):
            return None
        if os.path.lexists(at / ".git"):
            return at
    return None


def parse_root(text: str | Path | Root) -> Root:
    """A root from `./skills` or `acme=./skills`, or a `SourceError` that says what is wrong with it."""
    if isinstance(text, Root):
        return text
    given = str(text)
    prefix: tuple[str, ...] = ()
    before, equals, after = given.partition("=")
    # The name of a directory may contain an equals sign.
    if equals and isinstance(text, str) and not _exists(given):
        given = after
        prefix = tuple(before.split("/"))
        try:
            make_uri(prefix)
        except FormatError as error:
            reason = error.issues[0].message if before else "it is empty"
            raise SourceError(
                f"{shown(before)!r} is not a prefix: {reason}; write PREFIX=PATH, or PATH alone"
            ) from None
    if not given:
        # An unset variable must not serve the current directory.
        raise SourceError("the path is empty; name a directory with skills")
    try:
        path = expand_user(given).resolve(strict=True)
        is_directory = path.is_dir()
    except FileNotFoundError:
        raise SourceError(f"{shown_uri(given)} does not exist; name a directory with skills") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise SourceError(f"{shown_uri(given)} cannot be opened: {_reason(error)}") from None
    if not is_directory:
        raise SourceError(f"{shown_uri(given)} is not a directory; name the directory that contains SKILL.md")
    return Root(path, prefix)


def _exists(text: str) -> bool:
    try:
        return expand_user(text).exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


_CHUNK: Final = 1 << 20
_EXACT: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | _EXACT
# A link or pipe in the place of a file must neither redirect nor block the reader.
_FILE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# Passing through a directory does not need permission to list it.
_PASSED: Final = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_HAS_DESCRIPTORS: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
# File times have a limited resolution: a second change within one tick leaves the same times.
_TICK_NS: Final = 50_000_000
# The coarsest file system clock ticks every two seconds. A file that changed within that time may change
# again and keep the same times.
_COARSEST_NS: Final = 2_000_000_000
# Resource shortages are not problems of the file.
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})


_STAMP: Final = struct.Struct("<qqQ")

Stamp = NewType("Stamp", bytes)
"""The times and inode of a file, packed, because tens of thousands are kept."""
STAMP_BYTES: Final = _STAMP.size
UNSETTLED: Final = Stamp(bytes(STAMP_BYTES))
"""Replaces a stamp if the file was hashed right after a change, so that its times prove nothing."""


class FileRecord(NamedTuple):
    """A hashed file. The stamp tells whether it may have changed."""

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
    """The digest and number of the bytes that were read, and the bytes themselves if requested."""

    digest: Digest
    size: int
    stamp: Stamp
    data: bytes | None

    def record(self, uri: SkillUri, path: str) -> FileRecord:
        """The record of this file."""
        return FileRecord(SkillResource(uri, self.digest, self.size), path, self.stamp)


def stamp_of(status: os.stat_result) -> Stamp:
    """The times and identity of a file, from its status."""
    try:
        return Stamp(_STAMP.pack(status.st_mtime_ns, status.st_ctime_ns, status.st_ino))
    except struct.error:  # A time beyond the year 2262, or an inode of 128 bits.
        return UNSETTLED


def is_as_stamped(size: int, stamp: bytes, status: os.stat_result) -> bool:
    """Whether a file still has this size and stamp."""
    return size == status.st_size and stamp != UNSETTLED and stamp == stamp_of(status)


class OpenDirectory:
    """An open directory, and access to its content. `path` is its real path. Everything opened through it is
    in the directory that was opened, wherever the path leads by now. On systems without relative opening
    (Windows), paths are checked before and after.
    """

    __slots__ = ("_descriptor", "_inner", "_inner_name", "inside", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.inside = path if path.endswith(os.sep) else path + os.sep
        """The prefix of all paths below it."""
        self._descriptor = descriptor
        # The last used subdirectory, because files are mostly read directory by directory.
        self._inner: OpenDirectory | None = None
        self._inner_name = ""

    @classmethod
    def open(cls, path: str, *, listed: bool = False) -> OpenDirectory:
        """Open a directory that the operator named; with `listed`, to list its children."""
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
        """Open a direct subdirectory; `OSError` if it is not a directory, or is a link."""
        path = self.inside + name
        if not _HAS_DESCRIPTORS:
            _refuse_links(path)
            return OpenDirectory(path, -1)
        flags = (_DIRECTORY if listed else _PASSED) | _NO_LINK
        return OpenDirectory(path, os.open(name, flags, dir_fd=self._descriptor))

    def below(self, relative: str, *, listed: bool = True) -> OpenDirectory:
        """Open a directory at any depth below this one; no part of the path may be a link."""
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
        """Its entries, which can only be used while the directory is open."""
        with os.scandir(self._descriptor if self._descriptor >= 0 else self.path) as entries:
            return list(entries)

    def status(self, name: str = "") -> os.stat_result:
        """The status of a child, without following links; without a name, of the directory itself."""
        if self._descriptor < 0:
            return os.stat(os.path.join(self.path, name) if name else self.path, follow_symlinks=False)
        if not name:
            return os.fstat(self._descriptor)
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def open_file(self, relative: str) -> int:
        """The descriptor of a file below the directory; `OSError` if any part of the path is a link."""
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
    """Read a regular file once and hash it; with `keep`, also return the bytes.

    `path` is below the open directory `base`; no part of it may be a link. A file longer than `at_most` is
    not read to its end: its `size` is then larger than that, and its digest is meaningless.
    """
    descriptor = _open(path, base)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "not a regular file", path)
        is_settled = max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _TICK_NS
        # One byte more than expected, so that a file that did not grow takes one read.
        wanted = min(status.st_size + 1, _CHUNK)
        chunk = os.read(descriptor, wanted)
        hasher = hashlib.sha256(chunk)
        size = len(chunk)
        kept = [chunk]
        # A short read of a regular file is the last.
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
    """The relative path from a directory to a path below it; both real paths."""
    start = os.path.join(base, "")
    if not path.startswith(start):
        raise OSError(errno.EXDEV, "outside the directory", path)
    return path[len(start) :]


def is_passing(error: OSError) -> bool:
    """Whether an error is a resource shortage rather than a problem of the file."""
    return error.errno in _PASSING


@dataclass(frozen=True, slots=True)
class FileValidator:
    """Fresh while the file has the same size, times and identity as when it was hashed."""

    record: FileRecord

    def is_fresh(self) -> bool:
        record = self.record
        try:
            return record.is_unchanged(os.stat(record.path, follow_symlinks=False))
        except OSError:
            return False


def validator_for(record: FileRecord) -> FileValidator | None:
    """A validator for a file that was just hashed; `None` if it was modified a moment before."""
    # On other systems, a change can be hidden by resetting the modification time.
    if os.name != "posix" or max(record.modified, record.changed) > time.time_ns() - _COARSEST_NS:
        return None
    return FileValidator(record)
