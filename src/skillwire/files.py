"""Safe reading of untrusted files, and atomic writing."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Generic, TypeVar

from skillwire.errors import SkillwireError

if TYPE_CHECKING:
    import logging

UNFINISHED: Final = ".unfinished"
"""The suffix of a file that is still being written. After a crash, a leftover can be deleted."""

T = TypeVar("T")
_BUFFER_BYTES: Final = 64 * 1024
CREATE: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
"""Flags of `os.open` for a new file: nothing that is there already is opened, and no link is followed."""


@contextmanager
def atomic_writer(path: Path | str, *, mode: int = 0o600) -> Generator[BinaryIO]:
    """A stream whose content replaces `path` when the block ends; after an error, `path` is unchanged.

    The directory must exist. The new file gets `mode` regardless of the umask; by default only its owner can
    read it.
    """
    # `mkstemp` does the same, and takes as long as all the rest.
    temporary = os.path.join(os.path.dirname(path), f".new-{os.urandom(8).hex()}{UNFINISHED}")
    descriptor = os.open(temporary, CREATE, 0o600)
    try:
        with os.fdopen(descriptor, "wb", _BUFFER_BYTES) as stream:
            yield stream
        if mode != 0o600:
            os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def expand_user(path: Path | str) -> Path:
    """A path whose `~` is a home; unchanged if there is no such user, unlike with `Path.expanduser`."""
    return Path(os.path.expanduser(path))


def read_regular(path: Path, limit: int) -> bytes:
    """At most `limit` bytes of a regular file; an `OSError` for anything else, such as a pipe."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(limit)
    finally:
        os.close(descriptor)


def make_folder(path: Path | str, mode: int = 0o700) -> None:
    """Make a folder and its parents where they are missing, all with this mode, whatever the umask is.

    `Path.mkdir` gives parents the mode of the umask, which others may be able to write to.
    """
    missing: list[str] = []
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
        if folder == missing[-1]:
            break
    for one in reversed(missing):
        try:
            os.mkdir(one, mode)
        except FileExistsError:
            if not os.path.isdir(one):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), one) from None
            continue  # Another process was faster.
        os.chmod(one, mode)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner can read, if there is none; an `OSError` if it is no file.

    For files that SQLite locks: no second descriptor of the file itself is opened, because closing it would
    drop the locks of other threads.
    """
    make_folder(path.parent)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))  # SQLite would wait at a pipe.
        return
    temporary = path.with_name(f".new-{os.urandom(8).hex()}{UNFINISHED}")
    os.close(os.open(temporary, CREATE, 0o600))
    try:
        with suppress(FileExistsError):
            os.link(temporary, path)
    except OSError:
        if not path.exists():  # A file system without hard links.
            os.rename(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def folder_size(path: Path) -> int:
    """The bytes of all regular files below a folder. Links are not followed."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            found = os.lstat(os.path.join(folder, name))
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def file_stamp(path: Path) -> tuple[int, int, int] | None:
    """A value that differs after the file has changed; `None` when there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class RereadFile(Generic[T]):
    """The parsed content of a file, read again when the file changes.

    If the file becomes unreadable or invalid later, the value stays, and an error is logged once. The first
    reading raises it.
    """

    def __init__(self, path: Path, read: Callable[[], T], *, log: logging.Logger, kept: str) -> None:
        """`read` gives the value or raises a `SkillwireError`; `kept` says in the log that it stays."""
        self._path = path
        self._stamp = file_stamp(path)
        self._problem = ""
        self._read_value, self._log, self._kept = read, log, kept
        self.value = read()

    def refresh(self) -> T | None:
        """The value before, if there is another now. May block."""
        stamp = file_stamp(self._path)
        if stamp == self._stamp:
            return None
        try:
            value = self._read_value()
        except SkillwireError as error:
            if str(error) != self._problem:
                self._log.error("%s: %s", self._kept, error)
            self._problem = str(error)
            return None
        before = self.value
        self._stamp, self._problem, self.value = stamp, "", value
        return before


def unreadable(error: OSError | UnicodeError) -> str:
    """The reason why a text file cannot be read, for a message."""
    return (error.strerror if isinstance(error, OSError) else None) or "it is not UTF-8 text"


def write_atomic(path: Path | str, data: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of `path` with `data` atomically."""
    with atomic_writer(path, mode=mode) as stream:
        stream.write(data)


def try_lock(descriptor: int) -> bool:
    """Lock an open file against other processes until it is closed; false if another one has the lock."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
