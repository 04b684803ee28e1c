"""SkillFetcher: what the sources of skills have now, or what they had when a skill was pinned.

Sources are asked concurrently: all MCP servers through one host, sites and repositories separately. A source
that fails only affects its own skills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from skillwire.errors import SkillNotFound, SkillwireError
from skillwire.host import PolicyFiles, Scans
from skillwire.install.candidates import (
    Candidate,
    Check,
    FetchFailure,
    FetchResult,
    OnCandidate,
    not_what_is_pinned,
)
from skillwire.install.decide import InstallRules
from skillwire.install.lock import LockedSkill
from skillwire.install.source import Source
from skillwire.install.sources import SourceSkills
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.sources import SourceKind, SourceReference
from skillwire.text import shown

if TYPE_CHECKING:
    from skillwire.host import ServerConfig
    from skillwire.install.sources import ServerSkills
    from skillwire.trust import Publisher

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

    @property
    def rules(self) -> InstallRules:
        """What decides whether a skill of these sources may be installed."""
        return InstallRules(
            self.base, self.servers, self.required, self.limits, self.policy_files, self.scans
        )

    async def fetch(self, sources: Sequence[Source], urls: Mapping[str, str] | None = None) -> FetchResult:
        """Every skill that these sources mean. Whether they may be installed is for `rules` to decide.

        `urls` are the servers that a lock names, by label: they are used if the user has configured none.
        """
        candidates: list[Candidate] = []
        failures: list[FetchFailure] = []
        by_server: list[Source] = []
        others = self._others()
        jobs: list[tuple[str, Awaitable[FetchResult]]] = []
        for source in dict.fromkeys(sources):
            if source.reference.kind is SourceKind.MCP:
                by_server.append(source)
            else:
                jobs.append((source.text, others.fetch(source.reference, source.names)))
        if by_server:
            jobs.append((by_server[0].text, self._servers().fetch(by_server, urls or {})))

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
        digests = {source.text: source.digest for source in sources if source.digest is not None}
        fitting: list[Candidate] = []
        for candidate in sorted(candidates, key=lambda one: (one.name, one.skill.source)):
            skill = candidate.skill
            wanted = digests.get(skill.source, skill.digest)
            if wanted == skill.digest:
                fitting.append(candidate)
            else:
                failures.append(FetchFailure(skill.name, not_what_is_pinned(skill, wanted)))
        return FetchResult(tuple(fitting), tuple(sorted(failures, key=lambda one: one.what)))

    async def fetch_latest(self, skills: Iterable[LockedSkill]) -> FetchResult:
        """The current skills of the sources of pinned ones, under their names."""
        names: dict[str, set[str]] = defaultdict(set)
        urls: dict[str, str] = {}
        for skill in skills:
            names[skill.source].add(skill.name)
            urls[skill.pin.get("server")] = skill.pin.get("url")
        sources, unusable = parse_sources(names, names)
        fetched = await self.fetch(sources, urls)
        failures = (*unusable, *fetched.failures)
        seen = {(one.name, one.skill.source) for one in fetched.candidates}
        failed = {failure.what for failure in failures}
        missing = [
            FetchFailure(name, SkillNotFound(f"{shown(source, 200)} no longer has {name}"))
            for source, wanted in names.items()
            for name in sorted(wanted)
            if (name, source) not in seen and source not in failed and name not in failed
        ]
        return replace(fetched, failures=(*failures, *missing))

    async def check(self, skills: Iterable[LockedSkill]) -> tuple[Check, ...]:
        """Whether sources have something else than what is pinned, as cheaply as each can tell."""
        checks: dict[str, Check] = {}
        by_server: list[tuple[LockedSkill, SourceReference]] = []
        jobs: list[tuple[LockedSkill, SourceReference]] = []
        for skill in skills:
            try:
                reference = Source.parse(skill.source).reference
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
        """Exactly the pinned versions, each passed to `on_skill` as soon as it is there and verified.

        Returns what could not be fetched. A skill fails if its source has another version by now; the hint
        has the option of the workspace.
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

    def _servers(self) -> ServerSkills:
        # Imported here: a sync that fetches nothing needs no host.
        from skillwire.install.sources import ServerSkills

        return ServerSkills(
            self.servers, publishers=self.publishers, limits=self.limits, on_progress=self.on_progress
        )

    def _others(self) -> SourceSkills:
        return SourceSkills(self.base, self.publishers, self.limits, self.tokens)


def parse_sources(
    texts: Iterable[str], names: Mapping[str, Iterable[str]] | None = None
) -> tuple[list[Source], list[FetchFailure]]:
    """The sources that texts name, and the failures of those that name none. `names` are the skills that are
    meant, by the text."""
    sources: list[Source] = []
    failures: list[FetchFailure] = []
    for text in texts:
        try:
            source = Source.parse(text)
        except SkillwireError as error:
            failures.append(FetchFailure(text, error))
            continue
        sources.append(source.only(names[text]) if names is not None else source)
    return sources, failures
