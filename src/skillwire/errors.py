"""All exceptions of Skillwire, by who must act. Issue: one problem with a skill, and how to fix it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Severity(StrEnum):
    """The consequence of an issue."""

    ERROR = "error"
    """The skill or file is left out by a server, and refused by every host that checks."""
    WARNING = "warning"
    """Served despite a format problem. Some hosts refuse it, and so does `--strict`."""
    ADVICE = "advice"
    """Valid, but could be better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A problem with its place and fix.

    `rule` is a stable, machine-readable name such as `name-not-directory`. `file` is a path or a URI, and
    empty if the issue is not about a file. `fix` is empty where the message says it all.
    """

    rule: str
    message: str
    fix: str = ""
    file: str = ""
    line: int | None = None
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} ({self.fix})" if self.fix else text


_SAID = 300
_STALE = "the skill is not used; refresh the entry, and if it stays so, tell the server's operator"


class SkillwireError(Exception):
    """The base class of all. `exit_code` is the exit code of the command line."""

    exit_code = 1


class UsageError(SkillwireError):
    """The user must act: the command line is wrong. `command` is the one whose help says more."""

    exit_code = 2

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class FormatError(SkillwireError):
    """The author must act: a skill, an entry or a URI is not well formed."""

    exit_code = 3

    def __init__(self, issues: Iterable[Issue] | Issue) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues) if isinstance(issues, Iterable) else (issues,)
        super().__init__("; ".join(str(issue) for issue in self.issues))

    @classmethod
    def of(cls, *, rule: str, message: str, fix: str = "", file: str = "", line: int | None = None) -> Self:
        """An error with a single issue."""
        return cls(Issue(rule=rule, message=message, fix=fix, file=file, line=line))


class SourceError(SkillwireError):
    """The operator must act: a source of skills cannot be used.

    `plain` is the message in our own words. `said` is the reason if it may contain the server's words, which
    must not reach a model.
    """

    exit_code = 4

    def __init__(self, message: str, *, said: str = "") -> None:
        from skillwire.text import shown

        self.plain = message
        self.said = shown(said, _SAID)
        super().__init__(f"{message}: {self.said}" if said else message)


class RequestRefused(SourceError):
    """A server answered a request with an error. `code` is the JSON-RPC code."""

    def __init__(self, message: str, *, code: int, said: str = "") -> None:
        super().__init__(message, said=said)
        self.code = code


class LimitExceeded(SkillwireError):
    """The operator must act: something is larger than `Limits` allows."""

    exit_code = 5


class VerificationError(SkillwireError):
    """Nobody may continue: what a server sent does not match its entry (VER-1 to VER-4).

    The entry may be out of date: refresh it once, try again, then refuse (VER-6).
    """

    exit_code = 6

    def __init__(self, message: str, *, uri: str) -> None:
        super().__init__(message)
        self.uri = uri


class SizeMismatch(VerificationError):
    """The size of a file does not match its entry."""

    def __init__(self, *, uri: str, expected: int, actual: int) -> None:
        super().__init__(f"{uri} has {actual} bytes, its entry says {expected}: {_STALE}", uri=uri)
        self.expected = expected
        self.actual = actual


class DigestMismatch(VerificationError):
    """The digest of a file does not match its entry."""

    def __init__(self, *, uri: str, expected: str, actual: str) -> None:
        super().__init__(f"{uri} has the digest {actual}, its entry says {expected}: {_STALE}", uri=uri)
        self.expected = expected
        self.actual = actual


class FrontmatterMismatch(VerificationError):
    """The frontmatter of a `SKILL.md` does not match the listing; `differences` says where."""

    def __init__(self, *, uri: str, differences: Iterable[str]) -> None:
        self.differences = tuple(differences)
        listed = "; ".join(self.differences)
        super().__init__(
            f"the frontmatter of {uri} is not what the server listed ({listed}): {_STALE}", uri=uri
        )


class UnlistedFile(VerificationError):
    """A requested file is not listed in the skill's entry (VER-3)."""

    def __init__(self, *, uri: str, skill: str) -> None:
        super().__init__(
            f"{uri} is not a file of {skill}: it is not read; ask for a listed file, "
            "or refresh the skill and approve it again if it changed",
            uri=uri,
        )
        self.skill = skill


class ApprovalRequired(SkillwireError):
    """The user must act: the skill is not approved as it is now.

    `reason` is `new`, `changed`, `unbindable` or `denied`. After a change, `added`, `changed` and `removed`
    are the URIs of the files that differ from what was approved.
    """

    exit_code = 7

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        origin: str,
        uri: str,
        added: Iterable[str] = (),
        changed: Iterable[str] = (),
        removed: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.origin = origin
        self.uri = uri
        self.added = tuple(added)
        self.changed = tuple(changed)
        self.removed = tuple(removed)


class PolicyRefused(ApprovalRequired):
    """Whoever wrote the policy must act: it refuses a skill, and nobody at the machine can change that."""

    exit_code = 15

    def __init__(self, message: str, *, origin: str = "", uri: str = "") -> None:
        super().__init__(message, reason="denied", origin=origin, uri=uri)


class OutOfSync(SkillwireError):
    """The user must act: installed skills do not match the lock file, or a source has changed."""

    exit_code = 10


class InstalledInPart(SkillwireError):
    """The user must act: some skills were installed or published and others were not, as reported."""

    exit_code = 11


class RefusedByPolicy(SkillwireError):
    """The user must act: a policy, or a permission that was not granted, prevents an installation."""

    exit_code = 12


class VersionConflict(SkillwireError):
    """The publisher must act: the registry has this version with other files, or it was withdrawn."""

    exit_code = 13


class SandboxUnavailable(SkillwireError):
    """The user must act: this machine cannot run a script in a sandbox. It is not run at all."""

    exit_code = 14


class Refusal(SkillwireError):
    """The client must act: its request gets this JSON-RPC error."""

    def __init__(self, message: str, *, code: int, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class AmbiguousName(SkillwireError):
    """The caller must act: several skills match the name. `candidates` are handles that match one each.

    If a URI matches several servers, `candidates` are their names.
    """

    exit_code = 8

    def __init__(self, name: str, candidates: Iterable[str], *, kind: str = "skills") -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(f"{name} fits several {kind}: say which one of {', '.join(self.candidates)}")


class SkillNotFound(SkillwireError):
    """The caller must act: there is nothing at this URI or name."""

    exit_code = 8

    def __init__(self, message: str, *, uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri
