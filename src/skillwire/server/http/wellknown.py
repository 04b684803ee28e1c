"""The skills of a server as a site lists them: `/.well-known/agent-skills/` (discovery 0.2.0).

Every skill is one archive that depends on its files alone, named by its digest. So what an index names is
what its URL gives, or nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread

from skillwire.errors import SkillwireError
from skillwire.server.http.lazy import Asgi, Receive, Scope, Send
from skillwire.server.library import SkillLibrary
from skillwire.skill.digests import Digest, digest_of
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import path_below, skill_root
from skillwire.sources.archive import ArchiveFile, write_tar_gz
from skillwire.sources.wellknown import SCHEMA

FOLDER: Final = "/.well-known/agent-skills/"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_DESCRIPTION: Final = 1024
_SHORT: Final = 16


@dataclass(frozen=True, slots=True)
class _Artifact:
    entry: SkillEntry
    data: bytes
    digest: Digest

    @property
    def path(self) -> str:
        return f"{self.entry.name}-{self.digest[len('sha256:') :][:_SHORT]}.tar.gz"


class WellKnownMiddleware:
    """Answers for the index and its archives, and gives everything else to the application behind.

    Requests must be addressed to one of `hosts`, and carry the token if there is one.
    """

    def __init__(
        self, app: Asgi, library: SkillLibrary, *, hosts: Iterable[str] = (), token: str | None = None
    ) -> None:
        self._app = app
        self._library = library
        self._hosts = frozenset(host.lower() for host in (*_LOOPBACK, *hosts))
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()
        self._artifacts: dict[str, _Artifact] = {}
        self._building = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(FOLDER):
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        if scope["method"] not in ("GET", "HEAD"):
            await _reply(scope, send, 405, b"Method Not Allowed", "text/plain")
        elif not self._is_for_us(headers.get("host", "")):
            await _reply(scope, send, 421, b"Misdirected Request", "text/plain")
        elif not self._may_read(headers.get("authorization", "")):
            await _reply(scope, send, 401, b"Unauthorized", "text/plain", [(b"www-authenticate", b"Bearer")])
        else:
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
            body = json.dumps({"$schema": SCHEMA, "skills": rows}, indent=1, ensure_ascii=False).encode()
            await _reply(scope, send, 200, body, "application/json")
            return
        found = next((one for one in artifacts.values() if one.path == name), None)
        if found is None:
            await _reply(scope, send, 404, b"Not Found", "text/plain")
        else:
            await _reply(scope, send, 200, found.data, "application/gzip")

    async def _current(self) -> dict[str, _Artifact]:
        """The archive of every listed skill by name; what did not change is not made again."""
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
                    continue  # It changed while it was read: the next request has it.
            self._artifacts = made
            return made

    async def _make(self, entry: SkillEntry) -> _Artifact:
        root = skill_root(entry.uri)
        files: list[ArchiveFile] = []
        for resource in () if entry.resources is DYNAMIC else entry.resources:
            data = (await self._library.read(resource.uri)).data
            path = "/".join(path_below(resource.uri, root))
            files.append(ArchiveFile(path, data, data.startswith(b"#!")))
        data = await anyio.to_thread.run_sync(write_tar_gz, files)
        return _Artifact(entry, data, digest_of(data))

    def _is_for_us(self, host: str) -> bool:
        name = host.lower()
        bare = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() and ":" in name else name
        return name in self._hosts or bare in self._hosts

    def _may_read(self, authorization: str) -> bool:
        if self._token is None:
            return True
        scheme, _, given = authorization.partition(" ")
        digest = hashlib.sha256(given.strip().encode("latin-1", "replace")).digest()
        return scheme.lower() == "bearer" and hmac.compare_digest(digest, self._token)


async def _reply(
    scope: Scope,
    send: Send,
    status: int,
    body: bytes,
    kind: str,
    more: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
