"""Source: the protocol that every place of origin keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from skillwire.issues import Issue
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SkillUri, shown_uri


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a source had to leave out, with the reasons.

    `place` is a path or a URI as it is; `str` makes it fit to be shown.
    """

    place: str
    issues: tuple[Issue, ...]

    def __str__(self) -> str:
        return f"{shown_uri(self.place)}: " + "; ".join(str(issue) for issue in self.issues)


@dataclass(frozen=True, slots=True)
class DirectoryChild:
    """One direct child of a directory. `size` is known for listed files, `None` for directories."""

    uri: SkillUri
    name: str
    is_directory: bool
    size: int | None = None


class Source(Protocol):
    """Skills from one place.

    `list_entries` gives the same object again while nothing changed, so that a caller may keep what it
    derived from it. Whoever reads gets bytes that match the entry held at that moment.
    """

    async def list_entries(self) -> Sequence[SkillEntry]:
        """Every skill, in the order of their URIs."""
        ...

    async def get_entry(self, uri: SkillUri) -> SkillEntry:
        """The skill whose `SKILL.md` is at this URI, or `SkillNotFound`."""
        ...

    async def read(self, uri: SkillUri) -> bytes:
        """The bytes of a file, or `SkillNotFound`."""
        ...

    async def read_directory(self, uri: SkillUri) -> Sequence[DirectoryChild]:
        """The direct children of a directory, or `SkillNotFound`."""
        ...

    def problems(self) -> Sequence[Problem]:
        """What was left out, and why."""
        ...


@runtime_checkable
class LiveSource(Source, Protocol):
    """A source that can say when its skills have changed."""

    async def watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Call `changed` after each change that a client could see, until cancelled."""
        ...


class Validator(Protocol):
    """Tells whether a file still has the bytes that it had when it was read."""

    def is_fresh(self) -> bool:
        """False as soon as there is any doubt."""
        ...


@runtime_checkable
class PromptSource(Source, Protocol):
    """A source that can tell without waiting whether an answer that it gave before still stands."""

    def entries_now(self) -> Sequence[SkillEntry]:
        """What `list_entries` would give."""
        ...

    def seal(self, uri: SkillUri) -> Validator | None:
        """A seal on the bytes that a read has just given; `None` when nothing can vouch for them."""
        ...
