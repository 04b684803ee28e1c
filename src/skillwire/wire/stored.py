"""An entry in our own storage format: what the server sent, and in which dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from skillwire.errors import FormatError
from skillwire.json_types import JsonObject
from skillwire.skill.dialects import Dialect, Draft
from skillwire.skill.digests import parse_digest
from skillwire.skill.entries import SkillEntry
from skillwire.skill.uris import parse_uri
from skillwire.wire.v1 import entry_from_wire, entry_to_wire

_DRAFT = "draft"


def entry_to_stored(entry: SkillEntry) -> JsonObject:
    """The entry as JSON, without loss."""
    stored = entry_to_wire(entry)
    if entry.draft is not None:
        draft = entry.draft
        stored[_DRAFT] = {
            "dialect": draft.dialect.value,
            "carried": None if draft.carried is None else [*sorted(draft.carried)],
            "digests": [[uri, digest] for uri, digest in draft.digests],
            "confirmed": draft.confirmed,
            "spelling": draft.spelling,
        }
    return stored


def entry_from_stored(stored: object) -> SkillEntry:
    """The entry, or a `FormatError` if we did not write it."""
    entry = entry_from_wire(stored, unsized=True)
    kept = cast("Mapping[str, Any]", stored).get(_DRAFT)
    if kept is None:
        return entry if entry.draft is None else _refuse()
    try:
        draft = Draft(
            dialect=Dialect(kept["dialect"]),
            carried=None if kept["carried"] is None else frozenset(kept["carried"]),
            digests=tuple((parse_uri(uri), parse_digest(digest)) for uri, digest in kept["digests"]),
            confirmed=kept["confirmed"] is True,
            spelling=str(kept["spelling"]),
        )
    except (KeyError, TypeError, ValueError):
        return _refuse()
    return SkillEntry(entry.uri, entry.frontmatter, entry.resources, entry.meta, draft)


def _refuse() -> SkillEntry:
    raise FormatError.of(
        rule="stored-entry", message="a stored entry is damaged", fix="approve the skill again"
    )
