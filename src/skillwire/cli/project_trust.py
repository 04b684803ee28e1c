"""`skillwire servers trust`: the user's word on the servers that a project's own files name."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillwire.errors import ApprovalRequired
from skillwire.text import redact_url

if TYPE_CHECKING:
    from pathlib import Path

    from skillwire.cli.screen import Screen
    from skillwire.host.config.text import ConfigText, Place
    from skillwire.host.config.trust import SeenFile, TrustedFiles
    from skillwire.host.importers.base import ClientFile
    from skillwire.host.importers.files import FoundServer

HINT = "To look at what is not trusted, and to trust it: skillwire servers trust"


@dataclass(frozen=True, slots=True)
class _ProjectFile:
    """A file of the project, and the servers that it names."""

    file: SeenFile
    servers: tuple[tuple[str, Place], ...]


def trust(
    *,
    yes: bool,
    forget: bool,
    as_json: bool,
) -> None:
    """Show what this project's own files would start, and trust them as they are now.

    These are skillwire.toml here, and files such as .mcp.json, .cursor/mcp.json and .vscode/mcp.json, which
    may come from somebody else. Until you trust one, none of its servers is started or asked. Any change of
    it takes your trust back.
    """
    if forget:
        _forget(as_json=as_json)
        return
    from skillwire.cli.screen import Screen, show_json

    trusted = trusted_files()
    files = _project_files()
    waiting = [one for one in files if not trusted.trusts(one.file)]
    # Where the answer is given, the question must be seen: standard output may be a file.
    screen = Screen(errors=True)
    if not as_json or not yes:
        for one in files:
            _describe(screen, one, trusted=one not in waiting)
    if waiting and not yes:
        _ask(screen)
    for one in waiting:
        trusted.trust(one.file)  # What was shown, whatever the file says by now.
    if as_json:
        show_json({"files": [_json(one) for one in files]})
    elif not files:
        screen.line("The files of this project name no servers: there is nothing to trust.")
    elif not waiting:
        screen.line("You trust them already.")
    else:
        screen.line(("Trusted. ", "green"), "Any change of such a file takes it back.")


def trusted_files() -> TrustedFiles:
    from skillwire.host.config.trust import TrustedFiles
    from skillwire.host.directories import state_places

    return TrustedFiles(state_places().trusted)


def found_servers() -> list[FoundServer]:
    """The servers of other clients."""
    import os
    from pathlib import Path

    from skillwire.host.importers.files import find_servers

    return list(find_servers(Path.cwd(), Path.home(), os.environ))


def client_files() -> list[ClientFile]:
    """The files in which other clients may have servers, whether they are there or not."""
    import os
    import sys
    from pathlib import Path

    from skillwire.host.importers import files
    from skillwire.host.importers.base import Surroundings

    return files.client_files(
        Surroundings(environment=os.environ, home=Path.home(), project=Path.cwd(), platform=sys.platform)
    )


def write_project(file: Path, before: ConfigText | None, text: str) -> bool:
    """Write the user's or the project's file. False when the project's has servers that wait for trust.

    What the user has us write is the user's own word, and stays so when nothing else was there that is not.
    """
    from skillwire.host.config.edit import write_config
    from skillwire.host.config.file import is_trusted, project_file
    from skillwire.host.config.trust import SeenFile
    from skillwire.skill.digests import digest_of

    ours = before is None or not before.names_servers or is_trusted(before)
    write_config(file, text)
    if file != project_file():
        return True
    if ours:
        trusted_files().trust(SeenFile(file, digest_of(text.encode())))
    return ours


def _forget(*, as_json: bool) -> None:
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.config.file import project_file

    paths = [project_file(), *(file.path for file in client_files() if file.of_project)]
    trusted = trusted_files()
    gone = [str(path) for path in paths if trusted.forget(path)]
    if as_json:
        show_json({"forgotten": gone})
        return
    screen = Screen()
    for path in gone:
        screen.line(f"{printable(path)} is no longer trusted.")
    if not gone:
        screen.line("No file of this project was trusted.")


def _project_files() -> list[_ProjectFile]:
    """The project's files that name servers: ours, then those of other clients."""
    from skillwire.host.config.file import project_file, read_config
    from skillwire.host.config.trust import SeenFile

    files: list[_ProjectFile] = []
    config = read_config(project_file())
    if config is not None and config.names_servers:
        servers = ((label, text.place) for label, text in config.servers.items() if text.place is not None)
        files.append(_ProjectFile(SeenFile(config.file, config.digest), tuple(servers)))
    found = found_servers()
    for file in dict.fromkeys(file for server in found for file in server.files if file.of_project):
        servers = (
            (server.label, server.place)
            for server in found
            if server.place is not None and file in server.files
        )
        if named := tuple(servers):
            files.append(_ProjectFile(file, named))
    return files


def _ask(screen: Screen) -> None:
    """Return on a yes, and on nothing else."""
    from skillwire.cli.ask import drop_typed_ahead

    refused = "nothing was trusted"
    if sys.stdin.isatty() and sys.stderr.isatty():
        drop_typed_ahead()
        screen.line(("Trust these files as they are now? ", "bold"), "[y/N]")
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    else:
        refused = "nothing was trusted, for nobody can be asked here: look at the files, then add --yes"
    raise ApprovalRequired(refused, reason="denied", origin="", uri="")


def _describe(screen: Screen, one: _ProjectFile, *, trusted: bool) -> None:
    """What a file would start, in full: what is not shown is not agreed to. Its secrets are left out."""
    from skillwire.cli.output import printable
    from skillwire.issues import shown

    standing = ("trusted", "green") if trusted else ("not trusted", "yellow")
    screen.line((printable(str(one.file.path)), "bold"), "  ", standing)
    for label, place in one.servers:
        screen.line("  ", label, " starts" if place.command else " asks")
        line = _command_line(place) or redact_url(place.url)
        remark = screen.quoted(shown(line, len(line)))
        variables = _variables(place)
        rows = [
            ("in", place.directory),
            ("sets", ", ".join(place.env)),
            ("sends", ", ".join([*place.headers, *(["a bearer token"] if place.token else [])])),
            ("reads", f"{', '.join(variables)} of your environment" if variables else ""),
            ("note", remark),
        ]
        # A long value goes on below itself, so that none can pass for a line of ours.
        screen.pairs((name, shown(value, len(value))) for name, value in rows)
    screen.line()


def _json(one: _ProjectFile) -> dict[str, object]:
    return {
        "path": str(one.file.path),
        "digest": one.file.digest,
        "servers": [
            {
                "label": label,
                "command": list(place.command) or None,
                "url": redact_url(place.url) or None,
                "directory": place.directory or None,
                "env": list(place.env),
                "headers": list(place.headers),
                "variables": _variables(place),
            }
            for label, place in one.servers
        ],
    }


def _command_line(place: Place) -> str:
    import shlex

    return shlex.join(place.command)


def _variables(place: Place) -> list[str]:
    """The variables of the user's environment that the server would get to see."""
    from skillwire.host.config.variables import names_in

    texts = (place.url, *place.command, place.directory, place.token, *place.env.values())
    names = [name for text in (*texts, *place.headers.values()) for name in names_in(text)]
    return list(dict.fromkeys([*names, *([place.token_env] if place.token_env else [])]))
