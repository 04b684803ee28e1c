"""`skillwire trust`: one decision about a project's servers, directories and skills, as they were shown."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.cli.output import counted, printable
from skillwire.cli.parser import UsageError
from skillwire.cli.project_trust import ProjectFile, client_files, project_files, trusted_files
from skillwire.cli.screen import Screen, cut, show_json
from skillwire.errors import ApprovalRequired, SourceError
from skillwire.skill.digests import parse_digest
from skillwire.text import redact_url

if TYPE_CHECKING:
    from skillwire.catalog.registry import RegisteredSkill
    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.approvals.stored import StoredApproval
    from skillwire.host.config.text import Place
    from skillwire.host.config.trust import SeenFile, TrustedFiles
    from skillwire.host.directories import LocalDirectory
    from skillwire.host.host import SkillHost

_DESCRIPTION: Final = 300


@dataclass(frozen=True, slots=True)
class _Project:
    """What a project would be trusted with, as it was read once."""

    files: tuple[ProjectFile, ...]
    places: dict[str, Path]
    """The directories of its skills, by label."""
    skills: tuple[RegisteredSkill, ...]

    @property
    def digest(self) -> str:
        """The digest of everything that is shown: the bytes of the files, and the set of files of each
        skill."""
        from skillwire.trust.approval import shown_digest

        files = [[str(one.file.path), one.file.digest] for one in self.files]
        skills = [
            [str(self.places[one.origin.label].resolve()), one.uri, shown_digest(one.entry)]
            for one in self.skills
        ]
        return f"sha256:{hashlib.sha256(json.dumps([files, skills]).encode()).hexdigest()}"


def trust(
    *, directory: Path | None, digest: str | None, yes: bool, revoke: bool, listing: bool, as_json: bool
) -> None:
    """Show what a project's own files would start and which skills it has, and trust all of it."""
    if listing + revoke + yes + (digest is not None) > 1:
        raise UsageError("--list, --revoke, --yes and --digest exclude each other: leave out all but one")
    root = (directory or Path.cwd()).resolve()
    if listing and directory is not None:
        raise UsageError("--list covers all projects: leave out DIR")
    if digest is not None:
        parse_digest(digest)
    if not root.is_dir() and not revoke:  # What is no longer there can still be revoked.
        raise SourceError(f"{printable(str(root))} is not a directory: name that of a project")
    if listing:
        _list(as_json=as_json)
    elif revoke:
        _revoke(root, as_json=as_json)
    else:
        asyncio.run(_decide(root, digest=digest, yes=yes, as_json=as_json))


async def _decide(root: Path, *, digest: str | None, yes: bool, as_json: bool) -> None:
    from skillwire.host.host import SkillHost

    files = tuple(project_files(root))
    directories = _directories(root, files)
    async with SkillHost(directories=directories, watch=False) as host:
        places = {one.origin.label: one.path for one in directories}
        skills = tuple(one for one in host.skills(disabled=True) if not one.origin.is_own)
        project = _Project(files, places, skills)
        trusted = trusted_files()
        waiting = any(not trusted.trusts(one.file) for one in files) or bool(_waiting(host, skills))
        # Where the answer is given, the question must be seen: standard output may be a file.
        screen = Screen(errors=True)
        agreed = yes or not waiting or digest == project.digest
        if not as_json:
            _show(screen, project, trusted, host)
        elif not agreed:
            show_json(_json(project, trusted, host))
        if not agreed:
            await _ask(screen, project, digest)
        for one in files:
            trusted.trust(one.file)  # What was shown, whatever the file says by now.
        for skill in _waiting(host, skills):
            await host.admin.approve(skill, how="the project was trusted", keep_files=True)
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


async def _ask(screen: Screen, project: _Project, digest: str | None) -> None:
    """Return if the user agrees to what was shown; otherwise raise."""
    from skillwire.cli.ask import drop_typed_ahead, read_line

    refused = "nothing was trusted"
    if digest is not None:
        refused += f": this project is not what was shown with that digest; now it is {project.digest}"
    elif sys.stdin.isatty() and sys.stderr.isatty():
        drop_typed_ahead()
        screen.line(("Trust all of this as it is now? ", "bold"), "[y/N]")
        if (await read_line()).strip().lower() in ("y", "yes"):
            return
    else:
        refused += (
            ", because this is not a terminal: look at what is shown, then add "
            f"--digest {project.digest}, or --yes for whatever is there"
        )
    raise ApprovalRequired(refused, reason="denied", origin="", uri="")


def _directories(root: Path, files: Sequence[ProjectFile]) -> list[LocalDirectory]:
    """The project's directories of skills: where agents look, and those that its file names inside it."""
    from skillwire.host.directories import (
        LocalDirectory,
        default_directories,
        label_directories,
        project_directory,
    )
    from skillwire.host.styles.ranks import Layer
    from skillwire.trust.origin import Origin

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


def _waiting(host: SkillHost, skills: Sequence[RegisteredSkill]) -> list[RegisteredSkill]:
    """The skills that are not approved as they are now."""
    from skillwire.host.approvals.status import State

    return [one for one in skills if host.admin.status(one).state in (State.NEW, State.CHANGED)]


# What is shown


def _show(screen: Screen, project: _Project, trusted: TrustedFiles, host: SkillHost) -> None:
    """Everything that is agreed to, in full: what is not shown is not agreed to. Secrets are left out."""
    from skillwire.cli.ask import files_words
    from skillwire.trust.guards import requested_tools

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
            screen.line("  ", (skill.handle, "bold"), f"  {host.admin.status(skill).state.value}")
            tools = requested_tools(skill.entry.frontmatter.get("allowed-tools"))
            asked = f"the tools {printable(' '.join(tools))}, which trust does not grant" if tools else ""
            rows = [
                ("description", cut(skill.entry.description, _DESCRIPTION)),
                ("files", files_words(skill.entry)),
                ("wants", asked),
            ]
            screen.pairs((f"  {name}", value) for name, value in rows)
        screen.line()
    if project.files or project.skills:
        screen.pairs([("digest", project.digest)])


def _show_server(screen: Screen, label: str, place: Place) -> None:
    import shlex

    from skillwire.issues import shown

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
    from skillwire.trust.approval import shown_digest

    return {
        "digest": project.digest,
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
                "state": host.admin.status(skill).state.name.lower(),
            }
            for skill in project.skills
        ],
    }


def _server_json(label: str, place: Place) -> dict[str, object]:
    return {
        "label": label,
        "command": list(place.command) or None,
        "url": redact_url(place.url) or None,
        "directory": place.directory or None,
        "env": list(place.env),
        "headers": list(place.headers),
        "variables": _variables(place),
    }


def _variables(place: Place) -> list[str]:
    """The variables of the user's environment that the server would receive."""
    from skillwire.host.config.variables import names_in

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
                "skills": [{"directory": str(path), "uri": one.approval.uri} for path, one in skills],
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
    from skillwire.host.config.file import project_file

    paths = [project_file(root), *(file.path for file in client_files(root) if file.of_project)]
    trusted = trusted_files()
    files = [str(path) for path in paths if trusted.forget(path)]
    store = _store()
    skills = [one for path, one in _directory_approvals(store) if path.is_relative_to(root)]
    for one in skills:
        asyncio.run(store.remove_stored(one))
    if as_json:
        show_json({"forgotten": files, "revoked": [one.approval.uri for one in skills]})
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
    from skillwire.host.config.trust import seen_digest

    try:
        digest = seen_digest(record.path)
    except SkillwireError:
        digest = None
    if digest is None:
        return "not there any more"
    return "trusted" if digest == record.digest else "changed since: not trusted now"


def _store() -> ApprovalStore:
    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.directories import state_places

    store = ApprovalStore(state_places().approvals)
    asyncio.run(store.open())
    return store


def _directory_approvals(store: ApprovalStore) -> list[tuple[Path, StoredApproval]]:
    """The approved skills of directories, each with its directory."""
    from skillwire.host.approvals.stored import DIRECTORY

    return [
        (Path(one.row.server.removeprefix(DIRECTORY)), one)
        for one in store.all()
        if one.row.server.startswith(DIRECTORY)
    ]
