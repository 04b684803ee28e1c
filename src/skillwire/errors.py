"""Every exception of Skillwire, grouped by who must act."""

from __future__ import annotations

from collections.abc import Iterable

from skillwire.issues import Issue


class SkillwireError(Exception):
    """The root of all of them. `exit_code` is what the command line ends with."""

    exit_code = 1


class FormatError(SkillwireError):
    """The author must act: a skill, an entry or a URI is not well formed."""

    exit_code = 3

    def __init__(self, issues: Iterable[Issue] | Issue) -> None:
        self.issues: tuple[Issue, ...] = (issues,) if isinstance(issues, Issue) else tuple(issues)
        super().__init__("; ".join(str(issue) for issue in self.issues))


class SourceError(SkillwireError):
    """The operator must act: a place that skills come from cannot be used."""

    exit_code = 4


class LimitExceeded(SkillwireError):
    """The operator must act: something is larger than `Limits` allows."""

    exit_code = 5


class SkillNotFound(SkillwireError):
    """The caller must act: nothing is served under that URI or name."""

    exit_code = 8

    def __init__(self, message: str, *, uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri
