"""Naming: what skills are called, and which one keeps a name that several want (ENT-5).

A naming is data, so that a host can follow another host's conventions without another registry.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final, TypeAlias

from skillwire.skill import SKILL_FILE, SkillEntry, SkillUri, digest_of, split_uri
from skillwire.skill.uris import MAX_NAME_LENGTH
from skillwire.text import clean_line
from skillwire.trust import Origin

MAX_HANDLE_LENGTH: Final = 200
_SHORT_MARK: Final = 8
_MARKS: Final = "-_.:/~"
BEFORE_MARK: Final = "~"
_RUN_OF_HYPHENS: Final = re.compile("-{2,}")
_PLAIN_NAME: Final = re.compile("[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*+")
_PLAIN_HANDLE: Final = re.compile(f"[A-Za-z0-9]+(?:[{re.escape(_MARKS)}][A-Za-z0-9]+)*+")


@dataclass(frozen=True, slots=True, order=True)
class SkillKey:
    """The identity of a skill: its origin, and its URI there (ENT-4)."""

    origin: Origin
    uri: SkillUri

    def __hash__(self) -> int:
        return hash((self.origin.label, self.uri))  # Hashed many times per skill; the kind would cost most.


Spellings: TypeAlias = Callable[[Origin, SkillEntry], tuple[str, ...]]
"""The possible handles of a skill, from the shortest to the most specific."""

Keeper: TypeAlias = Callable[[Sequence[SkillKey]], SkillKey | None]
"""Which of several skills keeps a handle; with `None`, all get longer ones."""


def nobody(claimants: Sequence[SkillKey]) -> SkillKey | None:
    """All are qualified: no skill shadows another."""
    return None


def spec_spellings(origin: Origin, entry: SkillEntry) -> tuple[str, ...]:
    """`name`, then `label/name`, then `label:path/to/name` if a server has the name twice."""
    name = plain_name(entry)
    return name, f"{origin.label}/{name}", f"{origin.label}:{'/'.join(skill_path(entry.uri))}"


@dataclass(frozen=True, slots=True)
class Naming:
    """The handles of skills, and which skill keeps one in a collision."""

    spellings: Spellings = spec_spellings
    keeper: Keeper = nobody

    def handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, ...]:
        """The possible handles in plain characters, whatever the server sent; the last one is unique."""
        return *self.spelled_handles(key, entry), *self.marked_handles(key, entry)

    def spelled_handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, ...]:
        """Those without a mark, which are enough for most skills."""
        handles = dict.fromkeys(map(clean_handle, self.spellings(key.origin, entry)))
        return tuple([handle for handle in handles if handle and len(handle) <= MAX_HANDLE_LENGTH])

    def marked_handles(self, key: SkillKey, entry: SkillEntry) -> tuple[str, str]:
        """Those with a mark of the URI: a short one, and the unique one."""
        stem = f"{key.origin.label}/{plain_name(entry)}{BEFORE_MARK}"
        mark = digest_of(key.uri.encode())[len("sha256:") :]
        return stem + mark[:_SHORT_MARK], stem + mark


SPEC_NAMING: Final = Naming()


def plain_name(entry: SkillEntry) -> str:
    """The skill's name, reduced to letters, digits, `-`, `_` and `.`."""
    name = entry.name
    if len(name) <= MAX_NAME_LENGTH and _PLAIN_NAME.fullmatch(name):
        return name  # Most are as they may be.
    named = clean_handle(name, marks="-_.") or clean_handle(skill_path(entry.uri)[-1], marks="-_.")
    return named[:MAX_NAME_LENGTH].strip("-_.") or "skill"


def skill_path(uri: SkillUri) -> tuple[str, ...]:
    """The plain segments of a skill's path, `SKILL.md` left out."""
    if "%" in uri:
        parts = split_uri(uri)
        path = (parts.authority, *parts.segments)
    else:
        path = tuple(uri.partition("://")[2].split("/"))  # A canonical URI has only one encoding.
    return path[:-1] if path[-1] == SKILL_FILE and len(path) > 1 else path


def clean_handle(text: str, *, marks: str = _MARKS) -> str:
    """Text as part of a handle: letters, digits, a few marks, and hyphens for everything else."""
    if "_" in marks and (_PLAIN_HANDLE if marks == _MARKS else _PLAIN_NAME).fullmatch(text):
        return text  # Most are as they may be.
    # SEC-11: some invisible characters count as letters.
    seen = clean_line(text).text
    plain = _others(marks).sub("-", seen)
    return _RUN_OF_HYPHENS.sub("-", plain).strip(_MARKS)


@cache
def _others(marks: str) -> re.Pattern[str]:
    """A pattern for everything except letters, digits and these marks. `_` counts as a letter unless
    excluded.
    """
    return re.compile(f"[^\\w{re.escape(marks)}]" + ("" if "_" in marks else "|_"))


def fold_handle(handle: str) -> str:
    """A handle in the form in which handles are compared, ignoring case and width."""
    if handle.isascii():
        lowered = handle.lower()
        return handle if lowered == handle else lowered  # One copy of the many that are in lower case.
    return unicodedata.normalize("NFKC", handle).casefold()


@dataclass(frozen=True, slots=True)
class Selection:
    """Patterns such as `refund*`, ignoring case. `include` has one list for each file that has rules."""

    include: tuple[tuple[str, ...], ...] = ()
    exclude: tuple[str, ...] = ()

    def narrowed(self, *, include: Iterable[str] | None = None, exclude: Iterable[str] = ()) -> Selection:
        """Add rules: includes are intersected, excludes merged; an empty include denies all."""
        included = self.include if include is None else (*self.include, tuple(include))
        return Selection(included, (*self.exclude, *exclude))

    def admits(self, entry: SkillEntry) -> bool:
        """Whether the user wants this skill."""
        if not self.include and not self.exclude:
            return True
        # Both the name as the server sent it and as it is shown: hidden characters must not evade a pattern.
        names = {fold_handle(entry.name), fold_handle(plain_name(entry))}
        return all(_fits(names, patterns) for patterns in self.include) and not _fits(names, self.exclude)


EVERYTHING: Final = Selection()


def _fits(names: Iterable[str], patterns: Iterable[str]) -> bool:
    folded = [fold_handle(pattern) for pattern in patterns]
    return any(fnmatchcase(name, pattern) for name in names for pattern in folded)
