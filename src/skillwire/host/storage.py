"""Files that a host writes: the cache of verified files, and how often skills are used.

SkillCache has verified files by server and URI (ENT-4, SEC-8). A file is at `SERVER~MARK/URI`, encoded so
that both can be read from the path. It is written to a file beside it and moved into place, and its digest is
computed on every access: what differs from the entry is not used. The directory is the user's alone. No file
in it is called `SKILL.md`, so that nothing that looks for skills finds one here.

UsageFile counts how often skills are offered, found, loaded, read and refused. Off unless the user turns it
on. The counts are kept in memory and added to the file in a thread, each time in one transaction, so that
processes lose nothing of each other. Nothing is sent anywhere.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from skillwire.catalog import CatalogText, HostSkill
from skillwire.errors import FormatError, SourceError
from skillwire.files import make_folder, make_private, read_regular, unreadable, write_atomic
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import Digest, SkillUri, digest_of, parse_uri
from skillwire.text import safe_line
from skillwire.trust import Origin, VerifiedFile

# File systems take names of 255 bytes, so a longer URI goes over several levels. The marks make sure that no
# piece is called `.`, `..` or `SKILL.md`, and that a file and a directory never want the same name.
_NAME_LENGTH: Final = 200
_MORE: Final = "+"
_LAST: Final = "="
_MARK: Final = "~"
_PROJECT: Final = "~~"
_AGENTS: Final = (".agents", ".claude")


@dataclass(frozen=True, slots=True)
class CachedFile:
    """A file of the cache, as its path says: whose it is and which."""

    origin: Origin
    uri: SkillUri
    path: Path
    size: int


class SkillCache:
    """Verified bytes, for when they are needed again or the server is unreachable."""

    def __init__(self, directory: Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.directory = directory
        self._limits = limits
        self._identities: Mapping[Origin, str] = {}
        self._watchers: list[Callable[[Origin, SkillUri], None]] = []

    def bind(self, identities: Mapping[Origin, str]) -> None:
        """Set what identifies each origin: two servers of the same label share no files."""
        self._identities = identities

    def _folder(self, origin: Origin) -> Path:
        """The directory of an origin: its label, and a mark that tells it from others of that label."""
        label = quote(origin.label, safe="")
        identity = self._identities.get(origin, "")
        if not identity:
            return self.directory / label
        mark = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return self.directory / f"{label}{_PROJECT if origin.is_local else _MARK}{mark}"

    def watch(self, tell: Callable[[Origin, SkillUri], None]) -> None:
        """Call this for every file that is stored or removed from now on."""
        self._watchers.append(tell)

    def get(self, origin: Origin, uri: SkillUri, digest: Digest) -> bytes | None:
        """The bytes of a file when they have this digest, else `None`.

        Others stay until they are replaced: they may be what was approved before the skill changed.
        """
        path = self.path_of(origin, uri)
        try:
            # One byte more than a skill may have tells that the file is not what was kept.
            data = read_regular(path, self._limits.bytes_per_skill + 1)
        except OSError:
            return None
        return data if digest_of(data) == digest else None

    async def fetch(self, origin: Origin, uri: SkillUri, digest: Digest) -> bytes | None:
        """The same as `get`, read in a worker thread."""
        return await anyio.to_thread.run_sync(self.get, origin, uri, digest, abandon_on_cancel=True)

    async def stored(self, origin: Origin, uris: Iterable[SkillUri]) -> frozenset[SkillUri]:
        """Those of these files that are there in any version, looked up in one worker thread."""

        def look() -> frozenset[SkillUri]:
            return frozenset(uri for uri in uris if self.path_of(origin, uri).is_file())

        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)

    async def store(self, file: VerifiedFile, *, approved: bool = False) -> bool:
        """The same as `put`, written in a worker thread."""
        stored = await anyio.to_thread.run_sync(self._put, file, approved)
        if stored:
            self._tell(file.origin, file.uri)
        return stored

    async def forget_server(self, origin: Origin) -> int:
        """The same as `remove_server`, in a worker thread."""
        removed = await anyio.to_thread.run_sync(self._remove_server, origin)
        for file in removed:
            self._tell(origin, file.uri)
        return len(removed)

    def put(self, file: VerifiedFile, *, approved: bool = False) -> bool:
        """Store a verified file; false when it could not be written, which only costs speed.

        A file of a dynamic skill is stored only if it is `approved` with exactly these bytes.
        """
        stored = self._put(file, approved)
        if stored:
            self._tell(file.origin, file.uri)
        return stored

    def _put(self, file: VerifiedFile, approved: bool) -> bool:
        if not (file.bound or approved) or file.origin.is_own:
            return False
        path = self.path_of(file.origin, file.uri)
        try:
            make_folder(path.parent)
            self.directory.chmod(0o700)
            write_atomic(path, file.data)
        except OSError:
            return False
        return True

    def remove_server(self, origin: Origin) -> int:
        """Remove all files of a server. Returns how many there were."""
        removed = self._remove_server(origin)
        for file in removed:
            self._tell(origin, file.uri)
        return len(removed)

    def _remove_server(self, origin: Origin) -> tuple[CachedFile, ...]:
        removed = tuple(self.files(origin))
        for folder in self._folders(origin):
            shutil.rmtree(folder, ignore_errors=True)
        return removed

    def files(self, origin: Origin | None = None) -> Iterator[CachedFile]:
        """Every file, or those of one server."""
        starts = self._folders(origin) if origin else [self.directory]
        for folder, _, names in (step for start in starts for step in os.walk(start)):
            for name in sorted(names):
                path = Path(folder) / name
                found = self._read_path(path)
                if found is not None:
                    yield found

    def _folders(self, origin: Origin) -> list[Path]:
        """The directory of an origin that is bound; otherwise those of every origin of its label."""
        if origin in self._identities or not self.directory.is_dir():
            return [self._folder(origin)]
        label = quote(origin.label, safe="")
        return [path for path in self.directory.iterdir() if path.name.partition(_MARK)[0] == label]

    def path_of(self, origin: Origin, uri: SkillUri) -> Path:
        """The path of the file of this server and URI."""
        text = quote(uri, safe="")
        pieces = [text[at : at + _NAME_LENGTH] for at in range(0, len(text), _NAME_LENGTH)]
        folders = [piece + _MORE for piece in pieces[:-1]]
        return self._folder(origin).joinpath(*folders, pieces[-1] + _LAST)

    def refuse_inside(self, directories: Iterable[Path]) -> None:
        """Raise if the cache is where skills are looked for: cached text must never pass as local (SEC-8)."""
        mine = self.directory.resolve()
        above = (mine, *mine.parents)
        # Other programs look into the usual places, whatever this host does.
        usual = [path for path in above if path.name == "skills" and path.parent.name in _AGENTS]
        for other in (*usual, *(directory.resolve() for directory in directories)):
            if other in above or mine in other.parents:
                raise SourceError(
                    f"the cache {mine} and {other}, where skills are looked for, overlap; move one"
                )

    def _tell(self, origin: Origin, uri: SkillUri) -> None:
        for tell in self._watchers:
            tell(origin, uri)

    def _read_path(self, path: Path) -> CachedFile | None:
        folder, *pieces = path.relative_to(self.directory).parts
        label, is_project, _ = folder.partition(_PROJECT)
        label = unquote(label.partition(_MARK)[0])
        if not pieces or not pieces[-1].endswith(_LAST):
            return None
        text = "".join(piece[:-1] for piece in pieces)
        try:
            origin = Origin.project(label) if is_project else Origin.mcp(label)
            return CachedFile(origin, parse_uri(unquote(text)), path, path.stat().st_size)
        except (FormatError, OSError):
            return None  # a file that is being written, or none of ours


UseKind: TypeAlias = Literal["offered", "found", "loaded", "read", "refused"]
KINDS: Final[tuple[str, ...]] = get_args(UseKind)
WRITE_SECONDS: Final = 5.0
"""What was counted is added to the file this often, and when the host is closed."""
_BUSY_SECONDS: Final = 2.0
"""How long a write waits for another process. What is not written is kept for the next time."""
_NAME_CHARS: Final = 200
_WORD: Final = re.compile(r"[^\s,:()]+")
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS skills (origin TEXT NOT NULL, uri TEXT NOT NULL, name TEXT NOT NULL, "
    + "".join(f"{kind} INTEGER NOT NULL DEFAULT 0, " for kind in KINDS)
    + "chars INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL, PRIMARY KEY (origin, uri)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS turns (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "turns INTEGER NOT NULL, chars INTEGER NOT NULL, since INTEGER NOT NULL)",
)
# Every name in these statements is one of ours.
_ADD: Final = (
    f"INSERT INTO skills (origin, uri, name, {', '.join(KINDS)}, chars, last) "  # noqa: S608
    f"VALUES (?, ?, ?, {', '.join('?' * len(KINDS))}, ?, ?) ON CONFLICT (origin, uri) DO UPDATE SET "
    + "".join(f"{kind} = {kind} + excluded.{kind}, " for kind in KINDS)
    + "name = excluded.name, last = excluded.last, "
    "chars = CASE WHEN excluded.chars > 0 THEN excluded.chars ELSE chars END"
)
_TURNS: Final = (
    "INSERT INTO turns VALUES (1, ?, ?, ?) ON CONFLICT (one) DO UPDATE SET "
    "turns = turns + excluded.turns, chars = chars + excluded.chars"
)
_FORGET: Final = (
    "DELETE FROM skills WHERE (origin, uri) IN "
    "(SELECT origin, uri FROM skills ORDER BY last DESC, origin, uri LIMIT -1 OFFSET ?)"
)
_log: Final = logging.getLogger("skillwire.host")


@dataclass(frozen=True, slots=True)
class SkillUse:
    """Something that was done with a skill. `path` is the file that was loaded, read or refused."""

    kind: UseKind
    skill: HostSkill
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUsage:
    """The counts of one skill. `origin` is the server or directory."""

    origin: str
    uri: str
    name: str
    offered: int = 0
    """In how many turns a model was told of it."""
    found: int = 0
    loaded: int = 0
    read: int = 0
    """How often one of its other files was read."""
    refused: int = 0
    chars: int = 0
    """The length of its name and description, which each turn costs, in characters."""
    last: int = 0
    """When it was last counted, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The counts in a file."""

    skills: tuple[SkillUsage, ...] = ()
    turns: int = 0
    chars: int = 0
    """The characters of all catalogs together."""
    since: int = 0


@dataclass(slots=True)
class _Counts:
    name: str
    uses: Counter[str] = field(default_factory=Counter[str])
    chars: int = 0


@dataclass(slots=True)
class _Counted:
    """The counts that are not in the file yet, by origin and URI."""

    skills: dict[tuple[str, str], _Counts] = field(default_factory=dict[tuple[str, str], _Counts])
    turns: int = 0
    chars: int = 0

    def of(self, skill: HostSkill) -> _Counts:
        key = safe_line(str(skill.origin), limit=_NAME_CHARS), safe_line(skill.uri, limit=_NAME_CHARS * 5)
        return self.skills.setdefault(key, _Counts(safe_line(skill.entry.name, limit=_NAME_CHARS)))

    def as_usage(self) -> Usage:
        """The counts as values."""
        skills = [
            SkillUsage(origin=origin, uri=uri, name=one.name, chars=one.chars, **one.uses)
            for (origin, uri), one in self.skills.items()
        ]
        return Usage(tuple(skills), self.turns, self.chars)

    def merge(self, later: _Counted) -> None:
        """Add what was counted later."""
        for key, counts in later.skills.items():
            mine = self.skills.setdefault(key, _Counts(counts.name))
            mine.uses.update(counts.uses)
            mine.chars = counts.chars or mine.chars
        self.turns += later.turns
        self.chars += later.chars


class UsageFile:
    """The file. Every call may block, for a limited time."""

    def __init__(self, path: Path, *, most: int) -> None:
        self.path = path
        self._most = most

    def read(self) -> Usage:
        """Return the counts so far; a `SourceError` if the file cannot be read."""
        if not self.path.exists():
            return Usage()
        columns = ("origin", "uri", "name", *KINDS, "chars", "last")
        with self._opened() as database:
            query = f"SELECT {', '.join(columns)} FROM skills ORDER BY origin, uri LIMIT ?"  # noqa: S608
            rows = database.execute(query, [self._most]).fetchall()
            turns = database.execute("SELECT turns, chars, since FROM turns").fetchone()
        skills = tuple(SkillUsage(**dict(zip(columns, row, strict=True))) for row in rows)
        return Usage(skills, *(turns or (0, 0, 0)))

    def add(self, counted: Usage) -> None:
        """Add counts, in one transaction. The skills that were not counted for the longest time go first if
        there are too many."""
        now = int(time.time())
        rows = [
            (one.origin, one.uri, one.name, *(getattr(one, kind) for kind in KINDS), one.chars, now)
            for one in counted.skills
        ]
        with self._opened(create=True) as database:
            database.executemany(_ADD, rows)
            database.execute(_TURNS, (counted.turns, counted.chars, now))
            database.execute(_FORGET, [self._most])

    def clear(self) -> bool:
        """Delete everything that was counted; false if there was nothing."""
        if not self.path.exists():
            return False
        try:
            self.path.unlink()
            self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be deleted: {unreadable(error)}") from None
        return True

    @contextmanager
    def _opened(self, *, create: bool = False) -> Generator[sqlite3.Connection]:
        """A connection in a transaction that waits for other processes, up to a limit."""
        uri = f"file:{quote(str(self.path.absolute()))}?mode=rw"
        try:
            if create:
                make_private(self.path)
            with closing(
                sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            ) as database:
                database.execute("BEGIN IMMEDIATE")
                try:
                    for table in _TABLES:
                        database.execute(table)
                    yield database
                except BaseException:
                    database.rollback()
                    raise
                database.commit()
        except (sqlite3.Error, OSError) as error:
            raise SourceError(
                f"the usage in {self.path} cannot be used: {error}; to start anew, run "
                "`skillwire list --usage --clear`"
            ) from None


class UsageRecorder:
    """Counts what a host does, if it has a file; and tells a program of each use, if it listens."""

    def __init__(
        self, file: Path | None, *, on_use: Callable[[SkillUse], None] | None, limits: Limits
    ) -> None:
        self._file = None if file is None else UsageFile(file, most=limits.usage_skills)
        self._most = limits.usage_skills
        self._on_use = on_use
        self._counted = _Counted()
        self._catalogs: dict[int, tuple[CatalogText, tuple[HostSkill, ...], int]] = {}
        self._problem = ""

    @property
    def is_on(self) -> bool:
        return self._file is not None

    def use(self, use: SkillUse) -> None:
        """Count one use."""
        if self._on_use is not None:
            self._on_use(use)
        if self._file is not None and len(self._counted.skills) < self._most:
            self._counted.of(use.skill).uses[use.kind] += 1

    def found(self, skills: Iterable[HostSkill]) -> None:
        """Count the results of a search."""
        for skill in skills:
            self.use(SkillUse("found", skill))

    def offer(self, catalog: CatalogText, skills: tuple[HostSkill, ...]) -> None:
        """Count a turn in which a model is told of skills. Agents ask before every turn, so this is cheap."""
        if self._file is not None:
            turns = self._catalogs.get(id(catalog), (catalog, skills, 0))[2]
            self._catalogs[id(catalog)] = catalog, skills, turns + 1
            if len(self._catalogs) > 1:
                self._count_turns(keep=id(catalog))

    def offer_names(self, text: str, skills: Sequence[HostSkill]) -> None:
        """Count a text that names skills, once at the beginning of a conversation."""
        if self._file is not None:
            words = set(_WORD.findall(text))
            named = tuple(skill for skill in skills if skill.entry.name in words)
            shown = CatalogText(text, tuple(skill.handle for skill in named), shortened=1)
            self.offer(shown, named)

    def _count_turns(self, *, keep: int | None = None) -> None:
        for number in [number for number in self._catalogs if number != keep]:
            catalog, skills, turns = self._catalogs.pop(number)
            handles = set(catalog.shown)
            self._counted.turns += turns
            self._counted.chars += turns * len(catalog.text)
            for skill in skills:
                if skill.handle in handles and len(self._counted.skills) < self._most:
                    counts = self._counted.of(skill)
                    counts.uses["offered"] += turns
                    counts.chars = len(skill.handle) + _described(skill, catalog)

    async def run(self) -> None:
        """Write from time to time, until canceled."""
        while self._file is not None:
            await anyio.sleep(WRITE_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Write what was counted. What cannot be written is kept, and the reason is logged once."""
        self._count_turns()
        counted = self._counted
        if self._file is None or not (counted.skills or counted.turns):
            return
        self._counted = _Counted()
        try:
            with anyio.CancelScope(shield=True):  # A write takes at most as long as it may wait for others.
                await anyio.to_thread.run_sync(self._file.add, counted.as_usage())
            self._problem = ""
        except SourceError as error:
            counted.merge(self._counted)
            self._counted = counted
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("%s", safe_line(self._problem))


def _described(skill: HostSkill, catalog: CatalogText) -> int:
    """How much of a description a catalog has."""
    description = skill.entry.description
    return len(description) if not catalog.shortened or description in catalog.text else 0
