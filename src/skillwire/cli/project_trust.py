"""The files of a project that need the user's trust, and what they name: servers and directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillwire.host.config.text import ConfigText, Place
    from skillwire.host.config.trust import SeenFile, TrustedFiles
    from skillwire.host.importers.base import ClientFile
    from skillwire.host.importers.files import FoundServer

HINT = "To look at what is not trusted, and to trust it: skillwire trust"


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of the project, with the servers and the directories that it names."""

    file: SeenFile
    servers: tuple[tuple[str, Place], ...]
    directories: tuple[ProjectDirectory, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectDirectory:
    """A directory of skills that a project's file names, as it is written there.

    `path` is `None` if it is not shown: it is outside the project, or depends on a variable.
    """

    text: str
    path: Path | None
    note: str = ""


def trusted_files() -> TrustedFiles:
    from skillwire.host.config.trust import TrustedFiles
    from skillwire.host.directories import state_places

    return TrustedFiles(state_places().trusted)


def found_servers(project: Path | None = None) -> list[FoundServer]:
    """The servers of other clients, at home and in a project, by default the working directory."""
    import os

    from skillwire.host.importers.files import find_servers

    return list(find_servers(project or Path.cwd(), Path.home(), os.environ))


def client_files(project: Path | None = None) -> list[ClientFile]:
    """The files in which other clients may have servers, whether they exist or not."""
    import os
    import sys

    from skillwire.host.importers import clients
    from skillwire.host.importers.base import Surroundings

    return clients.client_files(
        Surroundings(
            environment=os.environ,
            home=Path.home(),
            project=project or Path.cwd(),
            platform=sys.platform,
        )
    )


def write_project(file: Path, before: ConfigText | None, text: str) -> bool:
    """Write the user's or the project's file. Returns false if the project's file is not trusted then.

    What a user adds with a command is trusted, unless the file already had something that is not.
    """
    from skillwire.host.config.edit import write_config
    from skillwire.host.config.file import is_trusted, project_file
    from skillwire.host.config.trust import SeenFile
    from skillwire.skill.digests import digest_of

    ours = before is None or not before.needs_trust or is_trusted(before)
    write_config(file, text)
    if file != project_file():
        return True
    if ours:
        trusted_files().trust(SeenFile(file, digest_of(text.encode())))
    return ours


def project_files(root: Path) -> list[ProjectFile]:
    """The project's files that need trust: ours, then those of other clients."""
    from skillwire.host.config.file import project_file, read_config
    from skillwire.host.config.trust import SeenFile

    files: list[ProjectFile] = []
    config = read_config(project_file(root))
    if config is not None and config.needs_trust:
        servers = ((label, text.place) for label, text in config.servers.items() if text.place is not None)
        directories = tuple(_directory(text, config.file.parent) for text in config.directories)
        files.append(ProjectFile(SeenFile(config.file, config.digest), tuple(servers), directories))
    found = found_servers(root)
    for file in dict.fromkeys(file for server in found for file in server.files if file.of_project):
        servers = (
            (server.label, server.place)
            for server in found
            if server.place is not None and file in server.files
        )
        if named := tuple(servers):
            files.append(ProjectFile(file, named))
    return files


def _directory(text: str, root: Path) -> ProjectDirectory:
    from skillwire.files import expand_user
    from skillwire.host.config.variables import names_in

    if variables := names_in(text):
        note = f"reads {', '.join(variables)} of your environment; its skills need an approval each"
        return ProjectDirectory(text, None, note)
    path = root / expand_user(text)
    if not path.resolve().is_relative_to(root.resolve()):
        return ProjectDirectory(text, None, "outside the project: it is not read")
    return ProjectDirectory(text, path, "" if path.is_dir() else "it does not exist")
