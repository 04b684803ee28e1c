"""The question to a person: may this skill be loaded, with exactly these files?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from skillwire.catalog import HostSkill
from skillwire.skill import DYNAMIC, NO_SIZE, SetDigest, SkillEntry, SkillResource, path_below, skill_root
from skillwire.text import safe_line
from skillwire.trust import NO_GRANTS, FileChange, Grants, Reason, Scan, SignatureVerdict, VerifiedFile
from skillwire.words import counted

_FILES_NAMED: Final = 50
_DIGEST_CHARS: Final = len("sha256:") + 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to the user: may this skill be loaded, as it is now?"""

    skill: HostSkill
    files: tuple[SkillResource, ...]
    """Every file that a yes covers, with its size and digest: show these. `SKILL.md` comes first, if it is
    among them. Any other file of a skill without digests is a question of its own, when it is read."""
    reason: Reason
    changes: tuple[FileChange, ...]
    nested: bool
    requested_tools: tuple[str, ...]
    signature: SignatureVerdict
    """Who signed it as it is now, over which of its files. It does not replace an approval."""
    signer_change: str
    """How its signer changed since the last approval or load: show it as prominently as `changes`."""
    scans: tuple[Scan, ...] = ()
    """The findings of the scanners of the policy, or why there are none: show these too."""
    digest: SetDigest | None
    """Of the files that would be approved; `None` for a dynamic skill, where that is what was retrieved."""
    seen_digest: SetDigest | None = None
    """Of `files`, for a dynamic skill; `None` for others."""
    preview: Callable[[str], Awaitable[VerifiedFile]] = field(repr=False)
    """Reads a file of the skill for the user to look at. This does not load it (SEC-7)."""
    approved: Callable[[str], Awaitable[bytes | None]] = field(repr=False)
    """Reads a file as the user approved it last, to compare with; `None` when that is not cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """An approval for this load only: nothing is stored, and the next load asks again."""

    grants: Grants = NO_GRANTS


Answer: TypeAlias = Grants | Once | bool

ApprovalCallback: TypeAlias = Callable[[ApprovalRequest], Awaitable[Answer]]
"""Asks the user. `True` approves the skill with no grants, `Grants` with those, `Once` for this load alone;
anything else is a no. The answer counts for the files that the request names: when the server has others by
then, the user is asked again about those."""


def covered_files(entry: SkillEntry, shown: Iterable[SkillResource] = ()) -> tuple[SkillResource, ...]:
    """The files that a yes to a skill covers: those of its entry; of a dynamic one, those that are shown.

    `SKILL.md` comes first.
    """
    covered = shown if entry.resources is DYNAMIC else entry.resources
    return tuple(sorted(covered, key=lambda file: file.uri != entry.uri))


def file_lines(entry: SkillEntry, files: Sequence[SkillResource]) -> list[str]:
    """The files of a question, each with its size and digest, for a person to read; the last of very many are
    counted."""
    lines: list[str] = []
    for file in files[:_FILES_NAMED]:
        size = "" if file.size == NO_SIZE else f"{counted(file.size, 'byte')}, "
        lines.append(f"{file_path(entry, file)} ({size}{file.digest[:_DIGEST_CHARS]}…)")
    more = len(files) - _FILES_NAMED
    return [*lines, f"and {counted(more, 'more file')}"] if more > 0 else lines


def file_path(entry: SkillEntry, file: SkillResource) -> str:
    """The path of a file in its skill, for a person to read."""
    return safe_line("/".join(path_below(file.uri, skill_root(entry.uri))), limit=200)


def single_file(entry: SkillEntry, files: Sequence[SkillResource]) -> str:
    """The path of the one file that a question is about; empty if it is about the skill."""
    return (
        ""
        if any(file.uri == entry.uri for file in files)
        else ", ".join(file_path(entry, file) for file in files)
    )
