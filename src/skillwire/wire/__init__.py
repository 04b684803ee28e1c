"""The JSON of each dialect, to and from entries. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.wire.legacy import INDEX_URI as INDEX_URI
    from skillwire.wire.legacy import LegacyListing as LegacyListing
    from skillwire.wire.legacy import ListedResource as ListedResource
    from skillwire.wire.legacy import SkillTemplate as SkillTemplate
    from skillwire.wire.legacy import is_legacy_resource as is_legacy_resource
    from skillwire.wire.v1 import APPROVAL_META as APPROVAL_META
    from skillwire.wire.v1 import DIRECTORY_READ_SETTING as DIRECTORY_READ_SETTING
    from skillwire.wire.v1 import EXTENSION_ID as EXTENSION_ID
    from skillwire.wire.v1 import INVALID_PARAMS as INVALID_PARAMS
    from skillwire.wire.v1 import METHOD_GET as METHOD_GET
    from skillwire.wire.v1 import METHOD_LIST as METHOD_LIST
    from skillwire.wire.v1 import METHOD_READ_DIRECTORY as METHOD_READ_DIRECTORY
    from skillwire.wire.v1 import QUERY_ID as QUERY_ID
    from skillwire.wire.v1 import Declaration as Declaration
    from skillwire.wire.v1 import PageLimits as PageLimits
    from skillwire.wire.v1 import Stop as Stop
    from skillwire.wire.v1 import declaration_in as declaration_in
    from skillwire.wire.v1 import entry_as_stored as entry_as_stored
    from skillwire.wire.v1 import entry_from_stored as entry_from_stored
    from skillwire.wire.v1 import entry_from_wire as entry_from_wire
    from skillwire.wire.v1 import entry_to_stored as entry_to_stored
    from skillwire.wire.v1 import entry_to_wire as entry_to_wire

export(
    __name__,
    {
        "legacy": "INDEX_URI LegacyListing ListedResource SkillTemplate is_legacy_resource",
        "v1": (
            "APPROVAL_META DIRECTORY_READ_SETTING EXTENSION_ID INVALID_PARAMS METHOD_GET METHOD_LIST "
            "METHOD_READ_DIRECTORY QUERY_ID Declaration PageLimits Stop declaration_in entry_as_stored "
            "entry_from_stored entry_from_wire entry_to_stored entry_to_wire"
        ),
    },
)
