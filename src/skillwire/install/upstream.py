"""Upstream: what the sources of skills have now, or what they had when a skill was pinned.

Sources are asked concurrently: all MCP servers through one host, sites and repositories separately. A source
that fails only affects its own skills.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from skillwire.errors import (
    FormatError,
    RefusedByPolicy,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.install.candidates import (
    Candidate,
    Failure,
    Fetched,
    OnCandidate,
    make_candidate,
    not_what_is_pinned,
    read_archive_file,
    read_folder,
    split_skills,
)
from skillwire.install.freshness import Check, Freshness
from skillwire.install.lock import LockedSkill, Pin
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.sources.archive import ArchiveFile
from skillwire.sources.git import fetch_tree, resolve_commit
from skillwire.sources.packages import packages_with_skills
from skillwire.sources.reference import Reference, SourceKind, parse_reference
from skillwire.sources.wellknown import fetch_artifact, fetch_index, fetch_site

if TYPE_CHECKING:
    from skillwire.host.config.server import ServerConfig
    from skillwire.install.servers import ServerSkills
    from skillwire.trust.publishers import Publisher

INSTALLED: Final = "--installed"
"""How the lock names the skills of installed Python packages as a source."""
_TOGETHER: Final = 16


@dataclass(slots=True)
class Upstream:
    """The sources that skills come from.

    `servers` are the configured MCP servers by label. Relative paths start at `base`.
    """

    base: Path
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, "ServerConfig"])
    publishers: Sequence[Publisher] = ()
    required: Sequence[tuple[str, str]] = ()
    """Patterns of sources, each with the publisher who must have signed what comes from there."""
    limits: Limits = DEFAULT_LIMITS
    on_progress: Callable[[str, int, int], None] = field(default=lambda what, done, total: None)
    """Called with what is fetched, how much of it is there, and how much there will be."""

    # What a source has now

    async def fetch(
        self, sources: Sequence[str], names: Mapping[str, Iterable[str]] | None = None
    ) -> Fetched:
        """Every skill of these sources, or only those that `names` has for a source."""
        candidates: list[Candidate] = []
        failures: list[Failure] = []
        chosen = {source: frozenset(wanted) for source, wanted in (names or {}).items()}
        by_server: list[tuple[Reference, frozenset[str] | None]] = []
        jobs: list[tuple[str, Awaitable[Fetched]]] = []
        for source in dict.fromkeys(sources):
            wanted = chosen.get(source)
            try:
                reference = self._reference(source)
            except SkillwireError as error:
                failures.append(Failure(source, error))
                continue
            if reference.kind is SourceKind.MCP:
                by_server.append((reference, wanted))
            else:
                jobs.append((source, self._fetch_one(reference, wanted)))
        if by_server:
            jobs.append((by_server[0][0].text, self._servers().fetch(by_server)))

        async def run(what: str, job: Awaitable[Fetched]) -> None:
            try:
                fetched = await job
            except SkillwireError as error:
                failures.append(Failure(what, error))
                return
            candidates.extend(fetched.candidates)
            failures.extend(fetched.failures)

        async with anyio.create_task_group() as tasks:
            for what, job in jobs:
                tasks.start_soon(run, what, job)
        signed: list[Candidate] = []
        for candidate in candidates:
            if refusal := self._refusal(candidate):
                failures.append(refusal)
            else:
                signed.append(candidate)
        ordered = sorted(signed, key=lambda one: (one.name, one.skill.source))
        return Fetched(tuple(ordered), tuple(sorted(failures, key=lambda one: one.what)))

    def _refusal(self, candidate: Candidate) -> Failure | None:
        """The failure of a skill that is not signed by the publishers that its source requires."""
        signed_by = candidate.signature.publisher if candidate.signature.is_signed else ""
        missing = next((name for name in self._publishers_for(candidate.skill) if name != signed_by), "")
        if not missing:
            return None
        words = (
            f"{candidate.name} is refused: {shown(candidate.skill.source, 200)} requires the publisher "
            f"{missing}, and the skill is {candidate.signature}"
        )
        return Failure(candidate.name, RefusedByPolicy(words))

    def _publishers_for(self, skill: LockedSkill) -> list[str]:
        """Every publisher whom the configuration requires for where a skill comes from."""
        pin = skill.pin
        server = self.servers.get(pin.get("server")) if pin.kind == "mcp" else None
        places = {skill.source, *(pin.get(key) for key in ("url", "repository", "index", "path")), ""} - {""}
        return [
            *(server.require if server is not None else ()),
            *(name for pattern, name in self.required if any(fnmatchcase(one, pattern) for one in places)),
        ]

    async def fetch_latest(self, skills: Iterable[LockedSkill]) -> Fetched:
        """What the sources of pinned skills have now under their names."""
        names: dict[str, set[str]] = defaultdict(set)
        for skill in skills:
            names[skill.source].add(skill.name)
        fetched = await self.fetch(list(names), names)
        seen = {(one.name, one.skill.source) for one in fetched.candidates}
        failed = {failure.what for failure in fetched.failures}
        missing = [
            Failure(name, SkillNotFound(f"{shown(source, 200)} no longer has {name}"))
            for source, wanted in names.items()
            for name in sorted(wanted)
            if (name, source) not in seen and source not in failed and name not in failed
        ]
        return replace(fetched, failures=(*fetched.failures, *missing))

    async def check(self, skills: Iterable[LockedSkill]) -> tuple[Check, ...]:
        """Whether sources have something else than what is pinned, as cheaply as each can tell."""
        checks: dict[str, Check] = {}
        servers: list[LockedSkill] = []
        others: list[LockedSkill] = []
        for skill in skills:
            try:
                kind = self._reference(skill.source).kind
            except SkillwireError as error:
                checks[skill.name] = Check.failed(skill, error)
                continue
            (servers if kind is SourceKind.MCP else others).append(skill)
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def ask(skill: LockedSkill) -> None:
            async with limiter:
                try:
                    checks[skill.name] = await self._check_one(skill)
                except SkillwireError as error:
                    checks[skill.name] = Check.failed(skill, error)

        async def ask_servers() -> None:
            asked = [(skill, self._reference(skill.source)) for skill in servers]
            for skill, digest, problem in await self._servers().digests(asked):
                same = digest == skill.digest
                checks[skill.name] = (
                    Check.compared(skill, same, digest) if problem is None else Check.failed(skill, problem)
                )

        async with anyio.create_task_group() as tasks:
            if servers:
                tasks.start_soon(ask_servers)
            for skill in others:
                tasks.start_soon(ask, skill)
        return tuple(checks[name] for name in sorted(checks))

    # What is pinned

    async def fetch_pinned(self, skills: Sequence[LockedSkill], on_skill: OnCandidate) -> tuple[Failure, ...]:
        """Exactly the pinned versions, each passed to `on_skill` as soon as it is there and checked.

        Returns what could not be fetched. A skill fails if its source has another version by now.
        """
        groups: dict[tuple[str, ...], list[LockedSkill]] = defaultdict(list)
        for skill in skills:
            pin = skill.pin
            key = {
                "mcp": ("mcp",),
                "git": ("git", pin.get("repository"), pin.get("commit")),
                "site": ("site", pin.get("artifact"), skill.name),
            }.get(pin.kind, (pin.kind, pin.get("path") or pin.get("package")))
            groups[key].append(skill)
        failures: list[Failure] = []

        async def run(group: list[LockedSkill]) -> None:
            waiting = {skill.name: skill for skill in group}

            def check(candidate: Candidate) -> None:
                skill = waiting.pop(candidate.skill.name, None)
                if skill is None:
                    return  # The source has it, and the lock does not.
                candidate, digest = replace(candidate, skill=skill), candidate.skill.digest
                if digest != skill.digest:
                    failures.append(Failure(skill.name, not_what_is_pinned(skill, digest)))
                elif refusal := self._refusal(candidate):
                    failures.append(refusal)
                else:
                    on_skill(candidate)

            try:
                if group[0].pin.kind == "mcp":
                    failed = await self._servers().fetch_pinned(group, check)
                else:
                    fetched = await self._fetch_group(group)
                    failed = fetched.failures
                    for candidate in fetched.candidates:
                        check(candidate)
            except SkillwireError as error:
                failures.extend(Failure(name, error) for name in waiting)
                return
            failures.extend(failed)
            for name in waiting.keys() - {failure.what for failure in failed}:
                error = SkillNotFound(f"{shown(waiting[name].source, 200)} no longer has {name}")
                failures.append(Failure(name, error))

        async with anyio.create_task_group() as tasks:
            for group in groups.values():
                tasks.start_soon(run, group)
        return tuple(sorted(failures, key=lambda one: one.what))

    async def _fetch_group(self, group: list[LockedSkill]) -> Fetched:
        """What a source other than an MCP server has for skills that are pinned to the same version of it."""
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
                return self._packages(frozenset(skill.name for skill in group))
            case _:
                text = pin.get("path")
                kind = SourceKind.ARCHIVE if pin.kind == "archive" else SourceKind.FOLDER
                return await self._fetch_one(Reference(kind=kind, text=text, place=text), None)

    # One source

    def _reference(self, source: str) -> Reference:
        if source == INSTALLED:
            return Reference(kind=SourceKind.PACKAGE, text=source, place="")
        return parse_reference(source)

    def _servers(self) -> ServerSkills:
        # Imported here: a sync that fetches nothing needs no host.
        from skillwire.install.servers import ServerSkills

        return ServerSkills(
            self.servers, publishers=self.publishers, limits=self.limits, on_progress=self.on_progress
        )

    async def _fetch_one(self, reference: Reference, wanted: frozenset[str] | None) -> Fetched:
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
        return replace(fetched, candidates=tuple(one for one in fetched.candidates if one.name in wanted))

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

    async def _check_one(self, skill: LockedSkill) -> Check:
        reference = self._reference(skill.source)
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
        fetched = await self._fetch_one(reference, frozenset({skill.name}))
        found = next((one for one in fetched.candidates if one.name == skill.name), None)
        if found is None:
            failed = next((one.error for one in fetched.failures), None)
            raise failed or SkillNotFound(f"{shown(skill.source, 200)} no longer has {skill.name}")
        return Check.compared(skill, found.skill.digest == skill.digest, found.skill.digest)

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
        path = Path(text).expanduser()
        return path if path.is_absolute() else self.base / path

    def _portable(self, path: Path, given: str) -> str:
        """A path as a lock file has it: from the project on, unless the user gave it from the root."""
        if Path(given).expanduser().is_absolute():
            return path.as_posix()
        text = Path(os.path.relpath(path, self.base)).as_posix()
        return text if text.startswith("..") else f"./{text}"
