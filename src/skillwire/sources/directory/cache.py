"""ScanCache: the results of the last scan of some directories, on disk, for the next start.

It is only a hint. A skill is taken from it if each of its files still has the same path, size, times and
inode. Everything else is read again; a cache that cannot be read or written is ignored.

The first line names the format, the version of Skillwire, the directories and their devices. One line for
each skill follows, roughly in the order of a walk, so the file is read once from front to back, one line at a
time. A line is the skill's URI, a checksum and a JSON array, with tabs between them. The checksum protects
digests and frontmatter; every read hashes what it returns anyway.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from sys import intern
from typing import Any, BinaryIO, Final

from skillwire.documents import JsonValue
from skillwire.errors import Issue, Severity
from skillwire.files import UNFINISHED, atomic_writer, make_folder
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SKILL_FILE, Digest, SkillEntry, SkillResource, SkillUri
from skillwire.sources.directory.files import STAMP_BYTES, UNSETTLED, Root
from skillwire.sources.directory.snapshot import NO_LINKS, ScannedSkill, Snapshot
from skillwire.version import VERSION

_FORMAT: Final = 2
_FINISHED: Final = ".index"
_DAY: Final = 24 * 3600
_BUFFER: Final = 64 * 1024
_EXACT: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OLD: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _EXACT
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_APP: Final = "skillwire"
_FOLDER: Final = "scans"
_DIGEST_PREFIX: Final = "sha256:"
_DIGEST_DIGITS: Final = 64
_STAMP_DIGITS: Final = 2 * STAMP_BYTES
_TYPES: Final = [int, str, list, list, str, str, list, dict, dict, list]
_WARNING_TYPES: Final = [str, str, str, str, int]
_DIGITS: Final = re.compile(r"[0-9a-f]*+")
# Compact ASCII, without values that are not JSON.
_decode: Final = json.JSONDecoder().raw_decode
_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode

_log = logging.getLogger(__name__)


def scan_cache_directory() -> Path | None:
    """The folder of all scan caches; `None` if the system has no cache directory."""
    if sys.platform == "linux":
        # The same as platformdirs, whose import takes longer than scanning a hundred skills.
        cache = os.environ.get("XDG_CACHE_HOME", "").strip() or str(Path("~/.cache").expanduser())
        folder = Path(cache) / _APP
    else:
        import platformdirs

        folder = Path(platformdirs.user_cache_dir(_APP, appauthor=False))
    return folder / _FOLDER if folder.is_absolute() else None


class ScanCache:
    """The scan cache of one set of directories, for one scan, which then replaces it."""

    def __init__(self, folder: Path, roots: Sequence[Root], *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = folder / f"{_name(roots)}{_FINISHED}"
        self._roots = tuple(roots)
        self._limits = limits
        self._given: list[ScannedSkill] = []
        self._passed: dict[bytes, tuple[int, int]] = {}
        self._position = 0
        self._size = 0
        # A cache among the served files would change what it describes.
        self._is_apart = not any(self.path.resolve().is_relative_to(root.path) for root in roots)
        self._file = self._open() if self._is_apart else None

    def get(self, uri: SkillUri, /) -> ScannedSkill | None:
        """A skill as it was at the last scan."""
        if self._file is None:
            return None
        try:
            line = self._line(self._file, uri.encode())
        except OSError as error:
            _log.debug("the scan cache cannot be read further: %s", error)
            self.close()
            return None
        skill = None if line is None else skill_of(uri, line, self._roots)
        if skill is not None:
            self._given.append(skill)
        return skill

    def close(self) -> None:
        """Close the file after the scan."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the cache contains exactly the results of the scan."""
        kept = sum(is_keepable(skill.walked) for skill in snapshot.skills.values())
        same = sum(snapshot.get(skill.entry.uri) is skill for skill in self._given)
        self._given = []
        return kept == same and not self._passed and 0 < self._position == self._size

    def save(self, snapshot: Snapshot) -> None:
        """Replace the cache atomically. If that fails, there is none."""
        if not self._is_apart:
            return
        try:
            make_folder(self.path.parent)
            self._write(snapshot)
            remove_old_scan_caches(self.path.parent, limits=self._limits)
        except (OSError, ValueError) as error:
            _log.debug("the scan cache cannot be written: %s", error)

    def _write(self, snapshot: Snapshot) -> None:
        with atomic_writer(self.path) as file:
            file.write(encode_line("", self._claim()))
            for skill in snapshot.skills.values():
                if is_keepable(skill):
                    file.write(line_of(skill, self._roots))

    def _claim(self) -> list[object]:
        """The header that identifies these directories, their devices and this version."""
        places: list[object] = []
        for root in self._roots:
            status = root.path.stat()
            places.append([str(root.path), list(root.prefix), status.st_dev, status.st_ino])
        return [_FORMAT, VERSION, places]

    def _open(self) -> BinaryIO | None:
        """The open file after its first line, if it is a valid cache of ours."""
        try:
            descriptor = os.open(self.path, _OLD)
        except (OSError, ValueError):
            return None
        file = None
        try:
            status = os.fstat(descriptor)
            if _is_trusted(status) and status.st_size <= self._limits.index_bytes:
                file = os.fdopen(descriptor, "rb", _BUFFER)
                line = file.readline(self._limits.index_line_bytes)
                if decode_line("", line) == self._claim():
                    self._position, self._size = len(line), status.st_size
                    if status.st_mtime < time.time() - _DAY:
                        os.utime(self.path)  # It is in use.
                    return file
        except OSError as error:
            _log.debug("the scan cache cannot be read: %s", error)
        if file is None:
            os.close(descriptor)
        else:
            file.close()
        return None

    def _line(self, file: BinaryIO, key: bytes) -> bytes | None:
        """The line of a key. The positions of skipped lines are remembered."""
        place = self._passed.pop(key, None)
        if place is not None:
            start, length = place
            file.seek(start)
            line = file.read(length)
            file.seek(self._position)
            return line
        while line := file.readline(self._limits.index_line_bytes):
            start = self._position
            self._position += len(line)
            found = key_of(line)
            if found == key:
                return line
            self._passed[found] = start, len(line)
        return None


def scan_caches_in(folder: Path) -> Iterator[Path]:
    """The caches in a folder, including unfinished ones."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.suffix in (_FINISHED, UNFINISHED):
                yield path


def remove_old_scan_caches(folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Remove the caches that were not used for long, and the oldest if there are too many."""
    now = time.time()
    finished: list[tuple[float, Path]] = []
    for path in scan_caches_in(folder):
        with suppress(OSError):
            used = path.stat().st_mtime
            if path.suffix == _FINISHED and used > now - limits.index_seconds:
                finished.append((used, path))
            elif used < now - _DAY:
                path.unlink()
    for _, path in sorted(finished, reverse=True)[limits.scan_caches :]:
        with suppress(OSError):
            path.unlink()


def _is_trusted(status: os.stat_result) -> bool:
    """Whether only we, its owner, can have written a file."""
    if not stat.S_ISREG(status.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS


def _name(roots: Sequence[Root]) -> str:
    served = json.dumps([[str(root.path), *root.prefix] for root in roots])
    return hashlib.sha256(served.encode()).hexdigest()[:32]


def encode_line(key: str, values: Sequence[object]) -> bytes:
    """A line with its checksum; `ValueError` if JSON cannot represent the values exactly."""
    head, body = key.encode(), _encode(values).encode()
    return b"%b\t%08x\t%b\n" % (head, _sum(head, body), body)


def decode_line(key: str, line: bytes) -> list[Any] | None:
    """The values of an undamaged line of this key, otherwise `None`."""
    head, _, rest = line.removesuffix(b"\n").partition(b"\t")
    total, _, body = rest.partition(b"\t")
    if head != key.encode() or total != b"%08x" % _sum(head, body):
        return None
    try:
        text = body.decode()
        values, end = _decode(text)
        return [*values] if end == len(text) else None
    except (ValueError, TypeError, RecursionError):
        return None


def key_of(line: bytes) -> bytes:
    """The key of a line."""
    return line[: line.find(b"\t")]


def is_keepable(skill: ScannedSkill) -> bool:
    """Whether the times of all its files will be reliable."""
    return UNSETTLED not in skill.stamps and skill.entry.draft is None


def line_of(skill: ScannedSkill, roots: Sequence[Root]) -> bytes:
    """A skill as a line; `ValueError` if JSON cannot represent it exactly."""
    start = len(skill.entry.uri) - len(SKILL_FILE)
    resources = skill.resources
    return encode_line(
        skill.entry.uri,
        (
            roots.index(skill.root),
            skill.directory[len(str(skill.root.path)) :],
            [file.uri[start:] for file in resources],
            [file.size for file in resources],
            "".join([file.digest[len(_DIGEST_PREFIX) :] for file in resources]),
            skill.stamps.hex(),
            skill.empty_directories,
            dict(skill.links),
            skill.entry.frontmatter,
            [[issue.rule, issue.message, issue.fix, issue.file, issue.line or 0] for issue in skill.warnings],
        ),
    )


def skill_of(uri: SkillUri, line: bytes, roots: Sequence[Root]) -> ScannedSkill | None:
    """The skill at this URI in a line, or `None`."""
    values = decode_line(uri, line)
    if values is None or [*map(type, values)] != _TYPES:
        return None
    number, below, names, sizes, digests, stamps, empty, links, frontmatter, warnings = values
    count = len(names)
    if (
        number not in range(len(roots))
        or (len(sizes), len(digests), len(stamps)) != (count, count * _DIGEST_DIGITS, count * _STAMP_DIGITS)
        or not _all_are(int, sizes)
        or not _all_are(str, [*names, *empty, *links.values()])
        or not _DIGITS.fullmatch(digests)
        or not _DIGITS.fullmatch(stamps)
        or any(type(warning) is not list or [*map(type, warning)] != _WARNING_TYPES for warning in warnings)
    ):
        return None
    root = roots[int(number)]
    start = uri.removesuffix(SKILL_FILE)
    resources = [
        SkillResource(
            # One object for both: there are many.
            uri if name == SKILL_FILE else SkillUri(start + name),
            Digest(_DIGEST_PREFIX + digests[at * _DIGEST_DIGITS : (at + 1) * _DIGEST_DIGITS]),
            sizes[at],
        )
        for at, name in enumerate(names)
    ]
    return ScannedSkill(
        SkillEntry(uri, _with_shared_keys(frontmatter), tuple(resources)),
        root,
        f"{root.path}{below}",
        bytes.fromhex(stamps),
        tuple(empty),
        links or NO_LINKS,
        tuple([_warning(*warning) for warning in warnings]),
    )


def _warning(rule: str, message: str, fix: str, file: str, line: int) -> Issue:
    return Issue(rule=rule, message=message, fix=fix, file=file, line=line or None, severity=Severity.WARNING)


def _sum(head: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(head))


def _all_are(kind: type, values: list[Any]) -> bool:
    return {*map(type, values)} <= {kind}  # exact type: a boolean is not a number here


def _with_shared_keys(mapping: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The same with interned keys, because they occur in thousands of skills."""
    return {
        intern(key): _with_shared_keys(value) if isinstance(value, dict) else value
        for key, value in mapping.items()
    }
