"""Serves skills under `/.well-known/agent-skills/` (discovery 0.2.0).

Every skill is an archive that only depends on its files and is named by its digest. So a URL in the index
always returns exactly the listed bytes, or nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from skillwire.errors import SkillwireError
from skillwire.server.http.asgi import Receive, Scope, Send, refuse_method, respond
from skillwire.server.library import SkillLibrary
from skillwire.skill.digests import Digest, digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import path_below, skill_root
from skillwire.sources.archive import ArchiveFile, archive_file, write_tar_gz
from skillwire.sources.wellknown import SCHEMA

FOLDER: Final = "/.well-known/agent-skills/"
_DESCRIPTION: Final = 1024
"""The longest description that the index may have, in characters."""
_SHORT: Final = 16
"""How many digits of the digest are in the name of an archive."""


@dataclass(frozen=True, slots=True)
class _Artifact:
    """An archive that is served.

    Its path changes with its bytes, so it can be cached for ever.
    """

    entry: SkillEntry
    data: bytes
    digest: Digest

    @property
    def path(self) -> str:
        return f"{self.entry.name}-{self.digest[len('sha256:') :][:_SHORT]}.tar.gz"


class SkillSite:
    """Responds with the index and its archives. Access is checked before."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._artifacts: dict[str, _Artifact] = {}
        self._building = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await refuse_method(scope, send):
            return
        await self._answer(scope, send, unquote(scope["path"][len(FOLDER) :]))

    async def _answer(self, scope: Scope, send: Send, name: str) -> None:
        artifacts = await self._current()
        if name == "index.json":
            rows = [
                {
                    "name": one.entry.name,
                    "type": "archive",
                    "description": one.entry.description[:_DESCRIPTION],
                    "url": quote(one.path),
                    "digest": one.digest,
                }
                for one in artifacts.values()
            ]
            body = json.dumps({"$schema": SCHEMA, "skills": rows}, indent=1) + "\n"
            await respond(scope, send, 200, body, media=b"application/json")
            return
        found = next((one for one in artifacts.values() if one.path == name), None)
        if found is None:
            await respond(scope, send, 404, "Not Found\n")
        else:
            headers = [(b"content-type", b"application/gzip"), (b"content-length", b"%d" % len(found.data))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            body = b"" if scope["method"] == "HEAD" else found.data
            await send({"type": "http.response.body", "body": body})

    async def _current(self) -> dict[str, _Artifact]:
        """The archive of every listed skill by name; unchanged ones are reused."""
        async with self._building:
            entries = await self._library.entries()
            made: dict[str, _Artifact] = {}
            for entry in entries:
                if entry.resources is DYNAMIC or entry.name in made:
                    continue  # An index has each name once.
                known = self._artifacts.get(entry.name)
                if known is not None and known.entry == entry:
                    made[entry.name] = known
                    continue
                try:
                    made[entry.name] = await self._make(entry)
                except SkillwireError:
                    continue  # It changed while it was read; the next request includes it.
            self._artifacts = made
            return made

    async def _make(self, entry: SkillEntry) -> _Artifact:
        root = skill_root(entry.uri)
        files: list[ArchiveFile] = []
        for resource in () if entry.resources is DYNAMIC else entry.resources:
            data = (await self._library.read(resource.uri)).data
            path = "/".join(path_below(resource.uri, root))
            files.append(archive_file(path, data))
        data = await anyio.to_thread.run_sync(write_tar_gz, files)
        return _Artifact(entry, data, digest_of(data))
