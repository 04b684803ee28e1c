"""SourceSkills: skills of git repositories, sites, archives, folders and installed Python packages.

What git fetches and what is read from disk is read in a worker thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from skillwire.errors import FormatError, SkillNotFound, SkillwireError, SourceError, VerificationError
from skillwire.files import expand_user
from skillwire.install.candidates import (
    Candidate,
    Failure,
    Fetched,
    make_candidate,
    read_archive_file,
    read_folder,
    split_skills,
)
from skillwire.install.freshness import Check, Freshness
from skillwire.install.lock import LockedSkill, Pin
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.sources.archive import ArchiveFile
from skillwire.sources.git import fetch_tree, resolve_commit
from skillwire.sources.packages import packages_with_skills
from skillwire.sources.reference import Reference, SourceKind, parse_reference
from skillwire.sources.wellknown import fetch_artifact, fetch_index, fetch_site

if TYPE_CHECKING:
    from skillwire.trust.publishers import Publisher

INSTALLED: Final = "--installed"
"""How the lock names the skills of installed Python packages as a source."""


@dataclass(frozen=True, slots=True)
class SourceSkills:
    """The skills of every source that is not an MCP server. Relative paths start at `base`."""

    base: Path
    publishers: Sequence[Publisher]
    limits: Limits

    async def fetch(self, reference: Reference, wanted: frozenset[str] | None) -> Fetched:
        """What a source has now, or only the skills of these names."""
        match reference.kind:
            case SourceKind.GIT:
                fetched = await self._fetch_git(reference)
            case SourceKind.SITE:
                fetched = await self._fetch_site(reference, wanted)
            case SourceKind.PACKAGE:
                fetched = await anyio.to_thread.run_sync(self._packages, wanted)
            case SourceKind.ARCHIVE:
                fetched = await anyio.to_thread.run_sync(self._archive, reference)
            case _:
                fetched = await anyio.to_thread.run_sync(self._folder, reference)
        if wanted is None:
            return fetched
        found = tuple(one for one in fetched.candidates if one.name in wanted)
        failures = fetched.failures
        if wanted <= {one.name for one in found}:  # What is wrong with other skills does not matter.
            failures = tuple(failure for failure in failures if _is_about(failure, wanted))
        return Fetched(found, failures)

    async def fetch_pinned(self, group: Sequence[LockedSkill]) -> Fetched:
        """What a source has for skills that are pinned to the same version of it."""
        fetched = await self._fetch_group(group)
        failures = [
            Failure(skill.name, failure.error)
            for failure in fetched.failures
            for skill in group
            if _is_about(failure, {skill.name, skill.pin.get("path")})
        ]
        return replace(fetched, failures=tuple(failures))

    async def _fetch_group(self, group: Sequence[LockedSkill]) -> Fetched:
        pin = group[0].pin
        match pin.kind:
            case "git":
                paths = [skill.pin.get("path") for skill in group]
                common = os.path.commonpath([f"/{path}" for path in paths]).strip("/")
                # Parsed like what a user writes: the author of a lock may want git to run something.
                parsed = parse_reference(f"git+{pin.get('repository')}#{pin.get('commit')}:{common}")
                reference = replace(parsed, text=group[0].source)
                fetched = await self._fetch_git(reference)
                wanted = {(skill.name, skill.pin.get("path")) for skill in group}
                return replace(
                    fetched,
                    candidates=tuple(
                        one for one in fetched.candidates if (one.name, one.skill.pin.get("path")) in wanted
                    ),
                )
            case "site":
                url, digest = pin.get("artifact"), pin.get("digest")
                files = await fetch_artifact(url, digest, limits=self.limits)
                return Fetched((self._candidate(files, group[0].source, pin, group[0].name),))
            case "package":
                reference = Reference(kind=SourceKind.PACKAGE, text=INSTALLED, place="")
                return await self.fetch(reference, frozenset(skill.name for skill in group))
            case _:
                text = pin.get("path")
                kind = SourceKind.ARCHIVE if pin.kind == "archive" else SourceKind.FOLDER
                return await self.fetch(Reference(kind=kind, text=text, place=text), None)

    async def check(self, skill: LockedSkill, reference: Reference) -> Check:
        """Whether a source has something else than what is pinned, as cheaply as it can tell."""
        if reference.kind is SourceKind.GIT and skill.pin.kind == "git":
            commit = await anyio.to_thread.run_sync(lambda: resolve_commit(reference, limits=self.limits))
            if commit == skill.pin.get("commit"):
                return Check(skill, Freshness.CURRENT)
        if reference.kind is SourceKind.SITE and skill.pin.kind == "site":
            _, index = await fetch_index(reference, limits=self.limits)
            entry = next((entry for entry in index.entries if entry.name == skill.name), None)
            if entry is None:
                raise SkillNotFound(f"{shown(skill.source, 200)} no longer lists {skill.name}")
            if entry.digest is not None:
                return Check.compared(skill, entry.digest == skill.pin.get("digest"), entry.digest)
        fetched = await self.fetch(reference, frozenset({skill.name}))
        found = next((one for one in fetched.candidates if one.name == skill.name), None)
        if found is None:
            names = {skill.name, skill.pin.get("path").rpartition("/")[2], reference.text}
            failed = next((one.error for one in fetched.failures if _is_about(one, names)), None)
            raise failed or SkillNotFound(f"{shown(skill.source, 200)} no longer has {skill.name}")
        return Check.compared(skill, found.skill.digest == skill.digest, found.skill.digest)

    async def _fetch_git(self, reference: Reference) -> Fetched:
        tree = await anyio.to_thread.run_sync(lambda: fetch_tree(reference, limits=self.limits))
        skills = split_skills(tree.files)
        made: list[Candidate] = []
        failures: list[Failure] = []
        for folder, files in skills.items():
            path = "/".join(part for part in (reference.path, folder) if part)
            pin = Pin.make("git", repository=reference.place, commit=tree.commit, path=path)
            links = [one for one in tree.skipped if one.startswith(f"{folder}/" if folder else "")]
            try:
                if links:
                    raise VerificationError(
                        f"{shown(links[0])} is a link in the repository: a skill with links is not installed",
                        uri=path,
                    )
                made.append(self._candidate(files, reference.text, pin))
            except SkillwireError as error:
                failures.append(Failure(path or reference.text, error))
        return Fetched(tuple(made), tuple(failures))

    async def _fetch_site(self, reference: Reference, wanted: frozenset[str] | None) -> Fetched:
        site = await fetch_site(reference, names=wanted, limits=self.limits)
        if reference.path and not (site.skills or site.failures or site.issues):
            raise SkillNotFound(
                f"{site.index_url} lists no skill called {shown(reference.path)}: "
                f"`skillwire add {shown(reference.place, 200)}` shows what it lists"
            )
        made: list[Candidate] = []
        failures = [Failure(name, error) for name, error in site.failures]
        failures += [Failure(reference.text, FormatError(issue)) for issue in site.issues]
        for skill in site.skills:
            pin = Pin.make("site", index=site.index_url, artifact=skill.entry.url, digest=skill.digest)
            try:
                made.append(self._candidate(skill.files, reference.text, pin, skill.entry.name))
            except SkillwireError as error:
                failures.append(Failure(skill.entry.name, error))
        return Fetched(tuple(made), tuple(failures))

    def _folder(self, reference: Reference) -> Fetched:
        folder = self._path(reference.place)
        return self._local(read_folder(folder, limits=self.limits), reference, "folder", folder)

    def _archive(self, reference: Reference) -> Fetched:
        path = self._path(reference.place)
        return self._local(read_archive_file(path, limits=self.limits), reference, "archive", path)

    def _local(
        self,
        skills: Mapping[str, tuple[ArchiveFile, ...]],
        reference: Reference,
        kind: str,
        place: Path,
    ) -> Fetched:
        if not skills:
            raise SourceError(f"{reference.place} has no skill: no SKILL.md is there")
        made: list[Candidate] = []
        failures: list[Failure] = []
        for folder, files in skills.items():
            path = self._portable(place / folder if folder and kind == "folder" else place, reference.place)
            expected = folder.rpartition("/")[2] or (place.name if kind == "folder" else "")
            try:
                made.append(self._candidate(files, reference.text, Pin.make(kind, path=path), expected))
            except SkillwireError as error:
                failures.append(Failure(folder or reference.text, error))
        return Fetched(tuple(made), tuple(failures))

    def _packages(self, wanted: frozenset[str] | None) -> Fetched:
        made: list[Candidate] = []
        failures: list[Failure] = []
        for package in packages_with_skills():
            pin = Pin.make("package", package=package.package, version=package.version)
            for folder, files in read_folder(package.folder, limits=self.limits).items():
                name = folder.rpartition("/")[2]
                if wanted is not None and name not in wanted:
                    continue
                try:
                    made.append(self._candidate(files, INSTALLED, pin, name))
                except SkillwireError as error:
                    failures.append(Failure(f"{package.package}: {name}", error))
        return Fetched(tuple(made), tuple(failures))

    def _candidate(
        self, files: Iterable[ArchiveFile], source: str, pin: Pin, expected_name: str = ""
    ) -> Candidate:
        return make_candidate(
            files,
            source=source,
            pin=pin,
            expected_name=expected_name,
            publishers=self.publishers,
            limits=self.limits,
        )

    def _path(self, text: str) -> Path:
        if "\0" in text:  # A lock may have it, and no system call takes it.
            raise SourceError(f"{shown(text)} is not a path")
        path = expand_user(text)
        return path if path.is_absolute() else self.base / path

    def _portable(self, path: Path, given: str) -> str:
        """A path as a lock file has it: from the project on, unless the user gave it from the root or it
        is on another drive."""
        if expand_user(given).is_absolute() or path.drive != self.base.drive:
            return path.as_posix()
        text = Path(os.path.relpath(path, self.base)).as_posix()
        return text if text.startswith("..") else f"./{text}"


def _is_about(failure: Failure, names: Collection[str]) -> bool:
    """Whether a failure names one of these skills: by its name, its folder, or its place in a package."""
    return failure.what in names or re.split("/|: ", failure.what)[-1] in names
