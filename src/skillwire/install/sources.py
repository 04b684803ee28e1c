"""SourceSkills: skills of git repositories, sites, archives, folders and installed Python packages.

What git fetches and what is read from disk is read in a worker thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio.to_thread

from skillwire.catalog import HostSkill
from skillwire.errors import (
    AmbiguousName,
    FormatError,
    RefusedByPolicy,
    SkillNotFound,
    SkillwireError,
    SourceError,
    VerificationError,
)
from skillwire.files import expand_user
from skillwire.host import ServerConfig, SkillHost
from skillwire.install.candidates import (
    Candidate,
    Check,
    FetchFailure,
    FetchResult,
    Freshness,
    OnCandidate,
    make_candidate,
    not_what_is_pinned,
    read_archive_file,
    read_folder,
    with_interpreters,
)
from skillwire.install.lock import LockedSkill, Pin
from skillwire.install.source import INSTALLED, Source
from skillwire.limits import Limits
from skillwire.net import ArchiveFile, split_skills
from skillwire.skill import (
    DYNAMIC,
    SetDigest,
    SkillEntry,
    SkillUri,
    path_below,
    set_digest,
    skill_path,
    skill_root,
)
from skillwire.sources import SourceKind, SourceReference, packages_with_skills, parse_reference
from skillwire.sources.git import fetch_tree, resolve_commit
from skillwire.sources.wellknown import fetch_artifact, fetch_index, fetch_site
from skillwire.text import redact_url, shown
from skillwire.trust import ApprovalMode, VerifiedFile, check_entry

if TYPE_CHECKING:
    from skillwire.trust import Publisher


@dataclass(frozen=True, slots=True)
class SourceSkills:
    """The skills of every source that is not an MCP server. Relative paths start at `base`."""

    base: Path
    publishers: Sequence[Publisher]
    limits: Limits
    tokens: Sequence[tuple[str, str]] = ()
    """Patterns of sites, each with the token that they ask for."""

    async def fetch(self, reference: SourceReference, wanted: frozenset[str] | None) -> FetchResult:
        """Fetch the current skills of a source, or only those of these names."""
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
        return FetchResult(found, failures)

    async def fetch_pinned(self, group: Sequence[LockedSkill]) -> FetchResult:
        """Fetch skills that are pinned to the same version of a source."""
        fetched = await self._fetch_group(group)
        failures = [
            FetchFailure(skill.name, failure.error)
            for failure in fetched.failures
            for skill in group
            if _is_about(failure, {skill.name, skill.pin.get("path")})
        ]
        return replace(fetched, failures=tuple(failures))

    async def _fetch_group(self, group: Sequence[LockedSkill]) -> FetchResult:
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
                files = await fetch_artifact(
                    url,
                    digest,
                    index=pin.get("index"),
                    token=self._token(pin.get("index")),
                    limits=self.limits,
                )
                return FetchResult((self._candidate(files, group[0].source, pin, group[0].name),))
            case "package":
                reference = SourceReference(kind=SourceKind.PACKAGE, text=INSTALLED, place="")
                return await self.fetch(reference, frozenset(skill.name for skill in group))
            case _:
                text = pin.get("path")
                kind = SourceKind.ARCHIVE if pin.kind == "archive" else SourceKind.FOLDER
                return await self.fetch(SourceReference(kind=kind, text=text, place=text), None)

    async def check(self, skill: LockedSkill, reference: SourceReference) -> Check:
        """Whether a source has something else than what is pinned, as cheaply as it can tell."""
        if reference.kind is SourceKind.GIT and skill.pin.kind == "git":
            commit = await anyio.to_thread.run_sync(lambda: resolve_commit(reference, limits=self.limits))
            if commit == skill.pin.get("commit"):
                return Check(skill, Freshness.CURRENT)
        if reference.kind is SourceKind.SITE and skill.pin.kind == "site":
            token = self._token(reference.place)
            _, index = await fetch_index(reference, token=token, limits=self.limits)
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

    def _token(self, url: str) -> str:
        return next((token for pattern, token in self.tokens if fnmatchcase(url, pattern)), "")

    async def _fetch_git(self, reference: SourceReference) -> FetchResult:
        tree = await anyio.to_thread.run_sync(lambda: fetch_tree(reference, limits=self.limits))
        skills = split_skills(tree.files)
        made: list[Candidate] = []
        failures: list[FetchFailure] = []
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
                failures.append(FetchFailure(path or reference.text, error))
        return FetchResult(tuple(made), tuple(failures))

    async def _fetch_site(self, reference: SourceReference, wanted: frozenset[str] | None) -> FetchResult:
        token = self._token(reference.place)
        site = await fetch_site(reference, names=wanted, token=token, limits=self.limits)
        if reference.path and not (site.skills or site.failures or site.issues):
            raise SkillNotFound(
                f"{site.index_url} lists no skill called {shown(reference.path)}: "
                f"`skillwire add {shown(reference.place, 200)}` shows what it lists"
            )
        made: list[Candidate] = []
        failures = [FetchFailure(name, error) for name, error in site.failures]
        failures += [FetchFailure(reference.text, FormatError(issue)) for issue in site.issues]
        for skill in site.skills:
            pin = Pin.make("site", index=site.index_url, artifact=skill.entry.url, digest=skill.digest)
            try:
                made.append(self._candidate(skill.files, reference.text, pin, skill.entry.name))
            except SkillwireError as error:
                failures.append(FetchFailure(skill.entry.name, error))
        return FetchResult(tuple(made), tuple(failures))

    def _folder(self, reference: SourceReference) -> FetchResult:
        folder = self._path(reference.place)
        return self._local(read_folder(folder, limits=self.limits), reference, "folder", folder)

    def _archive(self, reference: SourceReference) -> FetchResult:
        path = self._path(reference.place)
        return self._local(read_archive_file(path, limits=self.limits), reference, "archive", path)

    def _local(
        self,
        skills: Mapping[str, tuple[ArchiveFile, ...]],
        reference: SourceReference,
        kind: str,
        place: Path,
    ) -> FetchResult:
        if not skills:
            raise SourceError(f"{reference.place} has no skill: no SKILL.md is there")
        made: list[Candidate] = []
        failures: list[FetchFailure] = []
        for folder, files in skills.items():
            path = self._portable(place / folder if folder and kind == "folder" else place, reference.place)
            expected = folder.rpartition("/")[2] or (place.name if kind == "folder" else "")
            try:
                made.append(self._candidate(files, reference.text, Pin.make(kind, path=path), expected))
            except SkillwireError as error:
                failures.append(FetchFailure(folder or reference.text, error))
        return FetchResult(tuple(made), tuple(failures))

    def _packages(self, wanted: frozenset[str] | None) -> FetchResult:
        made: list[Candidate] = []
        failures: list[FetchFailure] = []
        for package in packages_with_skills():
            pin = Pin.make("package", package=package.package, version=package.version)
            for folder, files in read_folder(package.folder, limits=self.limits).items():
                name = folder.rpartition("/")[2]
                if wanted is not None and name not in wanted:
                    continue
                try:
                    made.append(self._candidate(files, INSTALLED, pin, name))
                except SkillwireError as error:
                    failures.append(FetchFailure(f"{package.package}: {name}", error))
        return FetchResult(tuple(made), tuple(failures))

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


def _is_about(failure: FetchFailure, names: Collection[str]) -> bool:
    """Whether a failure names one of these skills: by its name, its folder, or its place in a package."""
    return failure.what in names or re.split("/|: ", failure.what)[-1] in names


_FILES_TOGETHER: Final = 32
_READY: Final = "ready"


def is_computed(entry: SkillEntry) -> bool:
    """Whether the digests of a skill are computed from its files: its server, of a draft, lists none."""
    return entry.resources is DYNAMIC and entry.draft is not None


async def current_digest(host: SkillHost, skill: HostSkill) -> str:
    """The digest of what a server has now, or words for a skill that has no fixed files."""
    if is_computed(skill.entry):
        return _files_digest(skill.uri, (await host.files.fetch_files(skill.handle)).files)
    return entry_digest(skill.entry) or "generated on request"


def _files_digest(uri: SkillUri, files: Iterable[VerifiedFile]) -> SetDigest:
    root = skill_root(uri)
    return set_digest(("/".join(path_below(file.uri, root)), file.digest) for file in files)


def entry_digest(entry: SkillEntry) -> SetDigest | None:
    """The digest of the set of files that an entry lists; `None` for a dynamic skill."""
    if entry.resources is DYNAMIC:
        return None
    root = skill_root(entry.uri)
    return set_digest(("/".join(path_below(one.uri, root)), one.digest) for one in entry.resources)


@dataclass(frozen=True, slots=True)
class ServerSkills:
    """The skills of configured servers, by label, and of servers that a lock names by URL."""

    servers: Mapping[str, ServerConfig]
    publishers: Sequence[Publisher]
    limits: Limits
    on_progress: Callable[[str, int, int], None]

    async def fetch(self, sources: Sequence[Source], urls: Mapping[str, str]) -> FetchResult:
        """Every skill that the sources mean, with all files. `urls` are of servers that a lock names."""
        failures: list[FetchFailure] = []
        async with AsyncExitStack() as stack:
            labels = [source.reference.place for source in sources]
            host, problems = await self._open(stack, {label: urls.get(label, "") for label in labels})
            chosen: list[tuple[HostSkill, str]] = []
            for source in sources:
                try:
                    found = self._find(host, source.reference, problems)
                except SkillwireError as error:
                    failures.append(FetchFailure(source.text, error))
                    continue
                names = source.names
                chosen += [(one, source.text) for one in found if names is None or one.entry.name in names]
            candidates: list[Candidate] = []
            failures += await self._read_all(host, chosen, candidates.append, urls)
            return FetchResult(tuple(candidates), tuple(failures))

    async def fetch_pinned(
        self, skills: Sequence[LockedSkill], on_skill: OnCandidate, *, option: str
    ) -> list[FetchFailure]:
        """The pinned versions of skills, by server and URI, each as soon as all its files are there."""
        failures: list[FetchFailure] = []
        places = {skill.pin.get("server"): skill.pin.get("url") for skill in skills}
        async with AsyncExitStack() as stack:
            host, problems = await self._open(stack, places)
            chosen: list[tuple[HostSkill, str]] = []
            for skill in skills:
                label = skill.pin.get("server")
                try:
                    if label in problems:
                        raise problems[label]
                    found = await host.find(skill.pin.get("uri"), server=label)
                    digest = await current_digest(host, found)
                    if digest != skill.digest:
                        raise not_what_is_pinned(skill, digest, option=option)
                except SkillwireError as error:
                    failures.append(FetchFailure(skill.name, error))
                    continue
                chosen.append((found, skill.source))
            return failures + await self._read_all(host, chosen, on_skill, places)

    async def digests(
        self, skills: Sequence[tuple[LockedSkill, SourceReference]]
    ) -> list[tuple[LockedSkill, str, SkillwireError | None]]:
        """Return the servers' current digests of pinned skills, or why there is none.

        No file is read, except of skills whose servers list no digests.
        """
        answers: list[tuple[LockedSkill, str, SkillwireError | None]] = []
        places = {
            reference.place: skill.pin.get("url") if skill.pin.get("server") == reference.place else ""
            for skill, reference in skills
        }
        async with AsyncExitStack() as stack:
            host, problems = await self._open(stack, places)
            for skill, reference in skills:
                try:
                    found = [
                        one for one in self._find(host, reference, problems) if one.entry.name == skill.name
                    ]
                    if not found:
                        raise self._absent(
                            host, reference.place, f"{reference.place} no longer has {skill.name}"
                        )
                    answers.append((skill, await current_digest(host, found[0]), None))
                except SkillwireError as error:
                    answers.append((skill, "", error))
        return answers

    async def _open(
        self, stack: AsyncExitStack, places: Mapping[str, str]
    ) -> tuple[SkillHost, dict[str, SkillwireError]]:
        """A host of the servers that are asked, and why some of them cannot be."""
        problems: dict[str, SkillwireError] = {}
        servers: dict[str, ServerConfig] = {}
        for label, url in places.items():
            config = self.servers.get(label)
            if config is None and url:
                # The lock has its URL. It is used without a login, because a login is the user's own.
                try:
                    urlsplit(url)
                    config = ServerConfig(url=url)
                except (ValueError, SourceError):
                    problems[label] = SourceError(f"{redact_url(url)} in skillwire.lock is not a valid URL")
                    continue
            if config is None:
                problems[label] = self._not_configured(label)
            elif config.approval is ApprovalMode.NEVER:
                problems[label] = RefusedByPolicy(
                    f"nothing is installed from {shown(label)}: the approval mode of that server is never"
                )
            else:
                servers[label] = config
        host = SkillHost(servers=servers, watch=False, limits=self.limits, publishers=self.publishers)
        await stack.enter_async_context(host)
        for state in host.places.servers():
            if state.status.value != _READY:
                problems[state.label] = SourceError(
                    f"MCP server {state.label} cannot be reached", said=state.reason
                )
        return host, problems

    def _not_configured(self, label: str) -> SourceError:
        near = get_close_matches(label, self.servers, n=1)
        advice = (
            f"did you mean {shown(near[0])}?"
            if near
            else f"add it with `skillwire servers add {shown(label)} URL`, "
            f"write ./{shown(label)} if it is a folder, and https://github.com/{shown(label)}/NAME or "
            f"git+https://HOST/{shown(label)}/NAME if it is a repository"
        )
        return SourceError(f"no server is called {shown(label)}: {advice}")

    @staticmethod
    def _absent(host: SkillHost, label: str, message: str) -> SkillwireError:
        """Why a skill was not found: a server that gave no whole listing may still have it."""
        for failure in host.log.failures():
            if failure.origin is not None and failure.origin.label == label:
                return SourceError(f"{label} did not list all its skills", said=failure.message)
        return SkillNotFound(message)

    def _find(
        self, host: SkillHost, reference: SourceReference, problems: Mapping[str, SkillwireError]
    ) -> list[HostSkill]:
        label, name = reference.place, reference.path
        if label in problems:
            raise problems[label]
        skills = [skill for skill in host.skills() if skill.origin.label == label]
        if not name or name == "*":
            if not skills:
                raise self._absent(host, label, f"{label} serves no skills")
            return skills
        found = [skill for skill in skills if skill.entry.name == name]
        if len(found) != 1:
            exact = [skill for skill in skills if "/".join(skill_path(skill.uri)) == name]
            found = exact if len(exact) == 1 else found
        if not found:
            raise self._absent(
                host, label, f"{label} has no skill called {shown(name)}: `skillwire list` shows what it has"
            )
        if len(found) > 1:
            raise AmbiguousName(name, [f"{label}/{'/'.join(skill_path(skill.uri))}" for skill in found])
        return found

    async def _read_all(
        self,
        host: SkillHost,
        chosen: Sequence[tuple[HostSkill, str]],
        on_skill: OnCandidate,
        urls: Mapping[str, str],
    ) -> list[FetchFailure]:
        failures: list[FetchFailure] = []
        sources = {(one.origin, one.uri): source for one, source in chosen}
        done = 0
        total = sum(len(one.entry.resources) for one, _ in chosen if one.entry.resources is not DYNAMIC)

        def count(skill: HostSkill) -> None:
            nonlocal done
            done += 1
            self.on_progress(skill.origin.label, done, total)

        def collect(skill: HostSkill, found: Mapping[SkillUri, VerifiedFile] | SkillwireError) -> None:
            try:
                if isinstance(found, SkillwireError):
                    raise found
                url = urls.get(skill.origin.label, "")
                candidate = self._candidate(skill, sources[skill.origin, skill.uri], found, url)
            except SkillwireError as error:
                failures.append(FetchFailure(skill.entry.name, error))
                return
            on_skill(candidate)

        for skill in [skill for skill, _ in chosen if is_computed(skill.entry)]:
            try:
                read = await host.files.fetch_files(skill.handle)
                collect(skill, {file.uri: file for file in read.files})
            except SkillwireError as error:
                collect(skill, error)
        await host.files.preview_skills(
            (skill for skill, _ in chosen if not is_computed(skill.entry)),
            together=_FILES_TOGETHER,
            on_file=count,
            on_skill=collect,
        )
        return failures

    def _candidate(
        self, skill: HostSkill, source: str, files: Mapping[SkillUri, VerifiedFile], locked_url: str
    ) -> Candidate:
        entry = check_entry(skill.entry, limits=self.limits)
        root = skill_root(entry.uri)
        content = {"/".join(path_below(uri, root)): file.data for uri, file in files.items()}
        config = self.servers.get(skill.origin.label)
        url = (config.url or "") if config is not None else locked_url
        candidate = make_candidate(
            with_interpreters(sorted(content.items())),
            source=source,
            pin=Pin.make(
                "mcp",
                server=skill.origin.label,
                uri=entry.uri,
                url=redact_url(url) if url else "",
                digests="computed" if is_computed(skill.entry) else "",
            ),
            expected_name=entry.name,
            publishers=self.publishers,
            limits=self.limits,
        )
        # Of a skill without digests, the approval is of the installed copy alone.
        return candidate if is_computed(skill.entry) else replace(candidate, entry=entry)
