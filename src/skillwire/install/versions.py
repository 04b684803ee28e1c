"""VersionStore: the files of every installed version, by digest, so that it can be restored.

It is stored with the user's data, outside every folder that agents read. No file in it is called `SKILL.md`.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from skillwire.errors import SourceError, VerificationError
from skillwire.files import write_atomic
from skillwire.install.disk import read_file
from skillwire.install.lock import LockedFile, LockedSkill
from skillwire.skill.digests import Digest, digest_of

_PREFIX: Final = len("sha256:")
_GRACE_SECONDS: Final = 3600


class VersionStore:
    """Bytes by digest. Every read is verified."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._root = str(folder)

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
                    "missing or damaged; `skillwire sync` fetches it from its source again",
                    uri=f"{skill.name}/{file.path}",
                )
            files[file.path] = data
        return files

    def keep(self, files: Mapping[Digest, bytes]) -> None:
        """Store bytes that were verified. Existing files are not written again."""
        for digest, data in files.items():
            path = self._path(digest)
            if _is_file(path, len(data)):
                with suppress(OSError):
                    os.utime(path)  # It is in use again: `prune` leaves it alone.
                continue
            if digest_of(data) != digest:
                raise VerificationError(f"bytes that are not {digest} are not stored", uri=digest)
            try:
                try:
                    write_atomic(path, data)
                except FileNotFoundError:
                    os.makedirs(os.path.dirname(path), exist_ok=True, mode=0o700)
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
