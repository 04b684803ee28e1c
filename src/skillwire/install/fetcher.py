"""SkillFetcher: what the sources of skills have now, or what they had when a skill was pinned.

Sources are asked concurrently: all MCP servers through one host, sites and repositories separately. A source
that fails only affects its own skills. Lock files of other tools, `skills-lock.json` and
`toolhive.lock.yaml`, are read to migrate from them: neither lists a skill's files, so what they name is
fetched, shown and pinned again.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

import anyio
import anyio.to_thread

from skillwire.documents import DocumentError, read_json, read_yaml
from skillwire.errors import FormatError, Issue, PolicyRefused, RefusedByPolicy, SkillNotFound, SkillwireError
from skillwire.files import expand_user
from skillwire.host import PolicyFiles, Scans, log_decision
from skillwire.install.candidates import (
    Candidate,
    Check,
    FetchFailure,
    FetchResult,
    OnCandidate,
    not_what_is_pinned,
)
from skillwire.install.lock import LockedSkill
from skillwire.install.sources import INSTALLED, SourceSkills
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import (
    SKILL_FILE,
    SetDigest,
    SkillEntry,
    SkillResource,
    make_uri,
    name_issues,
    parse_set_digest,
    parse_uri,
)
from skillwire.sources import SourceKind, SourceReference, parse_reference
from skillwire.text import shown
from skillwire.trust import (
    UNSIGNED,
    AdmissionRequest,
    Decision,
    Denied,
    Origin,
    Purpose,
    SignatureState,
    SignatureVerdict,
    VerifiedFile,
    admit,
    git_name,
    url_name,
)

if TYPE_CHECKING:
    from skillwire.host import ServerConfig
    from skillwire.install.sources import ServerSkills
    from skillwire.trust import Publisher

SKILLS_LOCK: Final = "skills-lock.json"
TOOLHIVE_LOCK: Final = "toolhive.lock.yaml"
_SHORTHAND: Final = re.compile(r"[\w.-]+/[\w.-]+")
_TOOLHIVE_GIT: Final = re.compile(r"git://([^@#]+)(?:@([^#]+))?(?:#(.+))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ForeignSkill:
    """A skill of another tool's lock file: the source to get it from, or why that is not possible."""

    name: str
    source: str = ""
    digest: SetDigest | None = None
    """The digest of the set of its files, where that lock file has it."""
    problem: str = ""


def is_foreign_lock(path: PurePath) -> bool:
    """Whether a file has the name of one of them."""
    return path.name in (SKILLS_LOCK, ".skill-lock.json", TOOLHIVE_LOCK)


def parse_foreign_lock(text: str, name: str) -> tuple[ForeignSkill, ...]:
    """The skills of another tool's lock file, by the name of the file; `FormatError` when it is not one."""
    try:
        read = read_yaml if name.endswith((".yaml", ".yml")) else read_json
        loaded: object = read(text, what=name)
    except DocumentError as error:
        raise _refused(name, str(error)) from None
    table = _table(loaded, name)
    if name.endswith((".yaml", ".yml")):
        if table.get("version", "1") != "1":
            raise _unknown_version(name, table.get("version"))
        rows: object = [] if table.get("skills") == "" else table.get("skills")
        if not isinstance(rows, list):
            raise _refused(name, "it has no list of skills")
        return tuple(_toolhive(_table(row, name)) for row in cast("list[object]", rows))
    if table.get("version") not in (1, 3):
        raise _unknown_version(name, table.get("version"))
    skills = _table(table.get("skills"), name)
    return tuple(_npm(key, _table(row, name)) for key, row in sorted(skills.items()))


def _npm(name: str, row: Mapping[str, Any]) -> ForeignSkill:
    kind, source, url = (_text(row, key) for key in ("sourceType", "source", "sourceUrl"))
    ref, path = _text(row, "ref"), _text(row, "skillPath")
    folder = path.removesuffix("SKILL.md").strip("/")
    match kind:
        case "github" if _SHORTHAND.fullmatch(source):
            return _made(name, _git(f"https://github.com/{source.removesuffix('.git')}", ref, folder))
        case "gitlab" if _SHORTHAND.fullmatch(source) and not url:
            return _made(name, _git(f"https://gitlab.com/{source.removesuffix('.git')}", ref, folder))
        case "github" | "gitlab" | "git" if (url or source).startswith(("https://", "ssh://", "file://")):
            return _made(name, _git(url or source, ref, folder))
        case "well-known":
            base = (_text(row, "sourceBaseUrl") or url or source).partition("/.well-known/")[0]
            if not base.startswith(("https://", "http://")):
                base = f"https://{base}"
            return _made(name, f"{base}#{name}")
        case "local" if source:
            local = source if source.startswith((".", "/", "~")) else f"./{source}"
            return _made(name, f"{local}/{folder}" if folder and not local.endswith(folder) else local)
        case _:
            return ForeignSkill(
                name, problem=f"its source {shown(kind or 'unknown')} {shown(source)} is not known"
            )


def _toolhive(row: Mapping[str, Any]) -> ForeignSkill:
    name = _text(row, "name")
    given = _text(row, "resolvedReference") or _text(row, "source")
    digest = _text(row, "contentDigest")
    pinned = parse_set_digest(digest) if digest else None
    match = _TOOLHIVE_GIT.fullmatch(given)
    if match is None:
        return ForeignSkill(
            name, digest=pinned, problem=f"{shown(given)} is in an OCI registry, which is not read"
        )
    commit = _text(row, "digest")
    ref = commit if _COMMIT.fullmatch(commit) else match[2] or ""
    made = _made(name, _git(f"https://{match[1]}", ref, (match[3] or "").strip("/")))
    return ForeignSkill(name, made.source, pinned, made.problem)


def _git(url: str, ref: str, folder: str) -> str:
    fragment = f"#{ref}:{folder}" if folder else f"#{ref}" if ref else ""
    return f"git+{url}{fragment}"


def _made(name: str, source: str) -> ForeignSkill:
    try:
        parse_reference(source)
    except FormatError as error:
        return ForeignSkill(name, problem=error.issues[0].message)
    if issues := name_issues(name):
        return ForeignSkill(name, problem=_words(issues))
    return ForeignSkill(name, source)


def _words(issues: Iterable[Issue]) -> str:
    return "; ".join(issue.message for issue in issues)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in cast("dict[Any, Any]", value)):
        raise _refused(name, "it is not a table of skills")
    return cast("Mapping[str, Any]", value)


def _unknown_version(name: str, version: object) -> FormatError:
    # A list may have aliases of itself: written out, it could be of any size.
    known = shown(str(version)) if isinstance(version, str | int | float) else "with no number"
    return _refused(name, f"version {known} is not supported")


def _refused(name: str, message: str) -> FormatError:
    return FormatError.of(rule="foreign-lock", message=message, fix="check the file", file=name)


_TOGETHER: Final = 16


@dataclass(slots=True)
class SkillFetcher:
    """The sources that skills come from.

    `servers` are the configured MCP servers by label. Relative paths start at `base`.
    """

    base: Path
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, "ServerConfig"])
    publishers: Sequence[Publisher] = ()
    required: Sequence[tuple[str, str]] = ()
    """Patterns of sources, each with the publisher who must have signed what comes from there."""
    tokens: Sequence[tuple[str, str]] = ()
    """Patterns of sites, each with the token that they ask for."""
    limits: Limits = DEFAULT_LIMITS
    policy_files: PolicyFiles = field(default_factory=PolicyFiles)
    """Reads the policy that decides what may be installed."""
    scans: Scans = field(default_factory=Scans)
    """What the scanners of the policy found."""
    on_progress: Callable[[str, int, int], None] = field(default=lambda what, done, total: None)
    """Called with what is fetched, how much of it is there, and how much there will be."""

    # What a source has now

    async def fetch(
        self,
        sources: Sequence[str],
        names: Mapping[str, Iterable[str]] | None = None,
        urls: Mapping[str, str] | None = None,
    ) -> FetchResult:
        """Every skill of these sources, or only those that `names` has for a source.

        `urls` are the servers that a lock names, by label: they are used if the user has configured none.
        """
        await anyio.to_thread.run_sync(
            self.policy_files.current, self.base
        )  # Fetched here, not on the event loop.
        candidates: list[Candidate] = []
        failures: list[FetchFailure] = []
        chosen = {source: frozenset(wanted) for source, wanted in (names or {}).items()}
        by_server: list[tuple[SourceReference, frozenset[str] | None]] = []
        others = self._others()
        jobs: list[tuple[str, Awaitable[FetchResult]]] = []
        for source in dict.fromkeys(sources):
            wanted = chosen.get(source)
            try:
                reference = self._reference(source)
            except SkillwireError as error:
                failures.append(FetchFailure(source, error))
                continue
            if reference.kind is SourceKind.MCP:
                by_server.append((reference, wanted))
            else:
                jobs.append((source, others.fetch(reference, wanted)))
        if by_server:
            jobs.append((by_server[0][0].text, self._servers().fetch(by_server, urls or {})))

        async def run(what: str, job: Awaitable[FetchResult]) -> None:
            try:
                fetched = await job
            except SkillwireError as error:
                failures.append(FetchFailure(what, error))
                return
            candidates.extend(fetched.candidates)
            failures.extend(fetched.failures)

        async with anyio.create_task_group() as tasks:
            for what, job in jobs:
                tasks.start_soon(run, what, job)
        signed: list[Candidate] = []
        for candidate in candidates:
            if refusal := self.refusal(candidate):
                failures.append(refusal)
            else:
                signed.append(candidate)
        ordered = sorted(signed, key=lambda one: (one.name, one.skill.source))
        return FetchResult(tuple(ordered), tuple(sorted(failures, key=lambda one: one.what)))

    def refusal(self, candidate: Candidate) -> FetchFailure | None:
        """The failure of a skill that the policy refuses, or that required publishers did not sign.

        What has not been scanned yet is decided without that: `scanned` does it, before it is installed.
        """
        return self._refusal(candidate, is_final=False)

    async def scanned(self, candidate: Candidate) -> Candidate | FetchFailure:
        """The skill with what the scanners of the policy found in it, or its failure if that refuses it."""
        policy = (await anyio.to_thread.run_sync(self.policy_files.current, self.base)).policy

        async def files() -> list[VerifiedFile]:
            return candidate.verified()

        scans = await self.scans.scan(policy, candidate.local_entry, files, limits=self.limits)
        return self._refusal(candidate, is_final=True) or replace(candidate, scans=scans)

    def _refusal(self, candidate: Candidate, *, is_final: bool) -> FetchFailure | None:
        facts = self.facts(candidate.skill, candidate.entry or candidate.local_entry, candidate.signature)
        facts = facts if is_final else facts.before_scan
        failure = self._failure(candidate.skill, admit(facts, Purpose.INSTALL))
        return failure and replace(failure, scans=tuple((facts.scans or {}).values()))

    def locked_refusal(self, skill: LockedSkill) -> FetchFailure | None:
        """The failure of a pinned skill that the policy refuses, by what the lock says about it."""
        return self._failure(skill, self._locked_decision(skill))

    def locked_words(self, skill: LockedSkill) -> str:
        """Why the policy refuses a pinned skill, in its words; empty if it does not. Nothing is recorded."""
        decision = self._locked_decision(skill)
        return decision.refusal.message if isinstance(decision, Denied) and decision.refusal else ""

    def _locked_decision(self, skill: LockedSkill) -> Decision:
        facts = self.facts(skill, locked_entry(skill), claimed_signature(skill.signer))
        return admit(replace(facts.before_scan, require=()), Purpose.INSTALL)

    def facts(self, skill: LockedSkill, entry: SkillEntry, signature: SignatureVerdict) -> AdmissionRequest:
        """The rules that decide whether a skill may be installed from where it comes from."""
        loaded = self.policy_files.current(self.base)
        sources = self.source_names(skill)
        return AdmissionRequest(
            origin=Origin.project("install"),
            entry=entry,
            require=tuple(self.publishers_for(skill)),
            signature=signature,
            scans=self.scans.known(loaded.policy, entry),
            policy=loaded.policy,
            sources=sources,
            team=loaded.team(entry, sources),
        )

    def _failure(self, skill: LockedSkill, decision: Decision) -> FetchFailure | None:
        log_decision(decision, skill=skill.name, origin=None, act="install")
        if not isinstance(decision, Denied):
            return None
        message = f"{skill.name} from {shown(skill.source, 200)} {decision.message}"
        if decision.refusal is None:
            return FetchFailure(skill.name, RefusedByPolicy(message))
        return FetchFailure(skill.name, PolicyRefused(message, uri=skill.name))

    def source_names(self, skill: LockedSkill) -> tuple[str, ...]:
        """Where a skill comes from, as the patterns of a policy name it."""
        pin = skill.pin
        if pin.kind == "mcp":
            server = self.servers.get(pin.get("server"))
            if server is not None:
                return server.source_names(pin.get("server"))
            return (url_name(pin.get("url")),)
        if pin.kind == "git":
            repository, above = git_name(pin.get("repository")), posixpath.dirname(pin.get("path"))
            return (f"{repository}/{above}", repository) if above.strip("./") else (repository,)
        if pin.kind == "site":
            return (url_name(pin.get("index")),)
        if pin.kind == "package":
            return (f"package:{pin.get('package')}",)
        path = self.base / expand_user(pin.get("path"))
        with suppress(ValueError):  # A NUL character: reading it says that it is not a path.
            path = path.resolve()
        if pin.kind == "archive":
            return (f"file:{path}",)
        return f"folder:{'project' if path.is_relative_to(self.base.resolve()) else 'user'}", f"folder:{path}"

    def publishers_for(self, skill: LockedSkill) -> list[str]:
        """Every publisher whom the configuration requires for where a skill comes from.

        A folder or archive is the same in every spelling of its path, and what holds for a folder holds for
        what is in it.
        """
        pin = skill.pin
        server = self.servers.get(pin.get("server")) if pin.kind == "mcp" else None
        places = {skill.source, *(pin.get(key) for key in ("url", "repository", "index", "path")), ""} - {""}
        is_path = pin.kind in ("folder", "archive")
        for path in self._spellings(pin.get("path")) if is_path else ():
            places |= {path, *map(str, Path(path).parents)}
        return [
            *(server.require if server is not None else ()),
            *(
                name
                for pattern, name in self.required
                for spelling in (self._spellings(pattern) if is_path else (pattern,))
                if any(fnmatchcase(one, spelling) for one in places)
            ),
        ]

    def _spellings(self, path: str) -> set[str]:
        """A path as it is written, from the root, and without links."""
        if "\0" in path:  # A lock may have it, and no system call takes it.
            return {path}
        from_root = os.path.normpath(self.base / expand_user(path))
        return {path, from_root, os.path.realpath(from_root)}

    async def fetch_latest(self, skills: Iterable[LockedSkill]) -> FetchResult:
        """The current skills of the sources of pinned ones, under their names."""
        names: dict[str, set[str]] = defaultdict(set)
        urls: dict[str, str] = {}
        for skill in skills:
            names[skill.source].add(skill.name)
            urls[skill.pin.get("server")] = skill.pin.get("url")
        fetched = await self.fetch(list(names), names, urls)
        seen = {(one.name, one.skill.source) for one in fetched.candidates}
        failed = {failure.what for failure in fetched.failures}
        missing = [
            FetchFailure(name, SkillNotFound(f"{shown(source, 200)} no longer has {name}"))
            for source, wanted in names.items()
            for name in sorted(wanted)
            if (name, source) not in seen and source not in failed and name not in failed
        ]
        return replace(fetched, failures=(*fetched.failures, *missing))

    async def check(self, skills: Iterable[LockedSkill]) -> tuple[Check, ...]:
        """Whether sources have something else than what is pinned, as cheaply as each can tell."""
        checks: dict[str, Check] = {}
        by_server: list[tuple[LockedSkill, SourceReference]] = []
        jobs: list[tuple[LockedSkill, SourceReference]] = []
        for skill in skills:
            try:
                reference = self._reference(skill.source)
            except SkillwireError as error:
                checks[skill.name] = Check.failed(skill, error)
                continue
            (by_server if reference.kind is SourceKind.MCP else jobs).append((skill, reference))
        others = self._others()
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def ask(skill: LockedSkill, reference: SourceReference) -> None:
            async with limiter:
                try:
                    checks[skill.name] = await others.check(skill, reference)
                except SkillwireError as error:
                    checks[skill.name] = Check.failed(skill, error)

        async def ask_servers() -> None:
            try:
                answers = await self._servers().digests(by_server)
            except SkillwireError as error:
                checks.update({skill.name: Check.failed(skill, error) for skill, _ in by_server})
                return
            for skill, digest, problem in answers:
                same = digest == skill.digest
                checks[skill.name] = (
                    Check.compared(skill, same, digest) if problem is None else Check.failed(skill, problem)
                )

        async with anyio.create_task_group() as tasks:
            if by_server:
                tasks.start_soon(ask_servers)
            for skill, reference in jobs:
                tasks.start_soon(ask, skill, reference)
        return tuple(checks[name] for name in sorted(checks))

    # What is pinned

    async def fetch_pinned(
        self, skills: Sequence[LockedSkill], on_skill: OnCandidate, *, option: str = ""
    ) -> tuple[FetchFailure, ...]:
        """Exactly the pinned versions, each passed to `on_skill` as soon as it is there and checked.

        Returns what could not be fetched. A skill fails if its source has another version by now; the hint
        has the option of the workspace.
        """
        await anyio.to_thread.run_sync(self.policy_files.current, self.base)
        groups: dict[tuple[str, ...], list[LockedSkill]] = defaultdict(list)
        for skill in skills:
            pin = skill.pin
            key = {
                "mcp": ("mcp",),
                "git": ("git", pin.get("repository"), pin.get("commit")),
                "site": ("site", pin.get("artifact"), skill.name),
            }.get(pin.kind, (pin.kind, pin.get("path") or pin.get("package")))
            groups[key].append(skill)
        failures: list[FetchFailure] = []
        others = self._others()
        limiter = anyio.CapacityLimiter(_TOGETHER)

        async def run(group: list[LockedSkill]) -> None:
            waiting = {skill.name: skill for skill in group}

            def check(candidate: Candidate) -> None:
                skill = waiting.pop(candidate.skill.name, None)
                if skill is None:
                    return  # The source has it, and the lock does not.
                candidate, digest = replace(candidate, skill=skill), candidate.skill.digest
                if digest != skill.digest:
                    failures.append(
                        FetchFailure(skill.name, not_what_is_pinned(skill, digest, option=option))
                    )
                elif refusal := self.refusal(candidate):
                    failures.append(refusal)
                else:
                    on_skill(candidate)

            try:
                if group[0].pin.kind == "mcp":
                    failed = await self._servers().fetch_pinned(group, check, option=option)
                else:
                    async with limiter:
                        fetched = await others.fetch_pinned(group)
                    failed = fetched.failures
                    for candidate in fetched.candidates:
                        check(candidate)
            except SkillwireError as error:
                failures.extend(FetchFailure(name, error) for name in waiting)
                return
            failures.extend(failed)
            for name in waiting.keys() - {failure.what for failure in failed}:
                error = SkillNotFound(f"{shown(waiting[name].source, 200)} no longer has {name}")
                failures.append(FetchFailure(name, error))

        async with anyio.create_task_group() as tasks:
            for group in groups.values():
                tasks.start_soon(run, group)
        return tuple(sorted(failures, key=lambda one: one.what))

    # The kinds of sources

    def from_root(self, source: str) -> str:
        """The source with its path written from the root, so that it means the same in every folder."""
        try:
            reference = self._reference(source)
        except SkillwireError:
            return source  # Reported when it is fetched.
        is_path = reference.kind in (SourceKind.FOLDER, SourceKind.ARCHIVE)
        if not is_path or expand_user(reference.place).is_absolute():
            return source
        return os.path.normpath(self.base / reference.place)

    def _reference(self, source: str) -> SourceReference:
        if source == INSTALLED:
            return SourceReference(kind=SourceKind.PACKAGE, text=source, place="")
        return parse_reference(source)

    def _servers(self) -> ServerSkills:
        # Imported here: a sync that fetches nothing needs no host.
        from skillwire.install.sources import ServerSkills

        return ServerSkills(
            self.servers, publishers=self.publishers, limits=self.limits, on_progress=self.on_progress
        )

    def _others(self) -> SourceSkills:
        return SourceSkills(self.base, self.publishers, self.limits, self.tokens)


def locked_entry(skill: LockedSkill) -> SkillEntry:
    """A pinned skill as an entry: where it is in its source, and the digests of its files."""
    uri = skill.pin.get("uri") if skill.pin.kind == "mcp" else ""
    root = uri.removesuffix(f"/{SKILL_FILE}") or make_uri([skill.name])
    return SkillEntry(
        uri=parse_uri(f"{root}/{SKILL_FILE}"),
        frontmatter={"name": skill.name},
        resources=tuple(
            SkillResource(parse_uri(f"{root}/{quote(file.path)}"), file.digest, file.size)
            for file in skill.files
        ),
    )


def claimed_signature(signer: str) -> SignatureVerdict:
    """Return the signature that a lock file claims. It proves nothing: the files are checked later."""
    name, _, key = signer.rpartition(" ")
    return SignatureVerdict(SignatureState.SIGNED, name, key) if key.startswith("key:") else UNSIGNED
