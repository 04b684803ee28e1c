"""All servers that other MCP clients have here, each once, under a label of its own."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skillwire.catalog import clean_handle
from skillwire.clients import BaseDirectories
from skillwire.files import expand_user, read_regular
from skillwire.host.config.server import SeenFile
from skillwire.host.config.text import ServerAddress
from skillwire.host.importers.base import ClientFile, FileContents, ImportedServer, both, narrowed
from skillwire.host.importers.readers import client_files
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import digest_of
from skillwire.trust import LOCAL_LABEL
from skillwire.trust.origin import MAX_LABEL_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server of other clients. `label` is its name here; `skipped` says why it is not taken."""

    label: str
    name: str
    clients: tuple[str, ...]
    files: tuple[SeenFile, ...]
    """Every file that names it, the user's own first."""
    server: ImportedServer
    also: tuple[str, ...] = ()
    """Other clients' names for it."""

    @property
    def file(self) -> Path:
        return self.files[0].path

    @property
    def place(self) -> ServerAddress | None:
        return self.server.place

    @property
    def skipped(self) -> str:
        return self.server.skipped

    @property
    def switches(self) -> tuple[str, ...]:
        """Return what its clients disable or restrict, which stays so here."""
        server, found = self.server, list[str]()
        if not server.skills:
            found.append("its skills stay disabled")
        if server.include is not None:
            found.append(f"only the skills {', '.join(server.include)}" if server.include else "no skill")
        if server.exclude:
            found.append(f"not the skills {', '.join(server.exclude)}")
        return tuple(found)

    @property
    def login(self) -> str:
        """The command that signs the user in; empty if none is needed."""
        if not self.server.signs_in or self.place is None:
            return ""
        client = f" --client-id {self.server.client_id}" if self.server.client_id else ""
        return f"skillwire servers login {self.label}{client}"


@dataclass(frozen=True, slots=True)
class _Found:
    client: str
    file: SeenFile
    server: ImportedServer


def find_servers(
    project: Path, home: Path, environment: Mapping[str, str], *, platform: str = sys.platform
) -> tuple[FoundServer, ...]:
    """The servers of every client that is here. Reads files and starts nothing."""
    around = BaseDirectories(project, home, environment, platform)
    read = [(file, *_contents(file, around)) for file in client_files(around)]
    found: list[_Found] = []
    for file, seen, contents in read:
        # What one file of a client disables is disabled in all of them.
        others = [said for other, _, said in read if other.client == file.client]
        for server in contents.servers:
            found.append(_Found(file.client, seen, _anchored(narrowed(server, others), project)))
    return tuple(_at_home(server, project) for server in _labelled(found))


def _contents(file: ClientFile, around: BaseDirectories) -> tuple[SeenFile, FileContents]:
    data = b""
    try:
        read = _read(file.path)
        data = read or b""
        contents = file.read(file.parse(_decoded(data)), around) if read is not None else FileContents()
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        unread = ImportedServer(name=file.path.name, skipped=f"the file cannot be read: {reason}")
        contents = FileContents(servers=(unread,))
    return SeenFile(file.path, digest_of(data), file.of_project), contents


def _labelled(found: Iterable[_Found]) -> list[FoundServer]:
    """Each place once, whatever it is called; two places of one name get labels of their own."""
    servers: list[FoundServer] = []
    for one in found:
        server = one.server
        known = next((other for other in servers if other.place and other.place == server.place), None)
        if known is not None:
            names = [*known.also, *([server.name] if server.name != known.name else [])]
            servers[servers.index(known)] = replace(
                known,
                clients=tuple(dict.fromkeys((*known.clients, one.client))),
                files=(*known.files, one.file),
                server=both(known.server, server),
                also=tuple(dict.fromkeys(names)),
            )
            continue
        label = _label(server.name)
        if server.place is not None:
            taken = {other.label.casefold() for other in servers if other.place is not None}
            wish = label
            number = 1
            while label.casefold() in taken:
                number += 1
                label = f"{wish[: MAX_LABEL_LENGTH - 4]}-{number}"
        servers.append(
            FoundServer(
                label=label, name=server.name, clients=(one.client,), files=(one.file,), server=server
            )
        )
    return servers


def _at_home(found: FoundServer, project: Path) -> FoundServer:
    """A command that only the project names is started there; one of the user's in no project at all (S1)."""
    place = found.place
    if place is None or not place.command or place.directory or not all(f.of_project for f in found.files):
        return found
    return replace(found, server=replace(found.server, place=replace(place, directory=str(project))))


def _anchored(server: ImportedServer, project: Path) -> ImportedServer:
    """With a working directory that does not depend on the file that it is written to."""
    place = server.place
    if place is None or not place.directory or place.directory.startswith("${"):
        return server
    return replace(server, place=replace(place, directory=str(project / expand_user(place.directory))))


def _label(name: str) -> str:
    """A label from a client's name for a server."""
    plain = clean_handle(unicodedata.normalize("NFKC", name), marks="-_.")[:MAX_LABEL_LENGTH].strip("-_.")
    plain = unicodedata.normalize("NFKC", plain) or "server"
    return f"{plain}-server" if plain.casefold() == LOCAL_LABEL else plain


def _read(path: Path) -> bytes | None:
    try:
        data = read_regular(path, DEFAULT_LIMITS.document_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) > DEFAULT_LIMITS.document_bytes:
        raise ValueError(f"it has more than {DEFAULT_LIMITS.document_bytes:,} bytes")
    return data


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
