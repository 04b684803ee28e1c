"""CommandFiles: flat command files, the predecessors of skills, as local skills of one file each.

`commands/db/migrate.md` is the skill `skill://db/migrate/SKILL.md`. Frontmatter is optional; the name is the
file's. Nothing in such a file is expanded or run.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from skillwire.documents import JsonObject
from skillwire.errors import FormatError, SkillNotFound, SourceError
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    SKILL_FILE,
    Dialect,
    DraftDetails,
    SkillEntry,
    SkillResource,
    SkillUri,
    digest_of,
    make_uri,
    parse_skill_md,
    shown_uri,
)
from skillwire.sources.base import Change, Problem, Read, Source, changes_between
from skillwire.sources.directory.files import hash_file
from skillwire.wire.legacy import reason

_SUFFIX: Final = ".md"
_DEEPEST: Final = 8


@dataclass(frozen=True, slots=True)
class _Command:
    """A command file as a skill.

    It is opened below `root`, the folder of commands, so that no link leads out of it.
    """

    entry: SkillEntry
    path: Path
    root: Path


class CommandFiles(Source):
    """The `*.md` files in a commands folder."""

    def __init__(self, folder: str | Path, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._folder = Path(folder)
        self._limits = limits
        self._commands: dict[SkillUri, _Command] = {}
        self._entries: tuple[SkillEntry, ...] = ()
        self._problems: tuple[Problem, ...] = ()
        self._is_scanned = False

    async def open(self) -> None:
        await self.refresh()

    async def list_entries(self) -> Sequence[SkillEntry]:
        if not self._is_scanned:
            await self.refresh()
        return self._entries

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        await self.refresh()
        return self._command(uri).entry

    async def read(self, uri: SkillUri) -> Read:
        await self.list_entries()
        command = self._command(uri)
        limit = self._limits.bytes_per_skill
        return Read(await anyio.to_thread.run_sync(_read, command.path, command.root, limit))

    async def at_hand(self, uri: SkillUri) -> bytes | None:
        return (await self.read(uri)).data

    async def refresh(self) -> None:
        await anyio.to_thread.run_sync(self._scan)
        self._is_scanned = True

    async def changes(self) -> AsyncGenerator[Change]:
        """The changes in the folder from now on."""
        from skillwire.sources.directory.watch import watch_directories

        await self.list_entries()
        send, receive = anyio.create_memory_object_stream[tuple[SkillEntry, ...]](math.inf)

        async def take(_paths: frozenset[str] | None) -> bool:
            try:
                await self.refresh()
            except SourceError:
                return False  # The folder is missing: the previous files are kept until it is back.
            await send.send(self._entries)
            return True

        async def watch() -> None:
            await watch_directories([self._folder], take, cares=lambda path: path.endswith(_SUFFIX))

        reported = self._entries
        async with anyio.create_task_group() as tasks, send, receive:
            tasks.start_soon(watch)
            try:
                async for entries in receive:
                    before, reported = reported, entries
                    if entries != before:
                        for change in changes_between(before, entries):
                            yield change
            except GeneratorExit:
                pass  # Closed by the caller; a task group would wrap the exception.
            finally:
                tasks.cancel_scope.cancel()

    def problems(self) -> Sequence[Problem]:
        return self._problems

    def local_path(self, uri: SkillUri) -> str | None:
        return str(self._commands[uri].path) if uri in self._commands else None

    def _command(self, uri: SkillUri) -> _Command:
        if uri not in self._commands:
            raise SkillNotFound(f"No command file is at {shown_uri(uri)}", uri=uri)
        return self._commands[uri]

    def _scan(self) -> None:
        if not self._folder.is_dir():
            raise SourceError(f"{self._folder} is not a directory of command files")
        commands: dict[SkillUri, _Command] = {}
        problems: list[Problem] = []
        root = self._folder.resolve()
        for path in sorted(root.rglob(f"*{_SUFFIX}")):
            parts = path.relative_to(root).parts
            if len(parts) > _DEEPEST or path.name == SKILL_FILE or not path.is_file():
                continue
            try:
                real = path.resolve()
                if not real.is_relative_to(root):
                    raise _left_out("it is a link that leaves the folder")
                data = _read(real, root, self._limits.bytes_per_skill)
                entry = _entry((*parts[:-1], path.stem), data, self._limits)
            except FormatError as error:
                problems.append(Problem(str(path), error.issues))
                continue
            except SourceError as error:
                problems.append(Problem(str(path), _left_out(str(error)).issues))
                continue
            commands[entry.uri] = _Command(entry, real, root)
        self._commands, self._problems = commands, tuple(problems)
        entries = tuple(command.entry for _, command in sorted(commands.items()))
        if entries != self._entries:
            self._entries = entries


def _entry(path: tuple[str, ...], data: bytes, limits: Limits) -> SkillEntry:
    uri = make_uri((*path, SKILL_FILE))
    frontmatter: JsonObject = {}
    if data.startswith(b"---"):
        try:
            frontmatter = parse_skill_md(data, file=path[-1], limits=limits).frontmatter
        except FormatError as error:
            raise _left_out(reason(error)) from None
    description = frontmatter.get("description")
    if not isinstance(description, str):
        frontmatter["description"] = _first_line(data)
    # Its frontmatter is not compared with anything, because it is the user's own file.
    draft = DraftDetails(dialect=Dialect.MANIFEST, carried=frozenset())
    resources = (SkillResource(uri, digest_of(data), len(data)),)
    return SkillEntry(uri, {**frontmatter, "name": path[-1]}, resources, {}, draft)


def _first_line(data: bytes) -> str:
    for line in data.decode("utf-8", "replace").splitlines():
        if line.strip():
            return line.strip().lstrip("# ").strip()
    return ""


def _read(path: Path, root: Path, limit: int) -> bytes:
    try:
        # S4: links that were swapped in meanwhile are not followed.
        hashed = hash_file(str(path), keep=True, at_most=limit, base=str(root))
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None
    if hashed.data is None or hashed.size > limit:
        raise SourceError(f"{path} has more than {limit:,} bytes")
    return hashed.data


def _left_out(message: str) -> FormatError:
    return FormatError.of(rule="command-left-out", message=message, fix="fix the file, or move it away")
