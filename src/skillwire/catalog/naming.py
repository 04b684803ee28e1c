"""Naming: how skills are called, and who keeps a name that two of them want (ENT-5).

A naming is data, so that a host can follow another host's conventions without another registry.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from skillwire.skill.digests import digest_of
from skillwire.skill.entries import SkillEntry
from skillwire.skill.names import MAX_NAME_LENGTH
from skillwire.skill.uris import SKILL_FILE, SkillUri, split_uri
from skillwire.text import clean_line
from skillwire.trust.origin import Origin

MAX_HANDLE_LENGTH: Final = 200
_SHORT_MARK: Final = 8
_MARKS: Final = "-_.:/~"
_RUN_OF_HYPHENS: Final = re.compile("-{2,}")


@dataclass(frozen=True, slots=True, order=True)
class SkillKey:
    """What a skill is known by: where it came from, and its URI there (ENT-4)."""

    origin: Origin
    uri: SkillUri

    def __hash__(self) -> int:
        return hash((self.origin.label, self.uri))  # Asked for many times a skill: the kind would cost most.


Spellings: TypeAlias = Callable[[Origin, SkillEntry], tuple[str, ...]]
"""The handles that would do for a skill, from the shortest to the one that says most."""

Keeper: TypeAlias = Callable[[Sequence[SkillKey]], SkillKey | None]
"""Of several skills that want one handle, the one that keeps it; or none, and all are shown with more."""


def nobody(claimants: Sequence[SkillKey]) -> SkillKey | None:
    """All of them are shown qualified: no skill shadows another."""
    return None


def spec_spellings(origin: Origin, entry: SkillEntry) -> tuple[str, ...]:
    """`name`, then `label/name`, then `label:path/to/name` for two of one name on one server."""
    name = plain_name(entry)
    return name, f"{origin.label}/{name}", f"{origin.label}:{'/'.join(skill_path(entry.uri))}"


@dataclass(frozen=True, slots=True)
class Naming:
    """The handles of skills, and who keeps one in a collision."""

    spellings: Spellings = spec_spellings
    keeper: Keeper = nobody

    def handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, ...]:
        """The handles that would do, in plain characters whatever the server sent, the last one unique."""
        wanted = [clean_handle(spelling) for spelling in self.spellings(key.origin, entry)]
        fitting = [handle for handle in wanted if handle and len(handle) <= MAX_HANDLE_LENGTH]
        stem, mark = f"{key.origin.label}/{plain_name(entry)}~", digest_of(key.uri.encode())[len("sha256:") :]
        return tuple(dict.fromkeys([*fitting, stem + mark[:_SHORT_MARK], stem + mark]))


SPEC_NAMING: Final = Naming()


def plain_name(entry: SkillEntry) -> str:
    """The skill's name in letters, digits, `-`, `_` and `.`, however careless an older dialect was."""
    named = clean_handle(entry.name, marks="-_.") or clean_handle(skill_path(entry.uri)[-1], marks="-_.")
    return named[:MAX_NAME_LENGTH].strip("-_.") or "skill"


def skill_path(uri: SkillUri) -> tuple[str, ...]:
    """The plain segments of a skill's path, `SKILL.md` left out."""
    if "%" in uri:
        parts = split_uri(uri)
        path = (parts.authority, *parts.segments)
    else:
        path = tuple(uri.partition("://")[2].split("/"))  # A canonical URI encodes nothing in another way.
    return path[:-1] if path[-1] == SKILL_FILE and len(path) > 1 else path


def clean_handle(text: str, *, marks: str = _MARKS) -> str:
    """Text as a handle may be: letters and digits, a few marks, and a hyphen for anything else."""
    # SEC-11: some invisible characters count as letters.
    seen = clean_line(text).text
    plain = _others(marks).sub("-", seen)
    return _RUN_OF_HYPHENS.sub("-", plain).strip(_MARKS)


@cache
def _others(marks: str) -> re.Pattern[str]:
    """Any character but letters, digits and these marks. To a pattern, `_` is a letter unless it is told."""
    return re.compile(f"[^\\w{re.escape(marks)}]" + ("" if "_" in marks else "|_"))


def fold_handle(handle: str) -> str:
    """A handle as handles are compared: two that differ in case or width alone are one."""
    if handle.isascii():
        return handle.lower()
    return unicodedata.normalize("NFKC", handle).casefold()
