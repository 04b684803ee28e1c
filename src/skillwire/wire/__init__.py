"""The JSON of each dialect, to and from entries. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.wire.legacy import ListedResource as ListedResource
    from skillwire.wire.templates import SkillTemplate as SkillTemplate
    from skillwire.wire.v1 import entry_from_wire as entry_from_wire
    from skillwire.wire.v1 import entry_to_wire as entry_to_wire

export(
    __name__,
    {
        "legacy": "ListedResource",
        "templates": "SkillTemplate",
        "v1": "entry_from_wire entry_to_wire",
    },
)
