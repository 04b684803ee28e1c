"""TrustedFiles: which files of projects the user trusts to name servers.

A file of a project may come from somebody else, with a repository, and it can name commands. Trust is for one
path and exactly these bytes. Each trusted file has its own record, written in one step, so that processes do
not interfere; a damaged record trusts nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillwire.errors import SourceError
from skillwire.files import read_regular, write_atomic
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.digests import Digest, digest_of

_LONGEST_RECORD: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as it was read."""

    path: Path
    digest: Digest
    """The digest of what was read. Trust is bound to it, so a file that changes has to be trusted
    again."""
    of_project: bool = True
    """Whether it came with the project; otherwise it is the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UntrustedServer:
    """A server that is left out: until the user trusts the file that names it, or for `problem`."""

    label: str
    file: Path
    problem: str = ""

    @property
    def reason(self) -> str:
        """Why, and what to do about it."""
        return self.problem or (
            f"is not trusted: it comes from {self.file}; "
            "to review it and trust it, run `skillwire trust` in that project"
        )


def seen_digest(path: Path) -> Digest | None:
    """The digest of a file as it is now; `None` when it is not there or not readable."""
    try:
        data = read_regular(path, DEFAULT_LIMITS.config_bytes + 1)
    except OSError:
        return None
    return digest_of(data)


class TrustedFiles:
    """The files of projects that the user trusts."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def trusts(self, file: SeenFile) -> bool:
        """Whether the user trusts this file with exactly these bytes. Their own files are always trusted."""
        return not file.of_project or self._digest(file.path) == file.digest

    def trust(self, file: SeenFile) -> None:
        """Trust a file as it was seen, replacing any earlier trust in it."""
        record = self._record(file.path)
        text = json.dumps({"version": 1, "path": str(file.path), "digest": file.digest})
        try:
            record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(record, text.encode("ascii"))
        except OSError as error:
            raise SourceError(f"{record} cannot be written: {error.strerror}") from None

    def paths(self) -> list[Path]:
        """The files that the user trusted once, whatever is in them now."""
        found: list[Path] = []
        try:
            records = sorted(self._directory.glob("*.json"))
        except OSError:
            return []
        for record in records:
            with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
                found.append(Path(json.loads(read_regular(record, _LONGEST_RECORD))["path"]))
        return found

    def records(self) -> list[SeenFile]:
        """Every file that the user trusts, with the bytes that it is trusted with."""
        found: list[SeenFile] = []
        for path in self.paths():
            digest = self._digest(path)
            if isinstance(digest, str):
                found.append(SeenFile(path, Digest(digest)))
        return sorted(found, key=lambda one: one.path)

    def forget(self, path: Path) -> bool:
        """Stop trusting a file; false when it was not trusted."""
        record = self._record(path)
        try:
            record.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise SourceError(f"{record} cannot be removed: {error.strerror}") from None
        return True

    def _digest(self, path: Path) -> object:
        try:
            values: Any = json.loads(read_regular(self._record(path), _LONGEST_RECORD))
            return values["digest"] if values["path"] == str(path) else None
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None  # Fail closed: what cannot be read trusts nothing.

    def _record(self, path: Path) -> Path:
        name = hashlib.sha256(os.fsencode(path)).hexdigest()
        return self._directory / f"{name}.json"
