"""Usage: how often skills are offered, found, loaded, read and refused, counted in a file of this machine.

Off unless the user turns it on. The counts are kept in memory and added to the file in a thread, each time in
one transaction, so that processes lose nothing of each other. Nothing is sent anywhere.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import quote

import anyio
import anyio.to_thread

from skillwire.catalog import HostSkill
from skillwire.catalog.render import CatalogText
from skillwire.errors import SourceError
from skillwire.files import make_private, unreadable
from skillwire.limits import Limits
from skillwire.text import safe_line

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
