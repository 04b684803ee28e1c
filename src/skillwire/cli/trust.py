"""`skillwire trust`: one decision about a project's servers, directories and skills, as they were shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.cli.output import Screen, counted, cut, printable, show_json
from skillwire.errors import ApprovalRequired, SourceError, UsageError
from skillwire.text import redact_url

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.consent import ConsentStore, Record
    from skillwire.host import (
        ClientFile,
        FoundServer,
        LocalDirectory,
        SeenFile,
        ServerAddress,
        SkillHost,
        TrustedFiles,
    )
    from skillwire.host.config.text import ConfigText

HINT: Final = "To look at what is not trusted, and to trust it: skillwire trust"
_DESCRIPTION: Final = 300


@dataclass(frozen=True, slots=True)
class _Project:
    """A project and what it would be trusted with, as it was read once."""

    files: tuple[ProjectFile, ...]
    places: dict[str, Path]
    """The directories of its skills, by label."""
    skills: tuple[HostSkill, ...]


def trust(*, directory: Path | None, revoke: bool, listing: bool, as_json: bool) -> None:
    """Show what a project's own files would start and which skills it has, and trust all of it."""
    if listing and revoke:
        raise UsageError("--list and --revoke exclude each other: leave out one")
    root = (directory or Path.cwd()).resolve()
    if listing and directory is not None:
        raise UsageError("--list covers all projects: leave out DIR")
    if not root.is_dir() and not revoke:  # What is no longer there can still be revoked.
        raise SourceError(f"{printable(str(root))} is not a directory: name that of a project")
    if listing:
        _list(as_json=as_json)
    elif revoke:
        _revoke(root, as_json=as_json)
    else:
        asyncio.run(_decide(root, as_json=as_json))


async def _decide(root: Path, *, as_json: bool) -> None:
    from skillwire.cli.host_options import person_screen, person_terminal
    from skillwire.consent import require_person
    from skillwire.host import SkillHost

    require_person("trusting a project")

    files = tuple(project_files(root))
    directories = _directories(root, files)
    async with SkillHost(directories=directories, watch=False) as host:
        places = {one.origin.label: one.path for one in directories}
        skills = tuple(one for one in host.skills(disabled=True) if not one.origin.is_own)
        project = _Project(files, places, skills)
        trusted = trusted_files()
        waiting = any(not trusted.trusts(one.file) for one in files) or bool(_waiting(host, skills))
        screen = person_screen()
        if not as_json or (waiting and person_terminal() is not None):
            _show(screen, project, trusted, host)
        elif waiting:
            show_json(_json(project, trusted, host))
        if waiting:
            await _ask(screen)
        for one in files:
            trusted.trust(one.file)  # What was shown, whatever the file says by now.
        for skill in _waiting(host, skills):
            await host.decide.approve(skill, how="the project was trusted", keep_files=True)
        if as_json:
            show_json(_json(project, trusted, host))
        elif not files and not skills:
            screen.line("This project names no servers or directories and has no skills: nothing to trust.")
        elif not waiting:
            screen.line("You trust all of this already.")
        else:
            screen.wrapped(
                "Trusted. A file or skill that changes is no longer trusted. No tools or code are granted."
            )


async def _ask(screen: Screen) -> None:
    """Return if the user agrees to what was shown; otherwise raise."""
    from skillwire.cli.host_options import answer, person_terminal
    from skillwire.consent import NO_TERMINAL

    refused = "nothing was trusted"
    if person_terminal() is None:
        refused += f": {NO_TERMINAL}; a script names the file that it means with --config"
    elif await answer(screen, "Trust all of this as it is now?", "[y/N]") in ("y", "yes"):
        return
    raise ApprovalRequired(refused, reason="denied", origin="", uri="")


def _directories(root: Path, files: Sequence[ProjectFile]) -> list[LocalDirectory]:
    """The project's directories of skills: where agents look, and those that its file names inside it."""
    from skillwire.host import (
        Layer,
        LocalDirectory,
        default_directories,
        label_directories,
        project_directory,
    )
    from skillwire.trust import Origin

    default = default_directories(root, Path.home())
    # In the home directory they are the user's own, which need no trust.
    own = {path.resolve() for label, path in default if label.startswith("user")}
    found = [
        LocalDirectory(Origin.project(label), path, Layer.PROJECT)
        for label, path in default
        if label.startswith("project")
    ]
    named = [one.path for file in files for one in file.directories if one.path is not None]
    found += [project_directory(path) for path in named if path.is_dir()]
    return label_directories([], [one for one in found if one.path.resolve() not in own])


def _waiting(host: SkillHost, skills: Sequence[HostSkill]) -> list[HostSkill]:
    """The skills that are not approved as they are now."""
    return [one for one in skills if host.decide.status(one).waits]


# What is shown


def _show(screen: Screen, project: _Project, trusted: TrustedFiles, host: SkillHost) -> None:
    """Everything that is agreed to, in full: what is not shown is not agreed to. Secrets are left out."""
    from skillwire.cli.host_options import files_words
    from skillwire.trust import requested_tools

    for one in project.files:
        status = ("trusted", "green") if trusted.trusts(one.file) else ("not trusted", "yellow")
        screen.line((printable(str(one.file.path)), "bold"), "  ", status)
        for label, place in one.servers:
            _show_server(screen, label, place)
        for directory in one.directories:
            screen.line("  reads skills in")
            screen.quoted(directory.text)
            screen.pairs([("note", directory.note)])
        screen.line()
    for label, path in project.places.items():
        skills = [skill for skill in project.skills if skill.origin.label == label]
        if not skills:
            continue
        screen.line((printable(str(path)), "bold"), f"  {counted(len(skills), 'skill')}")
        for skill in skills:
            screen.line("  ", (skill.handle, "bold"), f"  {host.decide.status(skill).words}")
            tools = requested_tools(skill.entry.frontmatter.get("allowed-tools"))
            asked = f"the tools {printable(' '.join(tools))}, which trust does not grant" if tools else ""
            rows = [
                ("description", cut(skill.entry.description, _DESCRIPTION)),
                ("files", files_words(skill.entry)),
                ("wants", asked),
            ]
            screen.pairs((f"  {name}", value) for name, value in rows)
        screen.line()


def _show_server(screen: Screen, label: str, place: ServerAddress) -> None:
    import shlex

    from skillwire.text import shown

    screen.line("  ", label, " starts" if place.command else " connects to")
    line = shlex.join(place.command) or redact_url(place.url)
    remark = screen.quoted(shown(line, len(line)))
    variables = _variables(place)
    rows = [
        ("in", place.directory),
        ("sets", ", ".join(place.env)),
        ("sends", ", ".join([*place.headers, *(["a bearer token"] if place.token else [])])),
        ("reads", f"{', '.join(variables)} of your environment" if variables else ""),
        ("note", remark),
    ]
    # A long value is wrapped below itself, so that none looks like our own output.
    screen.pairs((name, shown(value, len(value))) for name, value in rows)


def _json(project: _Project, trusted: TrustedFiles, host: SkillHost) -> dict[str, object]:
    from skillwire.trust import shown_digest

    return {
        "files": [
            {
                "path": str(one.file.path),
                "digest": one.file.digest,
                "trusted": trusted.trusts(one.file),
                "servers": [_server_json(label, place) for label, place in one.servers],
                "directories": [
                    {"text": directory.text, "path": str(directory.path) if directory.path else None}
                    for directory in one.directories
                ],
            }
            for one in project.files
        ],
        "skills": [
            {
                "handle": skill.handle,
                "directory": str(project.places[skill.origin.label]),
                "uri": skill.uri,
                "digest": shown_digest(skill.entry),
                "state": host.decide.status(skill).state.value,
            }
            for skill in project.skills
        ],
    }


def _server_json(label: str, place: ServerAddress) -> dict[str, object]:
    return {
        "label": label,
        "command": list(place.command) or None,
        "url": redact_url(place.url) or None,
        "directory": place.directory or None,
        "env": list(place.env),
        "headers": list(place.headers),
        "variables": _variables(place),
    }


def _variables(place: ServerAddress) -> list[str]:
    """The variables of the user's environment that the server would receive."""
    from skillwire.host.config.text import names_in

    texts = (place.url, *place.command, place.directory, place.token, *place.env.values())
    names = [name for text in (*texts, *place.headers.values()) for name in names_in(text)]
    return list(dict.fromkeys([*names, *([place.token_env] if place.token_env else [])]))


# What was trusted before


def _list(*, as_json: bool) -> None:
    """Every file of a project that is trusted, and every approved skill of a project's directory."""
    records = trusted_files().records()
    skills = _directory_approvals(_store())
    if as_json:
        show_json(
            {
                "files": [{"path": str(record.path), "state": _state(record)} for record in records],
                "skills": [{"directory": str(path), "uri": one.key.uri} for path, one in skills],
            }
        )
        return
    screen = Screen()
    for record in records:
        screen.line((printable(str(record.path)), "bold"), f"  {_state(record)}")
    for path in dict.fromkeys(path for path, _ in skills):
        count = sum(other == path for other, _ in skills)
        screen.line((printable(str(path)), "bold"), f"  {counted(count, 'skill')} approved")
    if not records and not skills:
        screen.line("No project is trusted.")


def _revoke(root: Path, *, as_json: bool) -> None:
    """Revoke the trust in a project: in its files and in the skills of its directories."""
    from skillwire.host import project_file

    paths = [project_file(root), *(file.path for file in client_files(root) if file.of_project)]
    trusted = trusted_files()
    files = [str(path) for path in paths if trusted.forget(path)]
    store = _store()
    skills = [one for path, one in _directory_approvals(store) if path.is_relative_to(root)]
    for one in skills:
        asyncio.run(store.revoke(one.key))
    if as_json:
        show_json({"forgotten": files, "revoked": [one.key.uri for one in skills]})
        return
    screen = Screen()
    for path in files:
        screen.line(f"{printable(path)} is no longer trusted.")
    if skills:
        screen.line(f"{counted(len(skills), 'skill')} of this project no longer approved.")
    if not files and not skills:
        screen.line("Nothing of this project was trusted.")


def _state(record: SeenFile) -> str:
    from skillwire.errors import SkillwireError
    from skillwire.host import seen_digest

    try:
        digest = seen_digest(record.path)
    except SkillwireError:
        digest = None
    if digest is None:
        return "not there any more"
    return "trusted" if digest == record.digest else "changed since: not trusted now"


def _store() -> ConsentStore:
    from skillwire.consent import ConsentStore
    from skillwire.host import state_paths

    store = ConsentStore(state_paths().approvals)
    asyncio.run(store.open())
    return store


def _directory_approvals(store: ConsentStore) -> list[tuple[Path, Record]]:
    """The approved skills of directories, each with its directory."""
    from skillwire.consent import DIRECTORY

    return [
        (Path(one.key.server.removeprefix(DIRECTORY)), one)
        for one in store.approved()
        if one.key.server.startswith(DIRECTORY)
    ]


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of the project, with the servers and the directories that it names."""

    file: SeenFile
    servers: tuple[tuple[str, ServerAddress], ...]
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
    from skillwire.host import TrustedFiles, state_paths

    return TrustedFiles(state_paths().trusted)


def found_servers(project: Path | None = None) -> list[FoundServer]:
    """The servers of other clients, at home and in a project, by default the working directory."""
    import os

    from skillwire.host import find_servers

    return list(find_servers(project or Path.cwd(), Path.home(), os.environ))


def client_files(project: Path | None = None) -> list[ClientFile]:
    """The files in which other clients may have servers, whether they exist or not."""
    from skillwire.clients import BaseDirectories
    from skillwire.host.importers import readers

    return readers.client_files(BaseDirectories.here(project))


def write_project(file: Path, before: ConfigText | None, text: str) -> bool:
    """Write the user's or the project's file. Returns false if the project's file is not trusted then.

    What a user adds with a command is trusted, unless the file already had something that is not. What an
    agent adds is not.
    """
    import os

    from skillwire.clients import running_agent
    from skillwire.host import SeenFile, is_trusted, project_file
    from skillwire.host.config.text import write_config
    from skillwire.skill import digest_of

    ours = before is None or not before.needs_trust or is_trusted(before)
    ours = ours and running_agent(os.environ) is None
    write_config(file, text)
    if file != project_file():
        return True
    if ours:
        trusted_files().trust(SeenFile(file, digest_of(text.encode())))
    return ours


def project_files(root: Path) -> list[ProjectFile]:
    """The project's files that need trust: ours, then those of other clients."""
    from skillwire.host import SeenFile, project_file, read_config

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
    from skillwire.host.config.text import names_in

    if variables := names_in(text):
        note = f"reads {', '.join(variables)} of your environment; its skills need an approval each"
        return ProjectDirectory(text, None, note)
    path = root / expand_user(text)
    if not path.resolve().is_relative_to(root.resolve()):
        return ProjectDirectory(text, None, "outside the project: it is not read")
    return ProjectDirectory(text, path, "" if path.is_dir() else "it does not exist")
