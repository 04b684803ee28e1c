"""Many skills together: the registry that names them, and the text that a model sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.catalog.render import LIST_TOOL as LIST_TOOL
    from skillwire.catalog.render import LOAD_TOOL as LOAD_TOOL
    from skillwire.catalog.render import READ_TOOL as READ_TOOL
    from skillwire.catalog.render import SEARCH_TOOL as SEARCH_TOOL
    from skillwire.catalog.render import ActiveSkill as ActiveSkill
    from skillwire.catalog.render import CatalogText as CatalogText
    from skillwire.catalog.render import FrameText as FrameText
    from skillwire.catalog.render import ItemText as ItemText
    from skillwire.catalog.render import Replay as Replay
    from skillwire.catalog.render import ReplayText as ReplayText
    from skillwire.catalog.render import fit_catalog as fit_catalog
    from skillwire.catalog.render import fit_replay as fit_replay
    from skillwire.catalog.render import heading as heading
    from skillwire.catalog.render import is_for_models as is_for_models
    from skillwire.catalog.render import render_catalog as render_catalog
    from skillwire.catalog.render import render_directory as render_directory
    from skillwire.catalog.render import render_file as render_file
    from skillwire.catalog.render import render_found as render_found
    from skillwire.catalog.render import render_skill as render_skill
    from skillwire.catalog.table import EVERYTHING as EVERYTHING
    from skillwire.catalog.table import SPEC_NAMING as SPEC_NAMING
    from skillwire.catalog.table import Changes as Changes
    from skillwire.catalog.table import Collision as Collision
    from skillwire.catalog.table import HostSkill as HostSkill
    from skillwire.catalog.table import Keeper as Keeper
    from skillwire.catalog.table import Naming as Naming
    from skillwire.catalog.table import Selection as Selection
    from skillwire.catalog.table import SkillKey as SkillKey
    from skillwire.catalog.table import SkillTable as SkillTable
    from skillwire.catalog.table import Spellings as Spellings
    from skillwire.catalog.table import clean_handle as clean_handle
    from skillwire.catalog.table import copies_of as copies_of
    from skillwire.catalog.table import fold_handle as fold_handle
    from skillwire.catalog.table import plain_name as plain_name
    from skillwire.catalog.table import without_copies as without_copies
    from skillwire.catalog.tokenize import Query as Query
    from skillwire.catalog.tokenize import parse_query as parse_query
    from skillwire.catalog.tokenize import terms_of as terms_of

export(
    __name__,
    {
        "render": (
            "LIST_TOOL LOAD_TOOL READ_TOOL SEARCH_TOOL ActiveSkill CatalogText FrameText ItemText Replay "
            "ReplayText fit_catalog fit_replay heading is_for_models render_catalog render_directory "
            "render_file render_found render_skill"
        ),
        "table": (
            "EVERYTHING SPEC_NAMING Changes Collision HostSkill Keeper Naming Selection SkillKey "
            "SkillTable Spellings clean_handle copies_of fold_handle plain_name without_copies"
        ),
        "tokenize": "Query parse_query terms_of",
    },
)
