"""Dialects: the ways in which servers list skills, and what entries of older ones lack."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from skillwire.skill.digests import Digest
from skillwire.skill.uris import SkillUri


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
class Draft:
    """What is special about an entry of an older dialect.

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
