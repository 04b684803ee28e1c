"""LegacyListing: the common format for listings of older dialects."""

from __future__ import annotations

from dataclasses import dataclass, field

from skillwire.errors import FormatError
from skillwire.issues import Issue
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import SKILL_FILE, SkillUri, child_uri, parse_uri
from skillwire.wire.templates import SkillTemplate

LEGACY_NAMES = frozenset({"index.json", "_manifest", "prompt-xml"})
"""Last segments of URIs of resources that describe skills."""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """The relevant fields of a resource in `resources/list`."""

    uri: str
    description: str
    name: str = ""
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class LegacyListing:
    """Entries, and what could not be used and why. `spellings` are URIs as the server writes them."""

    entries: tuple[SkillEntry, ...] = ()
    issues: tuple[Issue, ...] = ()
    spellings: dict[SkillUri, str] = field(default_factory=dict[SkillUri, str])
    templates: tuple[SkillTemplate, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    """The resources of `resources/list`, if it was requested, including supporting files of skills."""
    has_index: bool = False


def skill_md_uri(text: str) -> SkillUri:
    """The canonical `SKILL.md` URI of a skill, whatever its server calls it.

    `skill://demo`, `skill://demo/` and `skill://demo/SKILL.md` are the same skill. Requests to the server use
    its own spelling.
    """
    uri = parse_uri(text.rstrip("/"))
    return uri if uri.endswith(f"/{SKILL_FILE}") else child_uri(uri, SKILL_FILE)


def is_legacy_resource(text: str) -> bool:
    """Whether a resource describes skills rather than being one."""
    return text.rstrip("/").rpartition("/")[2] in LEGACY_NAMES


def left_out(place: str, message: str, fix: str) -> Issue:
    """An entry that cannot be used, in one line."""
    return Issue(rule="entry-left-out", message=message, fix=fix, file=place)


def reason(error: FormatError) -> str:
    return error.issues[0].message
