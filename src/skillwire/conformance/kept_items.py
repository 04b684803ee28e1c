"""KeptItems: how much of a paged listing is kept for the checks (SEC-9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skillwire.errors import FormatError
from skillwire.json_types import is_list, is_object
from skillwire.limits import Limits
from skillwire.skill.uris import SkillUri, parse_uri, skill_root

_SHOWN: Final = 200


class KeptItems:
    """Which items of a paged listing are kept: the first ones, until there are too many (SEC-9).

    Of `skills/list`, entries without a usable URI are counted separately: no server needs many.
    """

    def __init__(self, limits: Limits, *, is_listing: bool) -> None:
        self._room = limits.entries_per_server
        self._bad_room = limits.verified_bad_entries
        self._is_listing = is_listing
        self._known: set[SkillUri] = set()
        self.left_out = 0

    def kept(self, items: Sequence[object]) -> list[object]:
        kept: list[object] = []
        for item in items[: self._room]:
            if self._is_listing and self._is_bad(item):
                if not self._bad_room:
                    break
                self._bad_room -= 1
            kept.append(shortened(item) if self._is_listing else item)
        self._room -= len(kept)
        if len(kept) < len(items):
            self._room = 0
        self.left_out += len(items) - len(kept)
        return kept

    def _is_bad(self, item: object) -> bool:
        given = item.get("uri") if is_object(item) else None
        try:
            uri = parse_uri(given) if isinstance(given, str) else None
        except FormatError:
            return True
        if uri is None or not is_skill_md(uri) or uri in self._known:
            return True
        self._known.add(uri)
        return False


def shortened(item: object) -> object:
    """An entry as it was sent or, if it has no URI, no more than a report says about it."""
    if not is_object(item):
        return [] if is_list(item) else item[:_SHOWN] if isinstance(item, str) else item
    given = item.get("uri")
    if isinstance(given, str):
        return item
    if "uri" not in item:
        return {}
    return {"uri": {} if is_object(given) else [] if is_list(given) else given}


def is_skill_md(uri: SkillUri) -> bool:
    try:
        return bool(skill_root(uri))
    except FormatError:
        return False
