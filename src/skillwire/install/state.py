"""What is on disk: the folder of a skill as a value, and InstallState, which the lock file does not record.

No link is followed. The state is private to the user: what was installed where, what the user approved, and
the earlier versions. One process at a time works on it.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, cast

import platformdirs

from skillwire.clients import CANONICAL_TARGET, BaseDirectories, Scope, agents
from skillwire.documents import is_list, is_object
from skillwire.errors import FormatError, SourceError, VerificationError
from skillwire.files import make_folder, try_lock, write_atomic
from skillwire.install.lock import Lock, LockedFile, LockedSkill, format_lock, parse_lock
from skillwire.install.plan import MISSING, DiskState, Installation, Link, Obstacle, Tree
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


_VERSION: Final = 1
_WAIT_SECONDS: Final = 600.0
_POLL_SECONDS: Final = 0.05
_GONE_SECONDS: Final = 90 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Version:
    """A version that was installed, and when. It is stored as the text of a lock file of its own."""

    digest: str
    at: str
    text: str

    @property
    def skill(self) -> LockedSkill:
        return parse_lock(self.text).skills[0]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """When something was approved, and by whom."""

    at: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class InstallState:
    """The state of one root. Values are replaced, never changed."""

    placed: Mapping[Path, Installation] = field(default_factory=dict[Path, Installation])
    accepted: Mapping[str, Acceptance] = field(default_factory=dict[str, Acceptance])
    """Approvals for installation, by `acceptance_key`."""
    history: Mapping[str, tuple[Version, ...]] = field(default_factory=dict[str, tuple[Version, ...]])
    """Every version that was installed, by the skill's name, the latest last."""

    def has_accepted(self, skill: LockedSkill) -> bool:
        return acceptance_key(skill) in self.accepted

    def accept(self, skills: Iterable[LockedSkill]) -> InstallState:
        """The state after the user approved these skills as they are pinned."""
        given = Acceptance(_now(), _user())
        return replace(self, accepted={**self.accepted, **{acceptance_key(skill): given for skill in skills}})

    def put(self, placed: Mapping[Path, Installation], gone: Iterable[Path] = ()) -> InstallState:
        """The state after something was installed at places, and removed from others."""
        left = {path: one for path, one in self.placed.items() if path not in set(gone)}
        return replace(self, placed={**left, **placed})

    def forget(self, skills: Iterable[LockedSkill]) -> InstallState:
        """The state after the user revoked an approval. Versions are kept."""
        keys = {acceptance_key(skill) for skill in skills}
        return replace(self, accepted={key: one for key, one in self.accepted.items() if key not in keys})

    def remember(self, skills: Iterable[LockedSkill], keep: int, *, in_place: bool = False) -> InstallState:
        """The state with these versions as the latest ones of their skills.

        With `in_place`, a known version keeps its place in the order, because the user went back to it.
        """
        history = dict(self.history)
        for skill in skills:
            if in_place and any(one.digest == skill.digest for one in history.get(skill.name, ())):
                continue
            before = [one for one in history.get(skill.name, ()) if one.digest != skill.digest]
            latest = Version(skill.digest, _now(), format_lock(Lock((skill,))))
            history[skill.name] = tuple([*before, latest][-keep:])
        return replace(self, history=history)


def acceptance_key(skill: LockedSkill) -> str:
    """Return the key of an approval: of the name, the source, every byte, the powers and the signer.

    Anything else about a skill may change without asking again: its targets, or how its source was written.
    """
    parts = [
        skill.name,
        list(skill.pin.identity),
        skill.pin.get("url"),
        skill.digest,
        list(skill.powers.allowed_tools),
        list(skill.powers.scripts),
        [file.path for file in skill.files if file.executable],
        skill.signer,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StateFiles:
    """Where the state of a root is stored, and the versions of all roots."""

    folder: Path

    @classmethod
    def of_user(cls) -> StateFiles:
        return cls(Path(platformdirs.user_data_dir("skillwire", appauthor=False)) / "install")

    @property
    def versions(self) -> Path:
        return self.folder / "versions"

    def file(self, root: Path) -> Path:
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
        return self.folder / "roots" / f"{name}.json"

    def read(self, root: Path) -> InstallState:
        """The state of a root; an empty one if there is none, or if it cannot be parsed."""
        try:
            data = self.file(root).read_bytes()
        except FileNotFoundError:
            return InstallState()
        except OSError as error:
            raise SourceError(f"{self.file(root)} cannot be read: {error.strerror}") from None
        try:
            return _parse(json.loads(data))
        except (ValueError, TypeError, KeyError, FormatError, RecursionError):
            # Without it, every folder counts as somebody else's, so nothing is overwritten.
            return InstallState()

    def write(self, root: Path, state: InstallState) -> None:
        file = self.file(root)
        document = {
            "version": _VERSION,
            "root": str(root.resolve()),
            "placed": {
                str(path): {"name": one.name, "digests": sorted(one.digests), "link": one.link}
                for path, one in sorted(state.placed.items())
            },
            "accepted": {key: {"at": one.at, "by": one.by} for key, one in sorted(state.accepted.items())},
            "history": {
                name: [{"digest": one.digest, "at": one.at, "lock": one.text} for one in versions]
                for name, versions in sorted(state.history.items())
            },
        }
        try:
            make_folder(file.parent)
            write_atomic(file, json.dumps(document).encode())
        except OSError as error:
            raise SourceError(
                f"{file} cannot be written: {error.strerror}; free some space, or make it writable"
            ) from None

    def roots(self) -> list[InstallState] | None:
        """The state of every root; `None` if one of them cannot be parsed.

        A root counts until its folder has been gone for 90 days: its disk may only be unmounted.
        """
        states: list[InstallState] = []
        for file in sorted((self.folder / "roots").glob("*.json")):
            try:
                document = json.loads(file.read_bytes())
                is_old = time.time() - file.stat().st_mtime > _GONE_SECONDS
                if not (is_old and not Path(str(document["root"])).exists()):
                    states.append(_parse(document))
            except (OSError, ValueError, TypeError, KeyError, FormatError, RecursionError):
                return None
        return states

    @contextmanager
    def working(
        self, root: Path, *, seconds: float = _WAIT_SECONDS, on_wait: Callable[[], None] = lambda: None
    ) -> Generator[None]:
        """Let one process at a time work on a root; another one waits, after `on_wait`."""
        path = self.file(root).with_suffix(".lock")
        try:
            make_folder(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise SourceError(
                f"{path.parent} cannot be written: {error.strerror}; free some space, or make it writable"
            ) from None
        try:
            end = time.monotonic() + seconds
            waited = False
            while not try_lock(descriptor):
                if not waited:
                    on_wait()
                    waited = True
                if time.monotonic() >= end:
                    raise SourceError(
                        f"another skillwire has been working on {root} for {seconds:.0f} seconds: "
                        "wait for it, or end it"
                    )
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)  # This releases the lock, as the end of the process does.


def _parse(document: object) -> InstallState:
    if not is_object(document) or document.get("version") != _VERSION:
        raise ValueError
    placed = _object(document["placed"])
    accepted = _object(document["accepted"])
    history = _object(document["history"])
    return InstallState(
        placed={
            Path(path): Installation(str(row["name"]), frozenset(row["digests"]), bool(row["link"]))
            for path, row in placed.items()
        },
        accepted={key: Acceptance(str(row["at"]), str(row["by"])) for key, row in accepted.items()},
        history={
            name: tuple(
                Version(str(row["digest"]), str(row["at"]), str(row["lock"]))
                for row in (cast("list[dict[str, Any]]", rows) if is_list(rows) else [])
            )
            for name, rows in history.items()
        },
    )


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return cast("dict[str, Any]", value)


def has_forgotten(before: InstallState, after: InstallState) -> bool:
    """Whether a version that was stored before is no longer stored."""
    return any(
        not {one.digest for one in versions} <= {one.digest for one in after.history.get(name, ())}
        for name, versions in before.history.items()
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        return ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
