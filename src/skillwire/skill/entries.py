"""SkillEntry: a skill as a server lists it, the digests of its files, and the dialect of the listing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, Literal, NewType, TypeGuard

from skillwire.documents import JsonValue
from skillwire.errors import FormatError
from skillwire.skill.uris import SkillUri, is_plain_path

Digest = NewType("Digest", str)
"""A string that `parse_digest` accepted or `digest_of` computed."""

SetDigest = NewType("SetDigest", str)
"""The digest of a set of files, computed by `set_digest`."""

_PREFIX = "sha256:"
_SHAPE = re.compile(r"sha256:[0-9a-f]{64}")


def digest_of(data: bytes) -> Digest:
    """The digest of these bytes."""
    return Digest(_PREFIX + hashlib.sha256(data).hexdigest())


def is_digest(text: str) -> bool:
    """Whether a text is a digest."""
    return _SHAPE.fullmatch(text) is not None


def parse_digest(text: str) -> Digest:
    """The text as a `Digest`, or a `FormatError`."""
    if not is_digest(text):
        raise FormatError.of(
            rule="digest-shape",
            message=f"{text[:80]!r} is not a digest",
            fix="write sha256: and 64 lowercase hexadecimal digits",
        )
    return Digest(text)


def set_digest(files: Iterable[tuple[str, Digest]]) -> SetDigest:
    """The digest of all files of a skill, given as pairs of path and digest.

    The order of `files` does not matter. Raises a `FormatError` for an empty set, and for a path that is not
    plain and relative, is repeated, or has control characters, so that different sets never have the same
    digest.
    """
    lines: list[bytes] = []
    rows = sorted(files)
    if not rows:
        raise _refused_set("a skill has no files", "a skill has at least its SKILL.md")
    previous = ""
    for path, digest in rows:
        # Whoever hashes a set may not have checked it: the same path with two digests is no set.
        if path == previous:
            raise _refused_set(f"the file {path[:200]!r} is listed twice", "list each file once")
        if not is_plain_path(path):
            raise _refused_set(
                f"{path[:200]!r} is not the path of a file in a skill",
                "use plain segments joined by /, without control characters",
            )
        lines.append(b"%b\0%b\n" % (path.encode("utf-8"), bytes.fromhex(digest[len(_PREFIX) :])))
        previous = path
    return SetDigest(digest_of(b"".join(lines)))


def parse_set_digest(text: str) -> SetDigest:
    """The text as a `SetDigest`, or a `FormatError`."""
    return SetDigest(parse_digest(text))


def _refused_set(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="set-digest", message=message, fix=fix)


class Dialect(StrEnum):
    """The ways in which servers list skills, from the newest to the oldest."""

    FINAL = "D6"
    SUMMER_DRAFT = "D5"
    INDEX_WITH_FRONTMATTER = "D4"
    INDEX_WITH_DIGESTS = "D3"
    INDEX = "D2"
    MANIFEST = "D1"
    BARE_SCAN = "D0"

    @property
    def meaning(self) -> str:
        """The full name of the dialect, for people."""
        return _MEANINGS[self]

    @property
    def short(self) -> str:
        """The short name of the dialect, for a table; empty for the final extension."""
        return _SHORT[self]


_MEANINGS = {
    Dialect.FINAL: "Skills extension (final)",
    Dialect.SUMMER_DRAFT: "Skills extension (July 2026 draft)",
    Dialect.INDEX_WITH_FRONTMATTER: "skill index (June 2026 draft)",
    Dialect.INDEX_WITH_DIGESTS: "skill index with digests (early June 2026 draft)",
    Dialect.INDEX: "skill index (April 2026 draft)",
    Dialect.MANIFEST: "resources with manifests, as FastMCP serves them",
    Dialect.BARE_SCAN: "resources whose URIs look like skills",
}
_SHORT = {
    Dialect.FINAL: "",
    Dialect.SUMMER_DRAFT: "July draft",
    Dialect.INDEX_WITH_FRONTMATTER: "June draft",
    Dialect.INDEX_WITH_DIGESTS: "early June draft",
    Dialect.INDEX: "April draft",
    Dialect.MANIFEST: "manifest",
    Dialect.BARE_SCAN: "unconfirmed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftDetails:
    """The details of an entry of an older dialect.

    `carried` are the frontmatter fields that were listed, the only ones that can be compared (VER-2); `None`
    means all. `digests` are known digests of a skill whose list of files is incomplete. No server called an
    unconfirmed skill a skill: its URI only looks like one (FMT-5). `spelling` is its URI as the server writes
    it.
    """

    dialect: Dialect
    carried: frozenset[str] | None = None
    digests: tuple[tuple[SkillUri, Digest], ...] = ()
    confirmed: bool = True
    spelling: str = ""


class Dynamic(Enum):
    """The type of `DYNAMIC`, its only value."""

    DYNAMIC = "dynamic"


DYNAMIC: Final = Dynamic.DYNAMIC
"""Replaces the list of files if the skill's content is generated on request (ENT-2)."""


NO_SIZE: Final = -1
"""Replaces the size if an older dialect only lists the digest."""


# JSON numbers are exact up to here, and no file is longer.
_LARGEST_SIZE: Final = 2**53 - 1


def is_size(value: object) -> TypeGuard[int]:
    """Whether a value is the size of a file (ENT-3)."""
    # `type`, for a truth value is a number to Python.
    return type(value) is int and 0 <= value <= _LARGEST_SIZE


@dataclass(frozen=True, slots=True)
class SkillResource:
    """One file of a skill."""

    uri: SkillUri
    digest: Digest
    """The digest of its bytes as they are served: before any decoding, and with the line ends that they
    have."""
    size: int
    """Its length in bytes, or `NO_SIZE`."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """One skill. `resources` has every file once, including `SKILL.md`, or is `DYNAMIC`. `draft` is set for
    an older dialect.
    """

    uri: SkillUri
    frontmatter: Mapping[str, JsonValue]
    resources: tuple[SkillResource, ...] | Literal[Dynamic.DYNAMIC]
    meta: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    draft: DraftDetails | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect in which the server listed this skill."""
        return self.draft.dialect if self.draft else Dialect.FINAL

    @property
    def carried_fields(self) -> frozenset[str] | None:
        """The frontmatter fields that can be compared; `None` means all of them (VER-2)."""
        return self.draft.carried if self.draft else None

    @property
    def name(self) -> str:
        """The frontmatter's name."""
        name = self.frontmatter.get("name")
        return name if isinstance(name, str) else ""

    @property
    def description(self) -> str:
        """The frontmatter's description."""
        description = self.frontmatter.get("description")
        return description if isinstance(description, str) else ""

    @property
    def is_dynamic(self) -> bool:
        return self.resources is DYNAMIC

    @property
    def total_size(self) -> int:
        """The total size of all files with a listed size; 0 for a dynamic skill."""
        return 0 if self.resources is DYNAMIC else sum([max(file.size, 0) for file in self.resources])
