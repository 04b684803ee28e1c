"""Profile: what a known consumer of skills demands beyond the format, as dated data with its source.

`skillwire lint --profile NAME` and `skillwire verify --profile NAME` use the same table. Consumers change
what they accept: a profile says when its source was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from skillwire.errors import SourceError
from skillwire.limits import MIB
from skillwire.skill.uris import SKILL_FILE

_KIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A consumer and its limits; `None` where it has none.

    `supporting_files` counts the files of a skill besides its SKILL.md.
    """

    name: str
    title: str
    date: str
    source: str
    skills: int | None = None
    supporting_files: int | None = None
    skill_bytes: int | None = None
    skill_md_bytes: int | None = None
    file_bytes: int | None = None
    server_bytes: int | None = None


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(
                name="chatgpt",
                title="ChatGPT's import of skills from a server",
                date="2026-08",
                source="MCPJam, sdk/src/openai-readiness/profile.ts",
                skills=5,
                supporting_files=10,
                skill_bytes=5 * MIB,
                skill_md_bytes=256 * _KIB,
                file_bytes=1 * MIB,
                server_bytes=8 * MIB,
            ),
            Profile(
                name="gemini",
                title="The host style gemini",
                date="2026-11",
                source="docs/styles.md of Skillwire",
                skill_md_bytes=256 * _KIB,
            ),
        )
    }
)
"""The profiles by name."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand of a profile that a skill does not meet. `skill` is empty for the skills together."""

    rule: str
    skill: str
    message: str
    fix: str


def profile_named(name: str) -> Profile:
    """The profile of this name, or a `SourceError` that lists the names."""
    if name not in PROFILES:
        raise SourceError(f"{name} is not a profile: choose one of {', '.join(sorted(PROFILES))}")
    return PROFILES[name]


def unmet_demands(profile: Profile, skills: Mapping[str, Mapping[str, int]]) -> Iterator[Demand]:
    """The demands that the skills of one server do not meet. `skills` has the sizes of files by path, for
    each skill."""
    where = profile.title
    if profile.skills is not None and len(skills) > profile.skills:
        message = f"{len(skills)} skills; {where} takes {profile.skills}"
        yield Demand("skills", "", message, "serve fewer, or several servers with a part each")
    for name, files in skills.items():
        for rule, message, fix in _of_skill(profile, files):
            yield Demand(rule, name, f"{message}; {where} takes {_limit(profile, rule)}", fix)
    total = sum(sum(files.values()) for files in skills.values())
    if profile.server_bytes is not None and total > profile.server_bytes:
        message = f"{_size(total)} in all; {where} takes {_size(profile.server_bytes)}"
        yield Demand("server-bytes", "", message, "serve fewer or smaller files")


def _of_skill(profile: Profile, files: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    supporting = len(files) - (SKILL_FILE in files)
    if profile.supporting_files is not None and supporting > profile.supporting_files:
        yield "files", f"{supporting} files besides {SKILL_FILE}", "merge or leave out supporting files"
    total = sum(files.values())
    if profile.skill_bytes is not None and total > profile.skill_bytes:
        yield "skill-bytes", f"{_size(total)} in all", "leave out large files, or link to them"
    size = files.get(SKILL_FILE, 0)
    if profile.skill_md_bytes is not None and size > profile.skill_md_bytes:
        yield "skill-md-bytes", f"a {SKILL_FILE} of {_size(size)}", "move detail into supporting files"
    if profile.file_bytes is not None:
        large = [path for path, size in files.items() if size > profile.file_bytes and path != SKILL_FILE]
        for path in sorted(large):
            yield "file-bytes", f"{path} has {_size(files[path])}", "split the file, or leave it out"


def _limit(profile: Profile, rule: str) -> str:
    if rule == "files":
        return f"{profile.supporting_files}"
    limits = {
        "skill-bytes": profile.skill_bytes,
        "skill-md-bytes": profile.skill_md_bytes,
        "file-bytes": profile.file_bytes,
    }
    return _size(limits[rule] or 0)


def _size(number: int) -> str:
    return f"{number / MIB:.1f} MiB" if number >= MIB else f"{number / _KIB:.0f} KiB"
