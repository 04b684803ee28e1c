"""Remote sources of `skillwire serve`: repositories, sites, pinned skills and packages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.output import counted, info, printable
from skillwire.errors import FormatError, SkillwireError, SourceError, UsageError
from skillwire.net import ArchiveFile
from skillwire.sources import packages_with_skills
from skillwire.sources.remote import RemoteSource, remote_reference

if TYPE_CHECKING:
    from skillwire.install import Candidate


def places(
    paths: Sequence[str], locked: Path | None, *, installed: bool, interval: float
) -> tuple[tuple[str, ...], list[RemoteSource]]:
    """The directories among the paths, those of packages too, and sources for everything else."""
    directories: list[str] = []
    remotes: list[RemoteSource] = []
    for path in paths:
        try:
            found = remote_reference(path)
        except FormatError as error:
            raise UsageError(str(error)) from None
        if found is None:
            directories.append(path)
        else:
            prefix, reference = found
            remotes.append(RemoteSource.from_reference(reference, prefix=prefix, interval=interval))
    if locked is not None:
        remotes.append(locked_source(locked, interval=interval))
    if installed:
        packages = packages_with_skills()
        if not packages:
            info("No installed Python package has skills.")
        directories += [str(package.folder) for package in packages]
    return tuple(directories), remotes


def locked_source(file: Path, *, interval: float, servers: bool = True) -> RemoteSource:
    """A source of exactly what a lock pins; without `servers`, of what it does not have from MCP servers.

    The lock is read again on every refresh.
    """
    project = file.resolve().parent

    async def fetch() -> Iterable[ArchiveFile]:
        from skillwire.clients import BaseDirectories, Scope
        from skillwire.host import load_config
        from skillwire.install import LockedSkill, SkillFetcher, StateFiles, Workspace
        from skillwire.install.workspace import content_of

        work = Workspace(Scope.PROJECT, BaseDirectories.here(project), StateFiles.of_user(), file)
        skills = [one for one in work.require_lock().skills if servers or one.pin.kind != "mcp"]
        files: dict[str, dict[str, bytes]] = {}
        missing: list[LockedSkill] = []
        for skill in skills:
            try:
                files[skill.name] = content_of(work, skill)
            except SkillwireError:
                missing.append(skill)
        if missing:
            upstream = SkillFetcher(project, servers=load_config(project).servers)

            def collect(candidate: Candidate) -> None:
                files[candidate.name] = dict(candidate.files)

            failures = await upstream.fetch_pinned(missing, collect)
            if failures:
                names = ", ".join(failure.what for failure in failures)
                first = failures[0].error
                raise SourceError(f"{file}: {names} cannot be fetched as pinned ({first})")
        return [
            ArchiveFile(f"{skill.name}/{one.path}", files[skill.name][one.path], one.executable)
            for skill in skills
            for one in skill.files
        ]

    return RemoteSource(str(file), fetch, interval=interval, keep=False)


def fetch_remotes(remotes: Sequence[RemoteSource], *, strict: bool) -> None:
    """Fetch all places concurrently, and print what was found there and what was left out."""

    async def fetch() -> None:
        await asyncio.gather(*(remote.open() for remote in remotes))

    asyncio.run(fetch())
    problems = [problem for remote in remotes for problem in remote.problems()]
    for remote in remotes:
        info(f"{printable(remote.place)}: {counted(len(remote.snapshot.entries), 'skill')}")
    for problem in problems[:20]:
        info(f"  {printable(str(problem))}")
    if strict and problems:
        message = f"--strict: {counted(len(problems), 'problem')}, so nothing is served"
        raise FormatError.of(rule="strict", message=message, fix="fix what is listed above")
