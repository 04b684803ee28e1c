"""SkillCache: verified files on disk, by server and URI (ENT-4, SEC-8).

A file is at `SERVER~MARK/URI`, encoded so that both can be read from the path. It is written to a file beside
it and moved into place, and its digest is computed on every access: what differs from the entry is not
used. The directory is the user's alone. No file in it is called `SKILL.md`, so that nothing that looks for
skills finds one here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import anyio.to_thread

from skillwire.errors import FormatError, SourceError
from skillwire.files import make_folder, read_regular, write_atomic
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import Digest, SkillUri, digest_of, parse_uri
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
