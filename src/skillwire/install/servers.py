"""ServerSkills: skills of MCP servers, verified against their entries, for installing.

One host is opened for all servers that are asked, so that they are asked concurrently. Nothing is loaded,
held or cached: every file is a preview (SEC-7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from skillwire.catalog.naming import skill_path
from skillwire.catalog.registry import RegisteredSkill
from skillwire.errors import (
    AmbiguousName,
    RefusedByPolicy,
    SkillNotFound,
    SkillwireError,
    SourceError,
)
from skillwire.host.config.server import ServerConfig
from skillwire.host.host import SkillHost
from skillwire.install.candidates import (
    Candidate,
    Failure,
    Fetched,
    OnCandidate,
    make_candidate,
    not_what_is_pinned,
    with_interpreters,
)
from skillwire.install.lock import LockedSkill, Pin
from skillwire.issues import shown
from skillwire.limits import Limits
from skillwire.skill.digests import SetDigest, set_digest
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import SkillUri, path_below, skill_root
from skillwire.sources.reference import Reference
from skillwire.text import redact_url
from skillwire.trust.approval import Policy
from skillwire.trust.verify import VerifiedFile, check_entry

if TYPE_CHECKING:
    from skillwire.trust.publishers import Publisher

_FILES_TOGETHER: Final = 32
_READY: Final = "ready"


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

    async def fetch(
        self, wanted: Sequence[tuple[Reference, frozenset[str] | None]], urls: Mapping[str, str]
    ) -> Fetched:
        """Every skill that the references mean, with all files. `urls` are of servers that a lock names."""
        failures: list[Failure] = []
        async with AsyncExitStack() as stack:
            host, problems = await self._open(
                stack, {reference.place: urls.get(reference.place, "") for reference, _ in wanted}
            )
            chosen: list[tuple[RegisteredSkill, str]] = []
            for reference, names in wanted:
                try:
                    found = self._find(host, reference, problems)
                except SkillwireError as error:
                    failures.append(Failure(reference.text, error))
                    continue
                chosen += [(one, reference.text) for one in found if names is None or one.entry.name in names]
            candidates: list[Candidate] = []
            failures += await self._read_all(host, chosen, candidates.append, urls)
            return Fetched(tuple(candidates), tuple(failures))

    async def fetch_pinned(self, skills: Sequence[LockedSkill], on_skill: OnCandidate) -> list[Failure]:
        """The pinned versions of skills, by server and URI, each as soon as all its files are there."""
        failures: list[Failure] = []
        places = {skill.pin.get("server"): skill.pin.get("url") for skill in skills}
        async with AsyncExitStack() as stack:
            host, problems = await self._open(stack, places)
            chosen: list[tuple[RegisteredSkill, str]] = []
            for skill in skills:
                label = skill.pin.get("server")
                try:
                    if label in problems:
                        raise problems[label]
                    found = await host.find(skill.pin.get("uri"), server=label)
                    digest = entry_digest(found.entry)
                    if digest != skill.digest:
                        raise not_what_is_pinned(skill, digest or "generated on request")
                except SkillwireError as error:
                    failures.append(Failure(skill.name, error))
                    continue
                chosen.append((found, skill.source))
            return failures + await self._read_all(host, chosen, on_skill, places)

    async def digests(
        self, skills: Sequence[tuple[LockedSkill, Reference]]
    ) -> list[tuple[LockedSkill, str, SkillwireError | None]]:
        """What the servers list now for pinned skills: a digest, or why there is none. Reads no file."""
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
                    answers.append((skill, entry_digest(found[0].entry) or "generated on request", None))
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
            elif config.approval is Policy.NEVER:
                problems[label] = RefusedByPolicy(
                    f"nothing is installed from {shown(label)}: the policy of that server is never"
                )
            else:
                servers[label] = config
        host = SkillHost(servers=servers, watch=False, limits=self.limits, publishers=self.publishers)
        await stack.enter_async_context(host)
        for state in host.admin.servers():
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
            f"or write ./{shown(label)} if it is a folder"
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
        self, host: SkillHost, reference: Reference, problems: Mapping[str, SkillwireError]
    ) -> list[RegisteredSkill]:
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
        chosen: Sequence[tuple[RegisteredSkill, str]],
        on_skill: OnCandidate,
        urls: Mapping[str, str],
    ) -> list[Failure]:
        failures: list[Failure] = []
        sources = {(one.origin, one.uri): source for one, source in chosen}
        done = 0
        total = sum(len(one.entry.resources) for one, _ in chosen if one.entry.resources is not DYNAMIC)

        def count(skill: RegisteredSkill) -> None:
            nonlocal done
            done += 1
            self.on_progress(skill.origin.label, done, total)

        def collect(skill: RegisteredSkill, found: Mapping[SkillUri, VerifiedFile] | SkillwireError) -> None:
            try:
                if isinstance(found, SkillwireError):
                    raise found
                url = urls.get(skill.origin.label, "")
                candidate = self._candidate(skill, sources[skill.origin, skill.uri], found, url)
            except SkillwireError as error:
                failures.append(Failure(skill.entry.name, error))
                return
            on_skill(candidate)

        await host.admin.preview_skills(
            (skill for skill, _ in chosen), together=_FILES_TOGETHER, on_file=count, on_skill=collect
        )
        return failures

    def _candidate(
        self, skill: RegisteredSkill, source: str, files: Mapping[SkillUri, VerifiedFile], locked_url: str
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
            ),
            expected_name=entry.name,
            publishers=self.publishers,
            limits=self.limits,
        )
        return replace(candidate, entry=entry)
