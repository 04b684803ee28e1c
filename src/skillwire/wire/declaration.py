"""Declaration: how a server declares skills, including forms that differ from the specification."""

from __future__ import annotations

from dataclasses import dataclass, field

from skillwire.json_types import is_object
from skillwire.wire.v1 import DIRECTORY_READ_SETTING, EXTENSION_ID


@dataclass(frozen=True, slots=True)
class Declaration:
    """The extension, declared. `directory_read` allows `resources/directory/read` (CAP-1, CAP-3)."""

    directory_read: bool = False
    place: str = field(default="extensions", compare=False)
    """The capability field that had it: `extensions`, or `experimental` as in drafts."""


def declaration_in(capabilities: object) -> Declaration | None:
    """The declaration in a server's capabilities, or `None`.

    CAP-5: `experimental` in place of `extensions`, settings below `config`, and `[]` for `{}` are understood.
    """
    if not is_object(capabilities):
        return None
    for place in ("extensions", "experimental"):
        declared = capabilities.get(place)
        if is_object(declared) and EXTENSION_ID in declared:
            settings = declared[EXTENSION_ID]
            if is_object(settings):
                nested = settings.get("config")
                named = nested if is_object(nested) else settings
                return Declaration(named.get(DIRECTORY_READ_SETTING) is True, place)
            if settings == []:
                return Declaration(place=place)
    return None
