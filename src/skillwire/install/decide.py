"""InstallRules: whether a skill may be installed. `admit` decides, and is asked here only.

It is asked about what was fetched, so that nobody is asked about what is refused anyway, and once more after
the last wait, before anything is written: during a question or a scan, a skill may be revoked.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import anyio.to_thread

from skillwire.errors import PolicyRefused, RefusedByPolicy
from skillwire.files import expand_user
from skillwire.host import PolicyFiles, Scans, log_decision
from skillwire.install.candidates import Candidate, FetchFailure
from skillwire.install.lock import LockedSkill
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SKILL_FILE, SkillEntry, SkillResource, make_uri, parse_uri
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
    from skillwire.host.policies import LoadedPolicy


@dataclass(frozen=True, slots=True)
class InstallRules:
    """The policy of the project in `base`, and who must have signed what comes from where."""

    base: Path
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, "ServerConfig"])
    required: Sequence[tuple[str, str]] = ()
    """Patterns of sources, each with the publisher who must have signed what comes from there."""
    limits: Limits = DEFAULT_LIMITS
    policy_files: PolicyFiles = field(default_factory=PolicyFiles)
    """Reads the policy that decides what may be installed."""
    scanned: Scans = field(default_factory=Scans)
    """What the scanners of the policy found."""

    @property
    def policy(self) -> LoadedPolicy:
        return self.policy_files.current(self.base)

    async def read_policy(self) -> None:
        """Read what has to be fetched or parsed of the policy, off the event loop."""
        await anyio.to_thread.run_sync(self.policy_files.current, self.base)

    @property
    def scans(self) -> bool:
        """Whether a scanner may refuse a skill."""
        return bool(self.policy.policy.thresholds)

    def asks_for_signature(self, skill: LockedSkill) -> bool:
        """Whether it matters who signed a skill, beside what its lock says about that."""
        return bool(self.required_publishers(skill) or self.policy.policy.given)

    async def scan(self, candidate: Candidate) -> Candidate:
        """The skill with what the scanners of the policy found in it; what was scanned before is known."""
        await self.read_policy()

        async def files() -> list[VerifiedFile]:
            return candidate.verified()

        scans = await self.scanned.scan(self.policy.policy, candidate.local_entry, files, limits=self.limits)
        return replace(candidate, scans=scans)

    def refusal(self, candidate: Candidate, *, before_scan: bool = False) -> FetchFailure | None:
        """Why a skill may not be installed, or `None`; `before_scan`: whatever scanners may yet find."""
        skill, entry = candidate.skill, candidate.entry or candidate.local_entry
        facts = self._facts(skill, entry, candidate.signature)
        failure = self._failure(skill, self._decide(facts.before_scan if before_scan else facts))
        return failure and replace(failure, scans=tuple((facts.scans or {}).values()))

    def locked_refusal(self, skill: LockedSkill) -> FetchFailure | None:
        """The failure of a pinned skill that the policy refuses, by what the lock says about it."""
        return self._failure(skill, self._locked_decision(skill))

    def locked_words(self, skill: LockedSkill) -> str:
        """Why the policy refuses a pinned skill, in its words; empty if it does not. Nothing is recorded."""
        decision = self._locked_decision(skill)
        return decision.refusal.message if isinstance(decision, Denied) and decision.refusal else ""

    def _locked_decision(self, skill: LockedSkill) -> Decision:
        facts = self._facts(skill, locked_entry(skill), claimed_signature(skill.signer))
        return self._decide(replace(facts.before_scan, require=()))

    def _decide(self, facts: AdmissionRequest) -> Decision:
        return admit(facts, Purpose.INSTALL)

    def _facts(self, skill: LockedSkill, entry: SkillEntry, signature: SignatureVerdict) -> AdmissionRequest:
        """What decides whether a skill may be installed from where it comes from."""
        loaded = self.policy
        sources = self.source_names(skill)
        return AdmissionRequest(
            origin=Origin.project("install"),
            entry=entry,
            require=tuple(self.required_publishers(skill)),
            signature=signature,
            scans=self.scanned.known(loaded.policy, entry),
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

    def required_publishers(self, skill: LockedSkill) -> list[str]:
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
