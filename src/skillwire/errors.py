"""Every exception of Skillwire, grouped by who must act."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from skillwire.issues import (
        Issue,
    )  # Only a type here: `skillwire --version` does not wait for dataclasses.

_SAID = 300
_STALE = "the skill is not used; refresh the entry, and if it stays so, tell the server's operator"


class SkillwireError(Exception):
    """The root of all of them. `exit_code` is what the command line ends with."""

    exit_code = 1


class FormatError(SkillwireError):
    """The author must act: a skill, an entry or a URI is not well formed."""

    exit_code = 3

    def __init__(self, issues: Iterable[Issue] | Issue) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues) if isinstance(issues, Iterable) else (issues,)
        super().__init__("; ".join(str(issue) for issue in self.issues))

    @classmethod
    def of(cls, *, rule: str, message: str, fix: str = "", file: str = "", line: int | None = None) -> Self:
        """The error of one issue."""
        from skillwire.issues import Issue

        return cls(Issue(rule=rule, message=message, fix=fix, file=file, line=line))


class SourceError(SkillwireError):
    """The operator must act: a place that skills come from cannot be used.

    `plain` is the message in our own words. `said` is the reason where it may hold the server's words, which
    are no text for a model.
    """

    exit_code = 4

    def __init__(self, message: str, *, said: str = "") -> None:
        from skillwire.issues import shown

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
    """Nobody may go on: what a server sent is not what its entry says (VER-1 to VER-4).

    The entry may only be stale: refresh it once, try once more, then refuse (VER-6).
    """

    exit_code = 6

    def __init__(self, message: str, *, uri: str) -> None:
        super().__init__(message)
        self.uri = uri


class SizeMismatch(VerificationError):
    """A file is longer or shorter than its entry says."""

    def __init__(self, *, uri: str, expected: int, actual: int) -> None:
        super().__init__(f"{uri} has {actual} bytes, its entry says {expected}: {_STALE}", uri=uri)
        self.expected = expected
        self.actual = actual


class DigestMismatch(VerificationError):
    """A file's bytes are not those that its entry names."""

    def __init__(self, *, uri: str, expected: str, actual: str) -> None:
        super().__init__(f"{uri} has the digest {actual}, its entry says {expected}: {_STALE}", uri=uri)
        self.expected = expected
        self.actual = actual


class FrontmatterMismatch(VerificationError):
    """The frontmatter of a `SKILL.md` is not the one that the server listed; `differences` says where."""

    def __init__(self, *, uri: str, differences: Iterable[str]) -> None:
        self.differences = tuple(differences)
        listed = "; ".join(self.differences)
        super().__init__(
            f"the frontmatter of {uri} is not what the server listed ({listed}): {_STALE}", uri=uri
        )


class UnlistedFile(VerificationError):
    """A file was asked for that the skill's entry does not list (VER-3)."""

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
    hold the URIs of the files that differ from what was approved.
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


class OutOfSync(SkillwireError):
    """The user must act: installed skills are not as the lock file says, or a source has moved on."""

    exit_code = 10


class InstalledInPart(SkillwireError):
    """The user must act: some skills were installed and others were not; each was reported."""

    exit_code = 11


class RefusedByPolicy(SkillwireError):
    """The user must act: a policy or a power that was not granted keeps a skill from being installed."""

    exit_code = 12


class VersionConflict(SkillwireError):
    """The publisher must act: a registry has this version with other files, or it was withdrawn."""

    exit_code = 13


class Refusal(SkillwireError):
    """A client must act: its request is answered with this JSON-RPC error."""

    def __init__(self, message: str, *, code: int, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class AmbiguousName(SkillwireError):
    """The caller must act: the name fits several skills. `candidates` are handles that fit one each.

    A URI may fit several servers in the same way; `candidates` are their names then.
    """

    exit_code = 8

    def __init__(self, name: str, candidates: Iterable[str], *, kind: str = "skills") -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(f"{name} fits several {kind}: say which one of {', '.join(self.candidates)}")


class SkillNotFound(SkillwireError):
    """The caller must act: nothing is served under that URI or name."""

    exit_code = 8

    def __init__(self, message: str, *, uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri
