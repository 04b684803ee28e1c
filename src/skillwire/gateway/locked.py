"""LockedSkills: what a lock file names, and whether a skill is one of those."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import anyio.to_thread

from skillwire.errors import SkillwireError, SourceError
from skillwire.files import file_stamp, read_regular, unreadable
from skillwire.install.lock import Lock, LockedSkill
from skillwire.install.lock_format import parse_lock
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.digests import SetDigest
from skillwire.skill.uris import SkillUri

_log = logging.getLogger("skillwire.gateway")


class LockedSkills:
    """The skills of a lock file, which is read again when it changes. If it is invalid, the last valid one
    stays in use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.revision = 0
        """A new number whenever the lock was read again."""
        self._stamp = file_stamp(path)
        self.lock = self._read()
        self._by_digest = _by_digest(self.lock)
        self._reading = anyio.Lock()

    def allows(self, label: str, uri: SkillUri, name: str, digest: SetDigest) -> bool:
        """Whether the lock names a skill with exactly these files, of this server if it came from one."""
        pinned = self._by_digest.get(digest)
        if pinned is None or pinned.name != name:
            return False
        pin = pinned.pin
        return pin.kind != "mcp" or (pin.get("server"), pin.get("uri")) == (label, uri)

    def is_current(self) -> bool:
        """Whether the file is the one that was read. Takes one `stat`."""
        return file_stamp(self.path) == self._stamp

    async def refresh(self) -> None:
        """Read the lock again if it changed."""
        if self.is_current():
            return
        async with self._reading:
            stamp = file_stamp(self.path)
            if stamp == self._stamp:
                return  # Somebody else read it in the meantime.
            try:
                lock = await anyio.to_thread.run_sync(self._read)
            except SkillwireError as error:
                _log.error("the lock in use is unchanged: %s", error)
            else:
                self.lock, self._by_digest = lock, _by_digest(lock)
                self.revision += 1
            self._stamp = stamp

    def _read(self) -> Lock:
        try:
            data = read_regular(self.path, DEFAULT_LIMITS.lock_bytes + 1)
            return parse_lock(data.decode("utf-8"), file=str(self.path))
        except (OSError, UnicodeError) as error:
            raise SourceError(
                f"{self.path} cannot be read: {unreadable(error)}; name a skillwire.lock"
            ) from None


def _by_digest(lock: Lock) -> dict[SetDigest, LockedSkill]:
    return {skill.digest: skill for skill in lock.skills}
