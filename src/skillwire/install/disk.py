"""The folder of a skill on disk, as a value. No link is followed."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final

from skillwire.clients import CANONICAL_TARGET, BaseDirectories, Scope, agents
from skillwire.errors import SourceError, VerificationError
from skillwire.files import make_folder, write_atomic
from skillwire.install.lock import Lock, LockedFile, LockedSkill, Pin
from skillwire.install.plan import MISSING, DiskState, Link, Obstacle, Tree
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import Digest, belongs_to_skill, digest_of, is_plain_path

_MOST_FILES: Final = 20_000
_CHUNK: Final = 1 << 20
# A link or a pipe in place of a file must not redirect or block the reader.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def look_at(path: Path, pinned: Collection[str] = ()) -> DiskState:
    """Return the state of a path, with every file hashed.

    Files that tools leave behind, such as `__pycache__`, are not part of a skill unless they are `pinned`.
    """
    text = str(path)
    try:
        status = os.lstat(text)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    except OSError as error:
        return Obstacle(error.strerror or "unreadable")
    if stat.S_ISLNK(status.st_mode):
        return Link(Path(os.path.abspath(path.parent / path.readlink())))
    if not stat.S_ISDIR(status.st_mode):
        return Obstacle("a file, not a folder")
    try:
        return _tree(text, pinned)
    except OSError as error:
        return Obstacle(error.strerror or "unreadable")


def read_file(path: Path | str, limit: int) -> bytes | None:
    """The bytes of a regular file; `None` if it is a link, is missing, or is longer than `limit`."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = stream.read(limit + 1)
    return data if len(data) <= limit else None


def target_folders(places: BaseDirectories, scope: Scope, targets: Iterable[str]) -> dict[str, Path]:
    """The real folder of every target that is known here, the canonical one among them.

    In a project, a folder that leads out of it over a link is a `SourceError`: nothing is written there.
    """
    root = places.root(scope).resolve()
    known = agents()
    folders = {CANONICAL_TARGET: places.canonical(scope)}
    for target in targets:
        agent = known.get(target)
        folder = places.folder(agent, scope) if agent else None
        if folder is not None:
            folders[target] = folder
    real: dict[str, Path] = {}
    for target, folder in folders.items():
        try:
            resolved = folder.resolve()
        except (OSError, RuntimeError) as error:
            raise SourceError(f"{folder} cannot be used: {error}") from None
        if scope is Scope.PROJECT and not resolved.is_relative_to(root):
            raise SourceError(
                f"{folder} leads out of the project, to {resolved}: remove that link, "
                f"or install for yourself with --user"
            )
        real[target] = resolved
    return real


def knows_modes(folder: Path) -> bool:
    """Whether the file system stores which files are executable."""
    if os.name == "nt":
        return False
    while not folder.is_dir() and folder.parent != folder:
        folder = folder.parent
    try:
        descriptor, name = tempfile.mkstemp(prefix=".skillwire-probe-", dir=folder)
    except OSError:
        return True  # Nothing can be written there anyway.
    try:
        seen: set[int] = set()
        for mode in (0o644, 0o755):
            with suppress(OSError):
                os.fchmod(descriptor, mode)
            seen.add(os.fstat(descriptor).st_mode & 0o111)
        return seen == {0, 0o111}
    finally:
        os.close(descriptor)
        Path(name).unlink(missing_ok=True)


def look_at_all(paths: Mapping[Path, Collection[str]]) -> dict[Path, DiskState]:
    """Return the state of each path; each comes with the files that are pinned there."""
    return {path: look_at(path, pinned) for path, pinned in paths.items()}


def lock_folder(folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> Lock:
    """A lock of every skill below a folder, as it is on disk; each pin has the path of its own folder.

    A skill that is not valid is an error: `FormatError`, `LimitExceeded` or `VerificationError`.
    """
    # Imported here: comparing needs neither.
    from skillwire.install.candidates import make_candidate, read_folder

    skills: list[LockedSkill] = []
    for below, files in read_folder(folder, limits=limits).items():
        path = (folder / below).as_posix()
        candidate = make_candidate(
            files,
            source=str(folder),
            pin=Pin.make("folder", path=path),
            expected_name=below.rpartition("/")[2],
            limits=limits,
        )
        skills.append(candidate.skill)
    return Lock().put(*skills)


def _tree(root: str, pinned: Collection[str]) -> Tree | Obstacle:
    files: list[LockedFile] = []
    strange: list[str] = []
    waiting = [(root, "")]
    while waiting:
        folder, prefix = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not belongs_to_skill(entry.name) and not _holds(pinned, path):
                    continue
                if entry.is_file(follow_symlinks=False) and is_plain_path(path):
                    if len(files) >= _MOST_FILES:
                        return Obstacle(f"a folder with more than {_MOST_FILES:,} files")
                    files.append(_hash(entry.path, path))
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, f"{path}/"))
                else:
                    strange.append(path.encode("utf-8", "backslashreplace").decode())
            if len(waiting) + len(strange) > _MOST_FILES:
                return Obstacle(f"a folder with more than {_MOST_FILES:,} files")
    files.sort(key=attrgetter("path"))
    return Tree(tuple(files), tuple(sorted(strange)))


def _holds(paths: Collection[str], folder: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for path in paths)


def _hash(path: str, shown: str) -> LockedFile:
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        # One byte more than the size: the end of the file is seen without a second read.
        data = os.read(descriptor, min(status.st_size, _CHUNK) + 1)
        digest = hashlib.sha256(data)
        size = len(data)
        while data and size != status.st_size:
            data = os.read(descriptor, _CHUNK)
            digest.update(data)
            size += len(data)
    finally:
        os.close(descriptor)
    return LockedFile(shown, Digest("sha256:" + digest.hexdigest()), size, bool(status.st_mode & 0o100))


_PREFIX: Final = len("sha256:")
_GRACE_SECONDS: Final = 3600


class VersionStore:
    """Bytes by digest. Every read is verified."""

    def __init__(self, folder: Path, option: str = "") -> None:
        self.folder = folder
        self._root = str(folder)
        self._option = option  # By which a command line means the workspace that reads it.

    def has(self, skill: LockedSkill) -> bool:
        """Whether all files of a version exist. They are verified when they are read."""
        return all(os.path.isfile(self._path(file.digest)) for file in skill.files)

    def read(self, file: LockedFile) -> bytes | None:
        """The bytes of a file, or `None` if they are missing or damaged."""
        path = self._path(file.digest)
        data = read_file(path, file.size)
        if data is None:
            return None
        if len(data) != file.size or digest_of(data) != file.digest:
            with suppress(OSError):
                os.unlink(path)
            return None
        return data

    def content(self, skill: LockedSkill) -> dict[str, bytes]:
        """Every file of a version, verified; `VerificationError` if one is missing or damaged."""
        files: dict[str, bytes] = {}
        for file in skill.files:
            data = self.read(file)
            if data is None:
                raise VerificationError(
                    f"the stored copy of {skill.name} at {skill.digest[:19]}… is incomplete: {file.path} is "
                    f"missing or damaged; `skillwire sync{self._option}` fetches it from its source again",
                    uri=f"{skill.name}/{file.path}",
                )
            files[file.path] = data
        return files

    def keep(self, files: Mapping[Digest, bytes]) -> None:
        """Store bytes by the digest that the caller computed. Existing files are not written again."""
        for digest, data in files.items():
            path = self._path(digest)
            if _is_file(path, len(data)):
                with suppress(OSError):
                    os.utime(path)  # It is in use again: `prune` leaves it alone.
                continue
            try:
                try:
                    write_atomic(path, data)
                except FileNotFoundError:
                    make_folder(os.path.dirname(path))
                    write_atomic(path, data)
            except OSError as error:
                raise SourceError(
                    f"{self.folder} cannot be written: {error.strerror}; free some space, or make it writable"
                ) from None

    def prune(self, used: Iterable[Digest]) -> int:
        """Remove every file that no version uses; how many those were.

        A file of the last hour stays: another command may have stored it and not recorded its version yet.
        """
        known = {self._path(digest) for digest in used}
        newest = time.time() - _GRACE_SECONDS
        removed = 0
        for path in self.folder.glob("*/*"):
            with suppress(OSError):
                if str(path) not in known and path.lstat().st_mtime < newest:
                    path.unlink()
                    removed += 1
        return removed

    def _path(self, digest: Digest) -> str:
        return os.path.join(self._root, digest[_PREFIX : _PREFIX + 2], digest[_PREFIX + 2 :])


def _is_file(path: str, size: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size
